//! A run of random operations, each checked against a model.

use std::collections::BTreeMap;

use coracle_base::Rng;
use coracle_store::{
    At, Delete, Entry, Error, Expect, Put, RangeRequest, Revision, Store, Txn, Watch, WatchEvent,
    WatchRequest,
};

/// Few keys, so that operations collide.
const KEYS: [&str; 8] = ["a", "a/1", "a/2", "ab", "b", "b/1", "b/2", "c"];
const PREFIXES: [&str; 6] = ["", "a", "a/", "b/", "c", "zz"];

#[derive(Clone, Debug, PartialEq, Eq)]
struct ModelEntry {
    value: String,
    create: u64,
    modified: u64,
    version: u64,
}

type State = BTreeMap<String, ModelEntry>;

/// All past states, by revision.
struct Model {
    revision: u64,
    oldest: u64,
    states: BTreeMap<u64, State>,
    /// The events of a watch on all keys, by revision.
    events: BTreeMap<u64, Vec<(String, String)>>,
}

/// A run with one seed.
pub(crate) struct Run {
    seed: u64,
    rng: Rng,
    store: Store,
    model: Model,
    watches: Vec<(String, u64, Watch)>,
    counter: u64,
}

impl Run {
    pub(crate) fn new(store: Store, seed: u64) -> Self {
        let initial = Revision::INITIAL.get();
        let states = BTreeMap::from([(initial, State::new())]);
        let model = Model { revision: initial, oldest: initial, states, events: BTreeMap::new() };
        Self { seed, rng: Rng::seeded(seed), store, model, watches: Vec::new(), counter: 0 }
    }

    pub(crate) async fn steps(&mut self, count: u64) {
        for _ in 0..count {
            match self.rng.below(20) {
                0..=6 => self.put().await,
                7..=8 => self.delete().await,
                9..=11 => self.txn().await,
                12 => self.delete_prefix().await,
                13..=14 => self.get().await,
                15..=17 => self.range().await,
                18 => self.watch().await,
                _ => self.compact().await,
            }
        }
    }

    pub(crate) async fn close(&mut self) {
        self.check_watches().await;
        self.store.close().await.unwrap();
    }

    pub(crate) async fn reopened(&mut self, store: Store) {
        self.store = store;
        let stats = self.store.stats().await.unwrap();
        assert_eq!(stats.revision.get(), self.model.revision, "seed {}", self.seed);
        assert_eq!(stats.oldest.get(), self.model.oldest, "seed {}: history survives", self.seed);
        for revision in self.model.oldest..=self.model.revision {
            self.compare("", revision).await;
        }
    }

    pub(crate) async fn finish(mut self) {
        self.check_watches().await;
        self.compare("", self.model.revision).await;
        self.store.close().await.unwrap();
    }

    fn key(&mut self) -> String {
        KEYS[self.rng.below(KEYS.len() as u64) as usize].into()
    }

    fn prefix(&mut self) -> String {
        PREFIXES[self.rng.below(PREFIXES.len() as u64) as usize].into()
    }

    fn value(&mut self) -> String {
        self.counter += 1;
        // Sometimes long enough to fill segments.
        let filler = "x".repeat(self.rng.below(400) as usize);
        format!("{}-{filler}", self.counter)
    }

    /// A condition that holds in about half of the cases.
    fn expect(&mut self, key: &str) -> Expect {
        match (self.rng.below(4), self.model.latest().get(key)) {
            (0 | 1, _) => Expect::Any,
            (2, Some(model_entry)) => Expect::ModRevision(Revision::new(model_entry.modified)),
            (2, None) => Expect::ModRevision(Revision::new(self.rng.below(self.model.revision) + 1)),
            _ => Expect::Absent,
        }
    }

    async fn put(&mut self) {
        let key = self.key();
        let (value, expect) = (self.value(), self.expect(&key));
        let met = self.model.meets(&key, expect);
        let outcome = self.store.put(Put::new(key.clone(), value.clone()).expect(expect)).await;
        self.settle(met, outcome, vec![(key, Some(value))]);
    }

    async fn delete(&mut self) {
        let key = self.key();
        let expect = self.expect(&key);
        let met = self.model.meets(&key, expect);
        let outcome = self.store.delete(Delete::new(key.clone()).expect(expect)).await;
        self.settle(met, outcome, vec![(key, None)]);
    }

    async fn txn(&mut self) {
        let mut txn = Txn::new();
        let mut met = true;
        let mut changes: Vec<(String, Option<String>)> = Vec::new();
        for _ in 0..1 + self.rng.below(4) {
            let key = self.key();
            if changes.iter().any(|(other, _)| *other == key) {
                continue;
            }
            let expect = self.expect(&key);
            met &= self.model.meets(&key, expect);
            if self.rng.one_in(3) {
                txn = txn.delete(Delete::new(key.clone()).expect(expect));
                changes.push((key, None));
            } else {
                let value = self.value();
                txn = txn.put(Put::new(key.clone(), value.clone()).expect(expect));
                changes.push((key, Some(value)));
            }
        }
        let outcome = self.store.commit(txn).await;
        self.settle(met, outcome, changes);
    }

    async fn delete_prefix(&mut self) {
        let prefix = self.prefix();
        let deleted: Vec<_> =
            self.model.latest().keys().filter(|key| key.starts_with(&prefix)).cloned().collect();
        let outcome = self.store.commit(Txn::new().delete_prefix(prefix)).await;
        if let Ok(committed) = &outcome {
            assert_eq!(committed.deleted, deleted.len() as u64, "seed {}", self.seed);
        }
        self.settle(true, outcome, deleted.into_iter().map(|key| (key, None)).collect());
    }

    fn settle(
        &mut self,
        met: bool,
        outcome: coracle_store::Result<coracle_store::Committed>,
        changes: Vec<(String, Option<String>)>,
    ) {
        match outcome {
            Ok(committed) => {
                assert!(met, "seed {}: a failed condition was accepted", self.seed);
                self.model.apply(changes);
                assert_eq!(committed.revision.get(), self.model.revision, "seed {}", self.seed);
            }
            Err(Error::Conflict(_)) => assert!(!met, "seed {}: a met condition was rejected", self.seed),
            Err(error) => panic!("seed {}: {error}", self.seed),
        }
    }

    /// A revision between slightly before the oldest and slightly after the latest.
    fn some_revision(&mut self) -> u64 {
        let from = self.model.oldest.saturating_sub(2);
        from + self.rng.below(self.model.revision + 3 - from)
    }

    async fn get(&mut self) {
        let (key, revision) = (self.key(), self.some_revision());
        let outcome = self.store.get_at(&key, At::Revision(Revision::new(revision))).await;
        match self.expected_error(revision) {
            Some(expected) => assert_eq!(name(&outcome.unwrap_err()), expected, "seed {}", self.seed),
            None => {
                let found = outcome.unwrap().entry.map(|entry| model_entry(&entry));
                assert_eq!(found.as_ref(), self.model.at(revision).get(&key), "seed {}", self.seed);
            }
        }
    }

    async fn range(&mut self) {
        let (prefix, revision) = (self.prefix(), self.some_revision());
        match self.expected_error(revision) {
            Some(expected) => {
                let outcome =
                    self.store.range(RangeRequest::prefix(prefix).at(Revision::new(revision))).await;
                assert_eq!(name(&outcome.unwrap_err()), expected, "seed {}", self.seed);
            }
            None => self.compare(&prefix, revision).await,
        }
    }

    fn expected_error(&self, revision: u64) -> Option<&'static str> {
        if revision < self.model.oldest {
            Some("compacted")
        } else if revision > self.model.revision {
            Some("future")
        } else {
            None
        }
    }

    /// Reads a prefix at a revision in pages of random size, and compares the whole.
    async fn compare(&mut self, prefix: &str, revision: u64) {
        let at = Revision::new(revision);
        let limit = 1 + self.rng.below(5) as usize;
        let mut found: Vec<(String, ModelEntry)> = Vec::new();
        loop {
            let mut request = RangeRequest::prefix(prefix).at(at).limit(limit).count_remaining();
            if let Some((last, _)) = found.last() {
                request = request.start(format!("{last}\0"));
            }
            let page = self.store.range(request).await.unwrap();
            assert_eq!(page.revision, at);
            found.extend(page.entries.iter().map(|entry| (text(entry.key()), model_entry(entry))));
            let total = self.model.at(revision).keys().filter(|key| key.starts_with(prefix)).count();
            assert_eq!(page.remaining, Some((total - found.len()) as u64), "seed {}", self.seed);
            if !page.more {
                break;
            }
        }
        let expected = self.model.at(revision).iter().filter(|(key, _)| key.starts_with(prefix));
        let expected: Vec<_> =
            expected.map(|(key, model_entry)| (key.clone(), model_entry.clone())).collect();
        assert_eq!(found, expected, "seed {} at revision {revision}", self.seed);
        let count = self.store.count(prefix, At::Revision(at)).await.unwrap();
        assert_eq!(count.count, expected.len() as u64);
    }

    async fn compact(&mut self) {
        let to = self.model.oldest + self.rng.below(self.model.revision - self.model.oldest + 1);
        self.store.compact(Revision::new(to)).await.unwrap();
        self.model.oldest = self.model.oldest.max(to);
    }

    async fn watch(&mut self) {
        let (prefix, from) = (self.prefix(), self.some_revision().max(self.model.oldest));
        let request = WatchRequest::prefix(prefix.clone()).from(Revision::new(from));
        self.watches.push((prefix, from, self.store.watch(request).await.unwrap()));
    }

    /// Checks that every watch has delivered its part of the sequence, or has been overtaken by compaction.
    async fn check_watches(&mut self) {
        for (prefix, from, mut watch) in std::mem::take(&mut self.watches) {
            watch.progress_handle().request();
            let mut delivered = Vec::new();
            let ended = loop {
                match watch.next().await {
                    Ok(WatchEvent::Progress { .. }) => break false,
                    Ok(event) => delivered.push(formatted(&event)),
                    Err(Error::Compacted { oldest, .. }) => {
                        assert!(from < oldest.get(), "seed {}: ended without compaction", self.seed);
                        break true;
                    }
                    Err(error) => panic!("seed {}: {error}", self.seed),
                }
            };
            let expected = self.model.events.range(from..).flat_map(|(_, events)| events);
            let expected: Vec<_> = expected
                .filter(|(key, _)| key.starts_with(&prefix))
                .map(|(_, event)| event.clone())
                .collect();
            if ended {
                assert!(expected.starts_with(&delivered), "seed {}", self.seed);
            } else {
                assert_eq!(delivered, expected, "seed {}: prefix {prefix:?} from {from}", self.seed);
            }
        }
    }
}

impl Model {
    fn latest(&self) -> &State {
        &self.states[&self.revision]
    }

    fn at(&self, revision: u64) -> &State {
        &self.states[&revision]
    }

    fn meets(&self, key: &str, expect: Expect) -> bool {
        expect.is_met_by(self.latest().get(key).map(|model_entry| Revision::new(model_entry.modified)))
    }

    fn apply(&mut self, changes: Vec<(String, Option<String>)>) {
        let mut state = self.latest().clone();
        let revision = self.revision + 1;
        let mut events = Vec::new();
        for (key, value) in changes {
            let previous = state.get(&key).cloned();
            let before =
                previous.as_ref().map_or(String::new(), |model_entry| format!("<{}", model_entry.value));
            match value {
                Some(value) => {
                    events.push((key.clone(), format!("+{key}={value}@{revision}{before}")));
                    let (create, version) = previous
                        .map_or((revision, 1), |model_entry| (model_entry.create, model_entry.version + 1));
                    state.insert(key, ModelEntry { value, create, modified: revision, version });
                }
                None if previous.is_some() => {
                    events.push((key.clone(), format!("-{key}@{revision}{before}")));
                    state.remove(&key);
                }
                None => {}
            }
        }
        if !events.is_empty() {
            self.revision = revision;
            self.states.insert(revision, state);
            self.events.insert(revision, events);
        }
    }
}

fn model_entry(entry: &Entry) -> ModelEntry {
    ModelEntry {
        value: text(&entry.value_bytes()),
        create: entry.create_revision().get(),
        modified: entry.mod_revision().get(),
        version: entry.version(),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn name(error: &Error) -> &'static str {
    match error {
        Error::Compacted { .. } => "compacted",
        Error::FutureRevision { .. } => "future",
        _ => "other",
    }
}

fn formatted(event: &WatchEvent) -> String {
    let before = |previous: &Option<Entry>| {
        previous.as_ref().map_or(String::new(), |e| format!("<{}", text(&e.value_bytes())))
    };
    match event {
        WatchEvent::Put { entry, previous } => format!(
            "+{}={}@{}{}",
            text(entry.key()),
            text(&entry.value_bytes()),
            entry.mod_revision(),
            before(previous)
        ),
        WatchEvent::Delete { key, revision, previous } => {
            format!("-{}@{revision}{}", text(key), before(previous))
        }
        other => panic!("not a change: {other:?}"),
    }
}
