//! Dispatch: from an authorized request to the handler of its route.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use coracle_registry::{AuditAnnotations, Cluster, Identity};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};

use crate::admin;
use crate::body::{ResponseBody, full};
use crate::decode_memory::Reservations;
use crate::discovery::{self, check_get};
use crate::flow::{Dump, Unread};
use crate::health::{HealthChecks, Probe, Reasons, Wishes};
use crate::identity::Remote;
use crate::metrics;
use crate::negotiate::check_representation;
use crate::openapi;
use crate::openid;
use crate::request_info::{ClusterSelector, RequestInfo, ResourcePath, Route};
use crate::served_kinds::ServedKinds;
use crate::service::{ApiServer, VERSION};
use crate::status::Refusal;
use crate::token::issuer;
use crate::verbs::ResourceRequest;
use crate::websocket::Upgradable;

/// The path of the metrics.
const METRICS: &str = "/metrics";

/// A request that passed all filters.
pub(crate) struct Dispatched {
    pub(crate) info: Arc<RequestInfo>,
    pub(crate) cluster: Cluster,
    pub(crate) parts: Parts,
    pub(crate) identity: Arc<Identity>,
    pub(crate) body: Bytes,
}

impl ApiServer {
    /// Calls the handler of a request.
    pub(crate) async fn dispatch(&self, request: Dispatched) -> Result<Response<ResponseBody>, Refusal> {
        if let Some(response) = self.answer_diagnostics(&request).await? {
            return Ok(response);
        }
        let Dispatched { info, cluster, parts, body, .. } = &request;
        match info.route().ok_or_else(|| Refusal::unserved(parts.uri.path()))? {
            Route::Resource => self.answer_resource(request).await,
            route @ (Route::OpenApiV2 | Route::OpenApiIndex | Route::OpenApi(_)) => {
                let now = UNIX_EPOCH + Duration::from_millis(self.clock.now().as_millis());
                openapi::answer(route, parts, ServedKinds::of(cluster).await?, now).await
            }
            Route::Clusters(id) => admin::answer(self, id.as_deref(), &parts.method, body).await,
            route @ (Route::OpenIdConfiguration | Route::KeySet) => {
                check_get(parts)?;
                check_representation(&parts.headers, openid::representations(route))?;
                self.issuer_document(route, cluster.id()).ok_or_else(|| Refusal::unserved(parts.uri.path()))
            }
            route => {
                let address = self.components.external_address.as_deref();
                discovery::answer(route, parts, &ServedKinds::of(cluster).await?, address)
            }
        }
    }

    /// Metrics and dumps of flow control, of the server or of one cluster. None for any other path.
    async fn answer_diagnostics(
        &self,
        request: &Dispatched,
    ) -> Result<Option<Response<ResponseBody>>, Refusal> {
        let Dispatched { info, cluster, parts, .. } = request;
        let flow = &self.components.flow;
        let is_metrics = info.path() == METRICS;
        let dump = Dump::of_path(info.path());
        if info.cluster().is_all() || !is_metrics && dump.is_none() {
            return Ok(None);
        }
        check_reads(parts)?;
        if let Some(dump) = dump {
            let text = flow.dump(cluster, dump, info.raw_query(), self.clock.now()).await?;
            return Ok(Some(plain_text(true, text)));
        }
        let response = match info.cluster() {
            ClusterSelector::Default => self.shared.metrics.answer(cluster, flow, VERSION).await,
            _ => metrics::answer_cluster(cluster, flow).await,
        };
        response.map(Some)
    }

    async fn answer_resource(&self, request: Dispatched) -> Result<Response<ResponseBody>, Refusal> {
        let Dispatched { info, cluster, parts, identity, body } = request;
        let path = Arc::clone(info.resource().expect("a route to a resource has one"));
        let ResourcePath { group, version, resource, .. } = &*path;
        let found = cluster.kind(group, version, resource).await?;
        let Some(kind) = found else {
            let remote = ServedKinds::of(&cluster).await?.is_remote(group, version);
            return Err(if remote { Refusal::unavailable() } else { Refusal::unserved(parts.uri.path()) });
        };
        let request = ResourceRequest {
            all_clusters: info.cluster().is_all().then(|| Box::new(self.registry().clone())),
            method: parts.method,
            headers: parts.headers,
            query: Arc::clone(info.query()),
            is_watch: info.is_watch(),
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

    /// The discovery document or the key set for verifying the tokens of a cluster, if its issuer is public.
    fn issuer_document(&self, route: &Route, cluster: &str) -> Option<Response<ResponseBody>> {
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

    /// Runs the health checks of a probe, or one of them by name.
    pub(crate) async fn answer_health(
        &self,
        probe: Probe,
        check: Option<&str>,
        query: &str,
        reasons: Reasons,
    ) -> Result<Response<ResponseBody>, Refusal> {
        match check {
            Some(name) => self.answer_check(probe, name, reasons).await,
            None => Ok(self.answer_probe(probe, query, reasons).await),
        }
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
            HealthChecks::canonical_name(name),
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

fn check_reads(parts: &Parts) -> Result<(), Refusal> {
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    if reads { Ok(()) } else { Err(Refusal::method_not_allowed()) }
}

fn plain_text(healthy: bool, text: String) -> Response<ResponseBody> {
    let mut response = Response::new(full(text));
    if !healthy {
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    }
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    // A cached answer says nothing about the state now.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
