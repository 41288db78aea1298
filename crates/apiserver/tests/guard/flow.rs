//! Limits on requests over real connections: ids, a flood from one user while another is served, and clients
//! that do not finish what they began.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::support::Client;
use coracle_apiserver::listen::ConnectionRequest;
use coracle_apiserver::{ApiServer, FlowLimits, Identity, Limits, PeerIdentity, Server};
use coracle_base::Task;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower::Service;

/// How long anything here may take before the test is given up.
const PATIENCE: Duration = Duration::from_secs(60);

const LIMITS: FlowLimits = FlowLimits {
    requests: 8,
    requests_per_user: 4,
    waiting_per_user: 3,
    waiting: 100,
    wait: Duration::from_secs(3600),
    long_running_per_user: 2,
};

/// Believes whoever a request says it is from: these tests are not about that.
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
        let name = request.headers().get("x-user").map(|name| name.to_str().unwrap().to_owned());
        let groups = vec!["system:authenticated".to_owned()];
        let identity = name.map(|name| Arc::new(Identity { name, groups, ..Identity::default() }));
        request.extensions_mut().insert(PeerIdentity(identity));
        self.0.call(request)
    }
}

/// A server on a socket in which everybody may do everything with config maps.
struct World {
    address: std::net::SocketAddr,
    shutdown: CancellationToken,
    task: Task<()>,
}

impl World {
    async fn new() -> Self {
        let client = Client::new().await;
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]);
        let roles = "/apis/rbac.authorization.k8s.io/v1";
        let role = json!({"metadata": {"name": "maps"}, "rules": rules});
        assert_eq!(client.post(&format!("{roles}/clusterroles"), role).await.0, 201);
        let binding = json!({
            "metadata": {"name": "maps"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "maps"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}],
        });
        assert_eq!(client.post(&format!("{roles}/clusterrolebindings"), binding).await.0, 201);
        let service = Believing(client.server.with_flow_limits(&LIMITS));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let server = Server::new(service, Limits::default());
        let task = Task::spawn("server", server.serve(listener, shutdown.clone()));
        Self { address, shutdown, task }
    }

    /// Sends a request and does not wait for the answer.
    async fn send(&self, head: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let text = format!("{head}\r\nhost: test\r\nconnection: close\r\n\r\n{body}");
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// A write of a user that lacks the last byte of its body.
    async fn unfinished(&self, user: &str, name: &str) -> TcpStream {
        let body = map(name);
        let head = format!(
            "POST {MAPS} HTTP/1.1\r\nx-user: {user}\r\ncontent-type: application/json\r\ncontent-length: {}",
            body.len()
        );
        self.send(&head, &body[..body.len() - 1]).await
    }

    /// Lists as a user.
    async fn list(&self, user: &str) -> String {
        let mut stream = self.send(&format!("GET {MAPS} HTTP/1.1\r\nx-user: {user}"), "").await;
        answer(&mut stream).await
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.task.await.unwrap();
    }
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> String {
    json!({"metadata": {"name": name}}).to_string()
}

/// All that comes until the server has nothing more to say.
async fn answer(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut text))
        .await
        .expect("an answer in time")
        .unwrap();
    text
}

#[tokio::test]
async fn a_flood_from_one_user_does_not_starve_another() {
    let world = World::new().await;
    let room = LIMITS.requests_per_user + LIMITS.waiting_per_user;
    let (told, mut answers) = mpsc::channel(room + 1);
    let mut flood = Vec::new();
    for number in 0..=room {
        let (mut receiving, sending) = world.unfinished("flood", &format!("m{number}")).await.into_split();
        let told = told.clone();
        let reading = Task::spawn("answer", async move {
            let mut text = String::new();
            receiving.read_to_string(&mut text).await.unwrap();
            told.send(text).await.unwrap();
        });
        flood.push((sending, reading));
    }
    // Nothing that has a seat or waits can be answered yet, so this is the one for which there was no room.
    let refused = answers.recv().await.unwrap();
    assert!(refused.starts_with("HTTP/1.1 429"), "{refused}");
    let lower = refused.to_lowercase();
    assert!(lower.contains("retry-after: 1\r\n") && lower.contains("audit-id: "), "{refused}");
    assert!(refused.ends_with("Too many requests, please try again later.\n"), "{refused}");
    for _ in 0..20 {
        let list = world.list("other").await;
        assert!(list.starts_with("HTTP/1.1 200"), "{list}");
    }
    // Whoever held the seats gets on, and so do those who waited.
    for (sending, _) in &mut flood {
        // The one that was refused may be gone.
        let _ = sending.write_all(b"}").await;
    }
    for _ in 0..room {
        let text = answers.recv().await.unwrap();
        assert!(text.starts_with("HTTP/1.1 201"), "{text}");
    }
    for (_, reading) in flood {
        reading.await.unwrap();
    }
    assert!(world.list("flood").await.starts_with("HTTP/1.1 200"));
    world.end().await;
}

#[tokio::test]
async fn whoever_hangs_up_gives_way() {
    let world = World::new().await;
    let mut held = Vec::new();
    for number in 0..LIMITS.requests_per_user + 1 {
        held.push(world.unfinished("flood", &format!("m{number}")).await);
    }
    drop(held);
    assert!(world.list("flood").await.starts_with("HTTP/1.1 200"));
    world.end().await;
}

#[tokio::test]
async fn watches_have_no_seats() {
    let world = World::new().await;
    let watch = format!("GET {MAPS}?watch=true HTTP/1.1\r\nx-user: watcher");
    let mut watches = Vec::new();
    for _ in 0..LIMITS.long_running_per_user {
        let mut stream = world.send(&watch, "").await;
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        watches.push(stream);
    }
    let mut more = world.send(&watch, "").await;
    assert!(answer(&mut more).await.starts_with("HTTP/1.1 429"));
    for _ in 0..LIMITS.requests_per_user + 1 {
        assert!(world.list("watcher").await.starts_with("HTTP/1.1 200"));
    }
    drop(watches);
    world.end().await;
}

#[tokio::test]
async fn every_answer_has_the_id_of_its_request() {
    let world = World::new().await;
    for (path, user) in [(MAPS, "x-user: a\r\n"), ("/livez", ""), (MAPS, ""), ("/nowhere", "x-user: a\r\n")] {
        let mut stream = world.send(&format!("GET {path} HTTP/1.1\r\n{user}audit-id: mine"), "").await;
        let text = answer(&mut stream).await.to_lowercase();
        assert!(text.contains("\r\naudit-id: mine\r\n"), "{path} {text}");
        let mut stream = world.send(&format!("GET {path} HTTP/1.1\r\n{user}audit-id: not mine"), "").await;
        let text = answer(&mut stream).await.to_lowercase();
        let id = text.split("\r\naudit-id: ").nth(1).and_then(|rest| rest.split("\r\n").next()).unwrap();
        assert_eq!(id.len(), 36, "{path} {text}");
    }
    world.end().await;
}
