//! Files of older programs must open: one directory of fixtures per version of the format, created by
//! `examples/format_fixture.rs` when that version was current.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::{Path, PathBuf};

use coracle_store::{At, Error, Put, RangeRequest, Revision, WatchEvent, WatchRequest, disk};

fn fixture(version: u32) -> tempfile::TempDir {
    let from = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/format-{version}"));
    let dir = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(&from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), dir.path().join(file.file_name())).unwrap();
    }
    dir
}

#[tokio::test]
async fn version_1_opens_with_its_history() {
    let dir = fixture(1);
    let report = disk::check(dir.path(), &mut |_| {}).unwrap();
    assert!(report.closed_cleanly && report.torn.is_none());
    assert_eq!((report.keys, report.oldest, report.revision), (14, Revision::new(41), Revision::new(48)));

    let store = disk::open_existing(dir.path(), disk::Options::default()).await.unwrap();
    let keys = store.range(RangeRequest::prefix("")).await.unwrap().entries;
    let keys: Vec<_> = keys.iter().map(|entry| String::from_utf8_lossy(entry.key()).into_owned()).collect();
    let many = (0..10).map(|n| format!("many/{n}"));
    let others = ["pair/left", "pair/right", "stamped"].map(String::from);
    assert_eq!(keys, std::iter::once("expiring".into()).chain(many).chain(others).collect::<Vec<_>>());
    assert_eq!(store.get("stamped").await.unwrap().entry.unwrap().value(), r#"{"at":"43"}"#);
    let nine = store.get("many/9").await.unwrap().entry.unwrap();
    assert!(nine.value_bytes().starts_with(b"39:x"));
    assert_eq!((nine.create_revision().get(), nine.version()), (11, 4));
    let past = store.get_at("gone", At::Revision(Revision::new(45))).await.unwrap();
    assert_eq!(past.entry.unwrap().value(), "soon");

    let mut watch = store.watch(WatchRequest::prefix("gone").from(report.oldest)).await.unwrap();
    assert!(matches!(watch.next().await, Ok(WatchEvent::Put { .. })));
    assert!(matches!(watch.next().await, Ok(WatchEvent::Delete { .. })));
    store.put(Put::new("new", "")).await.unwrap();
    store.close().await.unwrap();

    // Further writes go to new files in the current format.
    let report = disk::check(dir.path(), &mut |_| {}).unwrap();
    assert!(report.closed_cleanly && report.revision == Revision::new(49), "{report:?}");
    let newest = report.files.iter().rfind(|file| file.last == Some(report.revision)).unwrap();
    let header = std::fs::read(dir.path().join(&newest.name)).unwrap();
    assert_eq!(header[8], 2, "the version of {}", newest.name);
    std::fs::remove_file(dir.path().join(&newest.name)).unwrap();
    assert!(matches!(disk::check(dir.path(), &mut |_| {}), Err(Error::Damaged { .. })));
}

#[tokio::test]
async fn version_2_opens_with_packed_values_and_its_recorded_end() {
    let dir = fixture(2);
    let report = disk::check(dir.path(), &mut |_| {}).unwrap();
    assert!(report.closed_cleanly && report.torn.is_none());
    assert_eq!((report.keys, report.oldest, report.revision), (15, Revision::new(41), Revision::new(49)));
    let store = disk::open_existing(dir.path(), disk::Options::default()).await.unwrap();
    let long = store.get("long").await.unwrap().entry.unwrap();
    assert_eq!(long.value(), "as schemas have it ".repeat(4_000));
    assert_eq!(store.get("stamped").await.unwrap().entry.unwrap().value(), r#"{"at":"43"}"#);
    store.put(Put::new("new", "")).await.unwrap();
    store.close().await.unwrap();
    assert!(dir.path().join("END").exists());
}

#[tokio::test]
async fn newer_version_is_rejected_and_not_modified() {
    let dir = fixture(1);
    let newest = std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().path());
    let log = newest.filter(|path| name(path).starts_with("log-")).max().unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[8] = 9;
    // A later version may compute the checksum differently; one that fits version 1 would be reported as damage.
    bytes[44] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let refused = disk::open_existing(dir.path(), disk::Options::default()).await.map(drop);
    assert!(matches!(refused, Err(Error::UnknownFormat { found: 9, supported: 2, .. })), "{refused:?}");
    assert_eq!(std::fs::read(&log).unwrap(), bytes);
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}
