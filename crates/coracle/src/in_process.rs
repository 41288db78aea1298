//! In-process clients: their requests are function calls.
//!
//! The requests pass all filters that requests from outside pass, with an identity of their own instead of
//! a TLS handshake, so they bypass no check. Requests that need to take over a connection (exec, attach,
//! port-forward) are not supported.

use std::sync::Arc;
use std::task::{Context, Poll};

use coracle_apiserver::{ApiServer, CredentialScope, Fence, Identity, PeerIdentity};
use http::{HeaderValue, Request, header};
use kube::Client;
use kube::client::Body;
use tower::Service;

/// The namespace of requests without one.
const DEFAULT_NAMESPACE: &str = "default";

/// The group with all permissions: in-process components are trusted as much as the server.
const MASTERS: &str = "system:masters";

/// The identity of an in-process client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    /// The user, for authorization and audit.
    user: &'static str,
    /// The program name, which becomes the field manager of its writes.
    program: &'static str,
}

impl Caller {
    /// The user, with all permissions.
    pub(crate) fn identity(self) -> Identity {
        let groups = vec![MASTERS.to_owned(), "system:authenticated".to_owned()];
        Identity { name: self.user.to_owned(), groups, ..Identity::default() }
    }
}

/// The embedding program: the same user as in the admin kubeconfig.
pub(crate) const ADMINISTRATOR: Caller = Caller { user: "kubernetes-admin", program: "coracle" };

/// The controllers, as kube-controller-manager's user.
pub(crate) const CONTROLLERS: Caller =
    Caller { user: "system:kube-controller-manager", program: "kube-controller-manager" };

/// The kubelets of all simulated nodes. Not in the group `system:nodes`, whose members may write only their
/// own objects.
pub(crate) const FAKE_NODES: Caller = Caller { user: "system:fake-nodes", program: "kubelet" };

/// The scheduler, as kube-scheduler's user.
pub(crate) const SCHEDULER: Caller = Caller { user: "system:kube-scheduler", program: "kube-scheduler" };

/// A client of `server`. Must be called on a tokio runtime.
pub(crate) fn client(server: ApiServer, caller: Caller) -> Client {
    fenced_client(server, caller, None)
}

/// A client of `server` that writes only while the fence holds, if there is one.
pub(crate) fn fenced_client(server: ApiServer, caller: Caller, fence: Option<Fence>) -> Client {
    let identity = caller.identity();
    let program = HeaderValue::from_static(caller.program);
    let transport = Transport { server, peer: PeerIdentity(Some(Arc::new(identity))), program, fence };
    Client::new(transport, DEFAULT_NAMESPACE)
}

/// The in-process transport.
#[derive(Clone)]
struct Transport {
    server: ApiServer,
    peer: PeerIdentity,
    program: HeaderValue,
    /// The lease that the writes of its requests depend on.
    fence: Option<Fence>,
}

impl Service<Request<Body>> for Transport {
    type Response = <ApiServer as Service<Request<Body>>>::Response;
    type Error = <ApiServer as Service<Request<Body>>>::Error;
    type Future = <ApiServer as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<Body>>::poll_ready(&mut self.server, cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.extensions_mut().insert(self.peer.clone());
        // These components serve all clusters.
        request.extensions_mut().insert(CredentialScope::AllClusters);
        if let Some(fence) = &self.fence {
            request.extensions_mut().insert(fence.clone());
        }
        request.headers_mut().entry(header::USER_AGENT).or_insert_with(|| self.program.clone());
        self.server.call(request)
    }
}
