//! Measures the cost of a cluster without writes: bytes in the store, memory, and the time to its first response.
//! `cargo run --release -p coracle-registry --example idle-tenants [COUNT]`

#![expect(clippy::print_stdout, reason = "printing figures is what this program is for")]
#![expect(clippy::unwrap_used, reason = "it is run by hand, and a failure is shown as it is")]

use std::time::Duration;

use coracle_base::{Clock, Rng};
use coracle_registry::kinds::core::namespace::Namespace;
use coracle_registry::lifecycle::ListOptions;
use coracle_registry::{Endpoint, LimitsChange, Registry, ServerInfo};
use coracle_store::memory;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let count: usize = std::env::args().nth(1).map_or(1000, |text| text.parse().unwrap());
    let clock = Clock::system();
    let store = memory::open(memory::Options::default());
    let registry = Registry::new(store.clone(), clock.clone(), Rng::from_entropy());
    let server_info =
        ServerInfo { endpoint: Endpoint::new("192.0.2.1:6443".parse().unwrap()), ..ServerInfo::default() };
    let began = clock.now();
    registry.bootstrap(&server_info).await.unwrap();
    println!("objects of all clusters made in {:?}", clock.now().since(began));

    // Data that is created on first use and shared by all tenants.
    registry.create_cluster("first", LimitsChange::default()).await.unwrap();
    let first = registry.cluster("first").unwrap();
    first.get(&Namespace, "", "default", None).await.unwrap();
    let (bytes, memory) = (store.stats().await.unwrap().bytes, resident_bytes());
    let mut clusters = Vec::with_capacity(count);
    let mut slowest = Duration::ZERO;
    let began = clock.now();
    for n in 0..count {
        let started = clock.now();
        let id = format!("tenant-{n}");
        registry.create_cluster(&id, LimitsChange::default()).await.unwrap();
        let cluster = registry.cluster(&id).unwrap();
        cluster.get(&Namespace, "", "default", None).await.unwrap();
        slowest = slowest.max(clock.now().since(started));
        clusters.push(cluster);
    }
    let took = clock.now().since(began);
    for cluster in &clusters {
        assert_eq!(cluster.list(&Namespace, "", &ListOptions::default()).await.unwrap().entries.len(), 4);
    }
    let stored = store.stats().await.unwrap().bytes - bytes;
    let resident = resident_bytes().saturating_sub(memory);
    println!("{count} clusters, a handle to each held");
    println!("stored: {stored} bytes in all");
    println!("resident memory: {} bytes each", resident / count as u64);
    println!("first answer: {:?} on average, within {slowest:?} (clock of 1 ms)", took / count as u32);
}

/// Resident memory of this process in pages on Linux; 0 on other systems.
fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE_BYTES
}
