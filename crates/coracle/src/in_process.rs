//! The API without a network: a client whose requests are function calls.
//!
//! They pass everything requests from outside pass, with an identity of their own instead of a handshake,
//! so there is no back door. What needs a connection to take over (exec, attach, port-forward) does not
//! work this way.

use std::sync::Arc;
use std::task::{Context, Poll};

use coracle_apiserver::{ApiServer, CredentialScope, Fence, Identity, PeerIdentity};
use http::{HeaderValue, Request, header};
use kube::Client;
use kube::client::Body;
use tower::Service;

/// The namespace of requests that name none.
const DEFAULT_NAMESPACE: &str = "default";

/// Who may do everything: what runs in the same process is trusted as the server is.
const MASTERS: &str = "system:masters";

/// Who asks from within.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    /// The user, as authorization and audit see it.
    user: &'static str,
    /// The program, whose name becomes the manager of the fields it writes.
    program: &'static str,
}

impl Caller {
    /// The user, who may do everything.
    pub(crate) fn identity(self) -> Identity {
        let groups = vec![MASTERS.to_owned(), "system:authenticated".to_owned()];
        Identity { name: self.user.to_owned(), groups, ..Identity::default() }
    }
}

/// Whoever embeds the cluster: the same user as in the admin kubeconfig.
pub(crate) const ADMINISTRATOR: Caller = Caller { user: "kubernetes-admin", program: "coracle" };

/// The controllers, under upstream's name for them.
pub(crate) const CONTROLLERS: Caller =
    Caller { user: "system:kube-controller-manager", program: "kube-controller-manager" };

/// The kubelets of all simulated nodes. Not in the group of nodes, of which each may write its own objects only.
pub(crate) const FAKE_NODES: Caller = Caller { user: "system:fake-nodes", program: "kubelet" };

/// The scheduler, under upstream's name for it.
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

/// What stands where a connection would be.
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
