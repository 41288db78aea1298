//! The etcd mirror: consistency of reads through it, and recovery after it has lost its position.

use std::time::Duration;

use coracle_base::Task;
use coracle_store::etcd::{self, Options};
use coracle_store::{At, Entry, Error, Expect, Put, RangeRequest, Store, WatchEvent, WatchRequest};

use crate::etcd_server::{EtcdServer, RECOVERY_LIMIT, next};

/// Number of pairs of a write through one store and a read through another, and of concurrent tasks.
const PAIRS: usize = 4_000;
const TASKS: usize = 8;

/// Returns true if a read was served from the mirror, which shares the entries that it returns.
fn is_mirrored(entry: &Entry) -> bool {
    entry.is_shared()
}

async fn connect_to(server: &EtcdServer, members: &[usize]) -> Store {
    let endpoints = server.endpoints();
    etcd::connect(Options::new(members.iter().map(|at| endpoints[*at].clone()))).await.unwrap()
}

/// Waits until a key is served from the mirror.
async fn until_mirrored(store: &Store, key: &str) -> Entry {
    let reading = async {
        loop {
            if let Ok(get) = store.get(key).await
                && let Some(entry) = get.entry.filter(is_mirrored)
            {
                return entry;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(RECOVERY_LIMIT, reading).await.expect("the mirror is complete again")
}

/// Writes through one store and reads through the other; returns the number of reads that were served from the
/// mirror.
async fn write_and_read(writer: Store, reader: Store, number: usize) -> usize {
    let (prefix, mut mirrored) = (format!("pairs/{number}/"), 0);
    for round in 0..PAIRS / TASKS {
        let key = format!("{prefix}{}", round % 10);
        let written = writer.put(Put::new(key.clone(), round.to_string())).await.unwrap().revision;
        let entry = if round % 2 == 0 {
            let get = reader.get(&key).await.unwrap();
            assert!(get.revision >= written, "a read at {} after a write at {written}", get.revision);
            get.entry
        } else {
            let range = reader.range(RangeRequest::prefix(prefix.as_str())).await.unwrap();
            assert!(range.revision >= written, "a range at {} after a write at {written}", range.revision);
            range.entries.into_iter().find(|entry| entry.key() == key.as_bytes())
        };
        let entry = entry.expect("it was written");
        assert_eq!(
            (entry.mod_revision(), entry.value()),
            (written, round.to_string().into()),
            "no stale read"
        );
        mirrored += usize::from(is_mirrored(&entry));
    }
    mirrored
}

#[tokio::test(flavor = "multi_thread")]
async fn write_of_one_process_is_seen_by_the_next_read_of_another() {
    let server = EtcdServer::start(3).await;
    // Through different members, two of which are followers.
    let (writer, reader) = (connect_to(&server, &[0]).await, connect_to(&server, &[1]).await);
    let pairs = |number| Task::spawn("pairs", write_and_read(writer.clone(), reader.clone(), number));
    let mut mirrored = 0;
    for task in (0..TASKS).map(pairs).collect::<Vec<_>>() {
        mirrored += task.await.unwrap();
    }
    assert!(mirrored > PAIRS / 2, "{mirrored} of {PAIRS} reads were answered from the mirror");
}

#[tokio::test]
async fn cached_read_sees_every_write_of_its_own_process() {
    let server = EtcdServer::start(1).await;
    let store = connect_to(&server, &[0]).await;
    let mut last = None;
    for round in 0..500 {
        let expect = last.map_or(Expect::Absent, Expect::ModRevision);
        last = Some(store.put(Put::new("a", round.to_string()).expect(expect)).await.unwrap().revision);
        let found = store.get_at("a", At::Cached).await.unwrap();
        assert_eq!(found.entry.map(|entry| entry.mod_revision()), last);
    }
}

#[tokio::test]
async fn cached_read_after_conflict_returns_the_conflicting_state() {
    let server = EtcdServer::start(1).await;
    let (first, second) = (connect_to(&server, &[0]).await, connect_to(&server, &[0]).await);
    for round in 0..100 {
        let made = first.put(Put::new("a", round.to_string())).await.unwrap().revision;
        let conflict = second.put(Put::new("a", "mine").expect(Expect::Absent)).await;
        assert!(matches!(conflict, Err(Error::Conflict(_))), "{conflict:?}");
        let found = second.get_at("a", At::Cached).await.unwrap().entry;
        assert_eq!(found.map(|entry| entry.mod_revision()), Some(made));
        first.delete(coracle_store::Delete::new("a")).await.unwrap();
        let conflict = second.put(Put::new("a", "mine").expect(Expect::ModRevision(made))).await;
        assert!(matches!(conflict, Err(Error::Conflict(_))), "{conflict:?}");
        assert!(second.get_at("a", At::Cached).await.unwrap().entry.is_none());
    }
}

#[tokio::test]
async fn read_not_older_than_a_revision_includes_it_or_fails() {
    let server = EtcdServer::start(1).await;
    let (first, second) = (connect_to(&server, &[0]).await, connect_to(&server, &[0]).await);
    for round in 0..100 {
        let made = first.put(Put::new("a", round.to_string())).await.unwrap().revision;
        let found = second.get_at("a", At::NotOlderThan(made)).await.unwrap();
        assert_eq!(found.entry.map(|entry| entry.mod_revision()), Some(made));
        let ahead = second.get_at("a", At::NotOlderThan(made.next())).await;
        assert!(matches!(ahead, Err(Error::FutureRevision { .. })), "{ahead:?}");
    }
}

#[tokio::test]
async fn writes_under_another_root_do_not_delay_reads() {
    let server = EtcdServer::start(1).await;
    let store = connect_to(&server, &[0]).await;
    let mut options = Options::new(server.endpoints());
    options.root = "other/".to_owned();
    let other = etcd::connect(options).await.unwrap();
    store.put(Put::new("a", "1")).await.unwrap();
    let start = tokio::time::Instant::now();
    for round in 0..50 {
        let made = other.put(Put::new("b", round.to_string())).await.unwrap().revision;
        let found = store.get("a").await.unwrap();
        assert!(found.revision >= made && found.entry.is_some());
        assert!(store.get("b").await.unwrap().entry.is_none(), "the roots are apart");
    }
    // A read may wait for the mirror for about 25 ms; this is far from any timeout.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    // Without another event, the mirror must detect that there is nothing more.
    until_mirrored(&store, "a").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mirror_overtaken_by_compaction_is_reloaded() {
    let mut server = EtcdServer::start(3).await;
    let (cut_off, other) = (connect_to(&server, &[0]).await, connect_to(&server, &[1, 2]).await);
    let before = cut_off.put(Put::new("a", "before")).await.unwrap().revision;
    let mut watch = cut_off.watch(WatchRequest::prefix("")).await.unwrap();
    until_mirrored(&cut_off, "a").await;

    server.kill(0);
    let mut latest = before;
    for round in 0..20 {
        // An election may come first.
        latest = loop {
            match other.put(Put::new("a", round.to_string())).await {
                Ok(committed) => break committed.revision,
                Err(Error::Unavailable(_) | Error::OutcomeUnknown(_)) => {}
                Err(error) => panic!("{error}"),
            }
        };
    }
    other.compact(latest).await.unwrap();
    server.restart(0).await;

    assert_eq!(until_mirrored(&cut_off, "a").await.mod_revision(), latest);
    let error = loop {
        match tokio::time::timeout(RECOVERY_LIMIT, watch.next()).await.unwrap() {
            Ok(event) => assert!(event.revision() > before, "{event:?}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Compacted { .. }), "{error}");
    let gone = cut_off.watch(WatchRequest::prefix("").from(before)).await.err().unwrap();
    assert!(matches!(gone, Error::Compacted { .. }), "{gone}");
    let mut watch = cut_off.watch(WatchRequest::prefix("").from(latest.next())).await.unwrap();
    let after = other.put(Put::new("b", "after")).await.unwrap().revision;
    assert_eq!(next(&mut watch).await.revision(), after);
}

#[tokio::test]
async fn foreign_value_does_not_stop_the_mirror_permanently() {
    let server = EtcdServer::start(1).await;
    let store = connect_to(&server, &[0]).await;
    store.put(Put::new("b", "1")).await.unwrap();
    until_mirrored(&store, "b").await;
    // Base64 of "coracle/a" and "{}".
    server.call("/v3/kv/put", r#"{"key":"Y29yYWNsZS9h","value":"e30="}"#);
    assert!(matches!(store.get("a").await, Err(Error::Undecodable { .. })));
    assert_eq!(store.get("b").await.unwrap().entry.unwrap().value(), "1", "other keys can be read");
    store.put(Put::new("b", "2")).await.unwrap();
    assert_eq!(store.get_at("b", At::Cached).await.unwrap().entry.unwrap().value(), "2");
    server.call("/v3/kv/deleterange", r#"{"key":"Y29yYWNsZS9h"}"#);
    store.put(Put::new("a", "1")).await.unwrap();
    assert_eq!(until_mirrored(&store, "a").await.value(), "1");
}

#[tokio::test]
async fn watch_from_before_the_mirror_delivers_all_kept_events() {
    let server = EtcdServer::start(1).await;
    let first = connect_to(&server, &[0]).await;
    let mut made = Vec::new();
    for round in 0..5 {
        made.push(first.put(Put::new("a", round.to_string())).await.unwrap().revision);
    }
    // Its mirror begins at the last of them.
    let second = connect_to(&server, &[0]).await;
    let mut watch = second.watch(WatchRequest::prefix("").from(made[1])).await.unwrap();
    made.push(first.put(Put::new("a", "last")).await.unwrap().revision);
    for expected in &made[1..] {
        let event = next(&mut watch).await;
        assert!(matches!(&event, WatchEvent::Put { .. }), "{event:?}");
        assert_eq!(event.revision(), *expected);
    }
    let past = second.get_at("a", At::Revision(made[2])).await.unwrap().entry.unwrap();
    assert_eq!((past.mod_revision(), past.value()), (made[2], "2".into()));
}
