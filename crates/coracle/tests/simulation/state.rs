//! The objects at one time, and accessors for their fields.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// The watched resources: plural and path.
pub(crate) const RESOURCES: &[(&str, &str)] = &[
    (CONTROLLER_REVISIONS, "/apis/apps/v1/controllerrevisions"),
    (CRON_JOBS, "/apis/batch/v1/cronjobs"),
    (DAEMON_SETS, "/apis/apps/v1/daemonsets"),
    (DEPLOYMENTS, "/apis/apps/v1/deployments"),
    (DISRUPTION_BUDGETS, "/apis/policy/v1/poddisruptionbudgets"),
    (ENDPOINT_SLICES, "/apis/discovery.k8s.io/v1/endpointslices"),
    (IP_ADDRESSES, "/apis/networking.k8s.io/v1/ipaddresses"),
    (JOBS, "/apis/batch/v1/jobs"),
    (NAMESPACES, "/api/v1/namespaces"),
    (NODES, "/api/v1/nodes"),
    (CLAIMS, "/api/v1/persistentvolumeclaims"),
    (VOLUMES, "/api/v1/persistentvolumes"),
    (PODS, "/api/v1/pods"),
    (REPLICA_SETS, "/apis/apps/v1/replicasets"),
    (RESOURCE_QUOTAS, "/api/v1/resourcequotas"),
    (SERVICE_ACCOUNTS, "/api/v1/serviceaccounts"),
    (SERVICES, "/api/v1/services"),
    (STATEFUL_SETS, "/apis/apps/v1/statefulsets"),
];

pub(crate) const CONTROLLER_REVISIONS: &str = "controllerrevisions";
pub(crate) const CRON_JOBS: &str = "cronjobs";
pub(crate) const DAEMON_SETS: &str = "daemonsets";
pub(crate) const DEPLOYMENTS: &str = "deployments";
pub(crate) const DISRUPTION_BUDGETS: &str = "poddisruptionbudgets";
pub(crate) const ENDPOINT_SLICES: &str = "endpointslices";
pub(crate) const IP_ADDRESSES: &str = "ipaddresses";
pub(crate) const JOBS: &str = "jobs";
pub(crate) const NAMESPACES: &str = "namespaces";
pub(crate) const NODES: &str = "nodes";
pub(crate) const CLAIMS: &str = "persistentvolumeclaims";
pub(crate) const VOLUMES: &str = "persistentvolumes";
pub(crate) const PODS: &str = "pods";
pub(crate) const REPLICA_SETS: &str = "replicasets";
pub(crate) const RESOURCE_QUOTAS: &str = "resourcequotas";
pub(crate) const SERVICE_ACCOUNTS: &str = "serviceaccounts";
pub(crate) const SERVICES: &str = "services";
pub(crate) const STATEFUL_SETS: &str = "statefulsets";

#[derive(Default)]
pub(crate) struct State {
    objects: BTreeMap<(&'static str, String, String), Arc<Value>>,
}

impl State {
    /// Adds, replaces or removes an object. Returns the previous version.
    pub(crate) fn set(
        &mut self,
        resource: &'static str,
        object: &Arc<Value>,
        is_there: bool,
    ) -> Option<Arc<Value>> {
        let place = (resource, namespace(object).to_owned(), name(object).to_owned());
        if is_there { self.objects.insert(place, Arc::clone(object)) } else { self.objects.remove(&place) }
    }

    pub(crate) fn get(&self, resource: &'static str, namespace: &str, name: &str) -> Option<&Value> {
        self.objects.get(&(resource, namespace.to_owned(), name.to_owned())).map(|object| &**object)
    }

    /// All objects of a resource in a namespace.
    pub(crate) fn list<'a>(
        &'a self,
        resource: &'static str,
        namespace: &str,
    ) -> impl Iterator<Item = &'a Value> + use<'a> {
        let namespace = namespace.to_owned();
        let from = (resource, namespace.clone(), String::new());
        let here = self
            .objects
            .range(from..)
            .take_while(move |((kind, space, _), _)| *kind == resource && *space == namespace);
        here.map(|(_, object)| &**object)
    }

    /// All objects in a namespace, of any resource.
    pub(crate) fn within<'a>(&'a self, namespace: &str) -> Vec<(&'static str, &'a Value)> {
        let of = |(resource, _): &(&'static str, &str)| {
            self.list(resource, namespace).map(|object| (*resource, object)).collect::<Vec<_>>()
        };
        RESOURCES.iter().flat_map(of).collect()
    }
}

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn number(object: &Value, pointer: &str) -> u64 {
    object.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

pub(crate) fn namespace(object: &Value) -> &str {
    text(object, "/metadata/namespace")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

pub(crate) fn app(object: &Value) -> &str {
    text(object, "/metadata/labels/app")
}

/// The image of the first container, which identifies the version of a pod.
pub(crate) fn image(pod: &Value) -> &str {
    text(pod, "/spec/containers/0/image")
}

pub(crate) fn is_terminating(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

pub(crate) fn has_condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| condition["type"] == kind && condition["status"] == "True")
}

pub(crate) fn is_ready(pod: &Value) -> bool {
    has_condition(pod, "Ready")
}

pub(crate) fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// True if a pod neither ended nor terminates.
pub(crate) fn is_active(pod: &Value) -> bool {
    !is_terminating(pod) && !has_ended(pod)
}

/// Kind and UID of the controller of an object, if it has one.
pub(crate) fn controller(object: &Value) -> Option<(&str, &str)> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let controller = owners.iter().find(|owner| owner["controller"] == true)?;
    Some((text(controller, "/kind"), text(controller, "/uid")))
}

/// Formats pods in one line.
pub(crate) fn format_pods<'a>(pods: impl IntoIterator<Item = &'a Value>) -> String {
    let one = |pod: &Value| {
        let (name, image, phase) = (name(pod), image(pod), text(pod, "/status/phase"));
        let (ready, terminating) = (
            if is_ready(pod) { " ready" } else { "" },
            if is_terminating(pod) { " terminating" } else { "" },
        );
        format!("{name} {} {phase}{ready}{terminating}", image.rsplit(':').next().unwrap_or_default())
    };
    format!("[{}]", pods.into_iter().map(one).collect::<Vec<_>>().join(", "))
}

/// Formats claims and volumes in one line.
pub(crate) fn format_claims(claims: &[&Value], volumes: &[&Value]) -> String {
    let claim = |claim: &&Value| {
        let (phase, volume) = (text(claim, "/status/phase"), text(claim, "/spec/volumeName"));
        format!("{} {phase} {volume}", name(claim))
    };
    let volume = |volume: &&Value| {
        let claim = text(volume, "/spec/claimRef/name");
        format!("{} {} of {claim}", name(volume), text(volume, "/status/phase"))
    };
    let claims: Vec<_> = claims.iter().map(claim).collect();
    let volumes: Vec<_> = volumes.iter().map(volume).collect();
    format!("[{}] and [{}]", claims.join(", "), volumes.join(", "))
}
