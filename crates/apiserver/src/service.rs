//! The API server as a `tower::Service`, independent of connections.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use coracle_base::metrics::{Counters, Metrics as MetricsRegistry};
use coracle_base::{Backoff, Clock, ErrorChain, OnDeepStack};
use coracle_registry::{DEFAULT_CLUSTER, Fence, HeldLease, Registry, ServerInfo};
use http::{Request, Response};
use http_body::Body;
use tokio_util::sync::CancellationToken;
use tower::Service;
use tracing::Instrument;

use crate::activity::Activity;
use crate::admission::{Chain, Plugin};
use crate::audit_id::{self, AUDIT_ID};
use crate::authentication::{Authentication, AuthenticationConfig, EXTRA_SPACE};
use crate::authorization::{Authorizer, MastersOnly, NodeAuthorizer, Rbac, Union};
use crate::body::{self, ResponseBody};
use crate::chain::RequestNotes;
use crate::credential_scope::ClusterReference;
use crate::decode_memory::DecodeMemory;
use crate::flow::{FlowControl, FlowLimits};
use crate::health::HealthChecks;
use crate::identity::Remote;
use crate::metrics::Metrics;
use crate::negotiate::{FrameCache, MessageCache};
use crate::request_info::RequestInfo;
use crate::request_log::RequestLog;
use crate::resource_metrics::MetricsSource;
use crate::simulated_nodes::SimulatedNodes;
use crate::token::{TokenPolicy, TokenSigner};
use crate::verbs::warn;

/// A request in progress, up to its response.
type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send>>;

/// The Kubernetes version that the server reports.
pub(crate) const VERSION: &str = "v1.36.4";

/// The initial objects of a cluster could not be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot create the initial objects of the cluster")]
pub struct BootstrapError(#[source] coracle_registry::Error);

/// No cluster has this id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no cluster {0:?}")]
pub struct UnknownCluster(String);

/// The API server. Cheap to clone.
#[derive(Clone)]
pub struct ApiServer {
    registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) components: Arc<Components>,
    pub(crate) shared: Arc<Shared>,
}

/// State that all requests share, beside the objects.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) frames: FrameCache,
    pub(crate) messages: MessageCache,
    pub(crate) decode_memory: DecodeMemory,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) activity: Arc<Activity>,
}

/// Components that requests use, beside the registry.
#[derive(Clone)]
pub(crate) struct Components {
    pub(crate) health: HealthChecks,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) authentication: Arc<Authentication>,
    pub(crate) tokens: Option<Arc<dyn TokenSigner>>,
    pub(crate) token_policy: TokenPolicy,
    /// The host and port at which clients reach the server.
    pub(crate) external_address: Option<String>,
    pub(crate) flow: FlowControl,
    pub(crate) metrics_source: Option<Arc<dyn MetricsSource>>,
    pub(crate) simulated_nodes: Option<Arc<dyn SimulatedNodes>>,
    /// Cancelled when the server drains its requests; watches end then.
    pub(crate) shutdown: CancellationToken,
}

impl ApiServer {
    /// Creates a server with these health checks that serves the clusters of `registry`.
    pub fn new(health: HealthChecks, registry: Registry, clock: Clock) -> Self {
        let shared = Arc::<Shared>::default();
        let authorizer = authorizer(shared.metrics.server().registry());
        let chain = Chain::with_metrics(&authorizer, shared.metrics.server().registry());
        let registry = registry.with_admission(Arc::new(chain));
        let of_registry = registry.metrics().clone();
        shared.metrics.add_source(Box::new(move || of_registry.text()));
        let authentication = Arc::new(Authentication::new(&AuthenticationConfig::default(), None));
        let token_policy = TokenPolicy::default();
        let flow = FlowControl::default();
        let components = Components {
            health,
            authorizer,
            authentication,
            tokens: None,
            token_policy,
            external_address: None,
            flow,
            metrics_source: None,
            simulated_nodes: None,
            shutdown: CancellationToken::new(),
        };
        Self { registry, clock, components: Arc::new(components), shared }
    }

    /// Adds admission plugins; see [`Chain::with`].
    #[must_use]
    pub fn with_plugins(mut self, plugins: impl IntoIterator<Item = Arc<dyn Plugin>>) -> Self {
        let metrics = self.shared.metrics.server().registry();
        let built_in = Chain::with_metrics(&self.components.authorizer, metrics);
        let chain = plugins.into_iter().fold(built_in, Chain::with);
        self.registry = self.registry.with_admission(Arc::new(chain));
        self
    }

    /// Issues and verifies service account tokens with this signer, and disables all other configured authentication
    /// methods.
    #[must_use]
    pub fn with_token_signer(self, signer: Arc<dyn TokenSigner>) -> Self {
        self.with_authentication(&AuthenticationConfig::default(), signer, TokenPolicy::default())
    }

    /// Sets the authentication methods, the signer of service account tokens, and the policy for issuing them.
    #[must_use]
    pub fn with_authentication(
        mut self,
        config: &AuthenticationConfig,
        signer: Arc<dyn TokenSigner>,
        policy: TokenPolicy,
    ) -> Self {
        let components = Arc::make_mut(&mut self.components);
        components.authentication = Arc::new(Authentication::new(config, Some(&signer)));
        components.tokens = Some(signer);
        components.token_policy = policy;
        self
    }

    /// Announces the host and port at which clients reach the server in discovery.
    #[must_use]
    pub fn with_external_address(mut self, address: Option<String>) -> Self {
        Arc::make_mut(&mut self.components).external_address = address;
        self
    }

    /// Serves the usage of nodes and pods from this source, for `metrics.k8s.io`.
    #[must_use]
    pub fn with_metrics_source(mut self, source: Arc<dyn MetricsSource>) -> Self {
        Arc::make_mut(&mut self.components).metrics_source = Some(source);
        self
    }

    /// Answers requests to containers of simulated nodes with this, instead of connecting to a kubelet.
    #[must_use]
    pub fn with_simulated_nodes(mut self, nodes: Arc<dyn SimulatedNodes>) -> Self {
        Arc::make_mut(&mut self.components).simulated_nodes = Some(nodes);
        self
    }

    /// Ends all watches, and rejects new ones, once `shutdown` is cancelled. Other requests are still served, so
    /// that those in flight can be drained.
    #[must_use]
    pub fn with_shutdown(mut self, shutdown: CancellationToken) -> Self {
        Arc::make_mut(&mut self.components).shutdown = shutdown;
        self
    }

    /// Sets the limits on concurrent requests.
    #[must_use]
    pub fn with_flow_limits(mut self, limits: &FlowLimits) -> Self {
        Arc::make_mut(&mut self.components).flow = FlowControl::new(limits);
        self
    }

    /// Fences requests that carry the result in their extensions to a term of a lease: their writes are rejected once
    /// another holder has the lease.
    ///
    /// # Errors
    /// If the cluster id is invalid.
    pub fn fence(&self, lease: &HeldLease<'_>) -> Result<Fence, coracle_registry::Error> {
        self.registry.fence(lease)
    }

    /// Counts requests, for detecting an idle server.
    pub fn activity(&self) -> Arc<Activity> {
        Arc::clone(&self.shared.activity)
    }

    /// Returns the reference that credentials for a cluster must name.
    ///
    /// # Errors
    /// If there is no such cluster.
    pub fn cluster_reference(&self, id: &str) -> Result<ClusterReference, UnknownCluster> {
        let cluster = self.registry.cluster(id).map_err(|_| UnknownCluster(id.to_owned()))?;
        Ok(ClusterReference::from(&cluster))
    }

    /// Appends metrics of another component of the process to `/metrics`: whole lines in Prometheus' text format.
    pub fn add_metrics(&self, source: impl Fn() -> String + Send + Sync + 'static) {
        self.shared.metrics.add_source(Box::new(source));
    }

    /// Counts failed TLS handshakes.
    pub(crate) fn handshake_errors(&self) -> Counters<0> {
        self.shared.metrics.server().handshake_errors()
    }

    /// Creates the initial objects of every cluster. Call it before the first request.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn bootstrap(&self, site: &ServerInfo) -> Result<(), BootstrapError> {
        self.registry.open_clusters().await.map_err(BootstrapError)?;
        self.registry.bootstrap(site).await.map_err(BootstrapError)?;
        let cluster = self.registry.cluster(DEFAULT_CLUSTER).map_err(BootstrapError)?;
        cluster.reconcile().await.map_err(BootstrapError)
    }

    /// Frees the caches of clusters that other servers on the same store delete, as soon as they are deleted, and ends
    /// their watches. A server with exclusive use of its store needs no such task. Runs until it is dropped.
    pub async fn follow_clusters(&self, mut backoff: Backoff) {
        loop {
            let followed = self.registry.follow_clusters(|deleted| self.forget_cluster(deleted)).await;
            if let Err(error) = followed {
                tracing::warn!(error = %ErrorChain(&error), "cannot follow the clusters of the store; trying again");
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    /// Frees what is cached for a deleted cluster. Caches keyed by content, of parsed objects, definitions and frames,
    /// are shared by all clusters and bounded in total; they evict unused entries.
    pub(crate) fn forget_cluster(&self, id: &str) {
        self.components.authorizer.forget_cluster(id);
        self.components.flow.forget_cluster(id);
        self.registry.forget_usage(id);
    }

    /// Number of cache entries held for clusters: of authorizers and flow control for all clusters, and of users for
    /// all but the default one. For tests.
    pub fn cached_clusters(&self) -> usize {
        self.components.authorizer.cached_clusters() + self.components.flow.cached_clusters()
    }

    /// Deletes a cluster and frees its caches.
    ///
    /// # Errors
    /// If the cluster does not exist or is the default one, or the store fails.
    pub async fn delete_cluster(&self, id: &str) -> Result<(), coracle_registry::Error> {
        let deleted = self.registry.delete_cluster(id).await;
        for id in self.registry.take_deleted_clusters() {
            self.forget_cluster(&id);
        }
        deleted
    }

    /// The registry of clusters, to create and limit them.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }
}

/// Authorizers run in order: system:masters, Node, RBAC.
fn authorizer(metrics: &MetricsRegistry) -> Arc<dyn Authorizer> {
    let in_order: [Arc<dyn Authorizer>; 3] =
        [Arc::new(MastersOnly), Arc::<NodeAuthorizer>::default(), Arc::<Rbac>::default()];
    Arc::new(Union::new(in_order).with_metrics(metrics))
}

impl<B> Service<Request<B>> for ApiServer
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = OnDeepStack<ResponseFuture>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.shared.activity.note();
        let server = self.clone();
        let info = Arc::new(RequestInfo::of(&request));
        let running = self.shared.metrics.begin(info.clone(), request.extensions().get::<Remote>().is_some());
        let audit_id = audit_id::of(request.headers(), &self.registry);
        // Log lines within the span name the request. Only at debug level: with a span a small request costs a fifth
        // more.
        let span = tracing::debug_span!(
            "request",
            audit_id = audit_id.to_str().unwrap_or_default(),
            method = request.method().as_str(),
            path = request.uri().path(),
        );
        let mut log = RequestLog::begin(&request, audit_id.to_str().unwrap_or_default());
        // Boxed first, because the future is large and would be moved once more.
        let answered: ResponseFuture = Box::pin(async move {
            let mut notes = RequestNotes::default();
            let answer = server.run_chain(request, info.clone(), &mut notes, &mut log).await;
            let format = || info.accept().error_format(info.raw_query());
            let response = answer.unwrap_or_else(|refusal| refusal.into_response(format()));
            let mut response = running.end(response, notes.waited, notes.is_terminated);
            if let Some(flow) = notes.headers {
                flow.add_to(response.headers_mut());
            }
            if notes.misses_token {
                warn(&mut response, &[EXTRA_SPACE.to_owned()]);
            }
            response.headers_mut().insert(AUDIT_ID, audit_id);
            if let Some(log) = log {
                log.end(response.status());
            }
            Ok(response.map(body::on_deep_stack))
        });
        let answered = if span.is_disabled() { answered } else { Box::pin(answered.instrument(span)) };
        // Code that reads, changes, encodes or drops the objects of a request recurses once per nesting level.
        OnDeepStack::new(answered)
    }
}
