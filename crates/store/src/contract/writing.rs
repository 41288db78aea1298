//! Writes: conditions, transactions, revisions.

use super::{Fixture, key, text};
use crate::{
    Delete, Error, Expect, MAX_KEY_BYTES, MAX_TXN_OPS, MAX_VALUE_BYTES, Put, RangeRequest, Revision, Store,
    Txn, Update,
};

async fn value(store: &Store, key: &str) -> Option<String> {
    store.get(key).await.expect("reads work").entry.map(|entry| text(&entry))
}

pub async fn every_write_creates_one_revision(fixture: &Fixture) {
    let store = &fixture.store;
    let start = store.get("a").await.unwrap().revision;
    assert!(start >= Revision::INITIAL);
    for n in 1..=5 {
        let committed = store.put(Put::new("a", n.to_string())).await.unwrap();
        assert_eq!(committed.revision.get(), start.get() + n);
        assert_eq!(store.get("a").await.unwrap().revision, committed.revision);
    }
    let deleted = store.delete(Delete::new("a")).await.unwrap();
    assert_eq!(deleted.revision.get(), start.get() + 6);
}

pub async fn key_has_create_and_mod_revision(fixture: &Fixture) {
    let store = &fixture.store;
    let created = store.put(Put::new("a", "1")).await.unwrap().revision;
    store.put(Put::new("b", "1")).await.unwrap();
    let modified = store.put(Put::new("a", "2")).await.unwrap().revision;
    let entry = store.get("a").await.unwrap().entry.unwrap();
    assert_eq!((key(&entry).as_str(), text(&entry).as_str()), ("a", "2"));
    assert_eq!((entry.create_revision(), entry.mod_revision(), entry.version()), (created, modified, 2));
}

pub async fn recreated_key_starts_at_version_one(fixture: &Fixture) {
    let store = &fixture.store;
    store.put(Put::new("a", "1")).await.unwrap();
    store.put(Put::new("a", "2")).await.unwrap();
    store.delete(Delete::new("a")).await.unwrap();
    assert!(store.get("a").await.unwrap().entry.is_none());
    let again = store.put(Put::new("a", "3").expect(Expect::Absent)).await.unwrap().revision;
    let entry = store.get("a").await.unwrap().entry.unwrap();
    assert_eq!((entry.create_revision(), entry.mod_revision(), entry.version()), (again, again, 1));
}

pub async fn put_expecting_absence_of_existing_key_conflicts(fixture: &Fixture) {
    let store = &fixture.store;
    store.put(Put::new("a", "1").expect(Expect::Absent)).await.unwrap();
    let refused = store.put(Put::new("a", "2").expect(Expect::Absent)).await;
    assert!(matches!(refused, Err(Error::Conflict(_))));
    assert_eq!(value(store, "a").await.as_deref(), Some("1"));
}

pub async fn write_with_stale_revision_conflicts(fixture: &Fixture) {
    let store = &fixture.store;
    let first = store.put(Put::new("a", "1")).await.unwrap().revision;
    let second = store.put(Put::new("a", "2").expect(Expect::ModRevision(first))).await.unwrap().revision;
    let stale = store.put(Put::new("a", "3").expect(Expect::ModRevision(first))).await;
    assert!(matches!(stale, Err(Error::Conflict(_))));
    let stale = store.delete(Delete::new("a").expect(Expect::ModRevision(first))).await;
    assert!(matches!(stale, Err(Error::Conflict(_))));
    let missing = store.delete(Delete::new("b").expect(Expect::ModRevision(first))).await;
    assert!(matches!(missing, Err(Error::Conflict(_))));
    store.delete(Delete::new("a").expect(Expect::ModRevision(second))).await.unwrap();
}

pub async fn conflict_contains_the_found_entry(fixture: &Fixture) {
    let store = &fixture.store;
    let revision = store.put(Put::new("a", "1")).await.unwrap().revision;
    let Err(Error::Conflict(conflict)) = store.put(Put::new("a", "2").expect(Expect::Absent)).await else {
        panic!("must not exist, and does");
    };
    assert_eq!((conflict.key.as_slice(), conflict.expected), (&b"a"[..], Expect::Absent));
    let found = conflict.found.expect("the key is there");
    assert_eq!((text(&found).as_str(), found.mod_revision()), ("1", revision));

    let Err(Error::Conflict(conflict)) =
        store.put(Put::new("b", "").expect(Expect::ModRevision(revision))).await
    else {
        panic!("must exist, and does not");
    };
    assert!(conflict.found.is_none());
}

pub async fn rejected_write_changes_nothing(fixture: &Fixture) {
    let store = &fixture.store;
    let before = store.put(Put::new("a", "1")).await.unwrap().revision;
    store.put(Put::new("a", "2").expect(Expect::Absent)).await.unwrap_err();
    assert_eq!(store.get("a").await.unwrap().revision, before);
    let next = store.put(Put::new("a", "2")).await.unwrap().revision;
    assert_eq!(next, before.next());
}

pub async fn delete_of_missing_key_creates_no_revision(fixture: &Fixture) {
    let store = &fixture.store;
    let before = store.put(Put::new("a", "1")).await.unwrap().revision;
    let nothing = store.delete(Delete::new("b")).await.unwrap();
    assert_eq!(nothing.revision, before);
    assert!(nothing.previous[0].is_none());
    let nothing = store.commit(Txn::new().delete_prefix("b/")).await.unwrap();
    assert_eq!((nothing.revision, nothing.deleted), (before, 0));
}

pub async fn transaction_is_atomic(fixture: &Fixture) {
    let store = &fixture.store;
    let before = store.put(Put::new("b", "1")).await.unwrap().revision;
    let both = |expect| Txn::new().put(Put::new("a", "1")).put(Put::new("b", "2").expect(expect));
    store.commit(both(Expect::Absent)).await.unwrap_err();
    assert_eq!((value(store, "a").await, value(store, "b").await), (None, Some("1".into())));
    let committed = store.commit(both(Expect::ModRevision(before))).await.unwrap();
    assert_eq!(committed.revision, before.next());
    for key in ["a", "b"] {
        let entry = store.get(key).await.unwrap().entry.unwrap();
        assert_eq!(entry.mod_revision(), committed.revision);
    }
}

pub async fn transaction_returns_previous_entries(fixture: &Fixture) {
    let store = &fixture.store;
    store.put(Put::new("b", "old")).await.unwrap();
    store.put(Put::new("c", "gone")).await.unwrap();
    let txn = Txn::new().put(Put::new("a", "")).put(Put::new("b", "new")).delete(Delete::new("c"));
    let previous = store.commit(txn).await.unwrap().previous;
    let previous: Vec<_> = previous.iter().map(|entry| entry.as_ref().map(text)).collect();
    assert_eq!(previous, [None, Some("old".into()), Some("gone".into())]);
}

pub async fn check_of_an_unwritten_key_is_enforced(fixture: &Fixture) {
    let store = &fixture.store;
    let lock = store.put(Put::new("lock", "mine")).await.unwrap().revision;
    let guarded =
        |n: &str| Txn::new().check("lock", Expect::ModRevision(lock)).put(Put::new("a", n.to_owned()));
    store.commit(guarded("1")).await.unwrap();
    store.put(Put::new("lock", "yours")).await.unwrap();
    let refused = store.commit(guarded("2")).await;
    assert!(matches!(refused, Err(Error::Conflict(conflict)) if conflict.key == b"lock"));
    assert_eq!(value(store, "a").await.as_deref(), Some("1"));
}

pub async fn prefix_is_deleted_at_one_revision(fixture: &Fixture) {
    let store = &fixture.store;
    for key in ["p/a", "p/b", "p/c", "q/a"] {
        store.put(Put::new(key, key)).await.unwrap();
    }
    let before = store.delete(Delete::new("p/b")).await.unwrap().revision;
    let committed = store.commit(Txn::new().delete_prefix("p/").put(Put::new("q/b", ""))).await.unwrap();
    assert_eq!((committed.deleted, committed.revision), (2, before.next()));
    let left = store.range(RangeRequest::prefix("")).await.unwrap().entries;
    assert_eq!(left.iter().map(key).collect::<Vec<_>>(), ["q/a", "q/b"]);
}

pub async fn overlapping_operations_are_rejected(fixture: &Fixture) {
    let twice = Txn::new().put(Put::new("a", "1")).put(Put::new("a", "2"));
    assert!(matches!(fixture.store.commit(twice).await, Err(Error::InvalidTxn { .. })));
    assert_eq!(value(&fixture.store, "a").await, None);
}

pub async fn oversized_requests_are_rejected_without_effect(fixture: &Fixture) {
    let store = &fixture.store;
    let many = (0..=MAX_TXN_OPS).fold(Txn::new(), |txn, n| txn.put(Put::new(n.to_string(), "")));
    for txn in [
        many,
        Txn::new().put(Put::new(vec![b'k'; MAX_KEY_BYTES + 1], "")),
        Txn::new().put(Put::new("k", vec![0; MAX_VALUE_BYTES + 1])),
    ] {
        assert!(matches!(store.commit(txn).await, Err(Error::TooLarge { .. })));
    }
    assert!(matches!(store.put(Put::new("", "")).await, Err(Error::InvalidKey { .. })));
    assert_eq!(store.range(RangeRequest::prefix("")).await.unwrap().entries.len(), 0);
    let largest = (0..MAX_TXN_OPS).fold(Txn::new(), |txn, n| txn.put(Put::new(n.to_string(), "")));
    store.commit(largest).await.unwrap();
}

pub async fn arbitrary_bytes_are_valid_keys_and_values(fixture: &Fixture) {
    let store = &fixture.store;
    let odd: [&[u8]; 5] = [b"\0", b"\0\0", b"a\0b", b"\xff", b"\xff\xff\xff"];
    for key in odd {
        store.put(Put::new(key, key.to_vec())).await.unwrap();
    }
    store.put(Put::new("empty", "")).await.unwrap();
    for key in odd {
        assert_eq!(store.get(key).await.unwrap().entry.unwrap().value(), key);
    }
    assert_eq!(store.get("empty").await.unwrap().entry.unwrap().value(), b"".as_slice());
    assert_eq!(store.range(RangeRequest::prefix("\0")).await.unwrap().entries.len(), 2);
    assert_eq!(store.range(RangeRequest::prefix([0xff])).await.unwrap().entries.len(), 2);
    assert_eq!(store.range(RangeRequest::prefix("")).await.unwrap().entries.len(), 6);
}

pub async fn stamped_value_contains_its_own_revision(fixture: &Fixture) {
    let store = &fixture.store;
    for _ in 0..12 {
        let revision = store.put(Put::new("a", r#"{"at":""}"#).stamp_at(7)).await.unwrap().revision;
        let entry = store.get("a").await.unwrap().entry.unwrap();
        assert_eq!(text(&entry), format!(r#"{{"at":"{revision}"}}"#));
        assert_eq!(entry.to_parts().value, r#"{"at":""}"#);
    }
    let revision = store.put(Put::new("a", "end").stamp_at(3)).await.unwrap().revision;
    assert_eq!(value(store, "a").await, Some(format!("end{revision}")));
}

pub async fn concurrent_updates_are_not_lost(fixture: &Fixture) {
    const WRITERS: u64 = 8;
    const ROUNDS: u64 = 10;
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let store = fixture.store.clone();
        writers.spawn(async move {
            for _ in 0..ROUNDS {
                let increment = |current: Option<&crate::Entry>| {
                    let count: u64 = current.map_or(0, |entry| text(entry).parse().expect("a number"));
                    Ok::<_, Error>(Update::put((count + 1).to_string()))
                };
                store.update("counter", increment).await.unwrap();
            }
        });
    }
    while let Some(writer) = writers.join_next().await {
        writer.expect("no writer panics");
    }
    assert_eq!(value(&fixture.store, "counter").await, Some((WRITERS * ROUNDS).to_string()));
}

pub async fn update_can_keep_or_delete(fixture: &Fixture) {
    let store = &fixture.store;
    let revision = store.put(Put::new("a", "1")).await.unwrap().revision;
    let kept = store.update("a", |_| Ok::<_, Error>(Update::Keep)).await.unwrap();
    assert_eq!((kept.revision, kept.changed), (revision, false));
    let deleted = store.update("a", |_| Ok::<_, Error>(Update::Delete)).await.unwrap();
    assert!(deleted.changed && deleted.previous.is_some());
    assert_eq!(value(store, "a").await, None);
}
