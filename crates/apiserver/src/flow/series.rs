//! The metrics of one FlowSchema at its priority level.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coracle_base::metrics::{Buckets, Counter, Histogram};

/// The buckets of kube-apiserver (`pkg/util/flowcontrol/metrics/metrics.go` of k8s.io/apiserver).
static QUEUE_LENGTHS: LazyLock<Buckets> =
    LazyLock::new(|| Buckets::new(&[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0]));
static SECONDS: LazyLock<Buckets> =
    LazyLock::new(|| Buckets::new(&[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0]));
static SEATS: LazyLock<Buckets> =
    LazyLock::new(|| Buckets::new(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0]));
static WATCH_COUNTS: LazyLock<Buckets> =
    LazyLock::new(|| Buckets::new(&[0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0]));

/// Why a request was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejection {
    /// The level rejects requests when its seats are taken.
    ConcurrencyLimit,
    /// The queue of the request is full.
    QueueFull,
    /// It waited too long.
    TimeOut,
    /// The client hung up while it waited.
    Cancelled,
}

impl Rejection {
    pub(super) const ALL: [Self; 4] =
        [Self::Cancelled, Self::ConcurrencyLimit, Self::QueueFull, Self::TimeOut];

    /// The value of the label `reason`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::QueueFull => "queue-full",
            Self::TimeOut => "time-out",
            Self::Cancelled => "cancelled",
        }
    }
}

#[derive(Debug)]
pub(super) struct FlowSeries {
    rejected: [Counter; Rejection::ALL.len()],
    pub(super) dispatched: Counter,
    in_queue: AtomicU64,
    in_queue_seats: AtomicU64,
    executing: AtomicU64,
    executing_seats: AtomicU64,
    /// Dispatches put off because the seats that were free did not suffice.
    pub(super) not_accommodated: Counter,
    pub(super) waited: WaitDurations,
    pub(super) executed: ExecutionDurations,
    pub(super) queue_length: Histogram,
    /// Seats of each request: the most of those while and after it is executed.
    pub(super) estimated_seats: Histogram,
    /// Watches that may receive the event of each write.
    pub(super) watch_counts: Histogram,
}

/// How long requests waited, by whether they were executed then.
#[derive(Debug)]
pub(super) struct WaitDurations {
    pub(super) executed: Histogram,
    pub(super) rejected: Histogram,
}

/// How long requests were executed. A watch counts until it begins.
#[derive(Debug)]
pub(super) struct ExecutionDurations {
    pub(super) regular: Histogram,
    pub(super) watch: Histogram,
}

impl Default for FlowSeries {
    fn default() -> Self {
        let seconds = || Histogram::with_buckets(&SECONDS);
        Self {
            rejected: Default::default(),
            dispatched: Counter::default(),
            in_queue: AtomicU64::new(0),
            in_queue_seats: AtomicU64::new(0),
            executing: AtomicU64::new(0),
            executing_seats: AtomicU64::new(0),
            not_accommodated: Counter::default(),
            waited: WaitDurations { executed: seconds(), rejected: seconds() },
            executed: ExecutionDurations { regular: seconds(), watch: seconds() },
            queue_length: Histogram::with_buckets(&QUEUE_LENGTHS),
            estimated_seats: Histogram::with_buckets(&SEATS),
            watch_counts: Histogram::with_buckets(&WATCH_COUNTS),
        }
    }
}

impl FlowSeries {
    pub(super) fn rejected(&self, reason: Rejection) -> &Counter {
        let index = Rejection::ALL.iter().position(|other| *other == reason).unwrap_or_default();
        &self.rejected[index]
    }

    pub(super) fn in_queue(&self) -> u64 {
        self.in_queue.load(Ordering::Relaxed)
    }

    pub(super) fn in_queue_seats(&self) -> u64 {
        self.in_queue_seats.load(Ordering::Relaxed)
    }

    pub(super) fn executing(&self) -> u64 {
        self.executing.load(Ordering::Relaxed)
    }

    /// Seats in use, also those of requests that were executed and whose additional latency has not passed.
    pub(super) fn executing_seats(&self) -> u64 {
        self.executing_seats.load(Ordering::Relaxed)
    }

    /// A request begins to wait for `seats` in a queue of `length`.
    pub(super) fn enqueue(&self, length: usize, seats: usize) {
        self.in_queue.fetch_add(1, Ordering::Relaxed);
        self.in_queue_seats.fetch_add(seats as u64, Ordering::Relaxed);
        self.observe_queue(length);
    }

    /// A request finds `length` requests in its queue, itself included.
    pub(super) fn observe_queue(&self, length: usize) {
        self.queue_length.observe(length as f64);
    }

    /// A request leaves its queue.
    pub(super) fn dequeue(&self, seats: usize) {
        self.in_queue.fetch_sub(1, Ordering::Relaxed);
        self.in_queue_seats.fetch_sub(seats as u64, Ordering::Relaxed);
    }

    /// A request gets its seats.
    pub(super) fn start(&self, seats: usize) {
        self.executing.fetch_add(1, Ordering::Relaxed);
        self.executing_seats.fetch_add(seats as u64, Ordering::Relaxed);
    }

    /// A request was executed. It may keep its seats for some time.
    pub(super) fn stop(&self) {
        self.executing.fetch_sub(1, Ordering::Relaxed);
    }

    /// A request gives its seats back.
    pub(super) fn release(&self, seats: usize) {
        self.executing_seats.fetch_sub(seats as u64, Ordering::Relaxed);
    }

    /// A request is rejected after it waited for `waited`.
    pub(super) fn reject(&self, reason: Rejection, waited: Duration) {
        self.rejected(reason).inc();
        self.waited.rejected.observe_duration(waited);
    }
}
