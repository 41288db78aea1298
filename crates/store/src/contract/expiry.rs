//! Expiring keys.

use std::time::Duration;

use super::{Fixture, drain, next, take, text};
use crate::{Put, WatchEvent, WatchRequest};

/// Short for engines on real time, irrelevant for the others.
const TTL: Duration = Duration::from_secs(2);

pub async fn key_is_deleted_when_its_ttl_expires(fixture: &Fixture) {
    let store = &fixture.store;
    let put = store.put(Put::new("a", "1").ttl(TTL)).await.unwrap().revision;
    store.put(Put::new("b", "1")).await.unwrap();
    let mut watch = store.watch(WatchRequest::prefix("").from(put)).await.unwrap();
    assert_eq!(drain(&mut watch).await.0.len(), 2, "no event before the key is due");
    let entry = store.get("a").await.unwrap().entry.expect("it is still there");
    assert!(entry.expires_at().is_some());
    fixture.pass(TTL / 2).await;
    assert!(store.get("a").await.unwrap().entry.is_some());
    fixture.pass(TTL).await;
    let WatchEvent::Delete { key, revision, previous } = next(&mut watch).await.unwrap() else {
        panic!("the next event is the deletion");
    };
    assert_eq!((&key[..], previous.map(|entry| text(&entry))), (&b"a"[..], Some("1".into())));
    assert!(revision > put);
    assert!(store.get("a").await.unwrap().entry.is_none());
    assert!(store.get("b").await.unwrap().entry.is_some());
}

pub async fn rewritten_key_does_not_expire(fixture: &Fixture) {
    let store = &fixture.store;
    store.put(Put::new("kept", "1").ttl(TTL)).await.unwrap();
    store.put(Put::new("kept", "2")).await.unwrap();
    let last = store.put(Put::new("gone", "1").ttl(TTL)).await.unwrap().revision;
    let mut watch = store.watch(WatchRequest::prefix("").from(last.next())).await.unwrap();
    fixture.pass(TTL * 2).await;
    let events = take(&mut watch, 1).await;
    assert!(events[0].starts_with("-gone@"), "{events:?}");
    assert_eq!(drain(&mut watch).await.0, Vec::<String>::new());
    let kept = store.get("kept").await.unwrap().entry.expect("it no longer expires");
    assert_eq!((text(&kept).as_str(), kept.expires_at()), ("2", None));
}
