//! The seats of one cluster: which of its requests execute and which wait.
//!
//! Nothing here waits or takes a lock; [`Seats`](super::seats::Seats) does both.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::configuration::{Flow, FlowConfig};
use super::level_series::{LevelLoad, LevelSeries, Phase};
use super::priority_level::{LimitResponse, PriorityLevel};
use super::queue_set::{QueueReport, QueueSet, VirtualTimes, Waiter};
use super::requests::{RequestReport, RequestSummary};
use super::seat_limits::{Lending, Load, SeatLimits};
use super::series::Rejection;
use super::work::{Work, WorkEstimate, max_seats};

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
    /// Requests that were executed and still take seats.
    lingering: usize,
}

struct LevelSeats {
    level: Arc<PriorityLevel>,
    /// True if it was removed from the configuration.
    is_removed: bool,
    limits: SeatLimits,
    series: Arc<LevelSeries>,
    /// Requests that are executed, by ticket.
    executing: BTreeMap<u64, Executing>,
    /// Requests that were executed and still take seats.
    lingering: usize,
    /// Seats of both.
    seats: usize,
    seats_waited_for: usize,
    queues: QueueSet<Wake>,
}

/// A request that is executed.
struct Executing {
    estimate: WorkEstimate,
    queue: u64,
    flow: Arc<Flow>,
    request: RequestSummary,
    arrived: Instant,
    started: Instant,
}

/// Wakes a request that gets its seats.
struct Wake {
    sender: oneshot::Sender<()>,
    flow: Arc<Flow>,
    request: RequestSummary,
    arrived: Instant,
}

/// A request of a limited level.
pub(super) struct SeatRequest {
    pub(super) flow: Arc<Flow>,
    pub(super) request: RequestSummary,
    /// The hash of its flow.
    pub(super) hash: u64,
    pub(super) work: Work,
    /// Requests of the cluster that may wait.
    pub(super) waiting_limit: usize,
    /// Higher than those of earlier requests.
    pub(super) ticket: u64,
    pub(super) now: Instant,
}

/// The assignment of a request.
pub(super) enum Assigned {
    /// It executes, and counts for this queue.
    Seat { queue: u64, estimate: WorkEstimate },
    /// It waits in this queue.
    Queue { queue: u64, estimate: WorkEstimate, called: oneshot::Receiver<()> },
}

/// Counts a change of phase: the phase, whether the request is a write, and whether the phase begins.
pub(super) type NotePhase<'a> = &'a mut dyn FnMut(Phase, bool, bool);

/// A level as metrics and dumps show it.
pub(super) struct LevelReport {
    pub(super) level: Arc<PriorityLevel>,
    pub(super) is_removed: bool,
    pub(super) limits: SeatLimits,
    /// Seats it may use now, borrowed ones included.
    pub(super) current_limit: usize,
    /// Executing requests, except requests of the level without a limit, which are not counted here.
    pub(super) executing: usize,
    pub(super) queues: Vec<QueueReport>,
    pub(super) series: Arc<LevelSeries>,
    /// None before the first request.
    pub(super) virtual_times: Option<VirtualTimes>,
}

impl LevelSeats {
    fn new(level: Arc<PriorityLevel>, series: Arc<LevelSeries>) -> Self {
        Self {
            level,
            is_removed: false,
            limits: SeatLimits::default(),
            series,
            executing: BTreeMap::new(),
            lingering: 0,
            seats: 0,
            seats_waited_for: 0,
            queues: QueueSet::default(),
        }
    }

    fn load(&self) -> Load {
        Load { limits: self.limits, seats: self.seats }
    }

    fn is_idle(&self) -> bool {
        self.executing.is_empty() && self.lingering == 0 && self.queues.waiting() == 0
    }

    /// How much of its nominal seats it uses, in thousandths.
    fn utilization(&self) -> usize {
        self.seats.saturating_mul(1000) / self.limits.nominal.max(1)
    }

    /// Returns true if `seats` are free, if the level may use `limit`. A request that is wider than the limit, which
    /// has shrunk since, starts when no other takes a seat.
    fn has_seats(&self, seats: usize, limit: usize) -> bool {
        self.seats + seats <= limit || (self.seats == 0 && limit > 0)
    }

    /// Returns true if the request whose turn it is waits only because it needs more seats than are free.
    fn is_blocked_by_width(&self, limit: usize) -> bool {
        self.seats < limit
            && self.queues.next().is_some_and(|next| !self.has_seats(next.estimate.seats(), limit))
    }

    fn note_load(&self, now: Instant) {
        let queue_room = match self.level.response {
            LimitResponse::Queue(queuing) => queuing.queues.saturating_mul(queuing.length_limit as u64),
            LimitResponse::Reject | LimitResponse::Exempt => 0,
        };
        let load = LevelLoad {
            seats_in_use: self.seats,
            seats_waited_for: self.seats_waited_for,
            executing: self.executing.len(),
            waiting: self.queues.waiting(),
            nominal_seats: self.limits.nominal,
            queue_room,
        };
        self.series.set(&load, now);
    }
}

impl ClusterSeats {
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns true if it has no requests.
    pub(super) fn is_idle(&self) -> bool {
        self.executing == 0 && self.waiting == 0 && self.lingering == 0
    }

    /// Takes over a configuration, unless it is older than the current one. Requests keep their seats and their places.
    pub(super) fn configure(&mut self, config: &FlowConfig) {
        if config.generation <= self.generation {
            return;
        }
        let mut before = std::mem::take(&mut self.levels);
        for level in &config.levels {
            let known = before.iter().position(|old| old.level.name == level.name);
            let new = || LevelSeats::new(level.clone(), config.level_series(&level.name));
            let mut seats = known.map_or_else(new, |index| before.swap_remove(index));
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

    /// Gives a request its seats or a place in a queue.
    pub(super) fn assign(
        &mut self,
        request: SeatRequest,
        note: NotePhase<'_>,
    ) -> Result<Assigned, Rejection> {
        let SeatRequest { flow, request, hash, work, waiting_limit, ticket, now } = request;
        let index = self.find_or_add(&flow);
        let estimate = work.estimate(max_seats(flow.level.response, self.levels[index].limits.nominal));
        let seats = estimate.seats();
        let may_execute = self.levels[index].queues.waiting() == 0 && self.has_seats(index, seats);
        let Self { levels, executing, waiting, .. } = self;
        let level = &mut levels[index];
        let queuing = match flow.level.response {
            LimitResponse::Queue(queuing) => Some(queuing),
            LimitResponse::Reject | LimitResponse::Exempt => None,
        };
        let queue = queuing.map_or(0, |queuing| level.queues.choose(hash, queuing));
        let is_write = request.is_write();
        flow.series.estimated_seats.observe(seats as f64);
        if may_execute {
            if queuing.is_some() {
                flow.series.observe_queue(1);
            }
            level.queues.start(queue, &estimate);
            level.seats += seats;
            *executing += 1;
            flow.series.start(seats);
            note(Phase::Executing, is_write, true);
            let request = Executing { estimate, queue, flow, request, arrived: now, started: now };
            level.executing.insert(ticket, request);
            level.note_load(now);
            return Ok(Assigned::Seat { queue, estimate });
        }
        let queuing = queuing.ok_or(Rejection::ConcurrencyLimit)?;
        if level.queues.length(queue) >= queuing.length_limit || *waiting >= waiting_limit {
            return Err(Rejection::QueueFull);
        }
        let (sender, called) = oneshot::channel();
        let series = flow.series.clone();
        let wake = Wake { sender, flow, request, arrived: now };
        let length = level.queues.enqueue(queue, Waiter { ticket, estimate, value: wake });
        level.seats_waited_for += seats;
        *waiting += 1;
        series.enqueue(length, seats);
        note(Phase::Waiting, is_write, true);
        level.note_load(now);
        Ok(Assigned::Queue { queue, estimate, called })
    }

    /// Gives free seats to waiting requests. Levels that use the least part of their nominal seats come first.
    pub(super) fn dispatch(&mut self, now: Instant, note: NotePhase<'_>) {
        while self.waiting > 0 {
            let lending: Lending = self.levels.iter().map(LevelSeats::load).collect();
            let candidates = self.levels.iter_mut().filter(|level| {
                let limit = lending.current_limit(level.load());
                level.queues.next().is_some_and(|next| level.has_seats(next.estimate.seats(), limit))
            });
            let next = candidates.min_by_key(|level| level.utilization());
            let Some((level, (queue, waiter))) =
                next.and_then(|level| level.queues.dispatch().map(|next| (level, next)))
            else {
                self.note_blocked(lending);
                return;
            };
            let Waiter { ticket, estimate, value: Wake { sender, flow, request, arrived } } = waiter;
            level.seats += estimate.seats();
            level.seats_waited_for -= estimate.seats();
            self.executing += 1;
            self.waiting -= 1;
            flow.series.dequeue(estimate.seats());
            flow.series.start(estimate.seats());
            note(Phase::Waiting, request.is_write(), false);
            note(Phase::Executing, request.is_write(), true);
            let request = Executing { estimate, queue, flow, request, arrived, started: now };
            level.executing.insert(ticket, request);
            level.note_load(now);
            // A request that was dropped meanwhile gives the seat back: it is no longer in its queue.
            let _ = sender.send(());
        }
    }

    fn note_blocked(&self, lending: Lending) {
        for level in &self.levels {
            if level.is_blocked_by_width(lending.current_limit(level.load()))
                && let Some(next) = level.queues.next()
            {
                next.value.flow.series.not_accommodated.inc();
            }
        }
    }

    /// Records that a request was executed for `took`. Its seats are free now, or after its additional latency: then
    /// [`Self::release`] follows, and this returns true. A request that never began has no additional latency.
    pub(super) fn finish(
        &mut self,
        level: &str,
        ticket: u64,
        took: Option<Duration>,
        now: Instant,
        note: NotePhase<'_>,
    ) -> bool {
        let Some(index) = self.find(level) else { return false };
        let seats = &mut self.levels[index];
        let Some(request) = seats.executing.remove(&ticket) else { return false };
        seats.queues.finish(request.queue, &request.estimate, took.unwrap_or_default());
        self.executing -= 1;
        request.flow.series.stop();
        note(Phase::Executing, request.request.is_write(), false);
        let lingers = took.is_some() && !request.estimate.additional_latency.is_zero();
        if lingers {
            seats.lingering += 1;
            self.lingering += 1;
            seats.note_load(now);
        } else {
            request.flow.series.release(request.estimate.seats());
            self.free(index, request.estimate.seats(), now);
        }
        lingers
    }

    /// Takes back the seats of a request whose additional latency has passed.
    pub(super) fn release(&mut self, level: &str, seats: usize, now: Instant) {
        let Some(index) = self.find(level) else { return };
        self.levels[index].lingering -= 1;
        self.lingering -= 1;
        self.free(index, seats, now);
    }

    fn free(&mut self, index: usize, count: usize, now: Instant) {
        let seats = &mut self.levels[index];
        seats.seats = seats.seats.saturating_sub(count);
        seats.note_load(now);
        if seats.is_removed && seats.is_idle() {
            self.levels.swap_remove(index);
        }
    }

    /// Removes a request from its queue. False if it waits no longer: then it has a seat.
    pub(super) fn cancel(
        &mut self,
        level: &str,
        queue: u64,
        ticket: u64,
        now: Instant,
        note: NotePhase<'_>,
    ) -> bool {
        let Some(index) = self.find(level) else { return false };
        let seats = &mut self.levels[index];
        let Some(waiter) = seats.queues.remove(queue, ticket) else { return false };
        seats.seats_waited_for -= waiter.estimate.seats();
        waiter.value.flow.series.dequeue(waiter.estimate.seats());
        note(Phase::Waiting, waiter.value.request.is_write(), false);
        seats.note_load(now);
        self.waiting -= 1;
        true
    }

    /// The requests that wait and those that are executed, by level and queue.
    pub(super) fn requests(&self) -> Vec<RequestReport> {
        let mut requests = Vec::new();
        for level in &self.levels {
            let has_queues = matches!(level.level.response, LimitResponse::Queue(_));
            for (queue, position, waiter) in level.queues.waiters() {
                requests.push(RequestReport {
                    flow: waiter.value.flow.clone(),
                    queue: Some(queue),
                    position: Some(position),
                    request: waiter.value.request.clone(),
                    arrived: waiter.value.arrived,
                    estimate: waiter.estimate,
                    started: None,
                });
            }
            for request in level.executing.values() {
                requests.push(RequestReport {
                    flow: request.flow.clone(),
                    queue: has_queues.then_some(request.queue),
                    position: None,
                    request: request.request.clone(),
                    arrived: request.arrived,
                    estimate: request.estimate,
                    started: Some(request.started),
                });
            }
        }
        requests
    }

    pub(super) fn report(&self) -> Vec<LevelReport> {
        let lending: Lending = self.levels.iter().map(LevelSeats::load).collect();
        let report = |level: &LevelSeats| LevelReport {
            level: level.level.clone(),
            is_removed: level.is_removed,
            limits: level.limits,
            current_limit: lending.current_limit(level.load()),
            executing: level.executing.len(),
            queues: level.queues.report(),
            series: level.series.clone(),
            virtual_times: level.queues.virtual_times(),
        };
        self.levels.iter().map(report).collect()
    }

    fn has_seats(&self, index: usize, seats: usize) -> bool {
        let level = &self.levels[index];
        if level.seats + seats <= level.limits.nominal {
            return true;
        }
        let lending: Lending = self.levels.iter().map(LevelSeats::load).collect();
        level.has_seats(seats, lending.current_limit(level.load()))
    }

    fn find(&self, level: &str) -> Option<usize> {
        self.levels.iter().position(|seats| &*seats.level.name == level)
    }

    /// The place of the level of a flow. One that the configuration lacks is added as removed: the request was
    /// classified by an older configuration.
    fn find_or_add(&mut self, flow: &Flow) -> usize {
        if let Some(index) = self.find(&flow.level.name) {
            return index;
        }
        let seats = LevelSeats::new(flow.level.clone(), Arc::default());
        self.levels.push(LevelSeats { is_removed: true, limits: SeatLimits::DRAINING, ..seats });
        self.levels.len() - 1
    }
}

#[cfg(test)]
impl ClusterSeats {
    pub(super) fn executing(&self) -> usize {
        assert_eq!(self.executing, self.levels.iter().map(|level| level.executing.len()).sum::<usize>());
        self.executing
    }

    /// Seats in use, checked against the requests that take them.
    pub(super) fn seats(&self) -> usize {
        for level in self.levels.iter().filter(|level| level.lingering == 0) {
            let of_requests = level.executing.values().map(|request| request.estimate.seats());
            assert_eq!(level.seats, of_requests.sum::<usize>());
        }
        self.levels.iter().map(|level| level.seats).sum()
    }

    /// Returns true if a request waits although its level has seats for it.
    pub(super) fn is_starved(&self) -> bool {
        let has_seats = |(index, level): (usize, &LevelSeats)| {
            level.queues.next().is_some_and(|next| self.has_seats(index, next.estimate.seats()))
        };
        self.levels.iter().enumerate().any(has_seats)
    }
}
