//! Statistics, and closing.

use super::{Fixture, next};
use crate::{Delete, Error, Put, RangeRequest, WatchRequest};

pub async fn stats_match_the_contents(fixture: &Fixture) {
    let store = &fixture.store;
    store.put(Put::new("a", "1")).await.unwrap();
    store.put(Put::new("b", "1")).await.unwrap();
    let latest = store.delete(Delete::new("a")).await.unwrap().revision;
    let stats = store.stats().await.unwrap();
    assert_eq!((stats.keys, stats.revision), (1, latest));
    assert!(stats.oldest <= latest && stats.bytes > 0);
}

pub async fn closed_store_rejects_all_operations(fixture: &Fixture) {
    let store = &fixture.store;
    let mut watch = store.watch(WatchRequest::prefix("a")).await.unwrap();
    store.put(Put::new("a", "1")).await.unwrap();
    next(&mut watch).await.unwrap();
    assert!(store.writable().is_ok());
    store.close().await.unwrap();
    assert!(matches!(store.writable(), Err(Error::Closed)));
    assert!(matches!(next(&mut watch).await, Err(Error::Closed)));
    assert!(matches!(store.get("a").await, Err(Error::Closed)));
    assert!(matches!(store.range(RangeRequest::prefix("")).await, Err(Error::Closed)));
    assert!(matches!(store.put(Put::new("a", "2")).await, Err(Error::Closed)));
    assert!(matches!(store.watch(WatchRequest::prefix("a")).await, Err(Error::Closed)));
    store.close().await.unwrap();
}
