//! Stops the machine at every single write and sync, with any subset of unsynced data surviving. Afterwards every
//! acknowledged write must be stored, and no transaction in part.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::{Clock, ManualClock, Rng, Timestamp};
use coracle_store::disk::fake::FakeDisk;
use coracle_store::{Delete, Error, Put, RangeRequest, Result, Revision, Store, Txn, disk};

/// Transactions in a run; enough for several segments and snapshots.
const TRANSACTIONS: u64 = 48;

/// Crashes tested per stop position, each preserving different pages.
const CRASHES: u64 = 3;

async fn open(disk: &FakeDisk, seed: u64) -> Result<Store> {
    let options = disk::Options {
        clock: Clock::system(),
        segment_bytes: 12 << 10,
        snapshot_min_bytes: 8 << 10,
        rng: Rng::seeded(seed),
        ..disk::Options::default()
    };
    disk::open_on(disk.files(), options).await
}

/// Acknowledgements that the writers received.
#[derive(Default)]
struct Acknowledged {
    /// Number of a transaction and its revision, for pairs that must exist.
    written: BTreeMap<u64, Revision>,
    /// Pairs whose deletion was acknowledged.
    deleted: BTreeMap<u64, Revision>,
    /// Pairs whose deletion was started: they may exist or not.
    maybe_deleted: Vec<u64>,
}

/// Each transaction writes a pair of keys, alone or with others in the same batch; sometimes a pair is deleted or
/// history is compacted. Ends at the first failure.
async fn workload(store: &Store, acknowledged: &mut Acknowledged) -> Result<()> {
    let mut number = 0;
    while number < TRANSACTIONS {
        let together: Vec<u64> = (number..TRANSACTIONS).take(1 + (number % 4) as usize).collect();
        number += together.len() as u64;
        let mut outcomes = tokio::task::JoinSet::new();
        for n in together {
            let store = store.clone();
            outcomes.spawn(async move { (n, store.commit(pair(n)).await) });
        }
        let mut failed = None;
        while let Some(outcome) = outcomes.join_next().await {
            match outcome.expect("no writer panics") {
                (n, Ok(committed)) => drop(acknowledged.written.insert(n, committed.revision)),
                (_, Err(error)) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if number.is_multiple_of(5) {
            delete(store, number / 5, acknowledged).await?;
        }
        if number.is_multiple_of(3) {
            let latest = store.get("none").await?.revision;
            store.compact(Revision::new(latest.get() - 2)).await?;
        }
    }
    Ok(())
}

fn pair(n: u64) -> Txn {
    let value = format!("{n}-{}", "x".repeat((n * 37 % 900) as usize));
    Txn::new().put(Put::new(format!("left/{n}"), value.clone())).put(Put::new(format!("right/{n}"), value))
}

async fn delete(store: &Store, n: u64, acknowledged: &mut Acknowledged) -> Result<()> {
    acknowledged.maybe_deleted.push(n);
    let txn = Txn::new().delete(Delete::new(format!("left/{n}"))).delete(Delete::new(format!("right/{n}")));
    let committed = store.commit(txn).await?;
    acknowledged.deleted.insert(n, committed.revision);
    Ok(())
}

/// Asserts that the store matches the acknowledgements.
async fn verify(store: &Store, acknowledged: &Acknowledged, context: &str) {
    let side = async |side: &str| {
        let range = store.range(RangeRequest::prefix(side)).await.unwrap();
        let entries = range.entries.iter().map(|entry| {
            let number: u64 = String::from_utf8_lossy(&entry.key()[side.len()..]).parse().unwrap();
            (number, (entry.value(), entry.mod_revision()))
        });
        entries.collect::<BTreeMap<_, _>>()
    };
    let (left, right) = (side("left/").await, side("right/").await);
    assert_eq!(left, right, "{context}: a transaction in part");
    for (n, revision) in &acknowledged.written {
        match left.get(n) {
            Some((_, found)) => assert_eq!(found, revision, "{context}: pair {n}"),
            None => {
                assert!(
                    acknowledged.maybe_deleted.contains(n),
                    "{context}: pair {n} at {revision} was acknowledged"
                )
            }
        }
    }
    for n in acknowledged.deleted.keys() {
        assert!(!left.contains_key(n), "{context}: the deletion of pair {n} was acknowledged");
    }
    let last = acknowledged.written.values().chain(acknowledged.deleted.values()).max();
    let revision = store.stats().await.unwrap().revision;
    assert!(
        last.is_none_or(|last| *last <= revision),
        "{context}: {revision} is before what was acknowledged"
    );
}

/// Stops a run after `operations` disk operations; returns true as the last value if the run was interrupted.
async fn run_until(operations: u64) -> (FakeDisk, Acknowledged, bool) {
    let disk = FakeDisk::new();
    disk.stop_after(operations);
    let mut acknowledged = Acknowledged::default();
    let Ok(store) = open(&disk, 1).await else { return (disk, acknowledged, true) };
    let outcome = workload(&store, &mut acknowledged).await;
    if let Err(error) = &outcome {
        let expected = matches!(error, Error::Poisoned { .. } | Error::Io { .. } | Error::Closed);
        assert!(expected, "after {operations} operations: {error}");
    }
    let closed = store.close().await;
    (disk, acknowledged, outcome.is_err() || closed.is_err())
}

#[tokio::test]
async fn every_acknowledged_write_survives_a_stop_at_any_operation() {
    let mut operations = 0;
    loop {
        let (disk, acknowledged, cut_short) = run_until(operations).await;
        for crash in 0..CRASHES {
            let context = format!("stopped after {operations} operations, crash {crash}");
            let mut rng = Rng::seeded(operations * CRASHES + crash);
            let after = disk.crash(&mut rng);
            let store = open(&after, 2).await.unwrap_or_else(|error| panic!("{context}: {error}"));
            verify(&store, &acknowledged, &context).await;
            // The store remains usable, and keeps its data.
            store.put(Put::new("later", "")).await.unwrap();
            store.close().await.unwrap();
            let store = open(&after, 3).await.unwrap_or_else(|error| panic!("{context}, again: {error}"));
            verify(&store, &acknowledged, &context).await;
            assert!(store.get("later").await.unwrap().entry.is_some());
            store.close().await.unwrap();
        }
        if !cut_short {
            assert!(operations > 100, "the run is long enough: {operations} operations");
            return;
        }
        operations += 1;
    }
}

/// Recovery writes too, and may be interrupted in turn.
#[tokio::test]
async fn stop_during_recovery_loses_nothing() {
    for operations in (5..150).step_by(7) {
        let (disk, acknowledged, _) = run_until(operations).await;
        let mut rng = Rng::seeded(operations);
        let mut after = disk.crash(&mut rng);
        for stop in 0..6 {
            after.stop_after(stop);
            if let Ok(store) = open(&after, 2).await {
                // The stopped disk makes this fail, as expected.
                let _ = store.close().await;
            }
            after = after.crash(&mut rng);
        }
        let context = format!("stopped after {operations} operations, then during recovery");
        let store = open(&after, 3).await.unwrap_or_else(|error| panic!("{context}: {error}"));
        verify(&store, &acknowledged, &context).await;
        store.close().await.unwrap();
    }
}

#[tokio::test]
async fn full_disk_rejects_writes_until_there_is_space() {
    let disk = FakeDisk::new();
    let store = open(&disk, 1).await.unwrap();
    disk.set_capacity(Some(64 << 10));
    let mut written = 0;
    let refused = loop {
        match store.put(Put::new(format!("k{written}"), vec![0; 2000])).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 100, "the disk is full long before");
    };
    assert!(matches!(refused, Error::DiskFull { .. }), "{refused}");
    assert!(matches!(store.writable(), Err(Error::DiskFull { .. })), "not ready while writes are refused");
    let revision = store.get("k0").await.unwrap().revision;
    assert!(store.get("k0").await.unwrap().entry.is_some(), "reads work");
    assert!(
        store.get(format!("k{written}")).await.unwrap().entry.is_none(),
        "a rejected write is not visible"
    );
    assert!(matches!(store.put(Put::new("x", vec![0; 2000])).await, Err(Error::DiskFull { .. })));
    disk.set_capacity(None);
    let again = store.put(Put::new("x", vec![0; 2000])).await.unwrap();
    assert_eq!(again.revision, revision.next(), "rejected writes created no revision");
    assert!(store.writable().is_ok());
    store.close().await.unwrap();
    let store = open(&disk, 2).await.unwrap();
    assert!(store.get("x").await.unwrap().entry.is_some());
    assert_eq!(store.stats().await.unwrap().keys, written + 1);
    store.close().await.unwrap();
}

#[tokio::test]
async fn failed_sync_rejects_writes_until_reopened() {
    let disk = FakeDisk::new();
    let store = open(&disk, 1).await.unwrap();
    store.put(Put::new("a", "1")).await.unwrap();
    disk.fail_syncs(true);
    assert!(matches!(store.put(Put::new("a", "2")).await, Err(Error::Poisoned { .. })));
    disk.fail_syncs(false);
    assert!(matches!(store.put(Put::new("a", "3")).await, Err(Error::Poisoned { .. })));
    assert_eq!(store.get("a").await.unwrap().entry.unwrap().value(), "1", "reads return durable data");
    let cause = |error: Error| match error {
        Error::Poisoned { reason } => reason.to_string(),
        other => panic!("unexpected {other}"),
    };
    let refused = cause(store.writable().unwrap_err());
    assert!(
        refused.contains("cannot sync fake/log-") && refused.contains("the disk has failed"),
        "{refused}"
    );
    assert_eq!(cause(store.close().await.unwrap_err()), refused, "the process can exit with the cause");
    assert_eq!(cause(store.close().await.unwrap_err()), refused);
    assert!(matches!(store.writable(), Err(Error::Closed)));
    let store = open(&disk, 2).await.unwrap();
    store.put(Put::new("a", "4")).await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn full_disk_is_retested_without_a_write() {
    let clock = ManualClock::starting_at(Timestamp::from_millis(1_700_000_000_000));
    let disk = FakeDisk::new();
    let options = disk::Options { clock: clock.clock(), segment_bytes: 12 << 10, ..disk::Options::default() };
    let store = disk::open_on(disk.files(), options).await.unwrap();
    disk.set_capacity(Some(24 << 10));
    while store.put(Put::new("k", vec![0; 2000])).await.is_ok() {}
    clock.advance(Duration::from_secs(6));
    tokio::task::yield_now().await;
    assert!(matches!(store.writable(), Err(Error::DiskFull { .. })), "the disk is still full");
    disk.set_capacity(None);
    let writable = async {
        while store.writable().is_err() {
            clock.advance(Duration::from_secs(6));
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), writable).await.expect("the keeper finds the space");
    store.close().await.unwrap();
}

#[tokio::test]
async fn snapshots_free_the_log() {
    let disk = FakeDisk::new();
    let store = open(&disk, 1).await.unwrap();
    let mut largest = 0;
    for n in 0..400_u32 {
        let revision =
            store.put(Put::new(format!("k{}", n % 5), vec![n as u8; 1000])).await.unwrap().revision;
        store.compact(revision).await.unwrap();
        largest = largest.max(store.stats().await.unwrap().disk_bytes);
    }
    assert!(largest < 120 << 10, "400 KB were written, {largest} bytes was the maximum on disk");
    store.close().await.unwrap();
    let store = open(&disk, 2).await.unwrap();
    assert_eq!(store.get("k4").await.unwrap().entry.unwrap().value_bytes()[0], 399_u32 as u8);
    store.close().await.unwrap();
}

#[tokio::test]
async fn stores_are_independent() {
    let disks: Vec<_> = (0..8).map(|_| Arc::new(FakeDisk::new())).collect();
    for (n, disk) in disks.iter().enumerate() {
        let store = open(disk, n as u64).await.unwrap();
        store.put(Put::new("n", n.to_string())).await.unwrap();
        store.close().await.unwrap();
    }
    for (n, disk) in disks.iter().enumerate() {
        let store = open(disk, 99).await.unwrap();
        assert_eq!(store.get("n").await.unwrap().entry.unwrap().value(), n.to_string());
        store.close().await.unwrap();
    }
}
