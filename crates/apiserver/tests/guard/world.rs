//! A server on a socket that takes user and group from request headers, and misbehaving clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use coracle_apiserver::admission::{Plugin, Rule};
use coracle_apiserver::listen::ConnectionRequest;
use coracle_apiserver::{ApiServer, FlowLimits, Identity, Limits, PeerIdentity, Server, ServerInfo};
use coracle_base::Task;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use http::Request;
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::Service;

use crate::support::Client;

/// How long anything may take before a test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Authenticates each request as the user and group in its headers `x-user` and `x-group`.
#[derive(Clone)]
struct Believing(ApiServer);

impl Service<ConnectionRequest> for Believing {
    type Response = <ApiServer as Service<ConnectionRequest>>::Response;
    type Error = <ApiServer as Service<ConnectionRequest>>::Error;
    type Future = <ApiServer as Service<ConnectionRequest>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<ConnectionRequest>::poll_ready(&mut self.0, cx)
    }

    fn call(&mut self, mut request: ConnectionRequest) -> Self::Future {
        let text = |name| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let mut groups = vec!["system:authenticated".to_owned()];
        groups.extend(text("x-group"));
        let identity = text("x-user").map(|name| Arc::new(Identity { name, groups, ..Identity::default() }));
        request.extensions_mut().insert(PeerIdentity(identity));
        self.0.call(request)
    }
}

/// Admission that keeps the creation of config maps whose name begins with `held` waiting, so that they keep
/// their seats.
pub(crate) struct Hold {
    /// Creations that wait here.
    pub(crate) held: Semaphore,
    released: Semaphore,
}

impl Default for Hold {
    fn default() -> Self {
        Self { held: Semaphore::new(0), released: Semaphore::new(0) }
    }
}

impl Hold {
    /// Waits until this number of creations is blocked.
    pub(crate) async fn wait_for(&self, count: u32) {
        let all = tokio::time::timeout(PATIENCE, self.held.acquire_many(count)).await;
        all.expect("creations that are carried out").unwrap().forget();
    }

    /// Releases this number of blocked creations.
    pub(crate) fn release(&self, count: usize) {
        self.released.add_permits(count);
    }
}

/// The plugin that holds.
struct Holding(Arc<Hold>);

impl Plugin for Holding {
    fn name(&self) -> &str {
        "Hold"
    }

    fn validates(&self) -> Vec<Rule> {
        vec![Rule::new("", "configmaps", &[Operation::Create])]
    }

    fn validate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        object: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, coracle_registry::Result<()>> {
        Box::pin(async move {
            if object["metadata"]["name"].as_str().unwrap_or_default().starts_with("held") {
                self.0.held.add_permits(1);
                self.0.released.acquire().await.unwrap().forget();
            }
            Ok(())
        })
    }
}

pub(crate) type RequestBody = BoxBody<Bytes, std::io::Error>;

/// A server in which every authenticated user may do everything with config maps and nothing else.
pub(crate) struct World {
    pub(crate) admin: Client,
    pub(crate) hold: Arc<Hold>,
    address: SocketAddr,
    shutdown: CancellationToken,
    server: Task<()>,
}

impl World {
    pub(crate) async fn new(limits: &FlowLimits) -> Self {
        Self::serve(limits, Limits::default()).await
    }

    pub(crate) async fn serve(limits: &FlowLimits, listen: Limits) -> Self {
        let hold = Arc::<Hold>::default();
        let mut admin = Client::new().await;
        admin.server.bootstrap(&ServerInfo::default()).await.unwrap();
        let plugin: Arc<dyn Plugin> = Arc::new(Holding(hold.clone()));
        admin.server = admin.server.with_plugins([plugin]).with_flow_limits(limits);
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]);
        let roles = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({"metadata": {"name": "maps"}, "rules": rules});
        assert_eq!(admin.post(&format!("{roles}/clusterroles"), role).await.0, 201);
        let binding = json!({
            "metadata": {"name": "maps"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "maps"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}],
        });
        assert_eq!(admin.post(&format!("{roles}/clusterrolebindings"), binding).await.0, 201);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let server = Server::new(Believing(admin.server.clone()), listen);
        let server = Task::spawn("server", server.serve(listener, shutdown.clone()));
        Self { admin, hold, address, shutdown, server }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends a request over HTTP/1.1 and does not wait for the response.
    pub(crate) async fn send(&self, head: &str, body: &str) -> TcpStream {
        let mut stream = self.connect().await;
        let text = format!("{head}\r\nhost: test\r\nconnection: close\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Sends a create over HTTP/1.1; without its last byte if it is not to be finished.
    pub(crate) async fn create(&self, user: &str, path: &str, name: &str, finished: bool) -> TcpStream {
        let body = json!({"metadata": {"name": name}}).to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nx-user: {user}\r\ncontent-type: application/json\r\ncontent-length: {}",
            body.len()
        );
        self.send(&head, &body[..body.len() - usize::from(!finished)]).await
    }

    /// The response to a GET over HTTP/1.1.
    pub(crate) async fn get(&self, user: &str, path: &str) -> String {
        let mut stream = self.send(&format!("GET {path} HTTP/1.1\r\nx-user: {user}"), "").await;
        response(&mut stream).await
    }

    /// The page of metrics.
    pub(crate) async fn metrics(&self) -> String {
        let (code, page) = self.admin.send(http::Method::GET, "/metrics", "*/*", Value::Null).await;
        assert_eq!(code, 200);
        page.as_str().unwrap().to_owned()
    }

    /// The sum of the samples of a flow control metric that have all these labels.
    pub(crate) async fn flow_metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        flow_metric(&self.metrics().await, name, labels)
    }

    /// Returns when the sum of a flow control metric is this.
    pub(crate) async fn wait_for_metric(&self, name: &str, labels: &[(&str, &str)], expected: f64) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let found = self.flow_metric(name, labels).await;
            if (found - expected).abs() < 0.1 {
                return;
            }
            assert!(tokio::time::Instant::now() < deadline, "{name} {labels:?} is {found}, not {expected}");
            tokio::task::yield_now().await;
        }
    }

    /// Lists config maps as a user over HTTP/1.1.
    pub(crate) async fn list(&self, user: &str) -> String {
        self.get(user, MAPS).await
    }

    /// A connection that speaks HTTP/2.
    pub(crate) async fn http2(&self) -> Http2 {
        self.http2_with_window(1 << 20).await
    }

    /// Opens an HTTP/2 connection with a window of this many bytes for a response.
    pub(crate) async fn http2_with_window(&self, window: u32) -> Http2 {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(window);
        let (sender, connection) = builder.handshake(TokioIo::new(self.connect().await)).await.unwrap();
        let driver = Task::spawn("client", async move { drop(connection.await) });
        Http2 { sender, _driver: driver }
    }

    /// Ends the server. No request executes or waits before.
    pub(crate) async fn end(self) {
        self.wait_for_metric("current_inqueue_requests", &[], 0.0).await;
        // The request for the metrics itself.
        self.wait_for_metric("current_executing_requests", &[], 1.0).await;
        self.shutdown.cancel();
        self.server.await.unwrap();
    }
}

/// One HTTP/2 connection of a client.
pub(crate) struct Http2 {
    pub(crate) sender: http2::SendRequest<RequestBody>,
    _driver: Task<()>,
}

impl Http2 {
    /// The response to a GET, whose body is not read.
    pub(crate) async fn get(&mut self, user: &str, path: &str) -> http::Response<Incoming> {
        let request = Request::builder().uri(format!("http://test{path}")).header("x-user", user);
        let body = Full::default().map_err(|never| match never {}).boxed();
        self.sender.send_request(request.body(body).unwrap()).await.unwrap()
    }

    /// Begins a create whose body never ends.
    pub(crate) fn unfinished(
        &mut self,
        user: &str,
        path: &str,
    ) -> impl Future<Output = hyper::Result<http::Response<Incoming>>> + use<> {
        use futures_util::StreamExt;
        let first = futures_util::stream::iter([Ok(Frame::data(Bytes::from_static(b"{")))]);
        let body = BodyExt::boxed(StreamBody::new(first.chain(futures_util::stream::pending())));
        let request = Request::builder().method("POST").uri(format!("http://test{path}"));
        let request = request.header("x-user", user).header("content-length", "1000");
        self.sender.send_request(request.header("content-type", "application/json").body(body).unwrap())
    }
}

/// The sum of the samples of a flow control metric that have all these labels.
pub(crate) fn flow_metric(page: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let prefix = format!("apiserver_flowcontrol_{name}{{");
    let has = |line: &str| labels.iter().all(|(label, value)| line.contains(&format!("{label}=\"{value}\"")));
    let samples = page.lines().filter(|line| line.starts_with(&prefix) && has(line));
    samples.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
}

/// A header of a response over HTTP/1.1.
pub(crate) fn header<'a>(response: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = response.split("\r\n").take_while(|line| !line.is_empty());
    lines.find_map(|line| {
        line.split_once(": ").filter(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    })
}

/// Reads until the server closes the connection.
pub(crate) async fn response(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let read = stream.read_to_string(&mut text);
    tokio::time::timeout(PATIENCE, read).await.expect("a response in time").unwrap();
    text
}
