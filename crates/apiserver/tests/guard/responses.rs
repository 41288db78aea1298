//! Responses that clients do not read: they hold no seat, and are ended after a while.

use std::net::IpAddr;

use coracle_apiserver::FlowLimits;
use http_body_util::BodyExt;
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::world::{MAPS, PATIENCE, World, response};

/// Creates config maps whose list has several hundred kilobytes, so that it is streamed.
async fn fill(world: &World) {
    for number in 0..30 {
        let body = json!({"metadata": {"name": format!("m{number}")}, "data": {"key": "x".repeat(20_000)}});
        assert_eq!(world.admin.post(MAPS, body).await.0, 201);
    }
}

/// A single seat, so that one response that holds it blocks all requests.
fn one_seat() -> FlowLimits {
    FlowLimits { requests: 1, ..FlowLimits::default() }
}

#[tokio::test]
async fn lists_that_are_not_read_over_http2_hold_no_seat() {
    let world = World::new(&one_seat()).await;
    fill(&world).await;
    let mut connection = world.http2_with_window(0).await;
    let mut lists = Vec::new();
    for number in 0..10 {
        let list = tokio::time::timeout(PATIENCE, connection.get(&format!("u{}", number % 3), MAPS)).await;
        lists.push(list.expect("a response head, since the list before it gave its seat back"));
    }
    for user in ["alice", "system:node:n"] {
        assert!(world.get(user, &format!("{MAPS}/m1")).await.starts_with("HTTP/1.1 200"));
    }
    drop(lists);
    world.end().await;
}

#[tokio::test]
async fn lists_that_are_not_read_over_http1_hold_no_seat() {
    let world = World::new(&one_seat()).await;
    for number in 0..12 {
        // More than the buffers of a loopback connection take.
        let data = json!({"key": "x".repeat(1_000_000)});
        let body = json!({"metadata": {"name": format!("m{number}")}, "data": data});
        assert_eq!(world.admin.post(MAPS, body).await.0, 201);
    }
    let mut lists = Vec::new();
    for _ in 0..5 {
        let mut list = world.send(&format!("GET {MAPS} HTTP/1.1\r\nx-user: mallory"), "").await;
        let mut head = [0; 12];
        tokio::time::timeout(PATIENCE, list.read_exact(&mut head)).await.unwrap().unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        lists.push(list);
    }
    assert!(world.list("alice").await.starts_with("HTTP/1.1 200"));
    // A client that reads gets the whole response.
    let whole = response(&mut lists[0]).await;
    assert!(whole.len() > 12_000_000 && whole.contains("m11"));
    drop(lists);
    world.end().await;
}

#[tokio::test]
async fn response_that_is_read_slowly_is_whole() {
    let world = World::new(&FlowLimits::default()).await;
    fill(&world).await;
    let mut connection = world.http2_with_window(100).await;
    let list = connection.get("alice", MAPS).await.into_body().collect().await.unwrap().to_bytes();
    let list: serde_json::Value = serde_json::from_slice(&list).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 30);
    world.end().await;
}

/// Over streams in memory, so that the clock can be stopped.
mod stalled {
    use std::io;

    use coracle_apiserver::listen::{Accept, Handshake, Peer};
    use coracle_apiserver::{ApiServer, Identity, Limits, PeerIdentity, Server};
    use coracle_base::Task;
    use hyper::client::conn::http2;
    use hyper_util::rt::{TokioExecutor, TokioIo};
    use std::sync::Arc;
    use tokio::io::{AsyncWriteExt, DuplexStream};
    use tokio::sync::mpsc;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::support::Client;

    struct Listener(mpsc::Receiver<DuplexStream>);
    struct Accepted(DuplexStream, PeerIdentity);

    impl Accept for Listener {
        type Connection = Accepted;

        async fn accept(&mut self) -> io::Result<Accepted> {
            let Some(stream) = self.0.recv().await else { return std::future::pending().await };
            let groups = vec!["system:masters".to_owned()];
            let admin = Identity { name: "admin".into(), groups, ..Identity::default() };
            Ok(Accepted(stream, PeerIdentity(Some(Arc::new(admin)))))
        }
    }

    impl Handshake for Accepted {
        type Stream = DuplexStream;

        fn peer_address(&self) -> Option<IpAddr> {
            None
        }

        async fn handshake(self) -> io::Result<(DuplexStream, Peer)> {
            Ok((self.0, Peer { identity: self.1, ..Peer::default() }))
        }
    }

    /// A server, and how to connect to it.
    async fn serve() -> (mpsc::Sender<DuplexStream>, CancellationToken, Task<()>) {
        let admin = Client::new().await;
        for number in 0..30 {
            let body =
                json!({"metadata": {"name": format!("m{number}")}, "data": {"key": "x".repeat(20_000)}});
            assert_eq!(admin.post(MAPS, body).await.0, 201);
        }
        let (sender, receiver) = mpsc::channel(1);
        let shutdown = CancellationToken::new();
        let server = Server::<ApiServer>::new(admin.server, Limits::default());
        let server = Task::spawn("server", server.serve(Listener(receiver), shutdown.clone()));
        (sender, shutdown, server)
    }

    async fn connect(sender: &mpsc::Sender<DuplexStream>) -> DuplexStream {
        let (near, far) = tokio::io::duplex(64 * 1024);
        sender.send(far).await.unwrap();
        near
    }

    #[tokio::test(start_paused = true)]
    async fn http2_stream_whose_client_does_not_read_is_reset_and_others_go_on() {
        let (sender, shutdown, server) = serve().await;
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(0);
        let stream = TokioIo::new(connect(&sender).await);
        let (mut client, connection) = builder.handshake(stream).await.unwrap();
        let driver = Task::spawn("client", async move { drop(connection.await) });
        let get = |path: &str| {
            let request = http::Request::builder().uri(format!("http://test{path}"));
            request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap()
        };
        let list = client.send_request(get(MAPS)).await.unwrap();
        let error = list.into_body().collect().await.expect_err("the stream is reset");
        assert!(format!("{error:?}").contains("Reset"), "{error:?}");
        // The connection stays open.
        let empty = client.send_request(get("/api/v1/namespaces/default/secrets?limit=1")).await.unwrap();
        assert_eq!(empty.status(), 200);
        drop((client, empty));
        shutdown.cancel();
        server.await.unwrap();
        driver.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn http1_connection_whose_client_does_not_read_is_closed() {
        let (sender, shutdown, server) = serve().await;
        let mut stream = connect(&sender).await;
        let request = format!("GET {MAPS} HTTP/1.1\r\nhost: test\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        tokio::time::sleep(PATIENCE).await;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert!(rest.starts_with(b"HTTP/1.1 200") && rest.len() < 200_000, "{} bytes", rest.len());
        shutdown.cancel();
        server.await.unwrap();
    }
}
