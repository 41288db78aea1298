//! Delivery of one write to a thousand watchers.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use coracle_benches::measure::{Samples, block_on, micros, report, start};
use coracle_store::{Put, WatchEvent, WatchRequest, disk};
use tokio::sync::{Barrier, Mutex};

const WATCHERS: usize = 1000;
const WRITES: usize = 300;

pub(crate) fn run(dir: &Path) {
    block_on(fan_out(dir));
}

async fn fan_out(dir: &Path) {
    let store = disk::open(&dir.join("watch"), disk::Options::default()).await.expect("a store");
    // Start time of the current write, read by every watcher that receives it.
    let write_start: Arc<Mutex<Instant>> = Arc::new(Mutex::new(start()));
    let everyone = Arc::new(Barrier::new(WATCHERS + 1));
    let mut watchers = tokio::task::JoinSet::new();
    for _ in 0..WATCHERS {
        let mut watch = store.watch(WatchRequest::prefix("key/")).await.expect("a watch");
        let (write_start, everyone) = (write_start.clone(), everyone.clone());
        watchers.spawn(async move {
            let mut samples = Samples::default();
            let mut first_value = None;
            for _ in 0..WRITES {
                let event = watch.next().await.expect("an event");
                let received = start();
                samples.push(received.duration_since(*write_start.lock().await));
                let WatchEvent::Put { entry, .. } = event else { panic!("only puts") };
                first_value.get_or_insert_with(|| entry.value().as_ptr() as usize);
                everyone.wait().await;
            }
            (samples, first_value)
        });
    }
    for n in 0..WRITES {
        *write_start.lock().await = start();
        store.put(Put::new(format!("key/{n}"), vec![7; 1024])).await.expect("a put");
        everyone.wait().await;
    }
    let mut all = Samples::default();
    let mut addresses = Vec::new();
    while let Some(watcher) = watchers.join_next().await {
        let (samples, address) = watcher.expect("no watcher panics");
        all.extend(samples);
        addresses.extend(address);
    }
    addresses.dedup();
    let p99 = all.percentile(99.0);
    let figure = format!("p50 {}, p99 {}, from put to receipt", micros(all.percentile(50.0)), micros(p99));
    report("one write to 1 000 watchers", &figure, "p99 under 10 ms", p99.as_millis() < 10);
    let figure = format!("the value is at {} address(es) for all", addresses.len());
    report("  bytes copied per watcher", &figure, "none", addresses.len() == 1);
    store.close().await.expect("the store closes in order");
}
