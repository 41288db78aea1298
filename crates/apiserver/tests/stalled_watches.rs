//! Memory of many watches over large objects whose clients do not read.
//!
//! In a program of its own, since it looks at the memory of the whole process.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coracle_apiserver::listen::ConnectionRequest;
use coracle_apiserver::{ApiServer, HealthChecks, Identity, Limits, PeerIdentity, Server};
use coracle_base::{Clock, Task};
use coracle_registry::Registry;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::{ServiceExt, service_fn};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONNECTIONS: usize = 4;
const WATCHES_PER_CONNECTION: usize = 50;
const OBJECT_BYTES: usize = 1_000_000;

/// The limit for the watches of one user: 64 MiB of unread bytes, and as much again for the memory of the test, its
/// clients and the allocator. Without a limit it is 1 MB for each of them, 200 MB in all.
const MAX_BYTES: u64 = 2 * 64 * 1024 * 1024;

const PATIENCE: Duration = Duration::from_secs(60);

fn request(method: Method, path: &str, body: Value) -> Request<Full<Bytes>> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(format!("http://test{path}"));
    request.header("content-type", "application/json").body(body.into()).unwrap()
}

/// Resident memory of the process, where the system reports it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// How many watches the server counts as open.
async fn open_watches(api: &ApiServer, peer: &PeerIdentity) -> usize {
    let mut request = request(Method::GET, "/metrics", Value::Null);
    request.extensions_mut().insert(peer.clone());
    let response = api.clone().oneshot(request).await.unwrap();
    let page = response.into_body().collect().await.unwrap().to_bytes();
    let page = String::from_utf8(page.to_vec()).unwrap();
    let line = page.lines().find(|line| line.starts_with("apiserver_longrunning_requests{")).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn stalled_watches_over_large_objects_stay_within_the_limit_of_their_user() {
    let health = HealthChecks::new(CancellationToken::new());
    let api = ApiServer::new(health, Registry::in_memory(), Clock::system());
    let groups = vec!["system:masters".to_owned()];
    let peer = PeerIdentity(Some(Arc::new(Identity { name: "admin".into(), groups, ..Identity::default() })));
    let (local, local_peer) = (api.clone(), peer.clone());
    let service = service_fn(move |mut request: ConnectionRequest| {
        request.extensions_mut().insert(peer.clone());
        let api = api.clone();
        async move { Ok::<_, Infallible>(api.oneshot(request).await.unwrap()) }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let shutdown = CancellationToken::new();
    let server =
        Task::spawn("server", Server::new(service, Limits::default()).serve(listener, shutdown.clone()));
    let mut drivers = Vec::new();
    let mut senders = Vec::new();
    for _ in 0..=CONNECTIONS {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        // The client's side of a stalled watch is small, so that the memory measured is the server's.
        builder.initial_stream_window_size(1000);
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (sender, connection) = builder.handshake(stream).await.unwrap();
        drivers.push(Task::spawn("client", async move { drop(connection.await) }));
        senders.push(sender);
    }
    let mut writer = senders.pop().unwrap();
    let mut post = async |path: &str, body: Value| {
        let response = writer.send_request(request(Method::POST, path, body)).await.unwrap();
        assert_eq!(response.status(), 201);
        response.into_body().collect().await.unwrap();
    };
    post("/api/v1/namespaces", json!({"metadata": {"name": "default"}})).await;
    let before = resident_bytes();
    let mut watches = Vec::new();
    for sender in &mut senders {
        for _ in 0..WATCHES_PER_CONNECTION {
            let watch = request(Method::GET, &format!("{MAPS}?watch=true"), Value::Null);
            let response = sender.send_request(watch).await.unwrap();
            assert_eq!(response.status(), 200);
            watches.push(response.into_body());
        }
    }
    for number in 0..3 {
        let data = json!({"key": "x".repeat(OBJECT_BYTES)});
        post(MAPS, json!({"metadata": {"name": format!("m{number}")}, "data": data})).await;
    }
    // The server ends watches that lag, so that others can send their events.
    let mut most = 0;
    let ended = async {
        loop {
            most = resident_bytes().unwrap_or(0).max(most);
            if open_watches(&local, &local_peer).await < watches.len() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("a watch that is ended");
    if let Some(before) = before {
        let more = most.saturating_sub(before);
        assert!(more < MAX_BYTES, "{more} bytes for {} watches", watches.len());
    }
    drop((watches, senders, writer));
    shutdown.cancel();
    server.await.unwrap();
    for driver in drivers {
        driver.await.unwrap();
    }
}
