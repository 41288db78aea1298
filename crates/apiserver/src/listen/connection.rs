//! Serves one connection over HTTP/1 or HTTP/2, whichever the client uses, until either side ends it.

use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use coracle_base::metrics::Counters;
use http::{Request, Response, Version, header};
use http_body_util::Limited;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use super::ConnectionRequest;
use super::accept::{Handshake, Peer, Stream};
use super::activity::Activity;
use super::drain::{IncomingBody, Rest};
use super::host;
use super::outgoing::Outgoing;
use super::self_wakes::PollAgain;
use super::stall::{self, Stalls};
use super::upgrade::{self, Upgraded};
use crate::body::{LongRunning, MAX_REQUEST_BODY_BYTES, ResponseBody};
use crate::flow::Unread;
use crate::identity::Remote;
use crate::status::malformed_request;
use crate::websocket::Upgrade;

/// Concurrent requests on one HTTP/2 connection: the number that clients assume before they receive the server's
/// settings (`initialMaxConcurrentStreams` of golang.org/x/net/http2). Further requests wait in the client, which may
/// open another connection.
const MAX_STREAMS_PER_CONNECTION: u32 = 100;

/// Size limit of the head of a request: its path and all its headers. Tokens of large organizations take 16 KiB or
/// more. A larger head is rejected with 431, a path of 64 KiB or more with 414.
const MAX_HEAD_BYTES: usize = 128 * 1024;

/// Bytes of one response that an HTTP/2 connection queues while the client's window is closed: one piece of a
/// list or a few events. Further bytes stay with the response, where they are counted and can be dropped.
const MAX_QUEUED_BYTES_PER_STREAM: usize = 64 * 1024;

/// Interval of pings on a silent HTTP/2 connection, and the timeout of their replies. A peer that vanished must not
/// keep its connection permit and its watches for ever.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Time that a shutdown waits for clients to read the end of their watches. The connection of a client that does not
/// read, such as a suspended `kubectl get -w`, is closed then, before [`super::Limits::shutdown_grace`] ends: the
/// client loses nothing, since it resumes from its resourceVersion.
const LONG_RUNNING_GRACE: Duration = Duration::from_secs(2);

/// Limits, metrics and cancellation that a connection takes from its server.
pub(super) struct Connection {
    pub(super) handshake_timeout: Duration,
    pub(super) header_read_timeout: Duration,
    pub(super) idle_timeout: Duration,
    /// Counter of failed handshakes.
    pub(super) handshake_errors: Option<Counters<0>>,
    /// Tracks the tasks of HTTP/2 streams.
    pub(super) streams: TaskTracker,
    pub(super) shutdown: CancellationToken,
}

impl Connection {
    /// Performs the handshake and serves requests until the stream ends. After shutdown begins, it ends with the
    /// requests in flight.
    pub(super) async fn serve<S>(self, connection: impl Handshake, service: S)
    where
        S: Service<ConnectionRequest, Response = Response<ResponseBody>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send + 'static,
    {
        let greeted = tokio::select! {
            // Dropped with the whole connection, which has carried no request yet.
            greeted = tokio::time::timeout(self.handshake_timeout, connection.handshake()) => greeted,
            // Safe to drop: only waits.
            () = self.shutdown.cancelled() => return,
        };
        match greeted.unwrap_or_else(|_late| Err(io::ErrorKind::TimedOut.into())) {
            Ok((stream, peer)) => PollAgain::new(pin!(self.serve_requests(stream, peer, service))).await,
            // Logged at debug level: any client can cause failed handshakes at any rate.
            Err(error) => {
                if let Some(errors) = &self.handshake_errors {
                    errors.with([]).inc();
                }
                tracing::debug!(%error, "handshake failed");
            }
        }
    }

    async fn serve_requests<S>(self, stream: impl Stream, peer: Peer, service: S)
    where
        S: Service<ConnectionRequest, Response = Response<ResponseBody>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send + 'static,
    {
        let first_request = CancellationToken::new();
        let activity = Arc::new(Activity::default());
        let stalls = Arc::<Stalls>::default();
        let upgrades = upgrade::Slot::default();
        let entrance = Entrance {
            service,
            peer,
            first_request: first_request.clone(),
            activity: activity.clone(),
            stalls: stalls.clone(),
            upgrades: upgrades.clone(),
        };
        let service = TowerToHyperService::new(entrance);
        let builder = self.builder();
        let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        let ended = tokio::select! {
            // Dropped only if the client sends no request.
            ended = stall::run_connection(connection.as_mut(), stalls.clone()) => ended,
            // Safe to drop: only waits.
            () = silence(&first_request, self.header_read_timeout) => {
                return tracing::debug!("closing a connection that sends no request");
            }
            // Safe to drop: only waits.
            () = activity.idle(self.idle_timeout) => {
                connection.as_mut().graceful_shutdown();
                stall::run_connection(connection, stalls.clone()).await
            }
            // Safe to drop: only waits.
            () = self.shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    // Dropped only if all that is left are watches whose client does not read.
                    ended = stall::run_connection(connection, stalls.clone()) => ended,
                    // Safe to drop: only waits.
                    () = activity.only_long_running(LONG_RUNNING_GRACE) => {
                        return tracing::debug!("closing a connection whose client does not read its watches");
                    }
                }
            }
        };
        match ended {
            // Logged at debug level: disconnects and other protocols are faults of the client.
            Some(Err(error)) => tracing::debug!(error, "connection ended"),
            Some(Ok(())) => {
                if let Some(upgraded) = upgrades.take() {
                    self.serve_upgraded(upgraded, &activity, stalls).await;
                }
            }
            None => {}
        }
    }

    /// Serves a connection after its upgrade from HTTP, under the same limits.
    async fn serve_upgraded(self, upgraded: Upgraded, activity: &Activity, stalls: Arc<Stalls>) {
        let served = pin!(upgraded.serve(&self.shutdown));
        let cut = async {
            self.shutdown.cancelled().await;
            activity.only_long_running(LONG_RUNNING_GRACE).await;
        };
        tokio::select! {
            // Dropped only if the client does not read.
            _ = stall::run_connection(served, stalls) => {}
            // Safe to drop: only waits.
            () = cut => tracing::debug!("closing a WebSocket whose client does not read"),
        }
    }

    fn builder(&self) -> auto::Builder<Streams> {
        let mut builder = auto::Builder::new(Streams(self.streams.clone()));
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_read_timeout)
            .max_buf_size(MAX_HEAD_BYTES);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS_PER_CONNECTION)
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            .max_send_buf_size(MAX_QUEUED_BYTES_PER_STREAM)
            .keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT);
        builder
    }
}

/// Spawns the tasks of HTTP/2 streams on a tracker, so that the server can wait for them. A panic ends only its
/// request.
#[derive(Clone)]
struct Streams(TaskTracker);

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        // Counted by the tracker, so the handle has no further use.
        drop(self.0.spawn(stall::run_stream(stream)));
    }
}

/// Returns if no request arrives within `limit`. Hyper's own timeout starts only after it has detected the HTTP
/// version, which it cannot if the client sends nothing.
async fn silence(first_request: &CancellationToken, limit: Duration) {
    if tokio::time::timeout(limit, first_request.cancelled()).await.is_ok() {
        std::future::pending::<()>().await;
    }
}

/// Wraps the service of a connection: adds the peer's identity to each request, limits its body and tracks it for
/// timeouts and shutdown.
#[derive(Clone)]
struct Entrance<S> {
    service: S,
    peer: Peer,
    first_request: CancellationToken,
    activity: Arc<Activity>,
    stalls: Arc<Stalls>,
    upgrades: upgrade::Slot,
}

impl<S> Service<Request<Incoming>> for Entrance<S>
where
    S: Service<ConnectionRequest, Response = Response<ResponseBody>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Outgoing>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        self.first_request.cancel();
        let Peer { identity, certificate, is_plain_http } = self.peer.clone();
        request.extensions_mut().insert(identity);
        request.extensions_mut().insert(Remote);
        if let Some(certificate) = certificate {
            request.extensions_mut().insert(certificate);
        }
        if let Some(value) = request.headers_mut().get_mut(header::AUTHORIZATION) {
            // Debug output of the request must not contain the credential.
            value.set_sensitive(true);
        }
        let mut running = self.activity.begin();
        let unread = Unread::new();
        let stalls = self.stalls.clone();
        let remote_fault = || is_plain_http.then(|| host::remote_fault(&request)).flatten();
        if let Some(fault) = host::fault(&request).or_else(remote_fault) {
            let response = malformed_request(fault).map(|body| Outgoing::new(body, unread, stalls, running));
            return Box::pin(std::future::ready(Ok(response)));
        }
        request.extensions_mut().insert(unread.clone());
        let is_http2 = request.version() == Version::HTTP_2;
        let upgrade = upgrade::prepare(&mut request);
        let (upgrades, activity) = (self.upgrades.clone(), self.activity.clone());
        let rest = Rest::default();
        let (parts, body) = request.into_parts();
        let body = IncomingBody::new(body, &parts.headers, rest.clone());
        let body = Limited::new(body, MAX_REQUEST_BODY_BYTES);
        let answered = self.service.call(Request::from_parts(parts, body));
        Box::pin(async move {
            if is_http2 {
                stall::writes(&unread);
            } else {
                stalls.watch(unread.clone());
            }
            let response = answered.await?;
            rest.drain().await;
            if response.extensions().get::<LongRunning>().is_some() {
                running.set_long_running();
            }
            let response = match upgrade {
                Some(upgrade) if response.extensions().get::<Upgrade>().is_some() => {
                    let running = std::mem::replace(&mut running, activity.begin());
                    upgrades.keep(upgrade, response, unread.clone(), running)
                }
                _ => response,
            };
            Ok(response.map(|body| Outgoing::new(body, unread, stalls, running)))
        })
    }
}
