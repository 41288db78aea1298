//! The filter chain: what happens to a request before it is dispatched, in order. [`ApiServer::run_chain`] is the list;
//! each filter is one function below it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use coracle_registry::{Cluster, Fence, Identity};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Body;
use tokio::time::Instant;

use crate::authentication::has_extra_space;
use crate::authorization::forbidden;
use crate::body::{self, RequestBody, ResponseBody, announces_too_much};
use crate::deleted_cluster::FreedIfDeleted;
use crate::dispatch::Dispatched;
use crate::flow::{Admission, Candidate, FlowClient, PfHeaders, Unread};
use crate::health::{Probe, Reasons};
use crate::identity::{ANONYMOUS, CREDENTIAL_ID_KEY, Caller};
use crate::impersonation::{self, impersonated};
use crate::metrics::StepResult;
use crate::request_info::{RequestInfo, Route};
use crate::request_log::RequestLog;
use crate::service::ApiServer;
use crate::status::Refusal;

/// The outcome of authentication and flow control for one request, for its headers and metrics.
#[derive(Default)]
pub(crate) struct RequestNotes {
    pub(crate) headers: Option<PfHeaders>,
    /// How long the request waited for its seat.
    pub(crate) waited: Duration,
    /// Whether it was rejected because there was no seat.
    pub(crate) is_terminated: bool,
    /// Whether the user is anonymous because there is a space too many before its token.
    pub(crate) misses_token: bool,
}

impl ApiServer {
    /// Runs the filters in their order and dispatches the request. `notes` receives the headers of flow control once
    /// the request is classified; the response has them also if the request is rejected afterwards. `log` receives the
    /// user.
    pub(crate) async fn run_chain<B>(
        &self,
        request: Request<B>,
        info: Arc<RequestInfo>,
        notes: &mut RequestNotes,
        log: &mut Option<RequestLog>,
    ) -> Result<Response<ResponseBody>, Refusal>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let is_too_large = announces_too_much(&request);
        let (mut parts, body) = request.into_parts();
        let cluster = self.find_cluster(&parts, &info).await?;
        let caller = self.authenticate(&mut parts, cluster.as_ref().ok(), notes).await?;
        if let Some(log) = log {
            log.set_user(&caller.identity);
        }
        check_existence(&cluster, &caller)?;
        if let Some((probe, check)) = Probe::of_path(parts.uri.path()) {
            self.authorize_probe(cluster, &caller, &info).await?;
            let reasons = if caller.all_clusters { Reasons::Shown } else { Reasons::Withheld };
            return self.answer_health(probe, check, info.raw_query(), reasons).await;
        }
        let cluster = cluster?;
        let _freed = FreedIfDeleted::new(self, &cluster);
        let identity = self.impersonate(&cluster, &caller, &info, &mut parts.headers).await?;
        let candidate = self.components.flow.classify(&cluster, &caller, &info).await?;
        notes.headers = candidate.as_ref().map(Candidate::headers);
        // Authorized before anything of the body is read: a client without permission costs nothing more.
        self.authorize(&cluster, &identity, &info).await?;
        check_operator(&caller, &identity, &info)?;
        let mut client = self.flow_client(&cluster, &caller, &parts, &info)?;
        let body = self.read_body(&client, body, is_too_large, &info).await?;
        let (body, admission) = body.admitted(self.admit(candidate, &caller, notes)).await?;
        self.components.flow.count_watch(&mut client, &cluster, &info);
        let is_long_running = info.is_long_running();
        let response = self.dispatch(Dispatched { info, cluster, parts, identity, body }).await?;
        self.components.flow.leave(admission, client, is_long_running, response)
    }

    /// Finds the cluster of a request. For an unknown id nothing is read from the store and nothing is cached; the inner
    /// error is returned to the client once it is authenticated.
    async fn find_cluster(
        &self,
        parts: &Parts,
        info: &RequestInfo,
    ) -> Result<Result<Cluster, coracle_registry::Error>, Refusal> {
        let id = info.cluster().id().ok_or_else(|| Refusal::unserved(parts.uri.path()))?;
        let cluster = match parts.extensions.get::<Fence>() {
            Some(fence) => self.registry().fenced(fence).find_cluster(id).await,
            None => self.registry().find_cluster(id).await,
        };
        for deleted in self.registry().take_deleted_clusters() {
            self.forget_cluster(&deleted);
        }
        Ok(cluster)
    }

    /// Authenticates a request. The objects of its cluster decide which user a token belongs to; without a cluster,
    /// which is reported later, those of the default one do.
    async fn authenticate(
        &self,
        parts: &mut Parts,
        cluster: Option<&Cluster>,
        notes: &mut RequestNotes,
    ) -> Result<Caller, Refusal> {
        let (authentication, now) = (&self.components.authentication, self.clock.now());
        let metrics = self.shared.metrics.server();
        let has_extra_space = has_extra_space(&parts.headers);
        let began = Instant::now();
        let found = match cluster {
            Some(cluster) => authentication.authenticate(parts, cluster, now, metrics).await,
            None => {
                let cluster = self.registry().cluster(coracle_registry::DEFAULT_CLUSTER)?;
                authentication.authenticate(parts, &cluster, now, metrics).await
            }
        };
        let result = match &found {
            Ok(_) => StepResult::Success,
            Err(refusal) if refusal.status().code == StatusCode::UNAUTHORIZED.as_u16() => StepResult::Failure,
            Err(_) => StepResult::Error,
        };
        metrics.note_authentication(began.elapsed(), result);
        let caller = found?;
        metrics.note_user(&caller.identity.name, is_bound_token(&caller.identity));
        notes.misses_token = has_extra_space && caller.identity.name == ANONYMOUS;
        Ok(caller)
    }

    /// Authorizes a request for the health of the server. Reading needs no permission; kube-apiserver answers other
    /// methods alike to users that may use them.
    async fn authorize_probe(
        &self,
        cluster: Result<Cluster, coracle_registry::Error>,
        caller: &Caller,
        info: &RequestInfo,
    ) -> Result<(), Refusal> {
        if info.is_read_only() && *info.method() != http::Method::OPTIONS {
            return Ok(());
        }
        self.authorize(&cluster?, &caller.identity, info).await
    }

    /// The user that a request acts as: another one, if its headers ask for that and the sender may impersonate it.
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

    /// Rejects a request that its user may not make. Every request passes here, whatever is served at its path.
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
            tracing::error!(error = decision.evaluation_error, "cannot authorize a request");
            return Err(Refusal::undecided());
        }
        Err(Refusal::unauthorized_action(forbidden(identity, &attributes, &decision.reason)))
    }

    /// The counters of the authenticated user of a request, also if it impersonates another.
    fn flow_client(
        &self,
        cluster: &Cluster,
        caller: &Caller,
        parts: &Parts,
        info: &RequestInfo,
    ) -> Result<FlowClient, Refusal> {
        let unread = parts.extensions.get::<Arc<Unread>>().cloned();
        self.components.flow.client(cluster, &caller.identity, unread, info.is_long_running())
    }

    /// Reads the body of a request that can have one. A body from within the process is in memory already and is not
    /// counted.
    async fn read_body<B>(
        &self,
        client: &FlowClient,
        body: B,
        is_too_large: bool,
        info: &RequestInfo,
    ) -> Result<RequestBody, Refusal>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if !matches!(info.route(), Some(Route::Resource | Route::Clusters(_))) {
            return Ok(RequestBody::default());
        }
        if is_too_large {
            return Err(Refusal::too_large());
        }
        let counted = client.is_remote().then(|| (self.components.flow.bodies(), client.key()));
        body::read(body, counted).await
    }

    /// Takes the seat of a request, for which it may wait in a queue.
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
}

/// Rejects a request to a cluster that does not exist, with the same error as any credential that is not valid in a
/// cluster: only the operator can tell which clusters exist.
fn check_existence(
    cluster: &Result<Cluster, coracle_registry::Error>,
    caller: &Caller,
) -> Result<(), Refusal> {
    let is_unknown = matches!(cluster, Err(coracle_registry::Error::UnknownCluster { .. }));
    if is_unknown && !caller.all_clusters { Err(Refusal::unauthorized()) } else { Ok(()) }
}

/// Rejects requests that only the operator may make: to all clusters at once, and to the admin API. Roles permit
/// something in their own cluster only, and an impersonated user is one of a single cluster.
fn check_operator(caller: &Caller, identity: &Arc<Identity>, info: &RequestInfo) -> Result<(), Refusal> {
    let needs_operator = info.cluster().is_all() || matches!(info.route(), Some(Route::Clusters(_)));
    if !needs_operator || caller.all_clusters && caller.acts_as(identity) {
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
