//! Watches: order, history, slow watchers, progress.

use super::{Fixture, drain, next, shown, take};
use crate::{Delete, Error, Put, Revision, Txn, WatchEvent, WatchRequest};

pub async fn events_are_ordered_with_previous_entries(fixture: &Fixture) {
    let store = &fixture.store;
    let mut watch = store.watch(WatchRequest::prefix("p/")).await.unwrap();
    let r1 = store.put(Put::new("p/a", "1")).await.unwrap().revision;
    let r2 = store.put(Put::new("p/a", "2")).await.unwrap().revision;
    let r3 = store.delete(Delete::new("p/a")).await.unwrap().revision;
    let r4 = store.put(Put::new("p/a", "3")).await.unwrap().revision;
    let expected =
        [format!("+p/a=1@{r1}"), format!("+p/a=2@{r2}<1"), format!("-p/a@{r3}<2"), format!("+p/a=3@{r4}")];
    assert_eq!(take(&mut watch, 4).await, expected);
}

pub async fn watch_delivers_history_before_live_events(fixture: &Fixture) {
    let store = &fixture.store;
    store.put(Put::new("a", "0")).await.unwrap();
    let from = store.put(Put::new("a", "1")).await.unwrap().revision;
    let second = store.put(Put::new("a", "2")).await.unwrap().revision;
    let mut watch = store.watch(WatchRequest::prefix("a").from(from)).await.unwrap();
    let live = store.put(Put::new("a", "3")).await.unwrap().revision;
    let expected = [format!("+a=1@{from}<0"), format!("+a=2@{second}<1"), format!("+a=3@{live}<2")];
    assert_eq!(take(&mut watch, 3).await, expected);
}

pub async fn watch_from_future_revision_waits(fixture: &Fixture) {
    let store = &fixture.store;
    let now = store.put(Put::new("a", "0")).await.unwrap().revision;
    let from = Revision::new(now.get() + 3);
    let mut watch = store.watch(WatchRequest::prefix("a").from(from)).await.unwrap();
    for n in 1..=3 {
        store.put(Put::new("a", n.to_string())).await.unwrap();
    }
    assert_eq!(take(&mut watch, 1).await, [format!("+a=3@{from}<2")]);
}

pub async fn watch_is_limited_to_its_prefix(fixture: &Fixture) {
    let store = &fixture.store;
    let mut all = store.watch(WatchRequest::prefix("")).await.unwrap();
    let mut some = store.watch(WatchRequest::prefix("p/")).await.unwrap();
    let mut one = store.watch(WatchRequest::prefix("p/a")).await.unwrap();
    for key in ["p/a", "p", "p0", "p/b", "o/a"] {
        store.put(Put::new(key, "")).await.unwrap();
    }
    assert_eq!(drain(&mut all).await.0.len(), 5);
    assert_eq!(drain(&mut some).await.0.len(), 2);
    assert_eq!(drain(&mut one).await.0.len(), 1);
}

pub async fn watch_in_any_scope_matches_every_scope(fixture: &Fixture) {
    let tenants = fixture.store.scope("tenants").unwrap();
    let from = tenants.put(Put::new("a/boats/x", "1")).await.unwrap().revision;
    let mut past = tenants.watch(WatchRequest::in_any_scope("boats/").from(from)).await.unwrap();
    let mut live = tenants.watch(WatchRequest::in_any_scope("boats/")).await.unwrap();
    fixture.store.put(Put::new("others/a/boats/x", "0")).await.unwrap();
    for key in ["b/boats/x", "b/boats", "b/cars/boats/x", "boats/x", "c/boats/y/z"] {
        tenants.put(Put::new(key, "1")).await.unwrap();
    }
    tenants.delete(Delete::new("b/boats/x")).await.unwrap();
    let keys = |events: Vec<String>| -> Vec<String> {
        events.iter().map(|event| event.split(['=', '@']).next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(keys(drain(&mut live).await.0), ["+b/boats/x", "+c/boats/y/z", "-b/boats/x"]);
    assert_eq!(keys(drain(&mut past).await.0), ["+a/boats/x", "+b/boats/x", "+c/boats/y/z", "-b/boats/x"]);
}

pub async fn transaction_is_delivered_completely(fixture: &Fixture) {
    let store = &fixture.store;
    store.put(Put::new("p/old", "x")).await.unwrap();
    let mut watch = store.watch(WatchRequest::prefix("p/")).await.unwrap();
    let txn = Txn::new().put(Put::new("p/a", "1")).put(Put::new("q", "")).delete(Delete::new("p/old"));
    let at = store.commit(txn).await.unwrap().revision;
    let mut events = take(&mut watch, 2).await;
    events.sort();
    assert_eq!(events, [format!("+p/a=1@{at}"), format!("-p/old@{at}<x")]);
    let gone = store.commit(Txn::new().delete_prefix("p/")).await.unwrap().revision;
    assert_eq!(take(&mut watch, 1).await, [format!("-p/a@{gone}<1")]);
}

/// Watchers that start at different times and with different prefixes observe the same sequence.
pub async fn watch_with_many_writers_has_no_gaps_or_duplicates(fixture: &Fixture) {
    const WRITERS: usize = 4;
    const WRITES: usize = 50;
    let store = &fixture.store;
    let start = store.put(Put::new("w/start", "")).await.unwrap().revision;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        writers.spawn(async move {
            for n in 0..WRITES {
                store.put(Put::new(format!("w/{writer}"), n.to_string())).await.unwrap();
            }
        });
    }
    let mut watches = Vec::new();
    while watches.len() < 5 {
        watches.push(store.watch(WatchRequest::prefix("w/").from(start.next())).await.unwrap());
        let latest = store.put(Put::new("w/tick", "")).await.unwrap().revision;
        watches.push(store.watch(WatchRequest::prefix("w/").from(latest)).await.unwrap());
    }
    while let Some(writer) = writers.join_next().await {
        writer.expect("no writer panics");
    }
    let (reference, _) = drain(&mut watches[0]).await;
    assert!(reference.len() >= WRITERS * WRITES);
    let revisions: Vec<u64> = reference.iter().map(|event| revision_of(event)).collect();
    assert!(revisions.windows(2).all(|pair| pair[0] < pair[1]), "strictly increasing");
    assert_eq!(revisions.len() as u64, revisions[revisions.len() - 1] - start.get(), "without a gap");
    for watch in &mut watches[1..] {
        let (events, _) = drain(watch).await;
        assert!(!events.is_empty() && reference.ends_with(&events), "a suffix of the same sequence");
    }
}

fn revision_of(event: &str) -> u64 {
    let after = event.split('@').nth(1).expect("an event has a revision");
    after.split('<').next().and_then(|number| number.parse().ok()).expect("which is a number")
}

pub async fn slow_watcher_receives_all_kept_events(fixture: &Fixture) {
    const WRITES: usize = 400;
    let store = &fixture.store;
    let mut slow = store.watch(WatchRequest::prefix("a")).await.unwrap();
    for n in 0..WRITES {
        store.put(Put::new("a", n.to_string())).await.unwrap();
        store.put(Put::new("b", "")).await.unwrap();
    }
    let (events, _) = drain(&mut slow).await;
    assert_eq!(events.len(), WRITES);
    assert!(events.iter().enumerate().all(|(n, event)| event.starts_with(&format!("+a={n}@"))));
    let live = store.put(Put::new("a", "live")).await.unwrap().revision;
    assert_eq!(take(&mut slow, 1).await, [format!("+a=live@{live}<{}", WRITES - 1)]);
}

pub async fn available_events_are_returned_without_waiting(fixture: &Fixture) {
    const WRITES: usize = 200;
    let store = &fixture.store;
    let mut watch = store.watch(WatchRequest::prefix("a")).await.unwrap();
    assert!(watch.try_next().is_none(), "no event yet");
    for n in 0..WRITES {
        store.put(Put::new("a", n.to_string())).await.unwrap();
        store.put(Put::new("b", "")).await.unwrap();
    }
    let mut events = Vec::new();
    while events.len() < WRITES {
        let event = match watch.try_next() {
            Some(event) => event.unwrap(),
            None => next(&mut watch).await.unwrap(),
        };
        events.push(shown(&event));
    }
    assert!(events.iter().enumerate().all(|(n, event)| event.starts_with(&format!("+a={n}@"))), "{events:?}");
    assert!(watch.try_next().is_none(), "no further event");
}

pub async fn watcher_overtaken_by_compaction_gets_an_error(fixture: &Fixture) {
    let store = &fixture.store;
    let from = store.put(Put::new("a", "0")).await.unwrap().revision;
    let mut latest = from;
    for n in 0..20 {
        latest = store.put(Put::new("a", n.to_string())).await.unwrap().revision;
    }
    store.compact(latest).await.unwrap();
    let refused = match store.watch(WatchRequest::prefix("a").from(from)).await {
        // An engine may report this immediately or with the first event.
        Ok(mut watch) => next(&mut watch).await.map(drop),
        Err(error) => Err(error),
    };
    match refused {
        Err(Error::Compacted { requested, oldest }) => assert_eq!((requested, oldest), (from, latest)),
        other => panic!("expected an error about the compaction, got {other:?}"),
    }
}

pub async fn progress_follows_all_earlier_events(fixture: &Fixture) {
    let store = &fixture.store;
    let mut watch = store.watch(WatchRequest::prefix("p/")).await.unwrap();
    let elsewhere = store.put(Put::new("q", "")).await.unwrap().revision;
    let (events, revision) = drain(&mut watch).await;
    assert!(events.is_empty() && revision >= elsewhere, "{revision} covers {elsewhere}");
    for n in 0..30 {
        store.put(Put::new(format!("p/{n}"), "")).await.unwrap();
    }
    let last = store.put(Put::new("q", "")).await.unwrap().revision;
    let (events, revision) = drain(&mut watch).await;
    assert_eq!(events.len(), 30);
    assert!(revision >= last);
}

pub async fn dropped_watch_is_removed(fixture: &Fixture) {
    let store = &fixture.store;
    let mut watch = store.watch(WatchRequest::prefix("a")).await.unwrap();
    drain(&mut watch).await;
    assert_eq!(store.stats().await.unwrap().watchers, 1);
    drop(watch);
    assert_eq!(store.stats().await.unwrap().watchers, 0);
}

pub async fn dropped_wait_loses_no_event(fixture: &Fixture) {
    const WRITES: usize = 50;
    let store = fixture.store.clone();
    let mut watch = store.watch(WatchRequest::prefix("a")).await.unwrap();
    let mut writer = tokio::task::JoinSet::new();
    writer.spawn(async move {
        for n in 0..WRITES {
            store.put(Put::new("a", n.to_string())).await.unwrap();
        }
    });
    let mut events = Vec::new();
    while events.len() < WRITES {
        // Most of these futures are dropped before they are ready.
        let waited = tokio::time::timeout(std::time::Duration::from_micros(50), watch.next()).await;
        if let Ok(event) = waited {
            let event = event.unwrap();
            assert!(matches!(event, WatchEvent::Put { .. }));
            events.push(shown(&event));
        }
    }
    assert!(events.iter().enumerate().all(|(n, event)| event.starts_with(&format!("+a={n}@"))));
}
