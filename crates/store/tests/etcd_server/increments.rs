//! Concurrent increments of a counter, and their invariants.
//!
//! Every CAS of the counter writes, in the same transaction, a mark with the new value. Marks therefore record which
//! increments happened, and a value marked twice is a lost update.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use coracle_base::Task;
use coracle_store::{Error, Expect, Put, RangeRequest, Result, Revision, Store, Txn, Watch, WatchEvent};

use super::{RECOVERY_LIMIT, next, wait_for};

/// The key that all writers increment.
pub(crate) const COUNTER: &str = "counter";

/// The mark of the increment that ends the watch.
pub(crate) const LAST_MARK: &str = "mark/end";

/// Number of increments that prove that writers continue.
const ENOUGH: u64 = 50;

/// Running writers.
pub(crate) struct Writers {
    tasks: Vec<Task<Increments>>,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
}

/// The writers' increments, by mark.
#[derive(Default)]
pub(crate) struct Increments {
    pub(crate) acknowledged: BTreeMap<String, Revision>,
    /// Increments with an unknown outcome.
    pub(crate) unknown: BTreeSet<String>,
}

impl Writers {
    pub(crate) fn start(store: &Store, count: usize) -> Self {
        let mut writers = Self { tasks: Vec::new(), stop: Arc::default(), acknowledged: Arc::default() };
        for number in 0..count {
            let (stop, acknowledged) = (writers.stop.clone(), writers.acknowledged.clone());
            let writer = write(store.clone(), number, stop, acknowledged);
            writers.tasks.push(Task::spawn("writer", writer));
        }
        writers
    }

    /// Waits until the writers have made more increments.
    pub(crate) async fn more(&self, what: &str) {
        let goal = self.acknowledged.load(Ordering::Relaxed) + ENOUGH;
        wait_for(what, RECOVERY_LIMIT, || self.acknowledged.load(Ordering::Relaxed) >= goal).await;
    }

    pub(crate) async fn stop(self) -> Increments {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Increments::default();
        for task in self.tasks {
            let increments = task.await.unwrap();
            all.acknowledged.extend(increments.acknowledged);
            all.unknown.extend(increments.unknown);
        }
        all
    }
}

async fn write(
    store: Store,
    number: usize,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
) -> Increments {
    let mut done = Increments::default();
    let mut attempt = 0;
    while !stop.load(Ordering::Relaxed) {
        let mark = format!("mark/{number}-{attempt:06}");
        attempt += 1;
        match increment(&store, &mark).await {
            Ok(revision) => {
                done.acknowledged.insert(mark, revision);
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            Err(Error::OutcomeUnknown(_)) => {
                done.unknown.insert(mark);
            }
            Err(Error::Conflict(_) | Error::Unavailable(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
    done
}

/// Increments the counter once, under this mark.
pub(crate) async fn increment(store: &Store, mark: &str) -> Result<Revision> {
    let current = store.get(COUNTER).await?.entry.expect("made before");
    let value = (number(&current.value()) + 1).to_string();
    let counter = Put::new(COUNTER, value.clone()).expect(Expect::ModRevision(current.mod_revision()));
    let mark = Put::new(mark, value).expect(Expect::Absent);
    Ok(store.commit(Txn::new().put(counter).put(mark)).await?.revision)
}

/// The existing marks with their revisions. The counter must agree with them.
pub(crate) async fn marks(store: &Store) -> BTreeMap<String, Revision> {
    let marks = store.range(RangeRequest::prefix("mark/")).await.unwrap().entries;
    let counter = number(&store.get(COUNTER).await.unwrap().entry.unwrap().value());
    assert_eq!(marks.len() as u64, counter, "each increment has its mark");
    let values: BTreeSet<u64> = marks.iter().map(|mark| number(&mark.value())).collect();
    assert_eq!(values.len(), marks.len(), "no value was made twice");
    marks.iter().map(|mark| (String::from_utf8(mark.key().to_vec()).unwrap(), mark.mod_revision())).collect()
}

/// Reads a watch up to the last mark, without gap, duplicate or reordering: each revision from `first` on has the
/// counter and one mark. Returns the marks.
pub(crate) async fn gapless(mut watch: Watch, first: Revision) -> BTreeMap<Revision, String> {
    let mut seen = BTreeMap::new();
    let mut expected = first;
    loop {
        let events = [next(&mut watch).await, next(&mut watch).await];
        assert!(events.iter().all(|event| event.revision() == expected), "{events:?}, not {expected}");
        let mut keys = events.map(written_key);
        keys.sort();
        let [counter, mark] = keys;
        assert_eq!(counter, COUNTER);
        let ended = mark == LAST_MARK;
        seen.insert(expected, mark);
        if ended {
            return seen;
        }
        expected = expected.next();
    }
}

fn written_key(event: WatchEvent) -> String {
    match event {
        WatchEvent::Put { entry, .. } => String::from_utf8(entry.key().to_vec()).unwrap(),
        other => panic!("only puts were made, not {other:?}"),
    }
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}
