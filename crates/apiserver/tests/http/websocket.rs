//! Watches over WebSockets, over in-memory connections on a paused clock.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use coracle_apiserver::listen::ConnectionRequest;
use coracle_apiserver::{Accept, CredentialScope, Limits, PeerIdentity, Server};
use coracle_base::Task;
use futures_util::{SinkExt, StreamExt};
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_util::sync::CancellationToken;
use tower::{ServiceExt, service_fn};

use crate::client::{CONFIG_MAPS, Client, PROTOBUF, bytes};

/// Bytes that a connection holds for a client that does not read.
const STREAM_BUFFER_BYTES: usize = 64 * 1024;

/// The headers of a client such as fabric8, and the response that RFC 6455 has for their key.
const HANDSHAKE: &str = "upgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\n\
                         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\norigin: http://test\r\n";
const ACCEPT: &str = "sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// Connections come when the test opens them.
struct Opened(mpsc::Receiver<DuplexStream>);

impl Accept for Opened {
    type Connection = DuplexStream;

    async fn accept(&mut self) -> io::Result<DuplexStream> {
        match self.0.recv().await {
            Some(stream) => Ok(stream),
            None => std::future::pending().await,
        }
    }
}

/// A server whose connections are the administrator's.
struct Site {
    admin: Client,
    opening: mpsc::Sender<DuplexStream>,
    shutdown: CancellationToken,
    server: Task<()>,
}

impl Site {
    async fn new() -> Self {
        let shutdown = CancellationToken::new();
        let admin = Client::with_shutdown(shutdown.clone()).await;
        let (api, identity) = (admin.server.clone(), PeerIdentity(admin.identity.clone()));
        let service = service_fn(move |mut request: ConnectionRequest| {
            request.extensions_mut().insert(identity.clone());
            request.extensions_mut().insert(CredentialScope::AllClusters);
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.oneshot(request).await.unwrap()) }
        });
        let (opening, opened) = mpsc::channel(1);
        let server = Server::new(service, Limits::default()).serve(Opened(opened), shutdown.clone());
        Self { admin, opening, shutdown, server: Task::spawn("server", server) }
    }

    /// Sends a request, and returns the connection with the head of its response.
    async fn request(&self, path: &str, headers: &str) -> (DuplexStream, String) {
        let (mut client, server) = tokio::io::duplex(STREAM_BUFFER_BYTES);
        self.opening.send(server).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\n{headers}\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(client.read_u8().await.unwrap());
        }
        (client, String::from_utf8(head).unwrap())
    }

    /// Opens a watch.
    async fn watch(&self, path: &str, headers: &str) -> Socket {
        let (stream, head) = self.request(path, &format!("{HANDSHAKE}{headers}")).await;
        assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{head}");
        assert!(head.contains(ACCEPT), "{head}");
        Socket(WebSocketStream::from_raw_socket(stream, Role::Client, None).await)
    }

    async fn create(&self, name: &str, bytes: usize) {
        let object = json!({"metadata": {"name": name}, "data": {"key": "x".repeat(bytes)}});
        let (code, created) = self.admin.json(Method::POST, CONFIG_MAPS, object).await;
        assert_eq!(code, 201, "{created}");
    }

    /// How many watches the server counts as open.
    async fn open_watches(&self) -> i64 {
        let response = self.admin.accept("/metrics", "*/*").await;
        let page = String::from_utf8(bytes(response).await.to_vec()).unwrap();
        let lines = page.lines().filter(|line| line.starts_with("apiserver_longrunning_requests{"));
        lines.map(|line| line.rsplit(' ').next().unwrap().parse::<i64>().unwrap()).sum()
    }

    /// Waits until this number of watches is open.
    async fn wait_for_watches(&self, expected: i64) {
        while self.open_watches().await != expected {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.server.await.unwrap();
    }
}

struct Socket(WebSocketStream<DuplexStream>);

impl Socket {
    async fn next(&mut self) -> Message {
        self.0.next().await.unwrap().unwrap()
    }

    /// The name of the object of the next event.
    async fn name(&mut self) -> String {
        let message = self.next().await;
        let event: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
        assert!(message.is_text(), "{event}");
        event["object"]["metadata"]["name"].as_str().unwrap().to_owned()
    }

    async fn close_code(&mut self) -> CloseCode {
        match self.next().await {
            Message::Close(Some(frame)) => frame.code,
            other => panic!("{other:?}"),
        }
    }
}

fn watch_path(query: &str) -> String {
    format!("{CONFIG_MAPS}?watch=true&{query}")
}

#[tokio::test(start_paused = true)]
async fn watch_sends_each_event_as_one_text_message() {
    let site = Site::new().await;
    site.create("a", 1).await;
    for path in [watch_path(""), format!("/clusters/default{}", watch_path(""))] {
        let mut socket = site.watch(&path, "").await;
        assert_eq!(socket.name().await, "a");
    }
    let mut socket = site.watch("/api/v1/watch/namespaces/default/configmaps", "").await;
    assert_eq!(socket.name().await, "a");
    // Some at once, and some that take many writes.
    for number in 0..10 {
        site.create(&format!("small{number}"), 10).await;
    }
    site.create("large", 500_000).await;
    site.create("last", 10).await;
    for number in 0..10 {
        assert_eq!(socket.name().await, format!("small{number}"));
    }
    assert_eq!((socket.name().await, socket.name().await), ("large".to_owned(), "last".to_owned()));
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn protobuf_watch_sends_binary_messages_without_a_length() {
    let site = Site::new().await;
    site.create("a", 1).await;
    let mut socket = site.watch(&watch_path(""), &format!("accept: {PROTOBUF}\r\n")).await;
    let Message::Binary(event) = socket.next().await else { panic!("no binary message") };
    // The first field of a WatchEvent, its type.
    assert_eq!(&event[..7], b"\x0a\x05ADDED");
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn pings_are_answered_and_messages_ignored() {
    let site = Site::new().await;
    let mut socket = site.watch(&watch_path(""), "sec-websocket-protocol: x\r\n").await;
    socket.0.send(Message::Ping("are you there".into())).await.unwrap();
    assert_eq!(socket.next().await, Message::Pong("are you there".into()));
    socket.0.send(Message::Text("nothing".into())).await.unwrap();
    site.create("a", 1).await;
    assert_eq!(socket.name().await, "a");
    // The head of a binary message of 1 MiB: final, masked, its length in eight bytes.
    let head = b"\x82\xff\x00\x00\x00\x00\x00\x10\x00\x00mask";
    socket.0.get_mut().write_all(head).await.unwrap();
    assert_eq!(socket.close_code().await, CloseCode::Size);
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn watch_ends_with_a_close_frame() {
    let site = Site::new().await;
    let mut timed = site.watch(&watch_path("timeoutSeconds=100"), "").await;
    assert_eq!(timed.close_code().await, CloseCode::Normal);
    assert!(timed.0.next().await.is_none());
    let mut stopped = site.watch(&watch_path(""), "").await;
    site.wait_for_watches(1).await;
    site.shutdown.cancel();
    assert_eq!(stopped.close_code().await, CloseCode::Away);
    assert!(stopped.0.next().await.is_none());
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_a_client_that_does_not_answer_the_close() {
    let site = Site::new().await;
    let socket = site.watch(&watch_path(""), "").await;
    site.wait_for_watches(1).await;
    let began = tokio::time::Instant::now();
    site.end().await;
    assert!(began.elapsed() < Limits::default().shutdown_grace, "{:?}", began.elapsed());
    drop(socket);
}

#[tokio::test(start_paused = true)]
async fn watch_ends_when_its_client_goes_away() {
    let site = Site::new().await;
    let (mut closed, vanished) =
        (site.watch(&watch_path(""), "").await, site.watch(&watch_path(""), "").await);
    site.wait_for_watches(2).await;
    closed.0.close(None).await.unwrap();
    assert!(matches!(closed.next().await, Message::Close(_)));
    site.wait_for_watches(1).await;
    drop(vanished);
    site.wait_for_watches(0).await;
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn watch_whose_client_does_not_read_is_ended() {
    let site = Site::new().await;
    let socket = site.watch(&watch_path(""), "").await;
    site.wait_for_watches(1).await;
    site.create("large", 4 * STREAM_BUFFER_BYTES).await;
    let began = tokio::time::Instant::now();
    site.wait_for_watches(0).await;
    assert!(began.elapsed() >= Duration::from_secs(30), "{:?}", began.elapsed());
    let page = bytes(site.admin.accept("/metrics", "*/*").await).await;
    let page = String::from_utf8(page.to_vec()).unwrap();
    assert!(
        page.contains("apiserver_terminated_watchers_total{group=\"\",resource=\"configmaps\"} 1\n"),
        "{page}"
    );
    drop(socket);
    site.end().await;
}

#[tokio::test(start_paused = true)]
async fn invalid_requests_are_answered_over_http() {
    let site = Site::new().await;
    let without = |line: &str| HANDSHAKE.replace(&format!("{line}\r\n"), "");
    for (path, headers, expected) in [
        (watch_path(""), without("origin: http://test"), "403 Forbidden"),
        (watch_path(""), without("sec-websocket-version: 13"), "400 Bad Request"),
        (watch_path(""), format!("{HANDSHAKE}sec-websocket-protocol: a, b\r\n"), "400 Bad Request"),
        (watch_path(""), format!("{HANDSHAKE}accept: application/yaml\r\n"), "406 Not Acceptable"),
        (watch_path("labelSelector=%21%21"), HANDSHAKE.to_owned(), "400 Bad Request"),
        // Only watches are served so.
        (CONFIG_MAPS.to_owned(), HANDSHAKE.to_owned(), "200 OK"),
        (watch_path(""), "upgrade: h2c\r\nconnection: Upgrade\r\n".to_owned(), "200 OK"),
    ] {
        let (_stream, head) = site.request(&path, &headers).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {expected}\r\n")), "{path} {headers}: {head}");
    }
    site.end().await;
}
