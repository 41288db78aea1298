//! The `Available` condition of an APIService, as kube-aggregator's controller sets it
//! (`pkg/controllers/status/remote/remote_available_controller.go`), up to its request to the other server.

use std::sync::Arc;

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIServiceSpec;
use serde::Deserialize;

use crate::view::{Condition, EndpointSlice, Service, condition};

/// Type of the condition.
pub(super) const AVAILABLE: &str = "Available";

/// Port of a service reference without a port.
const DEFAULT_PORT: i32 = 443;

/// Status of an APIService.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    conditions: Vec<Condition>,
}

/// Fields that determine whether an APIService is available, and its current condition.
#[derive(Clone, Debug)]
pub(crate) struct Availability {
    /// Service of the other API server; `None` if the APIService is local.
    pub(super) service: Option<ServiceRef>,
    pub(super) condition: Option<Condition>,
    group_version: Box<str>,
}

/// A service and the port in use.
#[derive(Clone, Debug)]
pub(super) struct ServiceRef {
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    port: i32,
}

impl Availability {
    /// `None` if the APIService is local and its status is right.
    pub(crate) fn of(spec: &APIServiceSpec, status: &Status) -> Option<Self> {
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
        let service = spec.service.as_ref().map(|service| ServiceRef {
            namespace: text(&service.namespace),
            name: text(&service.name),
            port: service.port.unwrap_or(DEFAULT_PORT),
        });
        let condition = condition(&status.conditions, AVAILABLE).cloned();
        if service.is_none() && condition.as_ref().is_some_and(|found| local().matches(found)) {
            return None;
        }
        let (group, version): (Box<str>, Box<str>) = (text(&spec.group), text(&spec.version));
        Some(Self { service, condition, group_version: format!("{group}/{version}").into() })
    }
}

/// The desired condition.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Verdict {
    fn unavailable(reason: &'static str, message: String) -> Self {
        Self { status: "False", reason, message }
    }

    pub(super) fn matches(&self, condition: &Condition) -> bool {
        *condition.status == *self.status
            && *condition.reason == *self.reason
            && *condition.message == *self.message
    }
}

fn local() -> Verdict {
    let message = "Local APIServices are always available".to_owned();
    Verdict { status: "True", reason: "Local", message }
}

/// Determines the condition from the service and its endpoints.
pub(super) fn judge(
    availability: &Availability,
    service: Option<&Service>,
    slices: &[Arc<EndpointSlice>],
) -> Verdict {
    let Some(ServiceRef { namespace, name, port }) = &availability.service else { return local() };
    let Some(service) = service else {
        let message = format!("service/{name} in {namespace:?} is not present");
        return Verdict::unavailable("ServiceNotFound", message);
    };
    if &*service.spec.r#type == "ClusterIP" {
        let Some(found) = service.spec.ports.iter().find(|found| found.port == *port) else {
            let message = format!("service/{name} in {namespace:?} is not listening on port {port}");
            return Verdict::unavailable("ServicePortError", message);
        };
        if slices.is_empty() {
            let message = format!("cannot find endpointslices for service/{name} in {namespace:?}");
            return Verdict::unavailable("EndpointsNotFound", message);
        }
        let port_name = &found.name;
        if !slices.iter().any(|slice| has_available_endpoint(slice, port_name)) {
            let message = format!(
                "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
            );
            return Verdict::unavailable("MissingEndpoints", message);
        }
    }
    let host = match service.has_cluster_ip() {
        true => service.spec.cluster_ip.to_string(),
        false => format!("{name}.{namespace}.svc"),
    };
    // kube-aggregator requests discovery here. This server has no client for other API servers.
    let url = format!("https://{host}:{port}/apis/{}", availability.group_version);
    let message =
        format!("failing or missing response from {url}: aggregated API servers are not implemented");
    Verdict::unavailable("FailedDiscoveryCheck", message)
}

fn has_available_endpoint(slice: &EndpointSlice, port_name: &str) -> bool {
    slice.endpoints.iter().any(|endpoint| endpoint.conditions.ready != Some(false))
        && slice.ports.iter().any(|port| *port.name == *port_name && port.port.is_some())
}
