//! From sockets to the service: accepting, limits, and an orderly end.
//!
//! What is served is any stream of bytes; [`Tls`] puts encryption between a socket and here.
//! Every connection is a task of the [`Server::serve`] that accepted it.

mod accept;
mod activity;
mod addresses;
mod authorities;
mod client_certificate;
mod connection;
mod drain;
mod host;
mod outgoing;
mod plain_http;
mod plain_or_tls;
mod self_wakes;
mod shutting_down;
mod stall;
mod tls;
mod upgrade;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::metrics::Counters;
use coracle_base::{Backoff, Rng};
use http::{Request, Response};
use http_body_util::Limited;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

pub use accept::{Accept, Handshake, Peer, Stream};
use addresses::{Addresses, Entered};
use connection::Connection;
pub use drain::IncomingBody;
pub use plain_or_tls::{PlainOrTls, PlainOrTlsConnection, PlainOrTlsListener};
use shutting_down::ShuttingDown;
pub use tls::{ServerCertificate, Tls, TlsConnection, TlsError, TlsListener};

use crate::ApiServer;
use crate::body::ResponseBody;

/// A request as it comes from a connection: its body cannot be read beyond
/// [`crate::MAX_REQUEST_BODY_BYTES`].
pub type ConnectionRequest = Request<Limited<IncomingBody>>;

/// How long to wait after the first failed accept, and at most. Such failures (no descriptors,
/// no memory) end when connections do, so the loop must neither give up nor spin.
const ACCEPT_BACKOFF_INITIAL: Duration = Duration::from_millis(5);
const ACCEPT_BACKOFF_CAP: Duration = Duration::from_secs(1);

/// How long the answers to connections that came during the drain may take. They are short; a client that does not
/// read its own is cut off.
const LATE_GRACE: Duration = Duration::from_secs(1);

/// What a connection occupies while it lasts.
type Place = (OwnedSemaphorePermit, Entered);

/// What connections may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at the same time, over all listeners. When full, further ones wait in the
    /// system's backlog until one ends.
    pub max_connections: usize,
    /// Of these, those from one address, or one network of IPv6; this machine is not counted. Further
    /// ones are closed at once.
    pub max_connections_per_address: usize,
    /// How long a client may take to agree on encryption. Then the connection is closed.
    pub handshake_timeout: Duration,
    /// How long a client may take to send the head of a request, and how long it may keep an
    /// HTTP/1 connection that it does not use. Then the connection is closed.
    pub header_read_timeout: Duration,
    /// How long a client may keep a connection without any request. Then the connection is closed.
    pub idle_timeout: Duration,
    /// How long requests in flight may go on after the shutdown began. Then they are cut off.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A client needs one or two and a node a handful, so this is room for a thousand
            // nodes; the buffers of so many idle connections still fit a small machine.
            max_connections: 4096,
            // Many may come through one address: a company behind its router, a load balancer. Three more
            // such places still find room.
            max_connections_per_address: 1024,
            // What Go's clients grant the server (`TLSHandshakeTimeout` of net/http). Less than
            // for a request: whoever opens connections only to hold them is rid of sooner.
            handshake_timeout: Duration::from_secs(10),
            // Upstream's ReadHeaderTimeout (secure_serving.go of k8s.io/apiserver).
            header_read_timeout: Duration::from_secs(32),
            // Upstream's IdleTimeout, in the same place.
            idle_timeout: Duration::from_secs(90),
            // Shorter than the 30 s after which Kubernetes, as a pod's host, would kill us.
            shutdown_grace: Duration::from_secs(20),
        }
    }
}

/// Serves the connections of any number of listeners with one service.
#[derive(Clone, Debug)]
pub struct Server<S> {
    service: S,
    limits: Limits,
    permits: Arc<Semaphore>,
    addresses: Arc<Addresses>,
    handshake_errors: Option<Counters<0>>,
}

impl<S> Server<S>
where
    S: Service<ConnectionRequest, Response = Response<ResponseBody>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    /// A server whose clones share the limit on connections.
    pub fn new(service: S, limits: Limits) -> Self {
        Self {
            service,
            limits,
            permits: Arc::new(Semaphore::new(limits.max_connections)),
            addresses: Arc::new(Addresses::new(limits.max_connections_per_address)),
            handshake_errors: None,
        }
    }

    /// Counts failed handshakes in the metrics of an API server.
    #[must_use]
    pub fn with_metrics(self, server: &ApiServer) -> Self {
        Self { handshake_errors: Some(server.handshake_errors()), ..self }
    }

    /// Accepts connections until `shutdown` is cancelled; returns when the last one has ended. Connections that
    /// come while the others are drained get a hint to retry.
    pub async fn serve<A: Accept>(self, mut listener: A, shutdown: CancellationToken) {
        let mut connections = JoinSet::new();
        let streams = TaskTracker::new();
        let mut backoff = Backoff::new(ACCEPT_BACKOFF_INITIAL, ACCEPT_BACKOFF_CAP, Rng::from_entropy());
        loop {
            tokio::select! {
                biased;
                // Safe to drop: only waits.
                () = shutdown.cancelled() => break,
                // Safe to drop: takes a result or nothing.
                Some(ended) = connections.join_next() => report(ended),
                // Safe to drop: a permit goes back, an accept has happened or not. A wait cut
                // short by an ended connection is right, for that has freed what was missing.
                accepted = self.next_connection(&mut listener, &mut backoff) => {
                    if let Some((connection, place)) = accepted {
                        let service = self.service.clone();
                        connections.spawn(self.connection(connection, service, place, &streams, &shutdown));
                    }
                }
            }
        }
        let (drained, mut late) = (CancellationToken::new(), JoinSet::new());
        tokio::select! {
            // Not dropped: the other branch never ends.
            () = drain(&mut connections, self.limits.shutdown_grace) => {}
            // Safe to drop: the connections are in `late`.
            never = self.turn_away(&mut listener, &mut late, &streams, &drained) => match never {},
        }
        drop(listener);
        drained.cancel();
        drain(&mut late, LATE_GRACE).await;
        // They end with their connections; this makes sure that none is running on return.
        streams.close();
        streams.wait().await;
    }

    /// Accepts connections whose requests are answered with a hint to retry, until it is dropped. They end when
    /// `drained` is cancelled.
    async fn turn_away<A: Accept>(
        &self,
        listener: &mut A,
        late: &mut JoinSet<()>,
        streams: &TaskTracker,
        drained: &CancellationToken,
    ) -> Infallible {
        let mut backoff = Backoff::new(ACCEPT_BACKOFF_INITIAL, ACCEPT_BACKOFF_CAP, Rng::from_entropy());
        loop {
            if let Some((connection, place)) = self.next_connection(listener, &mut backoff).await {
                let service = ShuttingDown::new(self.service.clone());
                late.spawn(self.connection(connection, service, place, streams, drained));
            }
            while let Some(ended) = late.try_join_next() {
                report(ended);
            }
        }
    }

    /// The next connection with its place; none after a failure that has been waited out, or if there are
    /// too many from there.
    async fn next_connection<A: Accept>(
        &self,
        listener: &mut A,
        backoff: &mut Backoff,
    ) -> Option<(A::Connection, Place)> {
        let permit = self.permits.clone().acquire_owned().await.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok(connection) => {
                backoff.reset();
                let address = connection.peer_address();
                let Some(entered) = self.addresses.enter(address) else {
                    tracing::debug!(?address, "closing one of too many connections from one address");
                    return None;
                };
                Some((connection, (permit, entered)))
            }
            Err(error) if is_of_one_connection(&error) => None,
            Err(error) => {
                let delay = backoff.next_delay();
                tracing::warn!(%error, ?delay, "cannot accept connections, will try again");
                tokio::time::sleep(delay).await;
                None
            }
        }
    }

    fn connection<H: Handshake, T>(
        &self,
        accepted: H,
        service: T,
        place: Place,
        streams: &TaskTracker,
        shutdown: &CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<S, H, T>
    where
        T: Service<ConnectionRequest, Response = Response<ResponseBody>, Error = Infallible>,
        T: Clone + Send + 'static,
        T::Future: Send + 'static,
    {
        let connection = Connection {
            handshake_timeout: self.limits.handshake_timeout,
            header_read_timeout: self.limits.header_read_timeout,
            idle_timeout: self.limits.idle_timeout,
            handshake_errors: self.handshake_errors.clone(),
            streams: streams.clone(),
            shutdown: shutdown.clone(),
        };
        async move {
            connection.serve(accepted, service).await;
            drop(place);
        }
    }
}

/// Whether only the connection that was being accepted is lost, so the next one may be fine.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Waits until the connections have ended, and cuts off those that have not after `grace`.
async fn drain(connections: &mut JoinSet<()>, grace: Duration) {
    let all_ended = async {
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
    };
    if tokio::time::timeout(grace, all_ended).await.is_err() {
        tracing::warn!(connections = connections.len(), ?grace, "cutting off connections that did not end");
        connections.shutdown().await;
    }
}

/// A panic ends its connection and no more.
fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "serving a connection panicked");
    }
}
