//! Effect of snapshots and compaction on writers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coracle_benches::measure::{Samples, block_on, micros, ratio, report, start};
use coracle_store::{Put, Store, Txn, disk};

const LIVE_KEYS: u64 = 50_000;
const VALUE_BYTES: usize = 2048;
const WRITERS: u64 = 4;
const QUIET: Duration = Duration::from_secs(10);
const ROUNDS: usize = 4;

pub(crate) fn run(dir: &Path) {
    block_on(measure(dir));
}

async fn measure(dir: &Path) {
    // Takes a snapshot as soon as it frees as much space as it needs.
    let options = disk::Options { snapshot_min_bytes: 1 << 20, ..disk::Options::default() };
    let store = disk::open(&dir.join("upkeep"), options).await.expect("a store");
    overwrite_all(&store).await;
    let mut quiet = with_writers(&store, async {
        tokio::time::sleep(QUIET).await;
    })
    .await;
    let mut busy = Samples::default();
    let mut spent = Duration::ZERO;
    for _ in 0..ROUNDS {
        overwrite_all(&store).await;
        let latest = store.get("x").await.expect("a get").revision;
        let begin = start();
        let during = with_writers(&store, async {
            store.compact(latest).await.expect("a compaction");
        })
        .await;
        spent += begin.elapsed();
        busy.extend(during);
    }
    let (quiet_p99, busy_p99) = (quiet.percentile(99.0), busy.percentile(99.0));
    let ratio = ratio(busy_p99, quiet_p99);
    let figure = format!("p99 {} = {ratio:.2} × quiet {}", micros(busy_p99), micros(quiet_p99));
    report("put during snapshot and compaction", &figure, "at most 3 ×", ratio <= 3.0);
    println!(
        "  ({ROUNDS} snapshots of {} MiB, {} ms each; quiet p50 {}, then {})",
        (LIVE_KEYS * VALUE_BYTES as u64) >> 20,
        spent.as_millis() / ROUNDS as u128,
        micros(quiet.percentile(50.0)),
        micros(busy.percentile(50.0)),
    );
    store.close().await.expect("the store closes in order");
}

/// Writes everything twice, so that the log holds as much garbage as live data.
async fn overwrite_all(store: &Store) {
    for _ in 0..2 {
        for chunk in (0..LIVE_KEYS).collect::<Vec<_>>().chunks(64) {
            let txn = chunk
                .iter()
                .fold(Txn::new(), |txn, n| txn.put(Put::new(format!("live/{n}"), vec![7; VALUE_BYTES])));
            store.commit(txn).await.expect("a commit");
        }
    }
}

/// Latencies of writers while `meanwhile` runs.
async fn with_writers(store: &Store, meanwhile: impl Future<Output = ()>) -> Samples {
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (store, stop) = (store.clone(), stop.clone());
        writers.spawn(async move {
            let mut samples = Samples::default();
            while !stop.load(Ordering::Relaxed) {
                let begin = start();
                store.put(Put::new(format!("hot/{writer}"), vec![7; 1024])).await.expect("a put");
                samples.push(begin.elapsed());
            }
            samples
        });
    }
    meanwhile.await;
    stop.store(true, Ordering::Relaxed);
    let mut all = Samples::default();
    while let Some(samples) = writers.join_next().await {
        all.extend(samples.expect("no writer panics"));
    }
    all
}
