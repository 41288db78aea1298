//! Random operations compared with an ordered map with history: both must return the same results.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod random_ops;

use coracle_base::{Clock, Rng};
use coracle_store::disk::fake::FakeDisk;
use coracle_store::{CompactionPolicy, Store, disk, memory};

use random_ops::Run;

const SEEDS: u64 = 150;
const OPERATIONS: u64 = 120;

#[tokio::test]
async fn memory_behaves_like_a_map_with_history() {
    for seed in 0..SEEDS {
        let store = memory::open(memory::Options::default());
        let mut run = Run::new(store, seed);
        run.steps(OPERATIONS).await;
        run.finish().await;
    }
}

#[tokio::test]
async fn disk_behaves_like_a_map_with_history_also_when_reopened() {
    for seed in 0..SEEDS {
        let disk = FakeDisk::new();
        let mut run = Run::new(open(&disk, seed).await, seed);
        for _ in 0..4 {
            run.steps(OPERATIONS / 4).await;
            run.close().await;
            run.reopened(open(&disk, seed).await).await;
        }
        run.finish().await;
    }
}

async fn open(disk: &FakeDisk, seed: u64) -> Store {
    let options = disk::Options {
        clock: Clock::system(),
        compaction: CompactionPolicy::default(),
        segment_bytes: 8 << 10,
        snapshot_min_bytes: 4 << 10,
        rng: Rng::seeded(seed),
    };
    disk::open_on(disk.files(), options).await.unwrap_or_else(|error| panic!("seed {seed}: {error}"))
}
