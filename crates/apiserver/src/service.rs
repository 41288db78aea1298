//! The server as a function from request to response, with no idea of connections.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use coracle_base::metrics::{Counters, Metrics as MetricsRegistry};
use coracle_base::{Backoff, Clock, ErrorChain, OnDeepStack};
use coracle_registry::lifecycle::EVERYWHERE;
use coracle_registry::{AuditAnnotations, Cluster, Fence, HeldLease, Identity, Registry, Site};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body;
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tower::Service;
use tracing::Instrument;

use crate::activity::Activity;
use crate::admin;
use crate::admission::{Chain, Plugin};
use crate::audit_id::{self, AUDIT_ID};
use crate::authentication::{Authentication, AuthenticationConfig, EXTRA_SPACE, has_extra_space};
use crate::authorization::{Authorizer, MastersOnly, NodeAuthorizer, Rbac, RequestInfo, Union, forbidden};
use crate::body::{self, RequestBody, ResponseBody, announces_too_much, full};
use crate::catalogue::Catalogue;
use crate::credential_scope::ClusterReference;
use crate::decode_memory::{DecodeMemory, Reservations};
use crate::deleted_cluster::FreedIfDeleted;
use crate::discovery;
use crate::flow::{Admission, Candidate, Dump, FlowClient, FlowControl, FlowLimits, PfHeaders, Unread};
use crate::health::{HealthChecks, Probe, Reasons, Wishes};
use crate::identity::{ANONYMOUS, CREDENTIAL_ID_KEY, Caller, Remote};
use crate::impersonation::{self, impersonated};
use crate::metrics::{self, Metrics, StepResult};
use crate::negotiate::{Asked, FrameCache, MessageCache, OFFERED, Wanted, check_representation, told};
use crate::openapi;
use crate::openid;
use crate::options::Query;
use crate::request_log::RequestLog;
use crate::resource_metrics::MetricsSource;
use crate::route::{self, ResourcePath, Route};
use crate::simulated_nodes::SimulatedNodes;
use crate::status::Refusal;
use crate::token::{TokenPolicy, TokenSigner, issuer};
use crate::verbs::{ResourceRequest, warn};
use crate::websocket::Upgradable;

/// The work on a request, up to its response.
type Answering = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send>>;

/// What questions may be asked with; they change nothing.
const READ_METHODS: &[Method] = &[Method::GET, Method::HEAD];

/// Where the server tells what it counts.
const METRICS: &str = "/metrics";

/// The Kubernetes release that is served.
const VERSION: &str = "v1.36.4";

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
    clock: Clock,
    components: Arc<Components>,
    shared: Arc<Shared>,
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
        let cluster = self.registry.cluster(route::DEFAULT_CLUSTER).map_err(BootstrapError)?;
        cluster.mend().await.map_err(BootstrapError)
    }

    /// Answers a request. `notes` receives the headers of flow control once the request is classified; the response
    /// has them also if the request is rejected afterwards. `log` receives the user.
    async fn answer<B>(
        &self,
        request: Request<B>,
        notes: &mut RequestNotes,
        log: &mut Option<RequestLog>,
    ) -> Result<Response<ResponseBody>, Refusal>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let is_too_large = announces_too_much(&request);
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path();
        let id = route::cluster_id(path).ok_or_else(|| Refusal::unserved(path))?;
        let found = route::parse(path);
        let everywhere = id == EVERYWHERE;
        let id = if everywhere { route::DEFAULT_CLUSTER } else { id };
        let cluster = self.open_cluster(id, parts.extensions.get::<Fence>()).await;
        let has_extra_space = has_extra_space(&parts.headers);
        let caller = self.authenticate(&mut parts, cluster.as_ref().ok()).await?;
        notes.misses_token = has_extra_space && caller.identity.name == ANONYMOUS;
        if let Some(log) = log {
            log.set_user(&caller.identity);
        }
        if matches!(cluster, Err(coracle_registry::Error::UnknownCluster { .. })) && !caller.all_clusters {
            // As for any credential that is not valid in a cluster: only the operator can tell which clusters exist.
            return Err(Refusal::unauthorized());
        }
        if let Some((probe, check)) = Probe::of_path(parts.uri.path()) {
            // Reading a health path needs no permission; kube-apiserver answers other methods alike to those who may use them.
            if !READ_METHODS.contains(&parts.method) {
                let info = RequestInfo::of(&parts.method, &parts.uri);
                self.authorize(&cluster?, &caller.identity, &info).await?;
            }
            let reasons = if caller.all_clusters { Reasons::Shown } else { Reasons::Withheld };
            return match check {
                Some(name) => self.answer_check(probe, name, reasons).await,
                None => Ok(self.answer_probe(probe, parts.uri.query().unwrap_or_default(), reasons).await),
            };
        }
        let cluster = cluster?;
        let _freed = FreedIfDeleted::new(self, &cluster);
        let info = RequestInfo::of(&parts.method, &parts.uri);
        let identity = self.impersonate(&cluster, &caller, &info, &mut parts.headers).await?;
        let candidate = self.components.flow.classify(&cluster, &caller, &info).await?;
        notes.headers = candidate.as_ref().map(Candidate::headers);
        // Authorized before anything of the body is read: a client without permission costs nothing more.
        self.authorize(&cluster, &identity, &info).await?;
        if everywhere {
            check_operator(&caller, &identity, &info)?;
        }
        let route = found.map(|(_, route)| route);
        // All clusters at once have objects, and nothing else.
        let route = route.filter(|route| !everywhere || matches!(route, Route::Resource(_)));
        let lasts = info.lasts();
        let mut client = self.client_of(&cluster, &caller, &parts, lasts)?;
        if let Some(Route::Clusters(_)) = &route {
            check_operator(&caller, &identity, &info)?;
        }
        let has_body = match &route {
            Some(Route::Resource(path)) => info.agrees_with(path),
            route => matches!(route, Some(Route::Clusters(_))),
        };
        let body = match has_body {
            true if is_too_large => return Err(Refusal::too_large()),
            true => self.read_body(&client, body).await?,
            false => RequestBody::default(),
        };
        let (body, admission) = body.admitted(self.admit(candidate, &caller, notes)).await?;
        if info.is_watch() {
            let selected = if everywhere { EVERYWHERE } else { cluster.id() };
            self.components.flow.count_watch(&mut client, selected, &info);
        }
        let response = self.serve(route, info, cluster, parts, identity, body).await?;
        self.components.flow.leave(admission, client, lasts, response)
    }

    /// Gives a request its seat, maybe after it has waited.
    async fn admit(
        &self,
        candidate: Option<Candidate>,
        caller: &Caller,
        notes: &mut RequestNotes,
    ) -> Result<Admission, Refusal> {
        let Some(candidate) = candidate else {
            return Ok(Admission::LongRunning { is_operator: caller.all_clusters });
        };
        let began = Instant::now();
        let entered = self.components.flow.enter(candidate).await;
        notes.waited = began.elapsed();
        notes.is_terminated = entered.is_err();
        self.shared.metrics.server().note_filter("priorityandfairness", notes.waited);
        entered.map(Admission::Seat)
    }

    /// The cluster of a request. For an unknown id nothing is read from the store and nothing is kept.
    async fn open_cluster(
        &self,
        id: &str,
        fence: Option<&Fence>,
    ) -> Result<Cluster, coracle_registry::Error> {
        let cluster = match fence {
            Some(fence) => self.registry.fenced(fence).find_cluster(id).await,
            None => self.registry.find_cluster(id).await,
        };
        for deleted in self.registry.take_deleted_clusters() {
            self.forget_cluster(&deleted);
        }
        cluster
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

    /// The counters of the authenticated user of a request, also if it impersonates another.
    fn client_of(
        &self,
        cluster: &Cluster,
        caller: &Caller,
        parts: &Parts,
        lasts: bool,
    ) -> Result<FlowClient, Refusal> {
        let unread = parts.extensions.get::<Arc<Unread>>().cloned();
        self.components.flow.client(cluster, &caller.identity, unread, lasts)
    }

    /// Reads a body. One from within the process is in memory already and is not counted.
    async fn read_body<B>(&self, client: &FlowClient, body: B) -> Result<RequestBody, Refusal>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let counted = client.is_remote().then(|| (self.components.flow.bodies(), client.key()));
        body::read(body, counted).await
    }

    /// Answers what may be asked.
    async fn serve(
        &self,
        route: Option<Route>,
        info: RequestInfo,
        cluster: Cluster,
        parts: Parts,
        identity: Arc<Identity>,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let flow = &self.components.flow;
        match route::split_cluster(parts.uri.path()) {
            (None, METRICS) => {
                check_reads(&parts)?;
                return self.shared.metrics.answer(&cluster, flow, VERSION).await;
            }
            (Some(id), METRICS) if id != EVERYWHERE => {
                check_reads(&parts)?;
                return metrics::answer_cluster(&cluster, flow).await;
            }
            (id, path) => {
                if let Some(dump) = Dump::of_path(path).filter(|_| id != Some(EVERYWHERE)) {
                    check_reads(&parts)?;
                    let (query, now) = (parts.uri.query().unwrap_or_default(), self.clock.now());
                    return Ok(plain_text(true, flow.dump(&cluster, dump, query, now).await?));
                }
            }
        }
        let route = route.ok_or_else(|| Refusal::unserved(parts.uri.path()))?;
        match route {
            Route::Resource(path) if !info.agrees_with(&path) => Err(Refusal::unserved(parts.uri.path())),
            Route::Resource(path) => {
                self.answer_resource(cluster, path, parts, identity, info.into_query(), body).await
            }
            Route::OpenApiV2 | Route::OpenApiIndex | Route::OpenApi(_) => {
                let now = UNIX_EPOCH + Duration::from_millis(self.clock.now().as_millis());
                openapi::answer(&route, &parts, Catalogue::of(&cluster).await?, now).await
            }
            Route::Clusters(id) if route::split_cluster(parts.uri.path()).0.is_none() => {
                admin::answer(self, id.as_deref(), &parts.method, &body).await
            }
            Route::OpenIdConfiguration | Route::KeySet => {
                check_get(&parts)?;
                check_representation(&parts.headers, openid::representations(&route))?;
                self.tell_issuer(&route, cluster.id()).ok_or_else(|| Refusal::unserved(parts.uri.path()))
            }
            other => tell(&other, &parts, &Catalogue::of(&cluster).await?),
        }
    }

    async fn answer_resource(
        &self,
        cluster: Cluster,
        path: ResourcePath,
        parts: Parts,
        identity: Arc<Identity>,
        query: Query,
        body: Bytes,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let found = cluster.kind(&path.group, &path.version, &path.resource).await?;
        let Some(kind) = found else {
            let remote = Catalogue::of(&cluster).await?.is_remote(&path.group, &path.version);
            return Err(if remote { Refusal::unavailable() } else { Refusal::unserved(parts.uri.path()) });
        };
        let everywhere = route::split_cluster(parts.uri.path()).0 == Some(EVERYWHERE);
        let request = ResourceRequest {
            everywhere: everywhere.then(|| Box::new(self.registry.clone())),
            method: parts.method,
            headers: parts.headers,
            query,
            body,
            cluster,
            path,
            kind,
            identity,
            is_remote: parts.extensions.get::<Remote>().is_some(),
            is_upgradable: parts.extensions.get::<Upgradable>().is_some(),
            unread: parts.extensions.get::<Arc<Unread>>().cloned(),
            audit: parts.extensions.get::<AuditAnnotations>().cloned(),
            components: self.components.clone(),
            now: i64::try_from(self.clock.now().as_millis() / 1000).unwrap_or(i64::MAX),
            shared: self.shared.clone(),
            reserved: Reservations::default(),
        };
        request.answer().await
    }

    /// Who is asking. Objects of the cluster that is asked decide whose a token is; if there can be no such
    /// cluster, which is told later, those of plain paths do.
    async fn authenticate(&self, parts: &mut Parts, cluster: Option<&Cluster>) -> Result<Caller, Refusal> {
        let (authentication, now) = (&self.components.authentication, self.clock.now());
        let metrics = self.shared.metrics.server();
        let began = Instant::now();
        let found = match cluster {
            Some(cluster) => authentication.authenticate(parts, cluster, now, metrics).await,
            None => {
                let cluster = self.registry.cluster(route::DEFAULT_CLUSTER)?;
                authentication.authenticate(parts, &cluster, now, metrics).await
            }
        };
        let result = match &found {
            Ok(_) => StepResult::Success,
            Err(refusal) if refusal.status().code == StatusCode::UNAUTHORIZED.as_u16() => StepResult::Failure,
            Err(_) => StepResult::Error,
        };
        metrics.note_authentication(began.elapsed(), result);
        if let Ok(caller) = &found {
            metrics.note_user(&caller.identity.name, is_bound_token(&caller.identity));
        }
        found
    }

    /// The discovery document or the key set for verifying the tokens of a cluster, if they can be discovered.
    fn tell_issuer(&self, route: &Route, cluster: &str) -> Option<Response<ResponseBody>> {
        let signer = self.components.tokens.as_deref()?;
        let jwks_uri = self.components.token_policy.jwks_uri.as_deref()?;
        let issuer = issuer::of_cluster(signer.issuer(), cluster);
        if !openid::is_discoverable(&issuer) {
            return None;
        }
        Some(match route {
            Route::KeySet => openid::key_set(signer),
            _ => openid::configuration(signer, &issuer, &issuer::key_set_uri(jwks_uri, cluster)),
        })
    }

    /// Who is to be asking, if the sender may say so.
    async fn impersonate(
        &self,
        cluster: &Cluster,
        caller: &Caller,
        info: &RequestInfo,
        headers: &mut HeaderMap,
    ) -> Result<Arc<Identity>, Refusal> {
        let sender = &caller.identity;
        if !impersonation::is_asked_for(headers) {
            return Ok(Arc::clone(sender));
        }
        let began = Instant::now();
        let permissions = self.components.authorizer.permissions(cluster).await?;
        let metrics = self.shared.metrics.server();
        let wanted = impersonated(headers, sender, &info.attributes(), &*permissions, metrics);
        metrics.note_filter("impersonation", began.elapsed());
        let wanted = wanted?;
        Ok(wanted.map_or_else(|| Arc::clone(sender), Arc::new))
    }

    /// Refuses what may not be asked. Every request passes here, whatever it leads to.
    async fn authorize(
        &self,
        cluster: &Cluster,
        identity: &Identity,
        info: &RequestInfo,
    ) -> Result<(), Refusal> {
        let attributes = info.attributes();
        let began = Instant::now();
        let decision = self.components.authorizer.authorize(cluster, identity, &attributes).await;
        let result = match &decision {
            Ok(decision) if decision.allowed => StepResult::Success,
            Ok(decision) if decision.evaluation_error.is_empty() => StepResult::Failure,
            _ => StepResult::Error,
        };
        self.shared.metrics.server().note_authorization(began.elapsed(), result);
        let decision = decision?;
        if decision.allowed {
            return Ok(());
        }
        if !decision.evaluation_error.is_empty() {
            tracing::error!(error = decision.evaluation_error, "a request could not be authorized");
            return Err(Refusal::undecided());
        }
        Err(Refusal::unauthorized_action(forbidden(identity, &attributes, &decision.reason)))
    }

    async fn answer_probe(&self, probe: Probe, query: &str, reasons: Reasons) -> Response<ResponseBody> {
        let wishes = Wishes::of_query(query);
        let report = self.components.health.run(probe, &wishes.excluded, reasons).await;
        for (check, passed) in report.outcomes() {
            self.shared.metrics.server().note_health(probe.name(), check, *passed);
        }
        let healthy = report.is_healthy();
        plain_text(healthy, report.text(wishes.verbose))
    }

    async fn answer_check(
        &self,
        probe: Probe,
        name: &str,
        reasons: Reasons,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let outcome = self.components.health.run_one(probe, name).await.ok_or_else(Refusal::no_page)?;
        self.shared.metrics.server().note_health(
            probe.name(),
            HealthChecks::known_name(name),
            outcome.is_ok(),
        );
        let text = match &outcome {
            Ok(()) => "ok".to_owned(),
            Err(reason) if reasons == Reasons::Shown => format!("internal server error: {reason}\n"),
            Err(_) => "internal server error: reason withheld\n".to_owned(),
        };
        let mut response = plain_text(outcome.is_ok(), text);
        if outcome.is_ok() {
            // kube-apiserver sets it on failures of a single check only.
            response.headers_mut().remove(header::X_CONTENT_TYPE_OPTIONS);
        }
        Ok(response)
    }
}

/// All who are asked: who may do everything, then, in upstream's order, what nodes need and what roles say.
fn authorizer(metrics: &MetricsRegistry) -> Arc<dyn Authorizer> {
    let in_order: [Arc<dyn Authorizer>; 3] =
        [Arc::new(MastersOnly), Arc::<NodeAuthorizer>::default(), Arc::<Rbac>::default()];
    Arc::new(Union::new(in_order).with_metrics(metrics))
}

/// The outcome of authentication and flow control for one request, for its headers and metrics.
#[derive(Default)]
struct RequestNotes {
    headers: Option<PfHeaders>,
    /// How long the request waited for its seat.
    waited: Duration,
    /// Whether it was rejected because there was no seat.
    is_terminated: bool,
    /// Whether the user is anonymous because there is a space too many before its token.
    misses_token: bool,
}

/// Rejects requests that only the operator may make: to all clusters at once, and to the admin API. Roles permit
/// something in their own cluster only, and an impersonated user is one of a single cluster.
fn check_operator(caller: &Caller, identity: &Arc<Identity>, info: &RequestInfo) -> Result<(), Refusal> {
    if caller.all_clusters && caller.acts_as(identity) {
        return Ok(());
    }
    let why =
        "requests to all clusters and to the admin API need the operator's credential, without impersonation";
    Err(Refusal::unauthorized_action(forbidden(identity, &info.attributes(), why)))
}

/// Whether a user was authenticated by a token of a service account that is bound to an object or a time.
fn is_bound_token(identity: &Identity) -> bool {
    identity.name.starts_with("system:serviceaccount:") && identity.extra.contains_key(CREDENTIAL_ID_KEY)
}

/// Rejects all methods but GET: kube-apiserver's router knows no HEAD.
fn check_get(parts: &Parts) -> Result<(), Refusal> {
    if parts.method == Method::GET { Ok(()) } else { Err(Refusal::method_not_allowed()) }
}

fn check_reads(parts: &Parts) -> Result<(), Refusal> {
    if READ_METHODS.contains(&parts.method) { Ok(()) } else { Err(Refusal::method_not_allowed()) }
}

/// Answers that tell what is served.
fn tell(route: &Route, parts: &Parts, catalogue: &Catalogue) -> Result<Response<ResponseBody>, Refusal> {
    match route {
        Route::Index => respond(route, parts, Some(discovery::index(catalogue))),
        Route::Version => respond(route, parts, Some(discovery::version(VERSION))),
        Route::CoreVersions if wants_aggregated(parts) => {
            check_get(parts).map(|()| aggregated(parts, catalogue, true))
        }
        Route::Groups if wants_aggregated(parts) => Ok(aggregated(parts, catalogue, false)),
        Route::CoreVersions => respond(route, parts, Some(discovery::core_versions(catalogue))),
        Route::Groups => respond(route, parts, Some(discovery::group_list(catalogue))),
        Route::Group(group) => respond(route, parts, discovery::group(catalogue, group)),
        Route::Resources { group, version } if catalogue.is_remote(group, version) => {
            Err(Refusal::unavailable())
        }
        Route::Resources { group, version } => {
            respond(route, parts, discovery::resource_list(catalogue, group, version))
        }
        Route::OpenApiV2
        | Route::OpenApiIndex
        | Route::OpenApi(_)
        | Route::OpenIdConfiguration
        | Route::KeySet
        | Route::Clusters(_)
        | Route::Resource(_) => Err(Refusal::not_found()),
    }
}

/// Whether the client asks for the newer form of discovery, which kube-apiserver has at the path without a slash at its
/// end only.
fn wants_aggregated(parts: &Parts) -> bool {
    !parts.uri.path().ends_with('/')
        && Wanted::of_discovery(&parts.headers).is_ok_and(|wanted| wanted.aggregated)
}

/// `/api` or `/apis` in the newer form.
fn aggregated(parts: &Parts, catalogue: &Catalogue, core: bool) -> Response<ResponseBody> {
    let document = discovery::document(catalogue, core);
    let mut response = document.respond(&parts.headers, discovery::AGGREGATED);
    let headers = response.headers_mut();
    headers.append(header::VARY, HeaderValue::from_static("Accept"));
    // As in kube-apiserver (`ServeHTTPWithETag`): clients revalidate by the ETag.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    response
}

/// A document of discovery, or 404 without one.
fn respond(
    route: &Route,
    parts: &Parts,
    document: Option<impl Serialize>,
) -> Result<Response<ResponseBody>, Refusal> {
    let document = document.ok_or_else(|| Refusal::unserved(parts.uri.path()))?;
    let wanted = match route {
        // kube-apiserver answers these whatever the method is, the first one always in JSON for people.
        Route::Index => Wanted::indented_json(),
        Route::Groups | Route::Group(_) => Wanted::of_discovery(&parts.headers)?,
        Route::Version => {
            check_get(parts)?;
            check_representation(&parts.headers, &["application/json"])?;
            Wanted::indented_json()
        }
        _ => {
            check_get(parts)?;
            check_representation(&parts.headers, &OFFERED)?;
            Wanted::of_discovery(&parts.headers)?
        }
    };
    Ok(told(wanted, &document))
}

impl<B> Service<Request<B>> for ApiServer
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = OnDeepStack<Answering>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        self.shared.activity.note();
        let server = self.clone();
        let info = metrics::RequestInfo::of(request.method(), request.uri());
        let running = self.shared.metrics.begin(info, request.extensions().get::<Remote>().is_some());
        let asked = Asked::of(&request);
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
        let answered: Answering = Box::pin(async move {
            let mut notes = RequestNotes::default();
            let answer = server.answer(request, &mut notes, &mut log).await;
            let response = answer.unwrap_or_else(|refusal| refusal.into_response(asked.form()));
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
        // All that reads, changes, writes or frees objects of a request may recurse as deep as they are nested.
        OnDeepStack::new(answered)
    }
}

fn plain_text(healthy: bool, text: String) -> Response<ResponseBody> {
    let mut response = Response::new(full(text));
    if !healthy {
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // Whatever answered yesterday says nothing about now.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
