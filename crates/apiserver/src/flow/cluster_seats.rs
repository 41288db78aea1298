//! The seats of one cluster: which of its requests execute and which wait.
//!
//! Nothing here waits or takes a lock; [`Seats`](super::seats::Seats) does both.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::configuration::{Flow, FlowConfig};
use super::priority_level::{LimitResponse, PriorityLevel};
use super::queue_set::{QueueReport, QueueSet, Waiter};
use super::seat_limits::{Lending, Load, SeatLimits};
use super::series::{FlowSeries, Rejection};

#[derive(Default)]
pub(super) struct ClusterSeats {
    /// Seats of the cluster.
    limit: usize,
    /// The generation of the configuration.
    generation: u64,
    share_sum: u64,
    /// Levels of the configuration, and removed ones that still have requests.
    levels: Vec<LevelSeats>,
    executing: usize,
    waiting: usize,
}

struct LevelSeats {
    level: Arc<PriorityLevel>,
    /// Whether it was removed from the configuration.
    is_removed: bool,
    limits: SeatLimits,
    executing: usize,
    queues: QueueSet<Wake>,
}

/// Wakes a request that gets a seat.
struct Wake {
    sender: oneshot::Sender<()>,
    series: Arc<FlowSeries>,
}

/// A request of a limited level.
pub(super) struct SeatRequest<'a> {
    pub(super) flow: &'a Flow,
    /// The hash of its flow.
    pub(super) hash: u64,
    /// Requests of the cluster that may wait.
    pub(super) waiting_limit: usize,
    /// Higher than those of earlier requests.
    pub(super) ticket: u64,
}

/// Where a request goes.
pub(super) enum Assigned {
    /// It executes, on account of this queue.
    Seat { queue: u64 },
    /// It waits in this queue.
    Queue { queue: u64, called: oneshot::Receiver<()> },
}

/// A level as metrics and dumps show it.
pub(super) struct LevelReport {
    pub(super) level: Arc<PriorityLevel>,
    pub(super) is_removed: bool,
    pub(super) limits: SeatLimits,
    /// Seats it may use now, borrowed ones included.
    pub(super) current_limit: usize,
    /// Requests that execute. Those of the level without limit are not counted here.
    pub(super) executing: usize,
    pub(super) queues: Vec<QueueReport>,
}

impl LevelSeats {
    fn new(level: Arc<PriorityLevel>) -> Self {
        Self {
            level,
            is_removed: false,
            limits: SeatLimits::default(),
            executing: 0,
            queues: QueueSet::default(),
        }
    }

    fn load(&self) -> Load {
        Load { limits: self.limits, executing: self.executing }
    }

    fn is_idle(&self) -> bool {
        self.executing == 0 && self.queues.waiting() == 0
    }

    /// How much of its nominal seats it uses, in thousandths.
    fn utilization(&self) -> usize {
        self.executing.saturating_mul(1000) / self.limits.nominal.max(1)
    }
}

impl ClusterSeats {
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Whether it has no requests.
    pub(super) fn is_idle(&self) -> bool {
        self.executing == 0 && self.waiting == 0
    }

    /// Takes over a configuration, unless it is older than the current one. Requests keep their seats and their places.
    pub(super) fn configure(&mut self, config: &FlowConfig) {
        if config.generation <= self.generation {
            return;
        }
        let mut before = std::mem::take(&mut self.levels);
        for level in &config.levels {
            let known = before.iter().position(|old| old.level.name == level.name);
            let mut seats =
                known.map_or_else(|| LevelSeats::new(level.clone()), |place| before.swap_remove(place));
            seats.level = level.clone();
            seats.is_removed = false;
            self.levels.push(seats);
        }
        before.retain(|level| !level.is_idle());
        before.iter_mut().for_each(|level| level.is_removed = true);
        self.levels.append(&mut before);
        self.generation = config.generation;
        self.share_sum = config.share_sum;
        self.divide();
    }

    /// Sets the seats of the cluster.
    pub(super) fn set_limit(&mut self, limit: usize) {
        if limit != self.limit {
            self.limit = limit;
            self.divide();
        }
    }

    /// Divides the seats of the cluster among its levels.
    fn divide(&mut self) {
        for level in &mut self.levels {
            level.limits = match level.is_removed {
                true => SeatLimits::DRAINING,
                false => SeatLimits::new(self.limit, level.level.shares, self.share_sum),
            };
        }
    }

    /// Gives a request a seat or a place in a queue.
    pub(super) fn assign(&mut self, request: &SeatRequest<'_>) -> Result<Assigned, Rejection> {
        let place = self.find_or_add(&request.flow.level);
        let may_execute = self.levels[place].queues.waiting() == 0 && self.has_seat(place);
        let Self { levels, executing, waiting, .. } = self;
        let level = &mut levels[place];
        let queuing = match request.flow.level.response {
            LimitResponse::Queue(queuing) => Some(queuing),
            LimitResponse::Reject | LimitResponse::Exempt => None,
        };
        let queue = queuing.map_or(0, |queuing| level.queues.choose(request.hash, queuing));
        let series = &request.flow.series;
        if may_execute {
            if queuing.is_some() {
                series.observe_queue(1);
            }
            level.queues.start(queue);
            level.executing += 1;
            *executing += 1;
            series.start();
            return Ok(Assigned::Seat { queue });
        }
        let queuing = queuing.ok_or(Rejection::ConcurrencyLimit)?;
        if level.queues.length(queue) >= queuing.length_limit || *waiting >= request.waiting_limit {
            return Err(Rejection::QueueFull);
        }
        let (sender, called) = oneshot::channel();
        let wake = Wake { sender, series: series.clone() };
        let length = level.queues.enqueue(queue, Waiter { ticket: request.ticket, value: wake });
        *waiting += 1;
        series.enqueue(length);
        Ok(Assigned::Queue { queue, called })
    }

    /// Gives free seats to waiting requests. Levels that use the least part of their nominal seats come first.
    pub(super) fn dispatch(&mut self) {
        while self.waiting > 0 {
            let lending: Lending = self.levels.iter().map(LevelSeats::load).collect();
            let candidates = self.levels.iter_mut().filter(|level| {
                level.queues.waiting() > 0 && level.executing < lending.current_limit(level.load())
            });
            let Some(level) = candidates.min_by_key(|level| level.utilization()) else { return };
            let Some((_, Waiter { value: wake, .. })) = level.queues.dispatch() else { return };
            level.executing += 1;
            self.executing += 1;
            self.waiting -= 1;
            wake.series.dequeue();
            wake.series.start();
            // A request that was dropped meanwhile gives the seat back: it is no longer in its queue.
            let _ = wake.sender.send(());
        }
    }

    /// Takes back the seat of a request that was executed so long.
    pub(super) fn finish(&mut self, level: &str, queue: u64, took: Duration) {
        let Some(place) = self.find(level) else { return };
        let seats = &mut self.levels[place];
        seats.queues.finish(queue, took);
        seats.executing = seats.executing.saturating_sub(1);
        self.executing = self.executing.saturating_sub(1);
        if seats.is_removed && seats.is_idle() {
            self.levels.swap_remove(place);
        }
    }

    /// Removes a request from its queue. False if it waits no longer: then it has a seat.
    pub(super) fn cancel(&mut self, level: &str, queue: u64, ticket: u64) -> bool {
        let Some(place) = self.find(level) else { return false };
        let Some(waiter) = self.levels[place].queues.remove(queue, ticket) else { return false };
        waiter.value.series.dequeue();
        self.waiting -= 1;
        true
    }

    pub(super) fn report(&self) -> Vec<LevelReport> {
        let lending: Lending = self.levels.iter().map(LevelSeats::load).collect();
        let report = |level: &LevelSeats| LevelReport {
            level: level.level.clone(),
            is_removed: level.is_removed,
            limits: level.limits,
            current_limit: lending.current_limit(level.load()),
            executing: level.executing,
            queues: level.queues.report(),
        };
        self.levels.iter().map(report).collect()
    }

    fn has_seat(&self, place: usize) -> bool {
        let level = self.levels[place].load();
        if level.executing < level.limits.nominal {
            return true;
        }
        let lending: Lending = self.levels.iter().map(LevelSeats::load).collect();
        level.executing < lending.current_limit(level)
    }

    fn find(&self, level: &str) -> Option<usize> {
        self.levels.iter().position(|seats| &*seats.level.name == level)
    }

    /// The place of a level. One that the configuration lacks is added as removed: the request was classified by an
    /// older configuration.
    fn find_or_add(&mut self, level: &Arc<PriorityLevel>) -> usize {
        if let Some(place) = self.find(&level.name) {
            return place;
        }
        let seats = LevelSeats::new(level.clone());
        self.levels.push(LevelSeats { is_removed: true, limits: SeatLimits::DRAINING, ..seats });
        self.levels.len() - 1
    }
}

#[cfg(test)]
impl ClusterSeats {
    pub(super) fn executing(&self) -> usize {
        assert_eq!(self.executing, self.levels.iter().map(|level| level.executing).sum::<usize>());
        self.executing
    }

    /// Whether a request waits although its level has a seat.
    pub(super) fn is_starved(&self) -> bool {
        let has_seat = |place: usize| self.levels[place].queues.waiting() > 0 && self.has_seat(place);
        (0..self.levels.len()).any(has_seat)
    }
}
