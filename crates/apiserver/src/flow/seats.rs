//! The seats of the server, and the requests that have one or wait for one.
//!
//! All clusters share one lock. It is held for a few instructions, and for no longer than it takes to start
//! the requests for which a seat became free. A cluster has an entry while it has requests, so the number of entries is
//! the number of active clusters.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::cluster_seats::{Assigned, ClusterSeats, LevelReport, SeatRequest};
use super::configuration::{ClusterFlow, Flow, FlowConfig};
use super::seat_limits::cluster_limit;
use super::series::Rejection;

pub(super) struct Seats {
    /// Seats of all clusters.
    total: usize,
    /// Requests of all clusters that may wait.
    waiting_limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The active clusters.
    clusters: HashMap<Arc<str>, ClusterSeats>,
    /// Waiting requests of all clusters.
    waiting: usize,
    next_ticket: u64,
}

/// A request that was classified.
pub(super) struct Classified {
    pub(super) cluster: Arc<ClusterFlow>,
    pub(super) config: Arc<FlowConfig>,
    pub(super) flow: Arc<Flow>,
    /// The hash of its flow.
    pub(super) hash: u64,
    pub(super) is_watch: bool,
}

/// Where a request goes.
pub(super) enum Place {
    Seat(Seat),
    Queue(Waiting),
}

impl Seats {
    pub(super) fn new(total: usize, waiting_limit: usize) -> Self {
        Self { total, waiting_limit, state: Mutex::default() }
    }

    /// Gives a request a seat or a place in a queue.
    pub(super) fn take(self: &Arc<Self>, request: Classified) -> Result<Place, Rejection> {
        let Classified { cluster, config, flow, hash, is_watch } = request;
        let series = flow.series.clone();
        series.estimated_seats.observe(1.0);
        if flow.level.is_exempt() {
            series.start();
            return Ok(Place::Seat(Seat::new(flow, None, is_watch)));
        }
        let assigned = self.assign(&cluster, &config, &flow, hash);
        let (assigned, ticket) = assigned.inspect_err(|reason| series.reject(*reason, Duration::ZERO))?;
        let occupied = |queue| Some(Occupied { seats: self.clone(), cluster, queue });
        Ok(match assigned {
            Assigned::Seat { queue } => {
                series.waited.executed.observe_duration(Duration::ZERO);
                Place::Seat(Seat::new(flow, occupied(queue), is_watch))
            }
            Assigned::Queue { queue, called } => Place::Queue(Waiting {
                occupied: occupied(queue),
                flow,
                is_watch,
                ticket,
                called,
                began: Instant::now(),
                is_late: false,
            }),
        })
    }

    fn assign(
        &self,
        cluster: &ClusterFlow,
        config: &FlowConfig,
        flow: &Flow,
        hash: u64,
    ) -> Result<(Assigned, u64), Rejection> {
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        if !state.clusters.contains_key(&cluster.id) {
            state.clusters.insert(cluster.id.clone(), ClusterSeats::default());
        }
        let waiting_limit = cluster_limit(self.waiting_limit, state.clusters.len());
        let request = SeatRequest { flow, hash, waiting_limit, ticket };
        let assigned = self.change(&mut state, &cluster.id, Some(config), |seats| seats.assign(&request));
        Ok((assigned.ok_or(Rejection::ConcurrencyLimit)??, ticket))
    }

    /// Changes an active cluster, starts the waiting requests that can start then, and removes the cluster if it has no
    /// requests left. Other clusters get its seats then.
    fn change<T>(
        &self,
        state: &mut State,
        id: &str,
        config: Option<&FlowConfig>,
        change: impl FnOnce(&mut ClusterSeats) -> T,
    ) -> Option<T> {
        let limit = cluster_limit(self.total, state.clusters.len());
        let cluster = state.clusters.get_mut(id)?;
        let waited = cluster.waiting();
        if let Some(config) = config {
            cluster.configure(config);
        }
        cluster.set_limit(limit);
        // Requests that wait come first if there are more seats than before.
        cluster.dispatch();
        let changed = change(cluster);
        cluster.dispatch();
        state.waiting = state.waiting + cluster.waiting() - waited;
        if cluster.is_idle() {
            state.clusters.remove(id);
            self.dispatch_all(state);
        }
        Some(changed)
    }

    fn dispatch_all(&self, state: &mut State) {
        if state.waiting == 0 {
            return;
        }
        let limit = cluster_limit(self.total, state.clusters.len());
        for cluster in state.clusters.values_mut().filter(|cluster| cluster.waiting() > 0) {
            let waited = cluster.waiting();
            cluster.set_limit(limit);
            cluster.dispatch();
            state.waiting -= waited - cluster.waiting();
        }
    }

    /// Takes back a seat.
    fn release(&self, occupied: &Occupied, level: &str, took: Duration) {
        let finish = |seats: &mut ClusterSeats| seats.finish(level, occupied.queue, took);
        self.change(&mut self.lock(), &occupied.cluster.id, None, finish);
    }

    /// Removes a request from its queue. False if it waits no longer: then it has a seat.
    fn cancel(&self, occupied: &Occupied, level: &str, ticket: u64) -> bool {
        let cancel = |seats: &mut ClusterSeats| seats.cancel(level, occupied.queue, ticket);
        self.change(&mut self.lock(), &occupied.cluster.id, None, cancel).unwrap_or(false)
    }

    /// The levels of a cluster. One without requests is reported as if it had some.
    pub(super) fn report(&self, cluster: &ClusterFlow, config: &FlowConfig) -> Vec<LevelReport> {
        let mut state = self.lock();
        let report = |seats: &mut ClusterSeats| seats.report();
        if let Some(levels) = self.change(&mut state, &cluster.id, Some(config), report) {
            return levels;
        }
        let mut idle = ClusterSeats::default();
        idle.configure(config);
        idle.set_limit(cluster_limit(self.total, state.clusters.len() + 1));
        idle.report()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the counts against the requests that there are, and that no request waits while its level has a seat.
    #[cfg(test)]
    pub(super) fn check(&self, executing: usize, waiting: usize) {
        let state = self.lock();
        let sum = |count: fn(&ClusterSeats) -> usize| state.clusters.values().map(count).sum::<usize>();
        assert_eq!((sum(ClusterSeats::executing), sum(ClusterSeats::waiting)), (executing, waiting));
        assert_eq!(state.waiting, waiting);
        assert!(state.clusters.values().all(|cluster| !cluster.is_idle() && !cluster.is_starved()));
    }

    /// Active clusters and waiting requests.
    #[cfg(test)]
    pub(super) fn load(&self) -> (usize, usize) {
        let state = self.lock();
        (state.clusters.len(), state.waiting)
    }
}

/// The place of a request of a limited level.
struct Occupied {
    seats: Arc<Seats>,
    cluster: Arc<ClusterFlow>,
    queue: u64,
}

/// The seat of a request. Dropping it gives it back.
pub(crate) struct Seat {
    flow: Arc<Flow>,
    /// None at the level that has no limit.
    occupied: Option<Occupied>,
    is_watch: bool,
    began: Instant,
}

impl Seat {
    fn new(flow: Arc<Flow>, occupied: Option<Occupied>, is_watch: bool) -> Self {
        flow.series.dispatched.inc();
        Self { flow, occupied, is_watch, began: Instant::now() }
    }

    pub(super) fn is_exempt(&self) -> bool {
        self.occupied.is_none()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let series = &self.flow.series;
        let took = self.began.elapsed();
        let durations = if self.is_watch { &series.executed.watch } else { &series.executed.regular };
        durations.observe_duration(took);
        series.stop();
        if let Some(occupied) = &self.occupied {
            occupied.seats.release(occupied, &self.flow.level.name, took);
        }
    }
}

/// A request in a queue, which becomes its seat. Dropping it removes the request.
pub(super) struct Waiting {
    /// None once it has become a seat.
    occupied: Option<Occupied>,
    flow: Arc<Flow>,
    is_watch: bool,
    ticket: u64,
    called: oneshot::Receiver<()>,
    began: Instant,
    is_late: bool,
}

impl Waiting {
    /// Applies changes of the configuration, which may give the request a seat.
    pub(super) fn reconfigure(&self) {
        let Some(Occupied { seats, cluster, .. }) = &self.occupied else { return };
        let config = cluster.catch_up();
        seats.change(&mut seats.lock(), &cluster.id, Some(&config), |_| ());
    }

    /// Notes that the request has waited too long.
    pub(super) fn time_out(mut self) {
        self.is_late = true;
    }
}

impl Future for Waiting {
    type Output = Seat;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Seat> {
        // The sender is dropped only after it was used, or when the request is removed, which ends this future.
        Pin::new(&mut self.called).poll(cx).map(|_called| {
            self.flow.series.waited.executed.observe_duration(self.began.elapsed());
            Seat::new(self.flow.clone(), self.occupied.take(), self.is_watch)
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(occupied) = &self.occupied else { return };
        let (series, level) = (&self.flow.series, &self.flow.level.name);
        let reason = if self.is_late { Rejection::TimeOut } else { Rejection::Cancelled };
        series.reject(reason, self.began.elapsed());
        if !occupied.seats.cancel(occupied, level, self.ticket) {
            // It got a seat that it has not seen.
            series.stop();
            occupied.seats.release(occupied, level, Duration::ZERO);
        }
    }
}
