//! View of pods.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;
use coracle_runtime::informer::{Labels, Metadata, ObjectMetadata, View};
use coracle_runtime::{Informer, Manager, ObjectKey, Selection};
use serde::{Deserialize, Serialize};

use super::condition::{Condition, condition};
use super::node::Taint;
use super::{ObjectView, optional_time};

/// Index of pods by the claims they use, as `namespace/name`.
const BY_CLAIM: &str = "persistentVolumeClaim";

/// Informer of all pods.
pub(crate) fn pods(manager: &mut Manager) -> Informer<Pod> {
    manager.informer(Selection::of::<k8s_openapi::api::core::v1::Pod>())
}

/// Index of pods by node.
pub(crate) const PODS_BY_NODE: &str = "node";

/// Informer of all pods, indexed by [`PODS_BY_NODE`].
pub(crate) fn pods_by_node(manager: &mut Manager) -> Informer<Pod> {
    let informer = pods(manager);
    informer.store().add_index(PODS_BY_NODE, |pod: &Pod| {
        let node = &pod.spec.node_name;
        (!node.is_empty()).then(|| node.to_string()).into_iter().collect()
    });
    informer
}

/// Adds the index by claims.
pub(crate) fn index_by_claim(pods: &Informer<Pod>) {
    pods.store().add_index(BY_CLAIM, |pod| {
        pod.claims().map(|claim| format!("{}/{claim}", pod.metadata.namespace())).collect()
    });
}

/// Pods that use a claim.
pub(crate) fn pods_of_claim(pods: &Informer<Pod>, claim: &ObjectKey) -> Vec<Arc<Pod>> {
    let name = format!("{}/{}", claim.namespace(), claim.name());
    pods.store().by_index(BY_CLAIM, claim.cluster(), &name)
}

/// View of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Pod {
    pub(crate) metadata: ObjectMetadata,
    pub(crate) spec: PodSpec,
    pub(crate) status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpec {
    pub(crate) node_name: Box<str>,
    pub(crate) hostname: Box<str>,
    pub(crate) subdomain: Box<str>,
    pub(crate) restart_policy: Box<str>,
    pub(crate) priority_class_name: Box<str>,
    pub(crate) active_deadline_seconds: Option<i64>,
    pub(crate) host_network: bool,
    pub(crate) containers: Box<[Container]>,
    pub(crate) init_containers: Box<[Container]>,
    pub(crate) volumes: Box<[Volume]>,
    pub(crate) tolerations: Box<[Toleration]>,
    /// The only node that its affinity allows, if there is only one.
    #[serde(rename = "affinity")]
    pub(crate) affinity_node: AffinityNode,
    /// Resource overhead of the pod, beside its containers.
    pub(crate) overhead: Labels,
    /// Pod-level resources, if set.
    pub(crate) resources: Resources,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) name: Box<str>,
    pub(crate) ports: Box<[ContainerPort]>,
    pub(crate) resources: Resources,
    /// `Always` for a sidecar among the init containers; otherwise empty.
    pub(crate) restart_policy: Box<str>,
}

/// Amounts by resource.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Resources {
    pub(crate) requests: Labels,
    pub(crate) limits: Labels,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerPort {
    pub(crate) name: Box<str>,
    pub(crate) container_port: i32,
    pub(crate) protocol: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Volume {
    pub(crate) name: Box<str>,
    pub(crate) persistent_volume_claim: Option<ClaimSource>,
    pub(crate) ephemeral: Option<EphemeralSource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimSource {
    pub(crate) claim_name: Box<str>,
}

/// Marks an ephemeral volume; its claim template is not needed.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct EphemeralSource {}

/// A toleration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Toleration {
    pub(crate) key: Box<str>,
    pub(crate) operator: Box<str>,
    pub(crate) value: Box<str>,
    pub(crate) effect: Box<str>,
    pub(crate) toleration_seconds: Option<i64>,
}

impl Toleration {
    /// True if it tolerates the taint. Numeric comparison is a disabled feature of Kubernetes.
    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        let fits = |wanted: &str, found: &str| wanted.is_empty() || *wanted == *found;
        fits(&self.effect, &taint.effect)
            && fits(&self.key, &taint.key)
            && match &*self.operator {
                "" | "Equal" => self.value == taint.value,
                operator => operator == "Exists",
            }
    }
}

/// Node name that the affinity of a DaemonSet's pod requires. The rest of the affinity is not stored.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Affinity")]
pub(crate) struct AffinityNode(pub(crate) Option<Box<str>>);

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: NodeAffinity,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: RequiredNode,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RequiredNode {
    node_selector_terms: Vec<NodeSelectorTerm>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeSelectorTerm {
    match_fields: Vec<FieldRequirement>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FieldRequirement {
    key: Box<str>,
    operator: Box<str>,
    values: Vec<Box<str>>,
}

impl From<Affinity> for AffinityNode {
    fn from(affinity: Affinity) -> Self {
        let terms =
            affinity.node_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms;
        let is_name = |field: &FieldRequirement| &*field.key == "metadata.name" && &*field.operator == "In";
        let named = terms.into_iter().flat_map(|term| term.match_fields).find(is_name);
        Self(named.and_then(|field| <[Box<str>; 1]>::try_from(field.values).ok()).map(|[name]| name))
    }
}

/// Phase of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    /// The phase is unknown or not set.
    #[default]
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    pub(crate) phase: Phase,
    pub(crate) reason: Box<str>,
    pub(crate) message: Box<str>,
    pub(crate) conditions: Box<[Condition]>,
    #[serde(rename = "hostIP")]
    pub(crate) host_ip: Box<str>,
    #[serde(rename = "podIP")]
    pub(crate) pod_ip: Box<str>,
    #[serde(rename = "podIPs")]
    pub(crate) pod_ips: Box<[PodIp]>,
    #[serde(with = "optional_time")]
    pub(crate) start_time: Option<Timestamp>,
    pub(crate) container_statuses: Box<[ContainerStatus]>,
    pub(crate) init_container_statuses: Box<[ContainerStatus]>,
    pub(crate) qos_class: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodIp {
    pub(crate) ip: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus {
    pub(crate) name: Box<str>,
    pub(crate) ready: bool,
    pub(crate) restart_count: i32,
    pub(crate) state: ContainerState,
}

/// State of a container; all fields are `None` if it is unknown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ContainerState {
    pub(crate) waiting: Option<Waiting>,
    pub(crate) running: Option<Running>,
    pub(crate) terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Waiting {
    pub(crate) reason: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Running {
    #[serde(with = "optional_time")]
    pub(crate) started_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated {
    pub(crate) exit_code: i32,
    pub(crate) reason: Box<str>,
    #[serde(with = "optional_time")]
    pub(crate) finished_at: Option<Timestamp>,
}

impl View for Pod {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl ObjectView for Pod {
    fn object_metadata(&self) -> &ObjectMetadata {
        &self.metadata
    }
}

impl Pod {
    /// Condition of a type.
    pub(crate) fn condition(&self, r#type: &str) -> Option<&Condition> {
        condition(&self.status.conditions, r#type)
    }

    /// Names of the claims in its volumes.
    pub(crate) fn named_claims(&self) -> impl Iterator<Item = &str> {
        let volumes = self.spec.volumes.iter();
        volumes.filter_map(|volume| Some(&*volume.persistent_volume_claim.as_ref()?.claim_name))
    }

    /// Names of the claims created for its ephemeral volumes (`VolumeClaimName` in
    /// component-helpers/storage/ephemeral).
    pub(crate) fn own_claims(&self) -> impl Iterator<Item = Box<str>> {
        let volumes = self.spec.volumes.iter().filter(|volume| volume.ephemeral.is_some());
        volumes.map(|volume| format!("{}-{}", self.metadata.name(), volume.name).into())
    }

    /// Names of all claims it uses.
    pub(crate) fn claims(&self) -> impl Iterator<Item = Box<str>> {
        self.named_claims().map(Box::from).chain(self.own_claims())
    }

    /// True if its Ready condition is true.
    pub(crate) fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(Condition::is_true)
    }

    /// True if it has been ready for `min_ready_seconds`.
    pub(crate) fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        let Some(ready) = self.condition("Ready").filter(|ready| ready.is_true()) else { return false };
        let seconds = u64::try_from(min_ready_seconds).unwrap_or_default();
        let since = ready.last_transition_time;
        seconds == 0 || since.is_some_and(|since| now.since(since).as_secs() >= seconds)
    }

    /// True if it has succeeded or failed.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(self.status.phase, Phase::Succeeded | Phase::Failed)
    }

    /// True if it counts as a replica: neither finished nor terminating.
    pub(crate) fn is_active(&self) -> bool {
        !self.is_finished() && !self.metadata.is_terminating()
    }
}

/// Time until a ready pod becomes available; `None` if it is not ready, or already available.
pub(crate) fn next_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
    let ready = pod.condition("Ready").filter(|ready| ready.is_true())?;
    let seconds = u64::try_from(min_ready_seconds).unwrap_or_default();
    let due = ready.last_transition_time? + Duration::from_secs(seconds);
    (due > now).then(|| due.since(now))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pod_view_holds_fields_of_controllers() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app": "x"}},
            "spec": {
                "nodeName": "n1", "restartPolicy": "Always", "serviceAccountName": "default",
                "containers": [{"name": "c", "image": "x", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": "100m"}}}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
                "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 300}],
            },
            "status": {
                "phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
                "startTime": "1970-01-01T00:00:01Z",
                "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null,
                    "lastTransitionTime": "1970-01-01T00:00:10Z"}],
                "containerStatuses": [{"name": "c", "ready": true, "restartCount": 2,
                    "state": {"running": {"startedAt": "1970-01-01T00:00:05Z"}}}],
            },
        }))
        .unwrap();
        assert_eq!((pod.status.phase, &*pod.spec.node_name), (Phase::Running, "n1"));
        assert!(pod.is_ready() && pod.is_active());
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1000);
        assert!(pod.is_available(0, at(10)) && !pod.is_available(5, at(14)) && pod.is_available(5, at(15)));
        assert_eq!(next_available(&pod, 5, at(12)), Some(Duration::from_secs(3)));
        assert_eq!(next_available(&pod, 5, at(15)), None);
        assert_eq!(pod.spec.containers[0].resources.requests.get("cpu"), Some("100m"));
        assert_eq!(pod.status.container_statuses[0].restart_count, 2);
        assert_eq!(serde_json::from_value::<Pod>(json!({})).unwrap().status.phase, Phase::Unknown);
    }
}
