//! Guarantees of the queue, on a paused clock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coracle_base::{Rng, Task};
use tokio::task::yield_now;

use super::*;

fn queue() -> Queue<u32> {
    Queue::new(Rng::seeded(1))
}

/// The next key if there is one now.
async fn poll_take(queue: &Queue<u32>) -> Option<Taken<u32>> {
    tokio::select! { biased; taken = queue.take() => taken, () = std::future::ready(()) => None }
}

#[tokio::test(start_paused = true)]
async fn keys_are_deduplicated_and_taken_in_order() {
    let queue = queue();
    for key in [3, 1, 3, 2, 1] {
        queue.add(key).await;
    }
    for expected in [3, 1, 2] {
        let taken = queue.take().await.unwrap();
        assert_eq!(*taken.key(), expected);
        taken.finish(Outcome::Done);
    }
    assert!(poll_take(&queue).await.is_none());
    assert_eq!(queue.state().check(), 0, "finished keys are removed");
    assert_eq!(queue.taken(), 3);
}

#[tokio::test(start_paused = true)]
async fn key_added_while_processing_is_processed_again() {
    let queue = queue();
    queue.add(1).await;
    let taken = queue.take().await.unwrap();
    queue.add(1).await;
    queue.add(1).await;
    assert!(poll_take(&queue).await.is_none(), "no second worker may take the key");
    taken.finish(Outcome::Done);
    queue.take().await.unwrap().finish(Outcome::Done);
    assert!(poll_take(&queue).await.is_none(), "the key is processed twice only");
}

#[tokio::test(start_paused = true)]
async fn retry_delay_doubles_until_success() {
    let queue = queue();
    queue.add(1).await;
    let mut bound = FIRST_RETRY;
    queue.take().await.unwrap().finish(Outcome::Failed);
    for _ in 0..25 {
        let began = Instant::now();
        let taken = queue.take().await.unwrap();
        let waited = began.elapsed();
        // Timers are exact to a millisecond.
        assert!(waited + Duration::from_millis(1) >= bound / 2 && waited <= bound + Duration::from_millis(1));
        bound = (bound * 2).min(LAST_RETRY);
        taken.finish(Outcome::Failed);
    }
    queue.take().await.unwrap().finish(Outcome::Done);
    assert_eq!(queue.state().check(), 0, "the backoff is removed");
    queue.add(1).await;
    queue.take().await.unwrap().finish(Outcome::Failed);
    let began = Instant::now();
    drop(queue.take().await);
    assert!(began.elapsed() <= FIRST_RETRY + Duration::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn retry_within_caps_the_retry_delay() {
    let queue = queue();
    let longest = FIRST_RETRY * 3;
    queue.retry_within(longest);
    queue.add(1).await;
    let mut waited = Duration::ZERO;
    for _ in 0..10 {
        let began = Instant::now();
        queue.take().await.unwrap().finish(Outcome::Failed);
        waited = waited.max(began.elapsed());
    }
    assert!(waited > FIRST_RETRY && waited <= longest + Duration::from_millis(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn taken_key_dropped_without_finish_counts_as_failed() {
    let queue = queue();
    queue.add(1).await;
    drop(queue.take().await.unwrap());
    assert_eq!(queue.depth(), Depth { waiting: 0, processing: 0, delayed: 1 });
    assert_eq!(*queue.take().await.unwrap().key(), 1);
}

#[tokio::test(start_paused = true)]
async fn add_after_keeps_the_earliest_time_and_processing_cancels_later_ones() {
    let (queue, second) = (queue(), Duration::from_secs(1));
    queue.add_after(1, 5 * second).await;
    queue.add_after(1, 2 * second).await;
    queue.add_after(1, 9 * second).await;
    queue.add_after(2, 3 * second).await;
    let began = Instant::now();
    let first = queue.take().await.unwrap();
    assert_eq!((*first.key(), began.elapsed().as_secs()), (1, 2));
    first.finish(Outcome::After(10 * second));
    let other = queue.take().await.unwrap();
    assert_eq!((*other.key(), began.elapsed().as_secs()), (2, 3));
    other.finish(Outcome::Done);
    queue.add(1).await;
    queue.take().await.unwrap().finish(Outcome::Done);
    assert_eq!(queue.depth().delayed, 0, "processing cancels the delay");
}

#[tokio::test(start_paused = true)]
async fn deadline_survives_when_the_waiting_worker_becomes_busy() {
    let queue = queue();
    let waiter = {
        let queue = queue.clone();
        Task::spawn("one", async move { queue.take().await.map(|taken| (*taken.key(), taken)) })
    };
    let other = {
        let queue = queue.clone();
        Task::spawn("two", async move { queue.take().await.map(|taken| (*taken.key(), taken)) })
    };
    yield_now().await;
    queue.add_after(7, Duration::from_secs(60)).await;
    yield_now().await;
    queue.add(8).await;
    let (one, two) = (waiter.await.unwrap().unwrap(), other.await.unwrap().unwrap());
    assert_eq!(BTreeSet::from([one.0, two.0]), BTreeSet::from([7, 8]));
}

#[tokio::test(start_paused = true)]
async fn add_to_full_queue_waits_for_room() {
    let queue = Queue::with_limit(2, Rng::seeded(1));
    queue.add(1).await;
    queue.add(2).await;
    queue.add(1).await;
    let third = {
        let queue = queue.clone();
        Task::spawn("adder", async move { queue.add(3).await })
    };
    yield_now().await;
    assert_eq!(queue.depth().waiting, 2);
    let taken = queue.take().await.unwrap();
    yield_now().await;
    assert_eq!(queue.depth().waiting, 1, "a key in processing still counts");
    taken.finish(Outcome::Done);
    third.await.unwrap();
    assert_eq!(queue.depth().waiting, 2);
}

#[tokio::test(start_paused = true)]
async fn close_releases_all_waiters() {
    let queue = Queue::with_limit(1, Rng::seeded(1));
    queue.add(1).await;
    let taken = queue.take().await.unwrap();
    let taker = {
        let queue = queue.clone();
        Task::spawn("taker", async move { queue.take().await.is_none() })
    };
    let adder = {
        let queue = queue.clone();
        Task::spawn("adder", async move { queue.add(2).await })
    };
    yield_now().await;
    queue.close();
    assert!(taker.await.unwrap());
    adder.await.unwrap();
    queue.add(3).await;
    taken.finish(Outcome::Failed);
    assert!(queue.take().await.is_none());
    assert_eq!(queue.state().check(), 0);
    assert_eq!(queue.depth(), Depth::default());
    queue.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn quiet_waits_for_waiting_and_processing_keys() {
    let queue = queue();
    queue.quiet().await;
    queue.add(1).await;
    queue.add(2).await;
    let quiet = {
        let queue = queue.clone();
        Task::spawn("quiet", async move { queue.quiet().await })
    };
    for outcome in [Outcome::Done, Outcome::Failed] {
        yield_now().await;
        assert!(!queue.state().is_quiet());
        queue.take().await.unwrap().finish(outcome);
    }
    quiet.await.unwrap();
    assert_eq!(queue.depth().delayed, 1, "delayed keys are not waited for");
}

/// With many workers and keys, no two workers ever hold the same key, and every key is processed after its last
/// addition.
#[tokio::test(start_paused = true)]
async fn concurrent_workers_never_share_a_key_and_process_every_addition() {
    const KEYS: u32 = 20;
    let queue = Queue::with_limit(8, Rng::seeded(5));
    let busy: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let seen: Arc<Vec<AtomicUsize>> = Arc::new((0..KEYS).map(|_| AtomicUsize::new(0)).collect());
    let (version, mut rng) = (Arc::new(AtomicUsize::new(0)), Rng::seeded(9));
    let workers: Vec<_> = (0..4u64)
        .map(|seed| {
            let (queue, busy, seen) = (queue.clone(), Arc::clone(&busy), Arc::clone(&seen));
            let (version, mut rng) = (Arc::clone(&version), Rng::seeded(seed));
            Task::spawn("worker", async move {
                while let Some(taken) = queue.take().await {
                    let key = *taken.key() as usize;
                    assert_eq!(busy[key].fetch_add(1, Ordering::SeqCst), 0, "two have {key}");
                    seen[key].store(version.load(Ordering::SeqCst), Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(rng.below(20))).await;
                    busy[key].fetch_sub(1, Ordering::SeqCst);
                    taken.finish(if rng.one_in(4) { Outcome::Failed } else { Outcome::Done });
                }
            })
        })
        .collect();
    let mut last_added = BTreeMap::new();
    for _ in 0..2_000 {
        let key = u32::try_from(rng.below(u64::from(KEYS))).unwrap();
        last_added.insert(key, version.fetch_add(1, Ordering::SeqCst) + 1);
        queue.add(key).await;
        if rng.one_in(3) {
            tokio::time::sleep(Duration::from_millis(rng.below(10))).await;
        }
    }
    queue.quiet().await;
    for (key, version) in last_added {
        assert!(seen[key as usize].load(Ordering::SeqCst) >= version, "{key} was not looked at again");
    }
    queue.close();
    for worker in workers {
        worker.await.unwrap();
    }
}

#[test]
fn normal_priority_goes_before_low() {
    let mut state = State::new(10, FIRST_RETRY, LAST_RETRY, Rng::seeded(1));
    let now = start();
    for key in [1, 2, 3] {
        state.add(&key, Priority::Low, now);
    }
    state.add(&4, Priority::Normal, now);
    state.add(&3, Priority::Normal, now);
    state.add(&4, Priority::Low, now);
    let later = now + Duration::from_secs(2);
    assert_eq!(state.counts(later).oldest, Duration::from_secs(2));
    let order: Vec<_> = (0..4).map(|_| state.next(later)).collect();
    assert_eq!(order, [3, 4, 1, 2].map(Next::Key), "3 was added before 4, and has the same priority now");
    let counts = state.counts(later + Duration::from_secs(1));
    assert_eq!((counts.added, counts.taken), (4, 4));
    assert_eq!((counts.oldest, counts.longest_running), (Duration::ZERO, Duration::from_secs(1)));
    assert_eq!(counts.unfinished, Duration::from_secs(4));
    let waited = &state.durations().waited;
    assert!(waited.count() == 4 && (waited.sum() - 8.0).abs() < f64::EPSILON);
}

/// Checks random operations on the bare state against the set of keys that must still be processed.
#[test]
fn random_operations_keep_the_invariants() {
    for seed in 0..300 {
        random_history(seed);
    }
}

fn random_history(seed: u64) {
    let mut rng = Rng::seeded(seed);
    let mut state = State::new(6, FIRST_RETRY, LAST_RETRY, Rng::seeded(seed));
    let (mut now, mut owed, mut held) = (start(), BTreeSet::new(), Vec::new());
    for _ in 0..400 {
        let key = rng.below(10);
        match rng.below(6) {
            0 | 1 => {
                let priority = if rng.below(2) == 0 { Priority::Normal } else { Priority::Low };
                let refused = state.add(&key, priority, now) == Added::Full;
                owed.extend((!refused).then_some(key));
            }
            2 => drop(state.add_at(&key, now + Duration::from_millis(rng.below(50)), now)),
            3 => now += Duration::from_millis(rng.below(30)),
            4 => match state.next(now) {
                Next::Key(key) => {
                    assert!(!held.contains(&key), "seed {seed}: handed out twice");
                    owed.remove(&key);
                    held.push(key);
                }
                Next::At(due) => assert!(due > now, "seed {seed}: due and not handed out"),
                Next::Nothing | Next::Closed => {
                    assert!(owed.iter().all(|key| held.contains(key)), "seed {seed}: removed");
                }
            },
            _ if !held.is_empty() => {
                let index = usize::try_from(rng.below(held.len() as u64)).unwrap();
                let after = Outcome::After(Duration::from_millis(rng.below(40)));
                let outcome = [Outcome::Done, after, Outcome::Failed][index % 3];
                state.finish(&held.swap_remove(index), outcome, now);
            }
            _ => {}
        }
        assert!(state.check() <= 6, "seed {seed}: over the limit");
    }
}

/// Start of the clock; only differences matter.
#[expect(
    clippy::disallowed_methods,
    reason = "the state takes any time, and this is the only way to make one"
)]
fn start() -> Instant {
    Instant::from_std(std::time::Instant::now())
}
