//! Scopes: isolated parts of a store.

use super::{Fixture, key, take};
use crate::{At, Entry, Error, Expect, Put, RangeRequest, Txn, WatchRequest};

pub async fn scopes_are_isolated(fixture: &Fixture) {
    let (a, ab) = (fixture.store.scope("a").unwrap(), fixture.store.scope("ab").unwrap());
    a.put(Put::new("k", "of a").expect(Expect::Absent)).await.unwrap();
    ab.put(Put::new("k", "of ab").expect(Expect::Absent)).await.unwrap();
    assert_eq!(a.range(RangeRequest::prefix("")).await.unwrap().entries.len(), 1);
    assert_eq!(a.get("k").await.unwrap().entry.unwrap().value(), "of a");
    assert_eq!(ab.get("k").await.unwrap().entry.unwrap().value(), "of ab");
    assert_eq!(fixture.store.scope("b").unwrap().count("", At::Latest).await.unwrap().count, 0);
}

pub async fn scope_names_with_slashes_are_rejected(fixture: &Fixture) {
    for name in ["", "a/b", "/", "a/"] {
        assert!(matches!(fixture.store.scope(name), Err(Error::InvalidKey { .. })), "{name:?}");
    }
    let scope = fixture.store.scope("a").unwrap();
    assert!(matches!(scope.put(Put::new("", "")).await, Err(Error::InvalidKey { .. })));
}

pub async fn keys_in_a_scope_are_relative(fixture: &Fixture) {
    let scope = fixture.store.scope("a").unwrap().scope("inner").unwrap();
    let mut watch = scope.watch(WatchRequest::prefix("k")).await.unwrap();
    let revision = scope.put(Put::new("k1", "v")).await.unwrap().revision;
    assert_eq!(key(&scope.get("k1").await.unwrap().entry.unwrap()), "k1");
    assert_eq!(key(&scope.range(RangeRequest::prefix("k")).await.unwrap().entries[0]), "k1");
    let Err(Error::Conflict(conflict)) = scope.put(Put::new("k1", "").expect(Expect::Absent)).await else {
        panic!("it exists");
    };
    assert_eq!((conflict.key.as_slice(), key(&conflict.found.unwrap())), (&b"k1"[..], "k1".into()));
    let committed = scope.commit(Txn::new().delete_prefix("k")).await.unwrap();
    let deleted = committed.revision;
    assert_eq!(take(&mut watch, 2).await, [format!("+k1=v@{revision}"), format!("-k1@{deleted}<v")]);
    let stored = fixture.store.range(RangeRequest::prefix("").at(revision)).await.unwrap();
    assert_eq!(key(&stored.entries[0]), "a/inner/k1");
}

pub async fn range_cannot_leave_its_scope(fixture: &Fixture) {
    for name in ["a", "b", "c"] {
        fixture.store.scope(name).unwrap().put(Put::new("k", name)).await.unwrap();
    }
    let b = fixture.store.scope("b").unwrap();
    for request in
        [RangeRequest::prefix(""), RangeRequest::prefix("").start("\0"), RangeRequest::prefix("").start("a")]
    {
        assert_eq!(b.range(request).await.unwrap().entries.len(), 1);
    }
    let behind = b.range(RangeRequest::prefix("").start([0xff])).await.unwrap();
    assert!(behind.entries.is_empty() && !behind.more);
    assert!(b.get("../a/k").await.unwrap().entry.is_none());
}

pub async fn scope_is_dropped_in_one_call(fixture: &Fixture) {
    let (doomed, other) = (fixture.store.scope("doomed").unwrap(), fixture.store.scope("other").unwrap());
    for n in 0..300 {
        doomed.put(Put::new(format!("k{n}"), "v")).await.unwrap();
    }
    let before = other.put(Put::new("k", "v")).await.unwrap().revision;
    assert_eq!(doomed.drop_scope().await.unwrap(), 300);
    assert_eq!(doomed.count("", At::Latest).await.unwrap().count, 0);
    let left = other.get("k").await.unwrap();
    assert_eq!((left.entry.is_some(), left.revision), (true, before.next()));
    assert_eq!(doomed.drop_scope().await.unwrap(), 0);
}

pub async fn scopes_share_one_revision_sequence(fixture: &Fixture) {
    let (a, b) = (fixture.store.scope("a").unwrap(), fixture.store.scope("b").unwrap());
    let first = a.put(Put::new("k", "")).await.unwrap().revision;
    let second = b.put(Put::new("k", "")).await.unwrap().revision;
    assert_eq!(second, first.next());
    assert_eq!(a.get("k").await.unwrap().revision, second);
}

pub async fn guard_in_one_scope_applies_to_commits_in_another(fixture: &Fixture) {
    let (locks, data) = (fixture.store.scope("locks").unwrap(), fixture.store.scope("data").unwrap());
    let is_a = |entry: Option<&Entry>| entry.is_some_and(|entry| entry.value_bytes().starts_with(b"a"));
    let guarded = data.guarded(&locks.guard("lock", "l", is_a)).scope("inner").unwrap();
    let lost = guarded.put(Put::new("k", "0")).await;
    assert!(matches!(lost, Err(Error::GuardLost { .. })), "the guard's key does not exist");
    locks.put(Put::new("l", "a1")).await.unwrap();
    guarded.put(Put::new("k", "1")).await.unwrap();
    locks.put(Put::new("l", "a2")).await.unwrap();
    guarded.put(Put::new("k", "2")).await.unwrap();
    locks.put(Put::new("l", "b")).await.unwrap();
    let lost = guarded.put(Put::new("k", "3")).await;
    assert!(matches!(lost, Err(Error::GuardLost { guard, .. }) if &*guard == "lock"));
    let found = data.scope("inner").unwrap().get("k").await.unwrap().entry.unwrap();
    assert_eq!(found.value(), "2", "a commit without its guard changes nothing");
}
