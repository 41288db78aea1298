//! Accepts connections, limits them, serves their requests and drains them at shutdown.
//!
//! A connection is any stream of bytes; [`Tls`] adds encryption to a socket. Every connection is a task of the
//! [`Server::serve`] that accepted it.

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

/// A request from a connection. Its body is limited to [`crate::MAX_REQUEST_BODY_BYTES`].
pub type ConnectionRequest = Request<Limited<IncomingBody>>;

/// Delay after the first failed accept, and the longest delay. Such failures (no file descriptors, no memory) end when
/// connections end, so the loop must neither stop nor spin.
const ACCEPT_BACKOFF_INITIAL: Duration = Duration::from_millis(5);
const ACCEPT_BACKOFF_CAP: Duration = Duration::from_secs(1);

/// Time for responses on connections that were opened during the drain. The responses are short; the connection of a
/// client that does not read its response is closed after this time.
const LATE_GRACE: Duration = Duration::from_secs(1);

/// The permit and the entry of its address that a connection holds until it ends.
type Place = (OwnedSemaphorePermit, Entered);

/// Limits of connections: their number, and timeouts.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent connections over all listeners. Further connections wait in the system's backlog until one ends.
    pub max_connections: usize,
    /// Concurrent connections from one IPv4 address or one IPv6 network. Loopback is exempt. Further connections are
    /// closed at once.
    pub max_connections_per_address: usize,
    /// Time for the TLS handshake. Then the connection is closed.
    pub handshake_timeout: Duration,
    /// Time to send the head of a request, and to keep an unused HTTP/1 connection open. Then the connection is
    /// closed.
    pub header_read_timeout: Duration,
    /// Time to keep a connection without any request. Then the connection is closed.
    pub idle_timeout: Duration,
    /// Time for requests in flight to finish after shutdown begins. Then their connections are closed.
    pub shutdown_grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // A client needs one or two connections and a node a handful, so this is enough for a thousand
            // nodes. The buffers of so many idle connections fit into the memory of a small machine.
            max_connections: 4096,
            // Many clients may share one address: a company behind a NAT router, a load balancer. The limit on
            // all connections leaves room for three more such addresses.
            max_connections_per_address: 1024,
            // The timeout of Go's clients (`TLSHandshakeTimeout` of net/http). It is shorter than the timeout of
            // a request head, so that connections opened only to occupy the server are closed sooner.
            handshake_timeout: Duration::from_secs(10),
            // ReadHeaderTimeout of kube-apiserver (secure_serving.go of k8s.io/apiserver).
            header_read_timeout: Duration::from_secs(32),
            // IdleTimeout of kube-apiserver, in the same file.
            idle_timeout: Duration::from_secs(90),
            // Shorter than the default terminationGracePeriodSeconds of a pod, 30 s, after which the kubelet kills
            // the process.
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
    /// Creates a server whose clones share the limits on connections.
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

    /// Accepts connections until `shutdown` is cancelled, and returns after the last connection has ended. Requests
    /// on connections opened during the drain are answered with a hint to retry.
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
                // Safe to drop: the permit is released, and no accepted connection is lost. An ended connection may
                // cut the backoff short: it has released resources whose lack made the accept fail.
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
        // HTTP/2 stream tasks end with their connections; waiting ensures that none runs on return.
        streams.close();
        streams.wait().await;
    }

    /// Accepts connections until it is dropped, and answers their requests with a hint to retry. The connections end
    /// when `drained` is cancelled.
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

    /// Accepts a connection within the limits. Returns none after a failed accept and its backoff, or if the address
    /// has too many connections.
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

/// Returns true if the error concerns only the connection that was being accepted, so no backoff is needed.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Waits for the connections to end, and aborts the remaining ones after `grace`.
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

/// Logs the panic of a connection's task. A panic ends only its connection.
fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "serving a connection panicked");
    }
}
