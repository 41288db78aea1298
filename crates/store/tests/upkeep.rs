//! Background maintenance: compaction by age and by size, expiry across a restart; and thousands of watchers.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::time::Duration;

use coracle_base::{Clock, ManualClock, Timestamp};
use coracle_store::disk::Files;
use coracle_store::disk::fake::FakeDisk;
use coracle_store::{
    CompactionPolicy, Delete, Put, Revision, Store, Txn, WatchEvent, WatchRequest, disk, memory,
};

const WAIT_LIMIT: Duration = Duration::from_secs(30);

fn policy() -> CompactionPolicy {
    CompactionPolicy {
        max_age: Duration::from_secs(300),
        max_bytes: 100_000,
        min_age: Duration::from_secs(60),
        burst_bytes: 200_000,
    }
}

fn clock() -> ManualClock {
    ManualClock::starting_at(Timestamp::from_millis(1_700_000_000_000))
}

async fn open_disk(disk: &FakeDisk, clock: Clock) -> Store {
    open_disk_with(disk, clock, 16 << 10, 16 << 10).await
}

async fn open_disk_with(disk: &FakeDisk, clock: Clock, segment_bytes: u64, snapshot_min_bytes: u64) -> Store {
    let options = disk::Options {
        clock,
        compaction: policy(),
        segment_bytes,
        snapshot_min_bytes,
        ..disk::Options::default()
    };
    disk::open_on(disk.files(), options).await.unwrap()
}

/// Waits until the oldest kept revision is at least this.
async fn compacted_to(store: &Store, revision: Revision) {
    let reached = async {
        while store.stats().await.unwrap().oldest < revision {
            tokio::task::yield_now().await;
        }
    };
    let outcome = tokio::time::timeout(WAIT_LIMIT, reached).await;
    assert!(outcome.is_ok(), "wanted {revision}, stats are {:?}", store.stats().await);
}

/// Waits until the history has at most this many bytes.
async fn history_within(store: &Store, bytes: u64) {
    let reached = async {
        while store.stats().await.unwrap().history_bytes > bytes {
            tokio::task::yield_now().await;
        }
    };
    let outcome = tokio::time::timeout(WAIT_LIMIT, reached).await;
    assert!(outcome.is_ok(), "wanted {bytes} bytes, stats are {:?}", store.stats().await);
}

#[tokio::test]
async fn old_history_is_compacted_by_age() {
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
        assert_eq!((stats.oldest, stats.keys), (young, 2), "history of less than five minutes is kept");
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn large_history_is_compacted_by_size() {
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
        // 200 KB of superseded values are less than two hundred revisions.
        compacted_to(&store, Revision::new(latest.get() - 200)).await;
        history_within(&store, 200_000).await;
        let stats = store.stats().await.unwrap();
        assert!(stats.history_bytes <= 200_000 && stats.history > 100, "{stats:?}");
        // Once the burst is more than a minute old, the lower limit applies.
        clock.advance(Duration::from_secs(67));
        compacted_to(&store, Revision::new(latest.get() - 100)).await;
        history_within(&store, 100_000).await;
        let stats = store.stats().await.unwrap();
        assert!(stats.history_bytes <= 100_000 && stats.history > 10, "{stats:?}");
        store.close().await.unwrap();
    }
}

/// At this load every informer once had to relist at the same time.
#[tokio::test]
async fn watcher_one_minute_behind_survives_a_thousand_writes_of_2_kib_a_second() {
    const WRITES_A_SECOND: u64 = 1_000;
    const SECONDS: u64 = 100;
    let policy = CompactionPolicy::default();
    let clock = clock();
    let store = memory::open(memory::Options { clock: clock.clock(), compaction: policy.clone() });
    let mut a_minute_ago = Revision::INITIAL;
    let mut most = 0;
    for second in 0..SECONDS {
        for n in 0..WRITES_A_SECOND {
            let put = Put::new(format!("object/{n}"), vec![second as u8; 2 << 10]);
            let revision = store.put(put).await.unwrap().revision;
            if second == SECONDS - 61 {
                a_minute_ago = revision;
            }
        }
        clock.advance(Duration::from_secs(1));
        tokio::task::yield_now().await;
        most = most.max(store.stats().await.unwrap().history_bytes);
    }
    let mut watch = store.watch(WatchRequest::prefix("object/").from(a_minute_ago.next())).await.unwrap();
    for expected in 1..=60 * WRITES_A_SECOND {
        let event = watch.next().await.unwrap();
        assert_eq!(event.revision().get(), a_minute_ago.get() + expected);
    }
    assert!(most > policy.max_bytes && most <= policy.burst_bytes, "{most} bytes at most");
    drop(watch);
    // After the load the history shrinks to its permanent limit, then to nothing.
    clock.advance(Duration::from_secs(83));
    history_within(&store, policy.max_bytes).await;
    clock.advance(Duration::from_secs(331));
    history_within(&store, 1 << 20).await;
    store.close().await.unwrap();
}

/// Size of the log segments, including spare ones.
fn log_bytes(files: &dyn Files) -> u64 {
    let names = files.list().unwrap().into_iter().filter(|name| name.starts_with("log-"));
    names.map(|name| files.size(&name).unwrap_or(0)).sum()
}

/// The defaults scaled down, so that the disk's limits are reached within a second: a 256th of each.
#[tokio::test]
async fn log_size_stays_within_its_bound() {
    const SLACK: u64 = 128 << 10 << 2;
    let clock = clock();
    let disk = FakeDisk::new();
    let store = open_disk_with(&disk, clock.clock(), 64 << 10, 256 << 10).await;
    for n in 0..6_000_u64 {
        // Few keys for a while, then many, then few again: current data grows and shrinks.
        let keys = if n / 1_500 % 2 == 0 { 20 } else { 1_500 };
        let len = 100 + (n * 7_919 % 1_500) as usize;
        store.put(Put::new(format!("k{}", n % keys), vec![n as u8; len])).await.unwrap();
        if n % 1_500 == 1_499 {
            store.commit(Txn::new().delete_prefix("k")).await.unwrap();
        }
        if n % 5 == 0 {
            clock.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
        let stats = store.stats().await.unwrap();
        let log = log_bytes(&disk);
        let bound = 2 * (stats.bytes + stats.history_bytes) + SLACK;
        assert!(log <= bound, "after {n} writes: {log} bytes of log, bound {bound}: {stats:?}");
    }
    store.close().await.unwrap();
}

/// Large compressible values are packed in memory; their log must be packed too.
#[tokio::test]
async fn large_compressible_updates_do_not_fill_the_disk_with_log() {
    const OBJECTS: u64 = 12;
    const ROUNDS: u64 = 60;
    let clock = clock();
    let dir = tempfile::tempdir().unwrap();
    let options = disk::Options { clock: clock.clock(), ..disk::Options::default() };
    let store = disk::open(dir.path(), options).await.unwrap();
    let mut written = 0;
    for round in 0..ROUNDS {
        let text = format!("round {round} of a schema that says the same again and again; ");
        for n in 0..OBJECTS {
            let value = text.repeat((256 << 10) / text.len());
            written += value.len() as u64;
            store.put(Put::new(format!("crd/{n}"), value)).await.unwrap();
        }
        clock.advance(Duration::from_secs(1));
        let stats = store.stats().await.unwrap();
        let bound = 2 * (stats.bytes + stats.history_bytes) + (128 << 20);
        assert!(stats.disk_bytes <= bound, "round {round}: bound {bound}: {stats:?}");
    }
    let stats = store.stats().await.unwrap();
    assert!(stats.disk_bytes < 32 << 20, "{written} bytes were written: {stats:?}");
    assert!(stats.history >= (ROUNDS - 1) * OBJECTS, "all of it is still in the history: {stats:?}");
    store.close().await.unwrap();
    let store = disk::open(dir.path(), disk::Options::default()).await.unwrap();
    assert!(store.get("crd/0").await.unwrap().entry.unwrap().value_bytes().starts_with(b"round 59 of"));
    store.close().await.unwrap();
}

#[tokio::test]
async fn compacted_deleted_keys_use_no_memory() {
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
    store.close().await.unwrap();
}

#[tokio::test]
async fn keys_expire_while_the_store_is_closed() {
    let clock = clock();
    let disk = FakeDisk::new();
    let store = open_disk(&disk, clock.clock()).await;
    store.put(Put::new("short", "").ttl(Duration::from_secs(60))).await.unwrap();
    let latest = store.put(Put::new("long", "").ttl(Duration::from_secs(3600))).await.unwrap().revision;
    store.close().await.unwrap();
    clock.advance(Duration::from_secs(120));
    let store = open_disk(&disk, clock.clock()).await;
    let mut watch = store.watch(WatchRequest::prefix("").from(latest.next())).await.unwrap();
    let deleted = tokio::time::timeout(WAIT_LIMIT, watch.next()).await.unwrap().unwrap();
    assert!(matches!(deleted, WatchEvent::Delete { ref key, .. } if key == "short"), "{deleted:?}");
    assert!(store.get("long").await.unwrap().entry.is_some());
    store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_watchers_receive_their_events() {
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
    store.close().await.unwrap();
}
