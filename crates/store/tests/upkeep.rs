//! What a store does by itself: compaction by age and by size, expiry across a restart, and
//! watchers by the thousand.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::time::Duration;

use coracle_base::{Clock, ManualClock, Timestamp};
use coracle_store::disk::fake::FakeDisk;
use coracle_store::{CompactionPolicy, Delete, Put, Revision, Store, WatchEvent, WatchRequest, disk, memory};

const PATIENCE: Duration = Duration::from_secs(30);

fn policy() -> CompactionPolicy {
    CompactionPolicy { max_age: Duration::from_secs(300), max_bytes: 100_000 }
}

fn clock() -> ManualClock {
    ManualClock::starting_at(Timestamp::from_millis(1_700_000_000_000))
}

async fn open_disk(disk: &FakeDisk, clock: Clock) -> Store {
    let options = disk::Options {
        clock,
        compaction: policy(),
        segment_bytes: 16 << 10,
        snapshot_min_bytes: 16 << 10,
        ..disk::Options::default()
    };
    disk::open_on(disk.files(), options).await.unwrap()
}

/// Waits until the oldest revision kept is at least this.
async fn compacted_to(store: &Store, revision: Revision) {
    let reached = async {
        while store.stats().await.unwrap().oldest < revision {
            tokio::task::yield_now().await;
        }
    };
    let outcome = tokio::time::timeout(PATIENCE, reached).await;
    assert!(outcome.is_ok(), "wanted {revision}, stats are {:?}", store.stats().await);
}

#[tokio::test]
async fn what_is_too_old_goes_by_itself_and_the_rest_stays() {
    let clock = clock();
    let disk = FakeDisk::new();
    let stores = [
        memory::open(memory::Options { clock: clock.clock(), compaction: policy() }),
        open_disk(&disk, clock.clock()).await,
    ];
    for store in &stores {
        for n in 0..10 {
            store.put(Put::new("old", n.to_string())).await.unwrap();
        }
    }
    clock.advance(Duration::from_secs(200));
    let mut young = Vec::new();
    for store in &stores {
        young.push(store.put(Put::new("young", "")).await.unwrap().revision);
        store.put(Put::new("young", "")).await.unwrap();
    }
    clock.advance(Duration::from_secs(131));
    for (store, young) in stores.iter().zip(young) {
        compacted_to(store, young).await;
        let stats = store.stats().await.unwrap();
        assert_eq!((stats.oldest, stats.keys), (young, 2), "what is younger than five minutes is kept");
        store.close().await;
    }
}

#[tokio::test]
async fn what_is_too_much_goes_by_itself_however_young() {
    let clock = clock();
    let disk = FakeDisk::new();
    let stores = [
        memory::open(memory::Options { clock: clock.clock(), compaction: policy() }),
        open_disk(&disk, clock.clock()).await,
    ];
    for store in stores {
        let mut latest = Revision::INITIAL;
        for n in 0..400_u32 {
            latest = store.put(Put::new("key", vec![n as u8; 1000])).await.unwrap().revision;
        }
        // 100 KB of superseded values are less than a hundred revisions.
        compacted_to(&store, Revision::new(latest.get() - 100)).await;
        let stats = store.stats().await.unwrap();
        assert!(stats.history_bytes <= 100_000 && stats.history > 10, "{stats:?}");
        store.close().await;
    }
}

#[tokio::test]
async fn deleted_keys_cost_nothing_once_they_are_compacted() {
    let clock = clock();
    let store = memory::open(memory::Options { clock: clock.clock(), compaction: policy() });
    for n in 0..100 {
        store.put(Put::new(format!("k{n}"), "")).await.unwrap();
        store.delete(Delete::new(format!("k{n}"))).await.unwrap();
    }
    let latest = store.put(Put::new("last", "")).await.unwrap().revision;
    store.compact(latest).await.unwrap();
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.keys, stats.bytes, stats.history), (1, 4, 1));
    store.close().await;
}

#[tokio::test]
async fn keys_expire_also_while_nobody_has_the_store_open() {
    let clock = clock();
    let disk = FakeDisk::new();
    let store = open_disk(&disk, clock.clock()).await;
    store.put(Put::new("short", "").ttl(Duration::from_secs(60))).await.unwrap();
    let latest = store.put(Put::new("long", "").ttl(Duration::from_secs(3600))).await.unwrap().revision;
    store.close().await;
    clock.advance(Duration::from_secs(120));
    let store = open_disk(&disk, clock.clock()).await;
    let mut watch = store.watch(WatchRequest::prefix("").from(latest.next())).await.unwrap();
    let deleted = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
    assert!(matches!(deleted, WatchEvent::Delete { ref key, .. } if key == "short"), "{deleted:?}");
    assert!(store.get("long").await.unwrap().entry.is_some());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_watchers_each_get_what_they_watch() {
    const WATCHERS: usize = 5_000;
    const PREFIXES: usize = 500;
    let store = memory::open(memory::Options::default());
    let mut watchers = tokio::task::JoinSet::new();
    for n in 0..WATCHERS {
        let mut watch = store.watch(WatchRequest::prefix(format!("p{:03}/", n % PREFIXES))).await.unwrap();
        watchers.spawn(async move {
            let first = watch.next().await.unwrap();
            let second = watch.next().await.unwrap();
            (n, [first, second].map(|event| event.revision()), watch)
        });
    }
    let mut expected = vec![Vec::new(); PREFIXES];
    for round in 0..2 {
        for (n, revisions) in expected.iter_mut().enumerate() {
            let put = Put::new(format!("p{n:03}/key"), round.to_string());
            revisions.push(store.put(put).await.unwrap().revision);
        }
    }
    let mut kept = Vec::new();
    while let Some(done) = watchers.join_next().await {
        let (n, revisions, watch) = done.unwrap();
        assert_eq!(revisions.to_vec(), expected[n % PREFIXES]);
        kept.push(watch);
    }
    assert_eq!(store.stats().await.unwrap().watchers, WATCHERS as u64);
    drop(kept);
    assert_eq!(store.stats().await.unwrap().watchers, 0);
    store.close().await;
}
