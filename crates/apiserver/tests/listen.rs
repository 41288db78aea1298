//! The life of connections, over in-memory streams on a paused clock: no test waits for real.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use coracle_apiserver::listen::ConnectionRequest;
use coracle_apiserver::{Accept, Limits, ResponseBody, Server};
use coracle_base::Task;
use http::Response;
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tower::service_fn;

/// Enough for every request and response here.
const STREAM_BUFFER_BYTES: usize = 64 * 1024;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: test\r\n\r\n";

/// A listener whose connections and failures come from a queue; then none come.
struct Queue(VecDeque<io::Result<DuplexStream>>);

impl Accept for Queue {
    type Connection = DuplexStream;

    async fn accept(&mut self) -> io::Result<DuplexStream> {
        match self.0.pop_front() {
            Some(next) => next,
            None => std::future::pending().await,
        }
    }
}

/// Clients, and the listener they come through.
fn clients<const N: usize>() -> ([DuplexStream; N], Queue) {
    let mut server_ends = VecDeque::new();
    let client_ends = std::array::from_fn(|_| {
        let (client, server) = tokio::io::duplex(STREAM_BUFFER_BYTES);
        server_ends.push_back(Ok(server));
        client
    });
    (client_ends, Queue(server_ends))
}

/// A server under test. Each request signals its arrival on `arrived`, then waits for `release`.
struct Running {
    task: Task<()>,
    arrived: mpsc::Receiver<()>,
    release: CancellationToken,
    shutdown: CancellationToken,
}

fn run(listener: impl Accept + 'static, limits: Limits) -> Running {
    let (arriving, arrived) = mpsc::channel(16);
    let (release, shutdown) = (CancellationToken::new(), CancellationToken::new());
    let released = release.clone();
    let service = service_fn(move |_: ConnectionRequest| {
        let (arriving, released) = (arriving.clone(), released.clone());
        async move {
            arriving.send(()).await.expect("the test listens");
            released.cancelled().await;
            Ok::<_, Infallible>(Response::new(ResponseBody::new(http_body_util::Full::from("done"))))
        }
    });
    let task = Task::spawn("server", Server::new(service, limits).serve(listener, shutdown.clone()));
    Running { task, arrived, release, shutdown }
}

/// Everything the client receives until the server closes the connection.
async fn rest(client: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut text = String::new();
    client.read_to_string(&mut text).await.expect("text until the end");
    text
}

#[tokio::test(start_paused = true)]
async fn a_request_in_flight_is_answered_during_shutdown() {
    let ([mut busy, mut idle], listener) = clients();
    let mut running = run(listener, Limits::default());
    busy.write_all(REQUEST).await.unwrap();
    running.arrived.recv().await.unwrap();

    running.shutdown.cancel();
    assert_eq!(rest(&mut idle).await, "", "an idle connection is closed at once");
    running.release.cancel();
    let answer = rest(&mut busy).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("done"), "{answer}");
    running.task.await.unwrap();
}

/// A listener whose connections come when the test opens them.
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

async fn open(opening: &mpsc::Sender<DuplexStream>) -> DuplexStream {
    let (client, server) = tokio::io::duplex(STREAM_BUFFER_BYTES);
    opening.send(server).await.expect("the server accepts");
    client
}

#[tokio::test(start_paused = true)]
async fn connection_opened_during_the_drain_gets_a_retry_hint() {
    let (opening, opened) = mpsc::channel(1);
    let mut running = run(Opened(opened), Limits::default());
    let mut busy = open(&opening).await;
    busy.write_all(REQUEST).await.unwrap();
    running.arrived.recv().await.unwrap();

    running.shutdown.cancel();
    let mut late = open(&opening).await;
    late.write_all(REQUEST).await.unwrap();
    let answer = rest(&mut late).await;
    assert!(answer.starts_with("HTTP/1.1 429 Too Many Requests\r\n"), "{answer}");
    assert!(answer.contains("retry-after: 5\r\n") && answer.contains("connection: close\r\n"), "{answer}");
    assert!(answer.ends_with("The apiserver is shutting down, please try again later.\n"), "{answer}");
    let mut silent = open(&opening).await;
    let mut probe = open(&opening).await;
    probe.write_all(b"GET /readyz HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").await.unwrap();
    running.arrived.recv().await.expect("health checks are still answered by the service");

    running.release.cancel();
    assert!(rest(&mut busy).await.ends_with("done"));
    assert_eq!(rest(&mut silent).await, "", "an idle connection is closed when the drain ends");
    running.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_end_is_cut_off_after_the_grace() {
    let ([mut busy], listener) = clients();
    let limits = Limits::default();
    let mut running = run(listener, limits);
    busy.write_all(REQUEST).await.unwrap();
    running.arrived.recv().await.unwrap();

    let began = tokio::time::Instant::now();
    running.shutdown.cancel();
    running.task.await.unwrap();
    assert_eq!(began.elapsed().as_secs(), limits.shutdown_grace.as_secs());
    assert_eq!(rest(&mut busy).await, "");
}

#[tokio::test(start_paused = true)]
async fn connections_of_slow_clients_are_closed() {
    let ([mut silent, mut hesitant, mut slow], listener) = clients();
    let limits = Limits::default();
    let running = run(listener, limits);
    hesitant.write_all(b"P").await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nhost: ").await.unwrap();

    let began = tokio::time::Instant::now();
    for client in [&mut silent, &mut hesitant, &mut slow] {
        assert_eq!(rest(client).await, "");
    }
    assert_eq!(began.elapsed().as_secs(), limits.header_read_timeout.as_secs());
    running.shutdown.cancel();
    running.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn connection_over_the_limit_waits_for_another_to_end() {
    let ([mut first, mut second], listener) = clients();
    let mut running = run(listener, Limits { max_connections: 1, ..Limits::default() });
    first.write_all(REQUEST).await.unwrap();
    second.write_all(REQUEST).await.unwrap();
    running.arrived.recv().await.unwrap();
    // On the paused clock this returns only when nothing else can go on.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(running.arrived.try_recv().is_err(), "the second is served beyond the limit");

    drop(first);
    running.arrived.recv().await.expect("the second is served once the first has gone");
    running.release.cancel();
    running.shutdown.cancel();
    assert!(rest(&mut second).await.ends_with("done"));
    running.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn failed_accept_is_retried_after_a_backoff() {
    const EMFILE: i32 = 24;
    let ([mut client], Queue(mut queue)) = clients();
    for _ in 0..3 {
        queue.push_front(Err(io::Error::from_raw_os_error(EMFILE)));
    }
    let began = tokio::time::Instant::now();
    let mut running = run(Queue(queue), Limits::default());
    client.write_all(REQUEST).await.unwrap();
    running.arrived.recv().await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(5), "it did not back off");
    running.release.cancel();
    running.shutdown.cancel();
    running.task.await.unwrap();
}

#[tokio::test]
async fn a_socket_is_served_like_any_stream() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let running = run(listener, Limits::default());
    running.release.cancel();
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").await.unwrap();
    assert!(rest(&mut client).await.ends_with("done"));
    running.shutdown.cancel();
    running.task.await.unwrap();
}

type Answered = Task<hyper::Result<Response<hyper::body::Incoming>>>;
type Sender = hyper::client::conn::http2::SendRequest<Empty<Bytes>>;

/// An HTTP/2 client, and the task of its connection, which ends with the last copy of the client.
async fn http2_client(stream: DuplexStream) -> (Sender, Task<hyper::Result<()>>) {
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("an HTTP/2 connection");
    (sender, Task::spawn("client", connection))
}

fn http2_send(mut sender: Sender) -> Answered {
    let request = http::Request::get("http://test/").body(Empty::<Bytes>::new()).expect("a request");
    Task::spawn("request", async move { sender.send_request(request).await })
}

/// An HTTP/2 client with one request on its way, and the task of its connection.
async fn http2_request(stream: DuplexStream) -> (Answered, Task<hyper::Result<()>>) {
    let (sender, connection) = http2_client(stream).await;
    (http2_send(sender), connection)
}

#[tokio::test(start_paused = true)]
async fn an_http2_request_in_flight_is_answered_during_shutdown() {
    let ([client], listener) = clients();
    let mut running = run(listener, Limits::default());
    let (request, _connection) = http2_request(client).await;
    running.arrived.recv().await.unwrap();
    running.shutdown.cancel();
    running.release.cancel();
    assert_eq!(request.await.unwrap().unwrap().status(), 200);
    running.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_http2_request_that_does_not_end_is_cut_off_after_the_grace() {
    let ([client], listener) = clients();
    let mut running = run(listener, Limits::default());
    let (request, _connection) = http2_request(client).await;
    running.arrived.recv().await.unwrap();
    running.shutdown.cancel();
    running.task.await.unwrap();
    assert!(running.arrived.recv().await.is_none(), "a request outlives its server");
    assert!(request.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn an_http2_connection_without_requests_is_closed() {
    let ([client], listener) = clients();
    let limits = Limits::default();
    let mut running = run(listener, limits);
    let (sender, connection) = http2_client(client).await;
    let request = http2_send(sender.clone());
    running.arrived.recv().await.unwrap();
    // On the paused clock, much time without anything to do but this request.
    tokio::time::sleep(10 * limits.idle_timeout).await;
    let began = tokio::time::Instant::now();
    running.release.cancel();
    assert_eq!(request.await.unwrap().unwrap().status(), 200);
    connection.await.unwrap().unwrap();
    drop(sender);
    assert_eq!(began.elapsed().as_secs(), limits.idle_timeout.as_secs());
    running.shutdown.cancel();
    running.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn too_large_request_head_is_rejected() {
    let ([mut header, mut path], listener) = clients();
    let running = run(listener, Limits::default());
    running.release.cancel();
    let large = "x".repeat(16 * 1024);
    header.write_all(b"GET / HTTP/1.1\r\nhost: test\r\n").await.unwrap();
    for number in 0..16 {
        // After the rejection the connection may be closed already.
        let line = format!("x-{number}: {large}\r\n");
        if header.write_all(line.as_bytes()).await.is_err() {
            break;
        }
    }
    let answer = rest(&mut header).await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    let request = format!("GET /{} HTTP/1.1\r\nhost: test\r\n\r\n", "x".repeat(65_535));
    path.write_all(request.as_bytes()).await.unwrap();
    let answer = rest(&mut path).await;
    assert!(answer.starts_with("HTTP/1.1 414"), "{answer}");
    running.shutdown.cancel();
    running.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn http_1_1_request_without_exactly_one_host_is_rejected_before_the_service() {
    for (hosts, expected) in [
        ("", "400 Bad Request: missing required Host header"),
        ("host: a\r\nHost: b\r\n", "400 Bad Request"),
        ("host: a\r\nhost: a\r\n", "400 Bad Request"),
    ] {
        let ([mut client], listener) = clients();
        // The service is never released, so that only the connection can answer.
        let running = run(listener, Limits::default());
        client.write_all(format!("GET / HTTP/1.1\r\n{hosts}\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
        assert!(answer.contains("content-type: text/plain; charset=utf-8\r\n"), "{answer}");
        assert!(answer.contains("connection: close\r\n") && answer.ends_with(expected), "{answer}");
        assert!(running.arrived.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn http_1_0_request_without_a_host_is_served() {
    let ([mut client], listener) = clients();
    let running = run(listener, Limits::default());
    running.release.cancel();
    client.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.0 200 OK") && answer.ends_with("done"), "{answer}");
}
