//! Scopes over a base: the contract, and random operations compared with a store in which the same entries were
//! written.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_base::{ManualClock, Rng, Timestamp};
use coracle_store::contract::{Fixture, PassTime};
use coracle_store::{
    At, Base, Delete, Entry, EntryParts, Error, Expect, Put, RangeRequest, Revision, Store, Txn, WatchEvent,
    WatchRequest, memory,
};

/// Entries whose value contains the revision.
struct Fixed {
    entries: BTreeMap<Vec<u8>, &'static str>,
    revision: Revision,
}

impl Base for Fixed {
    fn revision(&self) -> Revision {
        self.revision
    }

    fn get(&self, key: &[u8]) -> Option<Entry> {
        let value = self.entries.get(key)?;
        Some(Entry::from_parts(&EntryParts {
            key: key.to_vec().into(),
            value: (*value).into(),
            stamp: Some(1),
            create_revision: self.revision,
            mod_revision: self.revision,
            version: 1,
            expires_at: None,
        }))
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.entries.contains_key(key)
    }

    fn keys(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        self.entries.keys().filter(|key| key.starts_with(prefix)).cloned().collect()
    }
}

async fn fixture() -> Fixture {
    let clock = ManualClock::starting_at(Timestamp::from_millis(1_000_000));
    let store = memory::open(memory::Options { clock: clock.clock(), ..memory::Options::default() });
    let nothing = Fixed { entries: BTreeMap::new(), revision: Revision::new(1) };
    let store = store.over(Arc::new(nothing));
    Fixture::new(store, PassTime::Manual(clock), Box::new(()))
}

coracle_store::contract_suite!(fixture);
coracle_store::contract_suite_exact!(fixture);

const BASE: [(&str, &str); 4] = [("a/1", "<>"), ("a/3", "[]"), ("a/5", "()"), ("b/2", "{}")];

/// A scope over a base, and one in which the base was written, both as of the same revision.
async fn pair() -> (Store, Store) {
    let (layered, written) = (
        memory::open(memory::Options::default()),
        memory::open(memory::Options::default()).scope("s").unwrap(),
    );
    let put = |(key, value): (&str, &'static str)| Put::new(key, value).stamp_at(1);
    let txn = BASE.into_iter().fold(Txn::new(), |txn, entry| txn.put(put(entry)));
    let revision = written.commit(txn).await.unwrap().revision;
    // Outside of the scope, so that it is invisible.
    let record = layered.put(Put::new("record", "")).await.unwrap();
    assert_eq!(record.revision, revision);
    let layered = layered.scope("s").unwrap();
    let entries = BASE.into_iter().map(|(key, value)| (key.as_bytes().to_vec(), value)).collect();
    (layered.over(Arc::new(Fixed { entries, revision })), written)
}

fn formatted(entry: &Entry) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}={}@{}", text(entry.key()), text(&entry.value_bytes()), entry.mod_revision())
}

fn formatted_event(event: &WatchEvent) -> String {
    let before = |previous: &Option<Entry>| previous.as_ref().map(formatted).unwrap_or_default();
    match event {
        WatchEvent::Put { entry, previous } => format!("+{} < {}", formatted(entry), before(previous)),
        WatchEvent::Delete { key, revision, previous } => {
            format!("-{}@{revision} < {}", String::from_utf8_lossy(key), before(previous))
        }
        other => format!("{other:?}"),
    }
}

async fn state(store: &Store, at: At) -> Vec<String> {
    let request = RangeRequest { prefix: b"".to_vec(), at, ..RangeRequest::default() };
    store.range(request).await.unwrap().entries.iter().map(formatted).collect()
}

/// A list in pages, with the remaining count of each page.
async fn pages(store: &Store, prefix: &str, limit: usize) -> Vec<String> {
    let mut request = RangeRequest::prefix(prefix).limit(limit).count_remaining();
    let mut lines = Vec::new();
    loop {
        let range = store.range(request.clone()).await.unwrap();
        lines.extend(range.entries.iter().map(formatted));
        lines.push(format!("more={} remaining={:?} @{}", range.more, range.remaining, range.revision));
        let Some(last) = range.entries.last().filter(|_| range.more) else { return lines };
        request = request.start([last.key(), b"\0"].concat()).at(range.revision);
    }
}

fn random_txn(rng: &mut Rng, seen: &[Revision]) -> Txn {
    let keys = ["a/0", "a/1", "a/2", "a/3", "a/5", "a/9", "b/2", "b/3"];
    let mut txn = Txn::new();
    for key in keys {
        if !rng.one_in(5) {
            continue;
        }
        let expect = match rng.below(4) {
            0 => Expect::Absent,
            1 => Expect::ModRevision(seen[rng.below(seen.len() as u64) as usize]),
            _ => Expect::Any,
        };
        txn = match rng.below(5) {
            0 | 1 => txn.delete(Delete::new(key).expect(expect)),
            2 => txn.check(key, expect),
            _ => txn.put(Put::new(key, format!("v{}", rng.below(9))).expect(expect)),
        };
    }
    txn
}

fn formatted_outcome(outcome: Result<coracle_store::Committed, Error>) -> String {
    match outcome {
        Ok(committed) => {
            let previous: Vec<_> =
                committed.previous.iter().map(|entry| entry.as_ref().map(formatted)).collect();
            format!("@{} deleted {} {previous:?}", committed.revision, committed.deleted)
        }
        Err(Error::Conflict(conflict)) => {
            let key = String::from_utf8_lossy(&conflict.key).into_owned();
            format!("{key}: {:?} but {:?}", conflict.expected, conflict.found.as_ref().map(formatted))
        }
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn base_behaves_as_if_written() {
    for seed in 0..60 {
        let mut rng = Rng::seeded(seed);
        let (layered, written) = pair().await;
        let start = layered.get("a/1").await.unwrap();
        assert_eq!(
            formatted(&start.entry.unwrap()),
            formatted(&written.get("a/1").await.unwrap().entry.unwrap())
        );
        let mut seen = vec![Revision::new(2)];
        let from = start.revision.next();
        let mut watches = Vec::new();
        for store in [&layered, &written] {
            watches.push(store.watch(WatchRequest::prefix("").from(from)).await.unwrap());
        }
        for step in 0..60 {
            let txn = random_txn(&mut rng, &seen);
            let one = formatted_outcome(layered.commit(txn.clone()).await);
            let other = formatted_outcome(written.commit(txn.clone()).await);
            assert_eq!(one, other, "seed {seed}, step {step}, {txn:?}");
            seen.push(written.get("x").await.unwrap().revision);
            assert_eq!(state(&layered, At::Latest).await, state(&written, At::Latest).await, "seed {seed}");
            let (prefix, limit) = (["", "a/", "b/"][rng.below(3) as usize], 1 + rng.below(4) as usize);
            assert_eq!(
                pages(&layered, prefix, limit).await,
                pages(&written, prefix, limit).await,
                "seed {seed}"
            );
            assert_eq!(
                layered.count(prefix, At::Latest).await.unwrap(),
                written.count(prefix, At::Latest).await.unwrap()
            );
        }
        for revision in &seen {
            let at = At::Revision(*revision);
            assert_eq!(state(&layered, at).await, state(&written, at).await, "seed {seed}, at {revision}");
        }
        for store in [&layered, &written] {
            store.put(Put::new("end", "")).await.unwrap();
        }
        loop {
            let (one, other) = (watches[0].next().await.unwrap(), watches[1].next().await.unwrap());
            assert_eq!(formatted_event(&one), formatted_event(&other), "seed {seed}");
            if formatted_event(&one).starts_with("+end") {
                break;
            }
        }
    }
}

#[tokio::test]
async fn revisions_before_the_base_are_compacted() {
    let (layered, _) = pair().await;
    let before = Revision::new(1);
    assert!(matches!(layered.get_at("a/1", At::Revision(before)).await, Err(Error::Compacted { .. })));
    let range = layered.range(RangeRequest::prefix("a/").at(before)).await;
    assert!(matches!(range, Err(Error::Compacted { .. })));
    let watch = layered.watch(WatchRequest::prefix("a/").from(Revision::new(2))).await;
    assert!(matches!(watch, Err(Error::Compacted { .. })));
    layered.watch(WatchRequest::prefix("a/").from(Revision::new(3))).await.unwrap();
    assert!(layered.get_at("x", At::Revision(before)).await.is_ok(), "the base has no such key");
}

#[tokio::test]
async fn scopes_over_one_base_store_only_differences() {
    let store = memory::open(memory::Options::default());
    let entries = BASE.into_iter().map(|(key, value)| (key.as_bytes().to_vec(), value)).collect();
    let base: Arc<dyn Base> = Arc::new(Fixed { entries, revision: Revision::new(1) });
    let over = |name: &str| store.scope(name).unwrap().over(base.clone());
    let (one, other) = (over("one"), over("other"));
    one.put(Put::new("a/1", "mine").expect(Expect::ModRevision(Revision::new(1)))).await.unwrap();
    one.delete(Delete::new("a/3")).await.unwrap();
    assert_eq!(one.count("", At::Latest).await.unwrap().count, 3);
    assert_eq!(other.count("", At::Latest).await.unwrap().count, 4);
    assert_eq!(other.get("a/1").await.unwrap().entry.unwrap().value(), "<1>");
    assert_eq!(store.count("", At::Latest).await.unwrap().count, 2, "nothing else is stored");
}

#[tokio::test]
async fn events_have_keys_relative_to_their_scope() {
    let store = memory::open(memory::Options::default());
    let entries = BASE.into_iter().map(|(key, value)| (key.as_bytes().to_vec(), value)).collect();
    let base: Arc<dyn Base> = Arc::new(Fixed { entries, revision: Revision::new(1) });
    let scope = store.scope("one").unwrap().over(base);
    for (prefix, key) in [("c/", "c/1"), ("a/", "a/9")] {
        let mut watch = scope.watch(WatchRequest::prefix(prefix)).await.unwrap();
        scope.put(Put::new(key, "x")).await.unwrap();
        let WatchEvent::Put { entry, .. } = watch.next().await.unwrap() else { panic!("it was put") };
        assert_eq!(entry.key(), key.as_bytes(), "whether the base has such keys or not");
    }
}
