//! Flipped bits, cut files and overwritten pages anywhere in a store: never a panic, never
//! silently wrong data.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeMap;

use coracle_base::{Clock, Rng};
use coracle_store::disk::fake::FakeDisk;
use coracle_store::disk::{self, Files};
use coracle_store::{Error, Put, RangeRequest, Result, Revision, Store, Txn};

const ROUNDS: u64 = 2_000;

type State = BTreeMap<Vec<u8>, (Vec<u8>, Revision)>;

async fn open(disk: &FakeDisk) -> Result<Store> {
    let options = disk::Options {
        clock: Clock::system(),
        segment_bytes: 8 << 10,
        snapshot_min_bytes: 8 << 10,
        rng: Rng::seeded(5),
        ..disk::Options::default()
    };
    disk::open_on(disk.files(), options).await
}

async fn state(store: &Store) -> State {
    let entries = store.range(RangeRequest::prefix("")).await.unwrap().entries;
    entries.iter().map(|e| (e.key().to_vec(), (e.value_bytes().to_vec(), e.mod_revision()))).collect()
}

/// A store of several segments and a snapshot, and all states it went through.
async fn sample(close: bool) -> (FakeDisk, Vec<State>) {
    let disk = FakeDisk::new();
    let store = open(&disk).await.unwrap();
    let mut states = Vec::new();
    for n in 0..60_u32 {
        let value = vec![n as u8; 50 + (n as usize * 31) % 700];
        let txn = Txn::new()
            .put(Put::new(format!("k{}", n % 17), value.clone()))
            .put(Put::new(format!("x{n}"), value));
        let revision = store.commit(txn).await.unwrap().revision;
        states.push(state(&store).await);
        if n == 30 {
            store.compact(revision).await.unwrap();
        }
    }
    let copy = if close { None } else { Some(disk.copy()) };
    store.close().await;
    (copy.unwrap_or(disk), states)
}

fn names(disk: &FakeDisk) -> Vec<String> {
    let files: &dyn Files = disk;
    files.list().unwrap()
}

struct Harm {
    what: String,
    /// Whether it may have wiped out several writes at the very end, without a trace.
    wiped: bool,
}

/// Does one harmful thing to one file.
fn harm(disk: &FakeDisk, rng: &mut Rng) -> Harm {
    let names = names(disk);
    let name = &names[rng.below(names.len() as u64) as usize];
    let mut bytes = disk.read(name);
    let at = rng.below(bytes.len() as u64) as usize;
    let kind = rng.below(4);
    let what = match kind {
        0 => {
            bytes[at] ^= 1 << rng.below(8);
            format!("flipped a bit of byte {at} of {name}")
        }
        1 => {
            bytes.truncate(at);
            format!("cut {name} at {at}")
        }
        2 => {
            let end = (at + 1 + rng.below(5000) as usize).min(bytes.len());
            bytes[at..end].fill(0);
            format!("blanked {at}..{end} of {name}")
        }
        _ => {
            let end = (at + 1 + rng.below(600) as usize).min(bytes.len());
            bytes[at..end].iter_mut().for_each(|byte| *byte = rng.u64() as u8);
            format!("overwrote {at}..{end} of {name}")
        }
    };
    disk.overwrite(name, bytes);
    Harm { what, wiped: kind > 1 }
}

async fn survive_harm(closed: bool) {
    let (disk, states) = sample(closed).await;
    let (after, before) = (&states[states.len() - 1], &states[states.len() - 2]);
    assert!(names(&disk).iter().any(|name| name.starts_with("snapshot-")), "the sample has a snapshot");
    assert!(names(&disk).iter().filter(|name| name.starts_with("log-")).count() > 2, "and several segments");
    let (mut opened, mut refused) = (0, 0);
    for round in 0..ROUNDS {
        let mut rng = Rng::seeded(round);
        let harmed = disk.copy();
        let Harm { what, wiped } = harm(&harmed, &mut rng);
        match open(&harmed).await {
            Ok(store) => {
                opened += 1;
                let found = state(&store).await;
                // Closed in good order, not even the last write may go unnoticed. Otherwise
                // it cannot be told from one that was cut short. A wiped end looks like one
                // that was never written; still it must be a state the store was in.
                let fine = found == *after || !closed && found == *before || wiped && states.contains(&found);
                assert!(fine, "round {round}: {what}: wrong data");
                store.close().await;
            }
            Err(Error::Damaged { .. } | Error::UnknownFormat { .. }) => refused += 1,
            Err(other) => panic!("round {round}: {what}: unexpected {other}"),
        }
    }
    assert!(opened > 100 && refused > 100, "both happen: {opened} opened, {refused} refused");
}

#[tokio::test]
async fn a_closed_store_is_whole_or_refused() {
    survive_harm(true).await;
}

#[tokio::test]
async fn an_unclosed_store_is_whole_but_for_its_last_write_or_refused() {
    survive_harm(false).await;
}

#[tokio::test]
async fn files_that_are_missing_or_foreign_are_noticed() {
    let (disk, states) = sample(true).await;
    let mut logs: Vec<_> = names(&disk).into_iter().filter(|name| name.starts_with("log-")).collect();
    logs.sort();
    for name in &logs[..logs.len() - 1] {
        let harmed = disk.copy();
        let files: &dyn Files = &harmed;
        files.remove(name).unwrap();
        assert!(matches!(open(&harmed).await, Err(Error::Damaged { .. })), "{name} is missing");
    }
    let store = open(&disk.copy()).await.unwrap();
    assert_eq!(state(&store).await, states[states.len() - 1], "none of that was done to the original");
    store.close().await;
    let other = FakeDisk::new();
    let store = disk::open_on(other.files(), disk::Options::default()).await.unwrap();
    store.close().await;
    let harmed = disk.copy();
    harmed.overwrite(&logs[0], other.read("log-0000000000000001"));
    assert!(matches!(open(&harmed).await, Err(Error::Damaged { .. })), "a file of another store");
}
