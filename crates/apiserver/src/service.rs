//! The server as a function from request to response, with no idea of connections.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use coracle_base::metrics::{Counters, Metrics as MetricsRegistry};
use coracle_base::{Backoff, Clock, ErrorChain, OnDeepStack};
use coracle_registry::{DEFAULT_CLUSTER, Fence, HeldLease, Registry, Site};
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

/// The work on a request, up to its response.
type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send>>;

/// The Kubernetes release that is served.
pub(crate) const VERSION: &str = "v1.36.4";

/// What every cluster has could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the first objects of the cluster")]
pub struct BootstrapError(#[source] coracle_registry::Error);

/// There is no cluster with this id.
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

/// What all requests share beside the objects.
#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) frames: FrameCache,
    pub(crate) messages: MessageCache,
    pub(crate) decode_memory: DecodeMemory,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) activity: Arc<Activity>,
}

/// What requests ask beside the registry.
#[derive(Clone)]
pub(crate) struct Components {
    pub(crate) health: HealthChecks,
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) authentication: Arc<Authentication>,
    pub(crate) tokens: Option<Arc<dyn TokenSigner>>,
    pub(crate) token_policy: TokenPolicy,
    pub(crate) flow: FlowControl,
    pub(crate) metrics_source: Option<Arc<dyn MetricsSource>>,
    pub(crate) simulated_nodes: Option<Arc<dyn SimulatedNodes>>,
    /// Cancelled when the server drains its requests; watches end then.
    pub(crate) shutdown: CancellationToken,
}

impl ApiServer {
    /// A server that reports these checks and serves these clusters.
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
            flow,
            metrics_source: None,
            simulated_nodes: None,
            shutdown: CancellationToken::new(),
        };
        Self { registry, clock, components: Arc::new(components), shared }
    }

    /// With these plugins having a say in writes, too; see [`Chain::with`].
    #[must_use]
    pub fn with_plugins(mut self, plugins: impl IntoIterator<Item = Arc<dyn Plugin>>) -> Self {
        let metrics = self.shared.metrics.server().registry();
        let built_in = Chain::with_metrics(&self.components.authorizer, metrics);
        let chain = plugins.into_iter().fold(built_in, Chain::with);
        self.registry = self.registry.with_admission(Arc::new(chain));
        self
    }

    /// With tokens for service accounts, signed by this, and nothing else by which users are known.
    #[must_use]
    pub fn with_token_signer(self, signer: Arc<dyn TokenSigner>) -> Self {
        self.with_authentication(&AuthenticationConfig::default(), signer, TokenPolicy::default())
    }

    /// With these ways to find out who is asking, and tokens for service accounts that are signed by this
    /// and given out as the policy says.
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

    /// With somebody who measures what nodes and pods use, for `metrics.k8s.io`.
    #[must_use]
    pub fn with_metrics_source(mut self, source: Arc<dyn MetricsSource>) -> Self {
        Arc::make_mut(&mut self.components).metrics_source = Some(source);
        self
    }

    /// Answers requests to containers of simulated nodes by this.
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

    /// With other limits on how many requests are carried out at once.
    #[must_use]
    pub fn with_flow_limits(mut self, limits: &FlowLimits) -> Self {
        Arc::make_mut(&mut self.components).flow = FlowControl::new(limits);
        self
    }

    /// Binds the requests that carry it among their extensions to a term of a lease: they write nothing once the lease
    /// is somebody else's.
    ///
    /// # Errors
    /// If there can be no such cluster.
    pub fn fence(&self, lease: &HeldLease<'_>) -> Result<Fence, coracle_registry::Error> {
        self.registry.fence(lease)
    }

    /// Whether anybody asks anything.
    pub fn activity(&self) -> Arc<Activity> {
        Arc::clone(&self.shared.activity)
    }

    /// The cluster that credentials are issued for which are to be valid in the cluster with this id.
    ///
    /// # Errors
    /// If there is no such cluster.
    pub fn cluster_reference(&self, id: &str) -> Result<ClusterReference, UnknownCluster> {
        let cluster = self.registry.cluster(id).map_err(|_| UnknownCluster(id.to_owned()))?;
        Ok(ClusterReference::from(&cluster))
    }

    /// Tells at `/metrics` what another component of the process counts, too: whole lines in the text form
    /// of Prometheus.
    pub fn add_metrics(&self, source: impl Fn() -> String + Send + Sync + 'static) {
        self.shared.metrics.add_source(Box::new(source));
    }

    /// Counts handshakes that failed.
    pub(crate) fn handshake_errors(&self) -> Counters<0> {
        self.shared.metrics.server().handshake_errors()
    }

    /// Makes what every cluster has, before the first request.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn bootstrap(&self, site: &Site) -> Result<(), BootstrapError> {
        self.registry.open_clusters().await.map_err(BootstrapError)?;
        self.registry.bootstrap(site).await.map_err(BootstrapError)?;
        let cluster = self.registry.cluster(DEFAULT_CLUSTER).map_err(BootstrapError)?;
        cluster.mend().await.map_err(BootstrapError)
    }

    /// Frees the caches of clusters that other servers over the same store delete, as soon as they do, and ends their
    /// watches. A server that is alone with its store needs no such task. Runs until it is dropped.
    pub async fn follow_clusters(&self, mut backoff: Backoff) {
        loop {
            let followed = self.registry.follow_clusters(|deleted| self.forget_cluster(deleted)).await;
            if let Err(error) = followed {
                tracing::warn!(error = %ErrorChain(&error), "cannot follow the clusters of the store; trying again");
            }
            tokio::time::sleep(backoff.next_delay()).await;
        }
    }

    /// Frees what is cached of a cluster that was deleted. Caches by content, of parsed objects, definitions and
    /// frames, are shared by all clusters and bounded as a whole; they evict what is not used.
    pub(crate) fn forget_cluster(&self, id: &str) {
        self.components.authorizer.forget_cluster(id);
        self.components.flow.forget_cluster(id);
        self.registry.forget_usage(id);
    }

    /// How many cache entries are held for clusters: of authorizers and flow control for all clusters, and of users for
    /// those other than the default one. For tests.
    pub fn cached_clusters(&self) -> usize {
        self.components.authorizer.cached_clusters() + self.components.flow.cached_clusters()
    }

    /// Deletes a cluster and frees what is cached of it.
    ///
    /// # Errors
    /// If there is no such cluster, it is the default one, or the store fails.
    pub async fn delete_cluster(&self, id: &str) -> Result<(), coracle_registry::Error> {
        let deleted = self.registry.delete_cluster(id).await;
        for id in self.registry.take_deleted_clusters() {
            self.forget_cluster(&id);
        }
        deleted
    }

    /// The clusters of the server, to create and limit them.
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
        // What is logged on the way says which request it was. Only where all is logged: with a span
        // a small request costs a fifth more.
        let span = tracing::debug_span!(
            "request",
            audit_id = audit_id.to_str().unwrap_or_default(),
            method = request.method().as_str(),
            path = request.uri().path(),
        );
        let mut log = RequestLog::begin(&request, audit_id.to_str().unwrap_or_default());
        // Boxed before anything else, for it is large and would be moved once more.
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
