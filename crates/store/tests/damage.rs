//! Flipped bits, truncated files and overwritten pages anywhere in a store: never a panic, never silently wrong data,
//! and a recovery that works.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeMap;

use coracle_base::{Clock, Rng};
use coracle_store::disk::fake::FakeDisk;
use coracle_store::disk::{self, Files, WayOut};
use coracle_store::{Error, Put, RangeRequest, Result, Revision, Store, Txn};

#[path = "damage/kinds.rs"]
mod kinds;

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

/// A store of several segments and a snapshot, and all of its past states.
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
    store.close().await.unwrap();
    (copy.unwrap_or(disk), states)
}

/// The state after a revision: each transaction of the sample created one, the first of which is revision 2.
fn state_at(states: &[State], revision: Revision) -> &State {
    &states[revision.get() as usize - 2]
}

fn names(disk: &FakeDisk) -> Vec<String> {
    let files: &dyn Files = disk;
    files.list().unwrap()
}

struct Harm {
    what: String,
    /// True if it may have erased several writes at the very end without a trace.
    wiped: bool,
}

/// Damages one file in one way.
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

/// Applies the recovery that an error names, and verifies its result. Returns false if only a backup helps.
async fn recover(harmed: &FakeDisk, error: Error, states: &[State], what: &str) -> bool {
    let Error::Damaged { way_out, .. } = &error else { return false };
    let WayOut::Truncate { at, keeps, .. } = &**way_out else { return false };
    let files: &dyn Files = harmed;
    let repaired =
        disk::repair_files(files, at).unwrap_or_else(|refused| panic!("{what}: {error}: {refused}"));
    assert_eq!(repaired.revision, *keeps, "{what}: {error}");
    let report = disk::check_files(files).unwrap_or_else(|error| panic!("{what}: after the repair: {error}"));
    assert_eq!(report.revision, *keeps, "{what}");
    let store = open(harmed).await.unwrap_or_else(|error| panic!("{what}: after the repair: {error}"));
    assert_eq!(state(&store).await, *state_at(states, *keeps), "{what}: {error}");
    let next = store.put(Put::new("later", "")).await.unwrap().revision;
    assert_eq!(next, keeps.next(), "{what}: the repaired store accepts writes");
    store.close().await.unwrap();
    let report = disk::check_files(files).unwrap_or_else(|error| panic!("{what}: written after it: {error}"));
    assert!(report.closed_cleanly && report.revision == next, "{what}");
    true
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
        let what = format!("round {round}: {what}");
        match open(&harmed).await {
            Ok(store) => {
                opened += 1;
                let found = state(&store).await;
                // After a clean close, even the loss of the last write must be detected. Otherwise it is
                // indistinguishable from an incomplete write. An erased end looks like one that was never written,
                // but must still be a state that the store had.
                let fine =
                    found == *after || !closed && (found == *before || wiped && states.contains(&found));
                assert!(fine, "{what}: wrong data");
                store.close().await.unwrap();
            }
            Err(error @ (Error::Damaged { .. } | Error::UnknownFormat { .. })) => {
                refused += 1;
                // Not every time, because a repair reads the whole store several times.
                if refused % 4 == 0 {
                    recover(&harmed, error, &states, &what).await;
                }
            }
            Err(other) => panic!("{what}: unexpected {other}"),
        }
    }
    assert!(opened > 100 && refused > 100, "both happen: {opened} opened, {refused} refused");
}

#[tokio::test]
async fn closed_store_is_complete_or_rejected() {
    survive_harm(true).await;
}

#[tokio::test]
async fn unclosed_store_lacks_at_most_its_last_write_or_is_rejected() {
    survive_harm(false).await;
}

#[tokio::test]
async fn every_kind_of_damage_has_a_working_recovery() {
    let (disk, states) = sample(true).await;
    let other = other_store().await;
    let cases = kinds::all(&disk, &other);
    assert!(cases.len() >= 47, "{} kinds of damage", cases.len());
    let (mut whole, mut repaired, mut copies) = (0, 0, 0);
    for case in &cases {
        let harmed = disk.copy();
        (case.harm)(&harmed);
        let Err(error) = disk::check_files(&harmed) else {
            let store = open(&harmed).await.unwrap();
            assert_eq!(
                state(&store).await,
                states[states.len() - 1],
                "{}: nothing may be missing",
                case.name
            );
            store.close().await.unwrap();
            whole += 1;
            continue;
        };
        let opened = open(&harmed).await.map(drop);
        assert_eq!(
            opened.unwrap_err().to_string(),
            error.to_string(),
            "{}: open says what check says",
            case.name
        );
        assert!(matches!(error, Error::Damaged { .. }), "{}: {error}", case.name);
        match recover(&harmed, error, &states, &case.name).await {
            true => repaired += 1,
            false => copies += 1,
        }
    }
    assert!(
        whole > 0 && repaired > 47 && copies > 5,
        "{whole} whole, {repaired} repaired, {copies} need a copy"
    );
}

async fn other_store() -> FakeDisk {
    let disk = FakeDisk::new();
    let options = disk::Options { segment_bytes: 8 << 10, rng: Rng::seeded(77), ..disk::Options::default() };
    let store = disk::open_on(disk.files(), options).await.unwrap();
    store.put(Put::new("other", "store")).await.unwrap();
    store.close().await.unwrap();
    disk
}

fn logs(disk: &FakeDisk) -> Vec<String> {
    names(disk).into_iter().filter(|name| name.starts_with("log-")).collect()
}

#[tokio::test]
async fn missing_last_segment_of_closed_store_is_detected() {
    let (disk, states) = sample(true).await;
    for remove in 1..=logs(&disk).len() {
        let harmed = disk.copy();
        let files: &dyn Files = &harmed;
        for name in logs(&disk).iter().rev().take(remove) {
            files.remove(name).unwrap();
        }
        let error = match open(&harmed).await {
            Ok(store) => {
                // The last file may be a spare segment that was never written to.
                assert!(remove == 1 && state(&store).await == states[states.len() - 1]);
                store.close().await.unwrap();
                continue;
            }
            Err(error) => error,
        };
        let text = error.to_string();
        assert!(text.contains("missing") && text.contains("keeps every write up to revision"), "{text}");
        assert!(recover(&harmed, error, &states, "a missing end").await, "{text}");
    }
}

/// After a crash the end is not recorded, but each full segment names the next.
#[tokio::test]
async fn missing_last_segment_of_crashed_store_is_detected() {
    let (disk, states) = sample(false).await;
    let used = |name: &String| disk.read(name)[4096..].iter().any(|byte| *byte != 0);
    let last = logs(&disk).into_iter().rfind(used).unwrap();
    let harmed = disk.copy();
    let files: &dyn Files = &harmed;
    for name in logs(&disk).into_iter().filter(|name| *name >= last) {
        files.remove(&name).unwrap();
    }
    let error = open(&harmed).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("names it as the next segment"), "{error}");
    assert!(recover(&harmed, error, &states, "a missing end").await);
}

/// A store that never filled its first segment: the record made at its creation shows that there was a log.
#[tokio::test]
async fn missing_log_is_not_a_new_store() {
    for close in [true, false] {
        let disk = FakeDisk::new();
        let store = open(&disk).await.unwrap();
        store.put(Put::new("a", "1")).await.unwrap();
        let copy = disk.copy();
        store.close().await.unwrap();
        let harmed = if close { disk } else { copy };
        let files: &dyn Files = &harmed;
        files.remove("log-0000000000000001").unwrap();
        let error = open(&harmed).await.map(drop).unwrap_err();
        assert!(error.to_string().contains("only an earlier copy"), "{error}");
    }
}

#[tokio::test]
async fn repair_at_a_position_that_leaves_no_store_is_rejected() {
    let (disk, states) = sample(true).await;
    let log = &logs(&disk)[1];
    let files: &dyn Files = &disk;
    for (file, offset) in [("log-00000000000000ff", 4096), (log.as_str(), 4104), ("END", 0), ("nonsense", 0)]
    {
        let at = disk::TruncateAt { file: file.to_owned(), offset };
        let refused = disk::repair_files(files, &at).unwrap_err();
        assert!(refused.to_string().starts_with(&format!("cannot cut at {file}:{offset}: ")), "{refused}");
    }
    assert!(disk::check_files(files).unwrap().closed_cleanly);
    let store = open(&disk).await.unwrap();
    assert_eq!(state(&store).await, states[states.len() - 1]);
    store.close().await.unwrap();
}
