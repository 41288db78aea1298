//! Cached representations of pods and nodes: spec fields that determine their behaviour, and the reported
//! status.

use coracle_base::Timestamp;
use coracle_runtime::informer::{Labels, Metadata, ObjectMetadata, View, timestamp};
use serde::{Deserialize, Deserializer};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Pod {
    pub(super) metadata: ObjectMetadata,
    pub(super) spec: PodSpec,
    pub(super) status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodSpec {
    pub(super) node_name: Box<str>,
    pub(super) restart_policy: RestartPolicy,
    pub(super) active_deadline_seconds: Option<u64>,
    pub(super) host_network: bool,
    pub(super) init_containers: Box<[Container]>,
    pub(super) containers: Box<[Container]>,
    pub(super) ephemeral_containers: Box<[Container]>,
    pub(super) readiness_gates: Box<[ReadinessGate]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum RestartPolicy {
    #[default]
    Always,
    OnFailure,
    Never,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Container {
    pub(super) name: Box<str>,
    pub(super) image: Box<str>,
    pub(super) command: Box<[Box<str>]>,
    pub(super) args: Box<[Box<str>]>,
    /// Set for sidecars only.
    pub(super) restart_policy: Option<RestartPolicy>,
    pub(super) resources: Resources,
    pub(super) volume_mounts: Box<[VolumeMount]>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Resources {
    pub(super) requests: Labels,
    pub(super) limits: Labels,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct VolumeMount {
    pub(super) name: Box<str>,
    pub(super) mount_path: Box<str>,
    pub(super) read_only: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReadinessGate {
    pub(super) condition_type: Box<str>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum Phase {
    Running,
    Succeeded,
    Failed,
    #[default]
    #[serde(other)]
    Pending,
}

impl Phase {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    pub(super) fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodStatus {
    pub(super) phase: Phase,
    pub(super) observed_generation: i64,
    #[serde(deserialize_with = "optional_time")]
    pub(super) start_time: Option<Timestamp>,
    #[serde(rename = "podIP")]
    pub(super) pod_ip: Box<str>,
    pub(super) conditions: Box<[Condition]>,
    pub(super) init_container_statuses: Box<[ContainerStatus]>,
    pub(super) container_statuses: Box<[ContainerStatus]>,
    pub(super) ephemeral_container_statuses: Box<[ContainerStatus]>,
}

/// A condition of a pod or of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Condition {
    pub(super) r#type: Box<str>,
    pub(super) status: Box<str>,
    pub(super) reason: Box<str>,
    pub(super) message: Box<str>,
    #[serde(deserialize_with = "optional_time")]
    pub(super) last_heartbeat_time: Option<Timestamp>,
    #[serde(deserialize_with = "optional_time")]
    pub(super) last_transition_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerStatus {
    pub(super) name: Box<str>,
    pub(super) ready: bool,
    pub(super) restart_count: u32,
    pub(super) state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ContainerState {
    pub(super) waiting: Option<Waiting>,
    pub(super) running: Option<Running>,
    pub(super) terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Waiting {
    pub(super) reason: Box<str>,
    pub(super) message: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Running {
    #[serde(deserialize_with = "optional_time")]
    pub(super) started_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Terminated {
    pub(super) exit_code: i32,
    #[serde(deserialize_with = "optional_time")]
    pub(super) started_at: Option<Timestamp>,
}

impl ContainerState {
    /// Start time of a container that runs or has terminated.
    pub(super) fn started_at(&self) -> Option<Timestamp> {
        let running = self.running.as_ref().and_then(|running| running.started_at);
        running.or_else(|| self.terminated.as_ref().and_then(|terminated| terminated.started_at))
    }
}

impl View for Pod {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    pub(super) metadata: ObjectMetadata,
    pub(super) status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeStatus {
    pub(super) conditions: Box<[Condition]>,
    pub(super) addresses: Box<[NodeAddress]>,
    pub(super) capacity: Labels,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NodeAddress {
    pub(super) r#type: Box<str>,
    pub(super) address: Box<str>,
}

impl View for Node {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl Node {
    /// True if the node is simulated.
    pub(super) fn is_fake(&self) -> bool {
        self.metadata.annotations.get(super::NODE) == Some("true")
    }

    /// True if the node is simulated and its heartbeat is not stopped.
    pub(super) fn is_alive(&self) -> bool {
        self.is_fake() && self.metadata.annotations.get("fake.coracle.dev/heartbeat") != Some("stopped")
    }

    /// Address of the node within the cluster.
    pub(super) fn internal_ip(&self) -> Option<&str> {
        let internal = self.status.addresses.iter().find(|address| &*address.r#type == "InternalIP");
        internal.map(|address| &*address.address)
    }
}

fn optional_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<std::borrow::Cow<'de, str>>::deserialize(from)?;
    Ok(text.map(|text| timestamp(&text)))
}
