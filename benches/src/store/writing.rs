//! Durable puts, compared with a bare append and fdatasync, and with etcd.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use coracle_benches::etcd::Etcd;
use coracle_benches::measure::{Samples, block_on, micros, per_second, ratio, report, start};
use coracle_store::{Put, Store, disk, etcd};

const VALUE_BYTES: usize = 1024;
/// Bytes that the log adds to key and value: frame header, record, padding.
const OVERHEAD_BYTES: usize = 64;
/// Baseline and store alternate, so that both see the same disturbances.
const ROUNDS: u64 = 8;
const WRITES_PER_ROUND: u64 = 250;
const WRITERS: u64 = 64;
const WRITES_PER_WRITER: u64 = 400;

pub(crate) fn run(dir: &Path) {
    let (mut bare, mut own, single_rate) = block_on(single(dir));
    let (bare_p50, own_p50) = (bare.percentile(50.0), own.percentile(50.0));
    let ratio = ratio(own_p50, bare_p50);
    let figure = format!("p50 {} = {ratio:.2} × bare {}", micros(own_p50), micros(bare_p50));
    report("put 1 KiB, one writer", &figure, "at most 1.5 ×", ratio <= 1.5);
    let p99 = format!("p99 {} (bare {})", micros(own.percentile(99.0)), micros(bare.percentile(99.0)));
    report("", &p99, "none", true);

    let own_rate = block_on(async {
        let store = disk::open(&dir.join("many"), disk::Options::default()).await.expect("a store");
        let rate = many(&store).await;
        store.close().await.expect("the store closes in order");
        rate
    });
    let aim = (8.0 * single_rate).min(30_000.0);
    let figure = format!("{own_rate:.0}/s = {:.1} × one writer's {single_rate:.0}/s", own_rate / single_rate);
    report("put 1 KiB, 64 writers", &figure, &format!("at least {aim:.0}/s"), own_rate >= aim);

    let Some(server) = Etcd::start(Path::new("etcd"), &dir.join("etcd")) else {
        return report("put 1 KiB, 64 writers, against etcd", "no etcd on this machine", "2 ×", false);
    };
    let etcd_rate = block_on(async {
        let options = etcd::Options::parse(&server.endpoint).expect("its address");
        let store = etcd::connect(options).await.expect("it answers");
        let rate = many(&store).await;
        store.close().await.expect("the store closes in order");
        rate
    });
    let figure = format!("{own_rate:.0}/s = {:.1} × etcd's {etcd_rate:.0}/s", own_rate / etcd_rate);
    report("put 1 KiB, 64 writers, against etcd", &figure, "at least 2 ×", own_rate >= 2.0 * etcd_rate);
}

async fn single(dir: &Path) -> (Samples, Samples, f64) {
    let store = disk::open(&dir.join("one"), disk::Options::default()).await.expect("a store");
    let mut file = File::create(dir.join("bare")).expect("a file");
    let bytes = vec![7; VALUE_BYTES + OVERHEAD_BYTES];
    let (mut bare, mut own) = (Samples::default(), Samples::default());
    let mut own_time = Duration::ZERO;
    for turn in 0..ROUNDS {
        for _ in 0..WRITES_PER_ROUND {
            let begin = start();
            file.write_all(&bytes).and_then(|()| file.sync_data()).expect("the disk works");
            bare.push(begin.elapsed());
        }
        let turn_begin = start();
        for n in 0..WRITES_PER_ROUND {
            let begin = start();
            store.put(Put::new(format!("key/{turn}/{n}"), vec![7; VALUE_BYTES])).await.expect("a put");
            own.push(begin.elapsed());
        }
        own_time += turn_begin.elapsed();
    }
    store.close().await.expect("the store closes in order");
    (bare, own, per_second(ROUNDS * WRITES_PER_ROUND, own_time))
}

async fn many(store: &Store) -> f64 {
    let begin = start();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        writers.spawn(async move {
            for n in 0..WRITES_PER_WRITER {
                store.put(Put::new(format!("key/{writer}/{n}"), vec![7; VALUE_BYTES])).await.expect("a put");
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.expect("no writer panics");
    }
    per_second(WRITERS * WRITES_PER_WRITER, begin.elapsed())
}
