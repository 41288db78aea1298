//! Compaction: discarded and kept revisions, and the errors of readers.

use super::{Fixture, key, take, text};
use crate::{At, Delete, Error, Put, RangeRequest, Revision, WatchRequest};

pub async fn compacted_revisions_are_rejected_with_the_oldest_kept(fixture: &Fixture) {
    let store = &fixture.store;
    let first = store.put(Put::new("a", "1")).await.unwrap().revision;
    let second = store.put(Put::new("a", "2")).await.unwrap().revision;
    store.put(Put::new("a", "3")).await.unwrap();
    store.compact(second).await.unwrap();
    for error in [
        store.get_at("a", At::Revision(first)).await.map(drop).unwrap_err(),
        store.range(RangeRequest::prefix("").at(first)).await.map(drop).unwrap_err(),
        store.count("", At::Revision(first)).await.map(drop).unwrap_err(),
    ] {
        assert!(
            matches!(error, Error::Compacted { requested, oldest } if requested == first && oldest == second),
            "{error}"
        );
    }
    let kept = store.get_at("a", At::Revision(second)).await.unwrap().entry.unwrap();
    assert_eq!(text(&kept), "2");
}

pub async fn compaction_keeps_current_entries(fixture: &Fixture) {
    let store = &fixture.store;
    for n in 0..5 {
        store.put(Put::new("a", n.to_string())).await.unwrap();
        store.put(Put::new("gone", n.to_string())).await.unwrap();
        store.delete(Delete::new("gone")).await.unwrap();
    }
    let now = store.put(Put::new("b", "")).await.unwrap().revision;
    store.compact(now).await.unwrap();
    let range = store.range(RangeRequest::prefix("")).await.unwrap();
    assert_eq!(range.entries.iter().map(key).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!((text(&range.entries[0]), range.entries[0].version()), ("4".into(), 5));
    assert_eq!(range.revision, now, "compaction creates no revision");
    let again = store.put(Put::new("gone", "back")).await.unwrap().revision;
    let entry = store.get("gone").await.unwrap().entry.unwrap();
    assert_eq!((entry.create_revision(), entry.version()), (again, 1));
}

pub async fn compaction_to_an_earlier_revision_has_no_effect(fixture: &Fixture) {
    let store = &fixture.store;
    let first = store.put(Put::new("a", "1")).await.unwrap().revision;
    let second = store.put(Put::new("a", "2")).await.unwrap().revision;
    store.compact(second).await.unwrap();
    store.compact(first).await.unwrap();
    store.compact(second).await.unwrap();
    assert!(store.get_at("a", At::Revision(first)).await.is_err());
    assert!(store.get_at("a", At::Revision(second)).await.is_ok());
}

pub async fn compaction_to_a_future_revision_is_rejected(fixture: &Fixture) {
    let store = &fixture.store;
    let now = store.put(Put::new("a", "1")).await.unwrap().revision;
    let ahead = Revision::new(now.get() + 5);
    let refused = store.compact(ahead).await;
    assert!(matches!(refused, Err(Error::FutureRevision { requested, .. }) if requested == ahead));
}

pub async fn watch_from_the_oldest_revision_works(fixture: &Fixture) {
    let store = &fixture.store;
    store.put(Put::new("a", "1")).await.unwrap();
    let oldest = store.put(Put::new("a", "2")).await.unwrap().revision;
    let latest = store.put(Put::new("a", "3")).await.unwrap().revision;
    store.compact(oldest).await.unwrap();
    let mut watch = store.watch(WatchRequest::prefix("a").from(oldest)).await.unwrap();
    let events = take(&mut watch, 2).await;
    // The event at the oldest revision may be missing, as in etcd.
    assert!(events[0].starts_with(&format!("+a=2@{oldest}")), "{events:?}");
    assert_eq!(events[1], format!("+a=3@{latest}<2"));
}

pub async fn deletion_at_the_oldest_revision_is_delivered(fixture: &Fixture) {
    let store = &fixture.store;
    store.put(Put::new("a", "1")).await.unwrap();
    let oldest = store.delete(Delete::new("a")).await.unwrap().revision;
    store.put(Put::new("b", "1")).await.unwrap();
    store.compact(oldest).await.unwrap();
    let mut watch = store.watch(WatchRequest::prefix("a").from(oldest)).await.unwrap();
    assert_eq!(take(&mut watch, 1).await, [format!("-a@{oldest}<1")]);
}
