//! Shutdown of `coracle up`: watches end cleanly and promptly, requests in flight are answered, no acknowledged write
//! is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::connection::{Connection, Protocol, Target};
use crate::dir::TestDir;
use crate::server::Server;
use coracle_base::{Clock, Task};
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Half of them over HTTP/1.1, half over HTTP/2.
const WATCHES: usize = 50;

const WRITERS: usize = 4;

/// Acknowledged writes before the shutdown, so that it happens while writers are active.
const WRITES_BEFORE: usize = 20;

/// Maximum duration of a shutdown. If watches are not ended, it takes the drain's whole grace period of 20 s.
const STOP_LIMIT: Duration = Duration::from_secs(2);

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// An established watch.
struct Watch {
    body: Incoming,
    _connection: Connection,
}

impl Watch {
    async fn begin(target: &Target, protocol: Protocol) -> Self {
        let mut connection = Connection::open(target, protocol).await.expect("a connection");
        let path = format!("{CONFIG_MAPS}?watch=true");
        let response = connection.send(Method::GET, &path, None).await.expect("an answer");
        assert_eq!(response.status(), 200);
        Self { body: response.into_body(), _connection: connection }
    }

    /// Reads to the end of the stream. A stream that was cut is an error.
    async fn rest(self) -> hyper::Result<String> {
        let bytes = self.body.collect().await?.to_bytes();
        Ok(String::from_utf8(bytes.to_vec()).expect("JSON"))
    }
}

/// Creates objects until the server stops; returns the names and revisions of the acknowledged ones.
async fn write(
    mut connection: Connection,
    writer: usize,
    acknowledging: mpsc::Sender<()>,
) -> BTreeMap<String, String> {
    let mut acknowledged = BTreeMap::new();
    for number in 0.. {
        let name = format!("w{writer}-{number}");
        let object = json!({"metadata": {"name": name}, "data": {"number": number.to_string()}});
        let Ok((code, created)) = connection.json(Method::POST, CONFIG_MAPS, Some(&object)).await else {
            break;
        };
        assert_eq!(code, 201, "a request that is answered is answered in full: {created}");
        let revision = created["metadata"]["resourceVersion"].as_str().expect("a revision");
        acknowledged.insert(name, revision.to_owned());
        // Fails once the test has counted enough writes and receives no more.
        let _ = acknowledging.try_send(());
    }
    acknowledged
}

async fn stored(dir: &TestDir, data_dir: &Path) -> BTreeMap<String, String> {
    let server = Server::start(dir, &[]).await;
    let target = Target::new(&server.url, data_dir).expect("certificates");
    let mut connection = Connection::open(&target, Protocol::Http1).await.expect("a connection");
    let list = connection.get(CONFIG_MAPS).await.expect("a list");
    drop(connection);
    assert!(server.stop().await.success());
    let metadata =
        |object: &Value, field: &str| object["metadata"][field].as_str().expect("metadata").to_owned();
    let objects = list["items"].as_array().expect("a list");
    objects.iter().map(|object| (metadata(object, "name"), metadata(object, "resourceVersion"))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_with_watches_and_writers_ends_streams_cleanly_and_loses_no_write() {
    let dir = TestDir::new();
    let data_dir: PathBuf = dir.data();
    let server = Server::start(&dir, &[]).await;
    let target = Target::new(&server.url, &data_dir).expect("certificates");
    let mut watches = Vec::new();
    for number in 0..WATCHES {
        watches.push(Watch::begin(&target, Protocol::of(number)).await);
    }
    let (acknowledging, mut acknowledgements) = mpsc::channel(WRITES_BEFORE);
    let mut writers = Vec::new();
    for number in 0..WRITERS {
        let connection = Connection::open(&target, Protocol::of(number)).await.expect("a connection");
        writers.push(Task::spawn("writer", write(connection, number, acknowledging.clone())));
    }
    for _ in 0..WRITES_BEFORE {
        acknowledgements.recv().await.expect("a write");
    }
    let reading: Vec<_> = watches.into_iter().map(|watch| Task::spawn("watch", watch.rest())).collect();

    let clock = Clock::system();
    let began = clock.uptime();
    assert!(server.stop().await.success());
    let took = clock.uptime() - began;
    for (number, watch) in reading.into_iter().enumerate() {
        let events = watch.await.expect("no panic");
        let events =
            events.unwrap_or_else(|error| panic!("{:?} watch was cut: {error:?}", Protocol::of(number)));
        for line in events.lines() {
            serde_json::from_str::<Value>(line).expect("a whole event");
        }
    }
    let log = fs::read_to_string(dir.path().join("server.log")).unwrap();
    assert!(log.contains("shutdown complete") && !log.contains("cutting off connections"), "see server.log");
    println!("the stop took {took:?}");
    assert!(took < STOP_LIMIT, "the stop took {took:?}");

    let mut acknowledged = BTreeMap::new();
    for writer in writers {
        acknowledged.extend(writer.await.expect("no panic"));
    }
    assert!(acknowledged.len() >= WRITES_BEFORE);
    let stored = stored(&dir, &data_dir).await;
    for (name, revision) in acknowledged {
        assert_eq!(stored.get(&name), Some(&revision), "{name} was acknowledged");
    }
}
