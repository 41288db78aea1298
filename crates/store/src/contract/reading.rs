//! Reads: order, pages, past revisions, snapshots.

use super::{Fixture, key, text};
use crate::{At, Delete, Error, Put, Range, RangeRequest, Revision, Txn};

fn keys(range: &Range) -> Vec<String> {
    range.entries.iter().map(key).collect()
}

async fn fill(fixture: &Fixture, keys: &[&str]) -> Revision {
    let mut revision = Revision::INITIAL;
    for key in keys {
        revision = fixture.store.put(Put::new(*key, key.to_string())).await.unwrap().revision;
    }
    revision
}

pub async fn ranges_are_ordered_and_paginated(fixture: &Fixture) {
    let store = &fixture.store;
    fill(fixture, &["p/c", "p/a", "q", "p/b", "p/d"]).await;
    let all = store.range(RangeRequest::prefix("p/")).await.unwrap();
    assert_eq!((keys(&all), all.more), (vec!["p/a".into(), "p/b".into(), "p/c".into(), "p/d".into()], false));
    let page = store.range(RangeRequest::prefix("p/").limit(2)).await.unwrap();
    assert_eq!((keys(&page), page.more), (vec!["p/a".into(), "p/b".into()], true));
    let page = store.range(RangeRequest::prefix("p/").start("p/b\0").limit(2)).await.unwrap();
    assert_eq!((keys(&page), page.more), (vec!["p/c".into(), "p/d".into()], false));
    let exact = store.range(RangeRequest::prefix("p/").start("p/b").limit(1)).await.unwrap();
    assert_eq!((keys(&exact), exact.more), (vec!["p/b".into()], true));
}

pub async fn range_is_limited_to_its_prefix(fixture: &Fixture) {
    let store = &fixture.store;
    fill(fixture, &["p", "p/a", "p0", "o/z"]).await;
    assert_eq!(keys(&store.range(RangeRequest::prefix("p/")).await.unwrap()), ["p/a"]);
    let before = store.range(RangeRequest::prefix("p/").start("a")).await.unwrap();
    assert_eq!(keys(&before), ["p/a"]);
    let behind = store.range(RangeRequest::prefix("p/").start("z")).await.unwrap();
    assert!(behind.entries.is_empty() && !behind.more);
}

pub async fn entries_beyond_the_limit_are_counted(fixture: &Fixture) {
    let store = &fixture.store;
    fill(fixture, &["p/a", "p/b", "p/c", "p/d", "q"]).await;
    let page = store.range(RangeRequest::prefix("p/").limit(1).count_remaining()).await.unwrap();
    assert_eq!((page.remaining, page.more), (Some(3), true));
    let rest = store.range(RangeRequest::prefix("p/").start("p/c").limit(9).count_remaining()).await.unwrap();
    assert_eq!((rest.remaining, rest.more), (Some(0), false));
    assert_eq!(store.count("p/", At::Latest).await.unwrap().count, 4);
    assert_eq!(store.count("", At::Latest).await.unwrap().count, 5);
}

pub async fn past_revisions_are_immutable(fixture: &Fixture) {
    let store = &fixture.store;
    store.put(Put::new("p/a", "1")).await.unwrap();
    let then = store.put(Put::new("p/b", "1")).await.unwrap().revision;
    store.put(Put::new("p/a", "2")).await.unwrap();
    store.delete(Delete::new("p/b")).await.unwrap();
    store.put(Put::new("p/c", "1")).await.unwrap();
    let past = store.range(RangeRequest::prefix("p/").at(then)).await.unwrap();
    let seen: Vec<_> = past.entries.iter().map(|entry| (key(entry), text(entry))).collect();
    assert_eq!(seen, [("p/a".into(), "1".into()), ("p/b".into(), "1".into())]);
    assert_eq!(past.revision, then);
    assert_eq!(store.count("p/", At::Revision(then)).await.unwrap().count, 2);
    let gone = store.get_at("p/b", At::Revision(then)).await.unwrap();
    assert_eq!((text(&gone.entry.unwrap()), gone.revision), ("1".into(), then));
    assert!(store.get_at("p/c", At::Revision(then)).await.unwrap().entry.is_none());
    let page = store.range(RangeRequest::prefix("p/").at(then).limit(1)).await.unwrap();
    assert_eq!((keys(&page), page.more), (vec!["p/a".into()], true));
}

pub async fn future_revisions_are_rejected(fixture: &Fixture) {
    let store = &fixture.store;
    let now = fill(fixture, &["a"]).await;
    let ahead = Revision::new(now.get() + 10);
    for error in [
        store.get_at("a", At::Revision(ahead)).await.map(drop).unwrap_err(),
        store.range(RangeRequest::prefix("").at(ahead)).await.map(drop).unwrap_err(),
        store.count("", At::Revision(ahead)).await.map(drop).unwrap_err(),
    ] {
        assert!(
            matches!(error, Error::FutureRevision { requested, current } if requested == ahead && current == now),
            "{error}"
        );
    }
}

/// A token moves between two keys in one transaction each time; every range must contain it exactly once.
pub async fn range_is_one_snapshot(fixture: &Fixture) {
    const MOVES: usize = 60;
    let store = &fixture.store;
    store.put(Put::new("t/left", "")).await.unwrap();
    let mover = {
        let store = store.clone();
        async move {
            for n in 0..MOVES {
                let (from, to) = if n % 2 == 0 { ("t/left", "t/right") } else { ("t/right", "t/left") };
                store.commit(Txn::new().delete(Delete::new(from)).put(Put::new(to, ""))).await.unwrap();
            }
        }
    };
    let mut movers = tokio::task::JoinSet::new();
    movers.spawn(mover);
    while movers.try_join_next().is_none() {
        let range = store.range(RangeRequest::prefix("t/")).await.unwrap();
        assert_eq!(range.entries.len(), 1);
        assert!(range.entries[0].mod_revision() <= range.revision);
        let again = store.range(RangeRequest::prefix("t/").at(range.revision)).await.unwrap();
        assert_eq!(keys(&again), keys(&range), "a revision is immutable");
    }
}
