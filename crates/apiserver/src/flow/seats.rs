//! The seats of the server, and the requests that have one or wait for one.
//!
//! All clusters share one lock. It is held for a few instructions, and for no longer than it takes to start
//! the requests for which a seat became free. A cluster has an entry while it has requests, so the number of entries is
//! the number of active clusters.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use coracle_base::Task;
use coracle_base::metrics::Text;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::cluster_seats::{Assigned, ClusterSeats, LevelReport, NotePhase, SeatRequest};
use super::configuration::{ClusterFlow, Flow, FlowConfig};
use super::level_series::{Phase, ReadVsWrite};
use super::requests::{RequestReport, RequestSummary};
use super::seat_limits::cluster_limit;
use super::series::Rejection;
use super::work::{Work, WorkEstimate};

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
    /// Seats of requests that were executed, by the end of their additional latency and their tickets.
    lingering: BTreeMap<(Instant, u64), Lingering>,
    /// Frees lingering seats; it ends when there are none.
    releaser: Option<Task<()>>,
    read_vs_write: ReadVsWrite,
}

/// Seats of a request that was executed.
struct Lingering {
    cluster: Arc<str>,
    flow: Arc<Flow>,
    seats: usize,
}

/// A request that was classified.
pub(super) struct Classified {
    pub(super) cluster: Arc<ClusterFlow>,
    pub(super) config: Arc<FlowConfig>,
    pub(super) flow: Arc<Flow>,
    pub(super) request: RequestSummary,
    /// The hash of its flow.
    pub(super) hash: u64,
    pub(super) work: Work,
    pub(super) is_watch: bool,
}

/// The assignment of a request.
pub(super) enum Assignment {
    Seat(Seat),
    Queue(Waiting),
}

impl Seats {
    pub(super) fn new(total: usize, waiting_limit: usize) -> Self {
        Self { total, waiting_limit, state: Mutex::default() }
    }

    /// Gives a request its seats or a place in a queue.
    pub(super) fn take(self: &Arc<Self>, request: Classified) -> Result<Assignment, Rejection> {
        let Classified { cluster, config, flow, request, hash, work, is_watch } = request;
        let series = flow.series.clone();
        if let Work::Write { watches } = work {
            series.watch_counts.observe(watches as f64);
        }
        if flow.level.is_exempt() {
            let seats = work.estimate(None).seats();
            series.estimated_seats.observe(seats as f64);
            series.start(seats);
            return Ok(Assignment::Seat(Seat::new(flow, Held::Exempt { seats }, is_watch)));
        }
        let now = Instant::now();
        let assigned = self.assign(&cluster, &config, |waiting_limit, ticket| SeatRequest {
            flow: flow.clone(),
            request,
            hash,
            work,
            waiting_limit,
            ticket,
            now,
        });
        let (assigned, ticket) = assigned.inspect_err(|reason| series.reject(*reason, Duration::ZERO))?;
        let seats = self.clone();
        Ok(match assigned {
            Assigned::Seat { queue, estimate } => {
                series.waited.executed.observe_duration(Duration::ZERO);
                let occupied = Occupied { seats, cluster, queue, ticket, estimate };
                Assignment::Seat(Seat::new(flow, Held::Occupied(occupied), is_watch))
            }
            Assigned::Queue { queue, estimate, called } => Assignment::Queue(Waiting {
                occupied: Some(Occupied { seats, cluster, queue, ticket, estimate }),
                flow,
                is_watch,
                called,
                began: now,
                is_late: false,
            }),
        })
    }

    fn assign(
        &self,
        cluster: &ClusterFlow,
        config: &FlowConfig,
        request: impl FnOnce(usize, u64) -> SeatRequest,
    ) -> Result<(Assigned, u64), Rejection> {
        let mut state = self.lock();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        if !state.clusters.contains_key(&cluster.id) {
            state.clusters.insert(cluster.id.clone(), ClusterSeats::default());
        }
        let waiting_limit = cluster_limit(self.waiting_limit, state.clusters.len());
        let request = request(waiting_limit, ticket);
        let now = request.now;
        self.release_until(&mut state, now);
        let assigned = self
            .change(&mut state, &cluster.id, Some(config), now, |seats, note| seats.assign(request, note));
        Ok((assigned.ok_or(Rejection::ConcurrencyLimit)??, ticket))
    }

    /// Changes an active cluster, starts the waiting requests that can start then, and removes the cluster if it has no
    /// requests left. Other clusters get its seats then.
    fn change<T>(
        &self,
        state: &mut State,
        id: &str,
        config: Option<&FlowConfig>,
        now: Instant,
        change: impl FnOnce(&mut ClusterSeats, NotePhase<'_>) -> T,
    ) -> Option<T> {
        let limit = cluster_limit(self.total, state.clusters.len());
        let cluster = state.clusters.get_mut(id)?;
        let read_vs_write = &mut state.read_vs_write;
        let note = &mut |phase, is_write, begins| {
            read_vs_write.change(phase, is_write, begins, self.limit_of(phase), now);
        };
        let waited = cluster.waiting();
        if let Some(config) = config {
            cluster.configure(config);
        }
        cluster.set_limit(limit);
        // Requests that wait come first if there are more seats than before.
        cluster.dispatch(now, note);
        let changed = change(cluster, note);
        cluster.dispatch(now, note);
        state.waiting = state.waiting + cluster.waiting() - waited;
        if cluster.is_idle() {
            state.clusters.remove(id);
            self.dispatch_all(state, now);
        }
        Some(changed)
    }

    fn dispatch_all(&self, state: &mut State, now: Instant) {
        if state.waiting == 0 {
            return;
        }
        let limit = cluster_limit(self.total, state.clusters.len());
        let read_vs_write = &mut state.read_vs_write;
        let note = &mut |phase, is_write, begins| {
            read_vs_write.change(phase, is_write, begins, self.limit_of(phase), now);
        };
        for cluster in state.clusters.values_mut().filter(|cluster| cluster.waiting() > 0) {
            let waited = cluster.waiting();
            cluster.set_limit(limit);
            cluster.dispatch(now, note);
            state.waiting -= waited - cluster.waiting();
        }
    }

    /// Releases the seats of a request that was executed for `took`, now or after its additional latency. A request
    /// that never began has none.
    fn release(self: &Arc<Self>, occupied: &Occupied, flow: &Arc<Flow>, took: Option<Duration>) {
        let now = Instant::now();
        let mut state = self.lock();
        let lingers = self.change(&mut state, &occupied.cluster.id, None, now, |seats, note| {
            seats.finish(&flow.level.name, occupied.ticket, took, now, note)
        });
        if lingers != Some(true) {
            return;
        }
        let lingering = Lingering {
            cluster: occupied.cluster.id.clone(),
            flow: flow.clone(),
            seats: occupied.estimate.seats(),
        };
        let until = now + occupied.estimate.additional_latency;
        state.lingering.insert((until, occupied.ticket), lingering);
        let first = state.lingering.first_key_value();
        let is_first = first.is_some_and(|((_, ticket), _)| *ticket == occupied.ticket);
        if tokio::runtime::Handle::try_current().is_err() {
            // Nothing would free them later.
            self.release_until(&mut state, until);
        } else if is_first {
            let seats = Arc::downgrade(self);
            state.releaser = Some(Task::spawn("lingering-seats", release_lingering(seats, until)));
        }
    }

    /// Frees the lingering seats whose time has come. Returns when the next ones are to be freed.
    fn release_until(&self, state: &mut State, now: Instant) -> Option<Instant> {
        loop {
            let next = state.lingering.first_entry()?;
            let (until, _) = *next.key();
            if until > now {
                return Some(until);
            }
            let Lingering { cluster, flow, seats } = next.remove();
            flow.series.release(seats);
            self.change(state, &cluster, None, now, |cluster, _| {
                cluster.release(&flow.level.name, seats, now);
            });
        }
    }

    /// Removes a request from its queue. False if it waits no longer: then it has a seat.
    fn cancel(&self, occupied: &Occupied, level: &str) -> bool {
        let now = Instant::now();
        let cancel = |seats: &mut ClusterSeats, note: NotePhase<'_>| {
            seats.cancel(level, occupied.queue, occupied.ticket, now, note)
        };
        self.change(&mut self.lock(), &occupied.cluster.id, None, now, cancel).unwrap_or(false)
    }

    /// The levels of a cluster. One without requests is reported as if it had some.
    pub(super) fn report(&self, cluster: &ClusterFlow, config: &FlowConfig) -> Vec<LevelReport> {
        let mut state = self.lock();
        let report = |seats: &mut ClusterSeats, _: NotePhase<'_>| seats.report();
        if let Some(levels) = self.change(&mut state, &cluster.id, Some(config), Instant::now(), report) {
            return levels;
        }
        let mut idle = ClusterSeats::default();
        idle.configure(config);
        idle.set_limit(cluster_limit(self.total, state.clusters.len() + 1));
        idle.report()
    }

    /// The requests of a cluster that wait or are executed.
    pub(super) fn requests(&self, cluster: &ClusterFlow) -> Vec<RequestReport> {
        self.lock().clusters.get(&cluster.id).map(ClusterSeats::requests).unwrap_or_default()
    }

    /// Appends the metrics of all clusters together.
    pub(super) fn write_metrics(&self, text: &mut Text) {
        self.lock().read_vs_write.write(Instant::now(), text);
    }

    /// Requests of all clusters that can be in a phase.
    fn limit_of(&self, phase: Phase) -> usize {
        match phase {
            Phase::Executing => self.total,
            Phase::Waiting => self.waiting_limit,
        }
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

    /// Seats in use.
    #[cfg(test)]
    pub(super) fn seats_in_use(&self) -> usize {
        self.lock().clusters.values().map(ClusterSeats::seats).sum()
    }

    /// Active clusters and waiting requests.
    #[cfg(test)]
    pub(super) fn load(&self) -> (usize, usize) {
        let state = self.lock();
        (state.clusters.len(), state.waiting)
    }
}

/// Frees lingering seats, from this time on, until there are none.
async fn release_lingering(seats: Weak<Seats>, mut until: Instant) {
    loop {
        tokio::time::sleep_until(until).await;
        let Some(seats) = seats.upgrade() else { return };
        let next = seats.release_until(&mut seats.lock(), Instant::now());
        let Some(next) = next else { return };
        until = next;
    }
}

/// The place of a request of a limited level.
struct Occupied {
    seats: Arc<Seats>,
    cluster: Arc<ClusterFlow>,
    queue: u64,
    ticket: u64,
    estimate: WorkEstimate,
}

/// The seats of a request.
enum Held {
    /// At the level that has no limit.
    Exempt {
        seats: usize,
    },
    Occupied(Occupied),
}

/// The seats of a request. Dropping it gives them back.
pub(crate) struct Seat {
    flow: Arc<Flow>,
    held: Held,
    is_watch: bool,
    began: Instant,
}

impl Seat {
    fn new(flow: Arc<Flow>, held: Held, is_watch: bool) -> Self {
        flow.series.dispatched.inc();
        Self { flow, held, is_watch, began: Instant::now() }
    }

    pub(super) fn is_exempt(&self) -> bool {
        matches!(self.held, Held::Exempt { .. })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let series = &self.flow.series;
        let took = self.began.elapsed();
        let durations = if self.is_watch { &series.executed.watch } else { &series.executed.regular };
        durations.observe_duration(took);
        match &self.held {
            Held::Exempt { seats } => {
                series.stop();
                series.release(*seats);
            }
            Held::Occupied(occupied) => occupied.seats.release(occupied, &self.flow, Some(took)),
        }
    }
}

/// A request in a queue, which becomes its seat. Dropping it removes the request.
pub(super) struct Waiting {
    /// None once it has become a seat.
    occupied: Option<Occupied>,
    flow: Arc<Flow>,
    is_watch: bool,
    called: oneshot::Receiver<()>,
    began: Instant,
    is_late: bool,
}

impl Waiting {
    /// Applies changes of the configuration, which may give the request a seat.
    pub(super) fn reconfigure(&self) {
        let Some(Occupied { seats, cluster, .. }) = &self.occupied else { return };
        let config = cluster.catch_up();
        seats.change(&mut seats.lock(), &cluster.id, Some(&config), Instant::now(), |_, _| ());
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
        std::task::ready!(Pin::new(&mut self.called).poll(cx)).ok();
        let Some(occupied) = self.occupied.take() else { return Poll::Pending };
        self.flow.series.waited.executed.observe_duration(self.began.elapsed());
        Poll::Ready(Seat::new(self.flow.clone(), Held::Occupied(occupied), self.is_watch))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(occupied) = &self.occupied else { return };
        let (series, level) = (&self.flow.series, &self.flow.level.name);
        let reason = if self.is_late { Rejection::TimeOut } else { Rejection::Cancelled };
        series.reject(reason, self.began.elapsed());
        if !occupied.seats.cancel(occupied, level) {
            // It got seats that it has not seen.
            occupied.seats.release(occupied, &self.flow, None);
        }
    }
}
