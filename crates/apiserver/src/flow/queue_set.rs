//! The queues of one priority level, and which of them is served next.
//!
//! Start-time fair queuing: each queue has a virtual time, the work that its requests have had. The queue with the
//! least is served next. Work is time on seats: a request counts [`ESTIMATED_EXECUTION`] on its seats when it starts,
//! and as long as it really took once it has ended; its additional latency counts from the start. So a flow of slow
//! or wide requests gets fewer starts than one of fast and narrow requests. A queue without requests is removed; one
//! that appears starts at the virtual time of the request that started last, so that an idle flow saves up nothing.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use super::priority_level::Queuing;
use super::shuffle_sharding::deal;
use super::work::WorkEstimate;

/// Work that a request counts for until it ends (`estimatedServiceDuration` of kube-apiserver).
pub(super) const ESTIMATED_EXECUTION: Duration = Duration::from_millis(3);

/// Virtual time in nanoseconds of one seat.
type VirtualTime = u64;

/// Requests of one level. `T` is what wakes a waiting request.
pub(super) struct QueueSet<T> {
    /// Queues with requests, by number. A level may be configured with millions.
    queues: HashMap<u64, Queue<T>>,
    /// Queues with waiting requests, by virtual time and then by the ticket of their first request.
    order: BTreeSet<(VirtualTime, u64, u64)>,
    /// The virtual time of the request that started last.
    now: VirtualTime,
    waiting: usize,
    /// Requests that chose a queue. Among equal queues of a hand it moves the choice on.
    choices: usize,
}

struct Queue<T> {
    /// When its next request starts.
    next_start: VirtualTime,
    executing: usize,
    /// Seats of the requests that are executed.
    seats: usize,
    waiting: VecDeque<Waiter<T>>,
}

/// A queue as dumps show it.
pub(super) struct QueueReport {
    pub(super) number: u64,
    pub(super) waiting: usize,
    pub(super) executing: usize,
    /// Seats of the requests that are executed.
    pub(super) seats: usize,
    /// The virtual time at which its next request starts.
    pub(super) next_start: Duration,
    /// Sums over the requests that wait.
    pub(super) initial_seats: usize,
    pub(super) max_seats: usize,
    pub(super) work: Duration,
}

/// Virtual times of a level as metrics show them.
pub(super) struct VirtualTimes {
    /// The start of the request that started last.
    pub(super) latest_start: Duration,
    /// The least and the greatest start of the next request of a queue, and the same less the work in progress.
    pub(super) next_start: Option<(Duration, Duration)>,
    pub(super) next_discounted: Option<(f64, f64)>,
}

/// A waiting request.
pub(super) struct Waiter<T> {
    /// Rises with every request.
    pub(super) ticket: u64,
    pub(super) estimate: WorkEstimate,
    pub(super) value: T,
}

impl<T> Default for QueueSet<T> {
    fn default() -> Self {
        Self { queues: HashMap::new(), order: BTreeSet::new(), now: 0, waiting: 0, choices: 0 }
    }
}

impl<T> QueueSet<T> {
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Requests that wait in a queue.
    pub(super) fn length(&self, queue: u64) -> usize {
        self.queues.get(&queue).map_or(0, |queue| queue.waiting.len())
    }

    /// The queues with requests, by number.
    pub(super) fn report(&self) -> Vec<QueueReport> {
        let report = |(number, queue): (&u64, &Queue<T>)| QueueReport {
            number: *number,
            waiting: queue.waiting.len(),
            executing: queue.executing,
            seats: queue.seats,
            next_start: Duration::from_nanos(queue.next_start),
            initial_seats: queue.waiting.iter().map(|waiter| waiter.estimate.initial_seats).sum(),
            max_seats: queue.waiting.iter().map(|waiter| waiter.estimate.seats()).sum(),
            work: Duration::from_nanos(queue.waiting.iter().map(|waiter| work(&waiter.estimate)).sum()),
        };
        let mut queues: Vec<QueueReport> = self.queues.iter().map(report).collect();
        queues.sort_by_key(|queue| queue.number);
        queues
    }

    /// Chooses a queue for a request: the shortest of its flow's hand.
    pub(super) fn choose(&mut self, hash: u64, queuing: Queuing) -> u64 {
        let size = queuing.hand_size.max(1);
        let first = self.choices % size;
        self.choices = self.choices.wrapping_add(1);
        let hand = deal(hash, queuing.queues, size).enumerate();
        let shortest =
            hand.min_by_key(|(position, queue)| (self.length(*queue), (position + size - first) % size));
        shortest.map_or(0, |(_, queue)| queue)
    }

    /// The virtual times. None before the first request.
    pub(super) fn virtual_times(&self) -> Option<VirtualTimes> {
        if self.choices == 0 {
            return None;
        }
        let bounds = self.order.first().zip(self.order.last());
        let next_start =
            bounds.map(|(first, last)| (Duration::from_nanos(first.0), Duration::from_nanos(last.0)));
        let waiting = self.queues.values().filter(|queue| !queue.waiting.is_empty());
        let discounted = waiting.map(|queue| {
            Duration::from_nanos(queue.next_start).as_secs_f64()
                - ESTIMATED_EXECUTION.as_secs_f64() * queue.seats as f64
        });
        let next_discounted = discounted.fold(None, |bounds: Option<(f64, f64)>, next| {
            Some(bounds.map_or((next, next), |(least, greatest)| (least.min(next), greatest.max(next))))
        });
        let latest_start = Duration::from_nanos(self.now);
        Some(VirtualTimes { latest_start, next_start, next_discounted })
    }

    /// The waiting requests of all queues.
    pub(super) fn waiters(&self) -> impl Iterator<Item = (u64, usize, &Waiter<T>)> {
        self.queues.iter().flat_map(|(number, queue)| {
            queue.waiting.iter().enumerate().map(|(position, waiter)| (*number, position, waiter))
        })
    }

    /// Starts a request that does not wait.
    pub(super) fn start(&mut self, queue: u64, estimate: &WorkEstimate) {
        self.update(queue, |queue| {
            let started = queue.next_start;
            queue.start(estimate);
            started
        });
    }

    /// The request whose turn it is.
    pub(super) fn next(&self) -> Option<&Waiter<T>> {
        let (_, _, number) = self.order.first()?;
        self.queues.get(number)?.waiting.front()
    }

    /// Adds a request that waits, and returns the length of its queue.
    pub(super) fn enqueue(&mut self, queue: u64, waiter: Waiter<T>) -> usize {
        self.waiting += 1;
        let now = self.now;
        self.update(queue, |queue| {
            queue.waiting.push_back(waiter);
            now
        });
        self.length(queue)
    }

    /// Starts the request whose turn it is, and returns it with the number of its queue.
    pub(super) fn dispatch(&mut self) -> Option<(u64, Waiter<T>)> {
        let (_, _, number) = *self.order.first()?;
        let mut next = None;
        self.update(number, |queue| {
            let started = queue.next_start;
            next = queue.waiting.pop_front();
            if let Some(next) = &next {
                queue.start(&next.estimate);
            }
            started
        });
        self.waiting -= 1;
        next.map(|waiter| (number, waiter))
    }

    /// Removes a request that still waits.
    pub(super) fn remove(&mut self, queue: u64, ticket: u64) -> Option<Waiter<T>> {
        let waiting = &self.queues.get(&queue)?.waiting;
        let position = waiting.iter().position(|waiter| waiter.ticket == ticket)?;
        let now = self.now;
        let mut removed = None;
        self.update(queue, |queue| {
            removed = queue.waiting.remove(position);
            now
        });
        self.waiting -= usize::from(removed.is_some());
        removed
    }

    /// Counts the work of a request that was executed for `took`.
    pub(super) fn finish(&mut self, queue: u64, estimate: &WorkEstimate, took: Duration) {
        let now = self.now;
        self.update(queue, |queue| {
            queue.executing = queue.executing.saturating_sub(1);
            queue.seats = queue.seats.saturating_sub(estimate.seats());
            let seats = estimate.initial_seats as u64;
            queue.next_start =
                (queue.next_start + seats * nanos(took)).saturating_sub(seats * nanos(ESTIMATED_EXECUTION));
            now
        });
    }

    /// Changes a queue and puts it where it belongs. `change` returns the virtual time of this moment.
    fn update(&mut self, number: u64, change: impl FnOnce(&mut Queue<T>) -> VirtualTime) {
        let now = self.now;
        let queue = self.queues.entry(number).or_insert_with(|| Queue {
            next_start: now,
            executing: 0,
            seats: 0,
            waiting: VecDeque::new(),
        });
        if let Some(first) = queue.waiting.front() {
            self.order.remove(&(queue.next_start, first.ticket, number));
        }
        self.now = change(queue).max(now);
        if let Some(first) = queue.waiting.front() {
            self.order.insert((queue.next_start, first.ticket, number));
        } else if queue.executing == 0 {
            self.queues.remove(&number);
        }
    }
}

impl<T> Queue<T> {
    fn start(&mut self, estimate: &WorkEstimate) {
        self.executing += 1;
        self.seats += estimate.seats();
        self.next_start += work(estimate);
    }
}

/// The work that a request counts for when it starts, in nanoseconds of one seat.
fn work(estimate: &WorkEstimate) -> u64 {
    estimate.initial_seats as u64 * nanos(ESTIMATED_EXECUTION)
        + estimate.final_seats as u64 * nanos(estimate.additional_latency)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
impl<T> QueueSet<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.order.is_empty() && self.waiting == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enqueue(set: &mut QueueSet<()>, queue: u64, ticket: u64) -> usize {
        set.enqueue(queue, Waiter { ticket, estimate: WorkEstimate::ONE_SEAT, value: () })
    }

    /// Starts requests one after the other, which take `took` each, and returns the queues they came from.
    fn served(set: &mut QueueSet<()>, count: usize, took: impl Fn(u64) -> Duration) -> Vec<u64> {
        let mut order = Vec::new();
        for _ in 0..count {
            let (queue, _) = set.dispatch().unwrap();
            set.finish(queue, &WorkEstimate::ONE_SEAT, took(queue));
            order.push(queue);
        }
        order
    }

    #[test]
    fn queues_take_turns() {
        let mut set = QueueSet::default();
        for (ticket, queue) in [1, 1, 1, 2, 3, 2].into_iter().enumerate() {
            enqueue(&mut set, queue, ticket as u64);
        }
        assert_eq!(served(&mut set, 6, |_| Duration::from_millis(1)), [1, 2, 3, 1, 2, 1]);
        assert!(set.is_empty() && set.dispatch().is_none());
    }

    #[test]
    fn queue_of_slow_requests_is_served_less_often() {
        let mut set = QueueSet::default();
        for ticket in 0..20 {
            enqueue(&mut set, 1, ticket);
            enqueue(&mut set, 2, 100 + ticket);
        }
        let order = served(&mut set, 12, |queue| Duration::from_millis(if queue == 1 { 50 } else { 10 }));
        assert_eq!(order.iter().filter(|queue| **queue == 1).count(), 2, "{order:?}");
    }

    #[test]
    fn queue_of_wide_requests_is_served_less_often() {
        let mut set = QueueSet::default();
        let wide = WorkEstimate { initial_seats: 5, ..WorkEstimate::ONE_SEAT };
        for ticket in 0..20 {
            set.enqueue(1, Waiter { ticket, estimate: wide, value: () });
            enqueue(&mut set, 2, 100 + ticket);
        }
        assert_eq!(set.report().iter().map(|queue| queue.max_seats).collect::<Vec<_>>(), [100, 20]);
        let order: Vec<u64> = (0..12).map(|_| set.dispatch().unwrap().0).collect();
        assert_eq!(order.iter().filter(|queue| **queue == 1).count(), 2, "{order:?}");
    }

    #[test]
    fn queue_that_was_idle_saves_up_nothing() {
        let mut set = QueueSet::default();
        for ticket in 0..10 {
            enqueue(&mut set, 1, ticket);
        }
        served(&mut set, 6, |_| Duration::from_millis(10));
        for ticket in 10..14 {
            enqueue(&mut set, 2, ticket);
        }
        let order = served(&mut set, 4, |_| Duration::from_millis(10));
        assert_eq!(order.iter().filter(|queue| **queue == 1).count(), 2, "{order:?}");
    }

    #[test]
    fn shortest_queue_of_the_hand_is_chosen() {
        let mut set = QueueSet::default();
        let queuing = Queuing { queues: 8, hand_size: 3, length_limit: 9 };
        for ticket in 0..9 {
            let queue = set.choose(77, queuing);
            enqueue(&mut set, queue, ticket);
        }
        let hand: Vec<u64> = deal(77, 8, 3).collect();
        assert_eq!(hand.iter().map(|queue| set.length(*queue)).collect::<Vec<_>>(), [3, 3, 3]);
        assert_eq!(set.waiting(), 9);
    }

    #[test]
    fn removed_request_is_not_started() {
        let mut set = QueueSet::default();
        assert_eq!([enqueue(&mut set, 1, 0), enqueue(&mut set, 1, 1), enqueue(&mut set, 2, 2)], [1, 2, 1]);
        assert!(set.remove(1, 0).is_some() && set.remove(1, 0).is_none() && set.remove(2, 2).is_some());
        assert_eq!(set.dispatch().map(|(queue, waiter)| (queue, waiter.ticket)), Some((1, 1)));
        set.finish(1, &WorkEstimate::ONE_SEAT, Duration::ZERO);
        assert!(set.is_empty());
    }
}
