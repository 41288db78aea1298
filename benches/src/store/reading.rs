//! Reads from memory: single keys and long ranges; and the cost of a scope.

use std::path::Path;

use coracle_base::Rng;
use coracle_benches::measure::{block_on, per_second, report, resident_bytes, start};
use coracle_store::{At, Put, RangeRequest, Store, Txn, disk, memory};

const KEYS: u64 = 100_000;
const GETS: u64 = 1_000_000;
const RANGE_KEYS: u64 = 10_000;
const RANGE_VALUE_BYTES: usize = 2048;
const RANGES: u64 = 50;
/// Ten times the target number: fewer would not be visible in the resident size.
const SCOPES: usize = 100_000;

pub(crate) fn run(dir: &Path) {
    // One thread, so that the figure is per core.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let store = disk::open(&dir.join("read"), disk::Options::default()).await.expect("a store");
        fill(&store, "get/", KEYS, 64).await;
        fill(&store, "range/", RANGE_KEYS, RANGE_VALUE_BYTES).await;
        get(&store).await;
        range(&store).await;
        store.close().await.expect("the store closes in order");
    });
}

async fn fill(store: &Store, prefix: &str, keys: u64, value_bytes: usize) {
    for chunk in (0..keys).collect::<Vec<_>>().chunks(100) {
        let txn =
            chunk.iter().fold(Txn::new(), |txn, n| txn.put(Put::new(key(prefix, *n), vec![7; value_bytes])));
        store.commit(txn).await.expect("a commit");
    }
}

/// About as long as the key of a Kubernetes object.
fn key(prefix: &str, n: u64) -> String {
    format!("{prefix}core/pods/namespace-{:03}/deployment-6d4cf56db6-{n:08}", n % 100)
}

async fn get(store: &Store) {
    let mut rng = Rng::seeded(1);
    let keys: Vec<String> = (0..GETS).map(|_| key("get/", rng.below(KEYS))).collect();
    let begin = start();
    for key in &keys {
        let found = store.get(key).await.expect("a get").entry;
        assert!(found.is_some_and(|entry| entry.value().len() == 64));
    }
    let rate = per_second(GETS, begin.elapsed());
    report(
        "get, one of 100 000 keys, one core",
        &format!("{:.0} K/s", rate / 1e3),
        "at least 500 K/s",
        rate >= 5e5,
    );
}

async fn range(store: &Store) {
    let bytes = RANGES * RANGE_KEYS * RANGE_VALUE_BYTES as u64;
    let mut body: Vec<u8> = Vec::new();
    let begin = start();
    for _ in 0..RANGES {
        let range = store.range(RangeRequest::prefix("range/")).await.expect("a range");
        assert_eq!(range.entries.len() as u64, RANGE_KEYS);
        // Copies every byte once, as a LIST response does.
        body.clear();
        range.entries.iter().for_each(|entry| body.extend_from_slice(&entry.value_bytes()));
    }
    let rate = per_second(bytes, begin.elapsed()) / 1e9;
    report("range of 10 000 × 2 KiB, copied out", &format!("{rate:.1} GB/s"), "at least 1 GB/s", rate >= 1.0);
    let begin = start();
    for _ in 0..RANGES {
        store.range(RangeRequest::prefix("range/")).await.expect("a range");
    }
    let shared = per_second(bytes, begin.elapsed()) / 1e9;
    report(
        "range of 10 000 × 2 KiB, bytes shared",
        &format!("{shared:.1} GB/s"),
        "at least 1 GB/s",
        shared >= 1.0,
    );
}

pub(crate) fn scopes(_dir: &Path) {
    block_on(async {
        let store = memory::open(memory::Options::default());
        let before = resident_bytes();
        let scopes: Vec<Store> =
            (0..SCOPES).map(|n| store.scope(&format!("tenant-{n}")).expect("a scope")).collect();
        for scope in &scopes {
            assert_eq!(scope.count("", At::Latest).await.expect("a count").count, 0);
        }
        let each = resident_bytes().saturating_sub(before) as f64 / SCOPES as f64;
        report(
            "100 000 empty scopes",
            &format!("{each:.0} bytes each, 0 in the store"),
            "next to nothing",
            each < 256.0,
        );
        store.close().await.expect("the store closes in order");
    });
}
