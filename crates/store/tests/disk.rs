//! The engine contract on the disk engine, with real files.

use coracle_base::{ManualClock, Timestamp};
use coracle_store::contract::{Fixture, PassTime};
use coracle_store::disk;

async fn fixture() -> Fixture {
    let clock = ManualClock::starting_at(Timestamp::from_millis(1_000_000));
    let dir = tempfile::tempdir().expect("a temporary directory");
    // Small enough that the suite crosses segments and writes snapshots.
    let options = disk::Options {
        clock: clock.clock(),
        segment_bytes: 16 << 10,
        snapshot_min_bytes: 16 << 10,
        ..disk::Options::default()
    };
    let store = disk::open(dir.path(), options).await.expect("an empty directory opens");
    Fixture::new(store, PassTime::Manual(clock), Box::new(dir))
}

coracle_store::contract_suite!(fixture);
coracle_store::contract_suite_exact!(fixture);
