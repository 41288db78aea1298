//! Memory of thousands of idle watches over the network, and delivery of an event to each of them.
//!
//! A test binary of its own, since it measures the memory of the whole process.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use coracle_apiserver::listen::ConnectionRequest;
use coracle_apiserver::{ApiServer, HealthChecks, Identity, Limits, PeerIdentity, Server};
use coracle_base::{Clock, Task};
use coracle_registry::Registry;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tower::{ServiceExt, service_fn};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// The limit of concurrent requests on one connection.
const WATCHES_PER_CONNECTION: usize = 100;
const CONNECTIONS: usize = 20;
const HTTP1_CONNECTIONS: usize = 200;

/// Limit of memory for one more idle watch on an existing connection, without optimization. It includes the client's
/// half, which is in the same process. Measured: 5.3 kB on Linux with x86-64. The limit detects a buffer, or a copy of
/// the state, for each watch.
const MAX_BYTES_PER_WATCH: u64 = 16 * 1024;

type Body = Full<Bytes>;

/// A server over real sockets, whose clients are all administrators.
struct Running {
    address: SocketAddr,
    shutdown: CancellationToken,
    server: Task<()>,
    /// Tasks that drive the connections of the clients.
    connections: Vec<Task<()>>,
}

impl Running {
    async fn start() -> Self {
        let health = HealthChecks::new(CancellationToken::new());
        let api = ApiServer::new(health, Registry::in_memory(), Clock::system());
        let admin =
            Identity { name: "admin".into(), groups: vec!["system:masters".into()], ..Identity::default() };
        let peer = PeerIdentity(Some(Arc::new(admin)));
        let service = service_fn(move |mut request: ConnectionRequest| {
            request.extensions_mut().insert(peer.clone());
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.oneshot(request).await.unwrap()) }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let server = Server::new(service, Limits::default());
        let server = Task::spawn("server", server.serve(listener, shutdown.clone()));
        Self { address, shutdown, server, connections: Vec::new() }
    }

    async fn http2(&mut self) -> http2::SendRequest<Body> {
        let stream = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        self.connections.push(Task::spawn("client", async move { drop(connection.await) }));
        sender
    }

    async fn http1(&mut self) -> http1::SendRequest<Body> {
        let stream = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        let (sender, connection) = http1::handshake(stream).await.unwrap();
        self.connections.push(Task::spawn("client", async move { drop(connection.await) }));
        sender
    }
}

fn request(method: Method, path: &str, body: Value) -> Request<Body> {
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(format!("http://test{path}")).header("host", "test");
    request.header("content-type", "application/json").body(Body::from(body)).unwrap()
}

fn watch(after: &str) -> Request<Body> {
    request(Method::GET, &format!("{CONFIG_MAPS}?watch=true&resourceVersion={after}"), Value::Null)
}

async fn json(response: Response<Incoming>) -> Value {
    serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

/// Opens as many watches on one connection as the server admits.
async fn fill(sender: &http2::SendRequest<Body>, after: &str, watches: &mut Vec<Incoming>) {
    for _ in 0..WATCHES_PER_CONNECTION {
        let response = sender.clone().send_request(watch(after)).await.unwrap();
        assert_eq!(response.status(), 200);
        watches.push(response.into_body());
    }
}

/// Resident memory of the process; none on systems without `/proc`.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[tokio::test]
async fn idle_watches_cost_little_and_none_is_forgotten() {
    let mut running = Running::start().await;
    let mut writer = running.http2().await;
    let mut post = async |path: &str, body: Value| {
        json(writer.send_request(request(Method::POST, path, body)).await.unwrap()).await
    };
    let namespace = post("/api/v1/namespaces", json!({"metadata": {"name": "default"}})).await;
    let after = namespace["metadata"]["resourceVersion"].as_str().unwrap().to_owned();

    let (mut watches, mut senders) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        senders.push(running.http2().await);
    }
    for _ in 0..HTTP1_CONNECTIONS {
        let mut sender = running.http1().await;
        watches.push(sender.send_request(watch(&after)).await.unwrap().into_body());
    }
    // The first watches allocate the state that all watches share.
    fill(&senders[0], &after, &mut watches).await;
    let before = resident_bytes();
    for sender in &senders[1..] {
        fill(sender, &after, &mut watches).await;
    }
    if let (Some(before), Some(now)) = (before, resident_bytes()) {
        let more = (CONNECTIONS - 1) * WATCHES_PER_CONNECTION;
        let each = now.saturating_sub(before) / u64::try_from(more).unwrap();
        assert!(each < MAX_BYTES_PER_WATCH, "{each} bytes for each of {more} watches");
    }

    assert_eq!(watches.len(), CONNECTIONS * WATCHES_PER_CONNECTION + HTTP1_CONNECTIONS);
    post(CONFIG_MAPS, json!({"metadata": {"name": "news"}})).await;
    for body in &mut watches {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let event: Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("news")));
    }
    drop((watches, senders, writer));
    running.shutdown.cancel();
    running.server.await.unwrap();
    for connection in running.connections {
        connection.await.unwrap();
    }
}
