//! Cached representations of pods and nodes: spec fields that determine their behaviour, and the reported
//! status.

use coracle_base::Timestamp;
use coracle_runtime::informer::{Labels, Metadata, ObjectMetadata, View, timestamp};
use serde::{Deserialize, Deserializer};

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
    pub(crate) restart_policy: RestartPolicy,
    pub(crate) active_deadline_seconds: Option<u64>,
    pub(crate) host_network: bool,
    pub(crate) init_containers: Box<[Container]>,
    pub(crate) containers: Box<[Container]>,
    pub(crate) ephemeral_containers: Box<[Container]>,
    pub(crate) readiness_gates: Box<[ReadinessGate]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum RestartPolicy {
    #[default]
    Always,
    OnFailure,
    Never,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Container {
    pub(crate) name: Box<str>,
    pub(crate) image: Box<str>,
    pub(crate) command: Box<[Box<str>]>,
    pub(crate) args: Box<[Box<str>]>,
    /// Set for sidecars only.
    pub(crate) restart_policy: Option<RestartPolicy>,
    pub(crate) resources: Resources,
    pub(crate) volume_mounts: Box<[VolumeMount]>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Resources {
    pub(crate) requests: Labels,
    pub(crate) limits: Labels,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VolumeMount {
    pub(crate) name: Box<str>,
    pub(crate) mount_path: Box<str>,
    pub(crate) read_only: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ReadinessGate {
    pub(crate) condition_type: Box<str>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum Phase {
    Running,
    Succeeded,
    Failed,
    #[default]
    #[serde(other)]
    Pending,
}

impl Phase {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
        }
    }

    pub(crate) fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    pub(crate) phase: Phase,
    pub(crate) observed_generation: i64,
    #[serde(deserialize_with = "optional_time")]
    pub(crate) start_time: Option<Timestamp>,
    #[serde(rename = "podIP")]
    pub(crate) pod_ip: Box<str>,
    pub(crate) conditions: Box<[Condition]>,
    pub(crate) init_container_statuses: Box<[ContainerStatus]>,
    pub(crate) container_statuses: Box<[ContainerStatus]>,
    pub(crate) ephemeral_container_statuses: Box<[ContainerStatus]>,
}

/// A condition of a pod or of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    pub(crate) r#type: Box<str>,
    pub(crate) status: Box<str>,
    pub(crate) reason: Box<str>,
    pub(crate) message: Box<str>,
    #[serde(deserialize_with = "optional_time")]
    pub(crate) last_heartbeat_time: Option<Timestamp>,
    #[serde(deserialize_with = "optional_time")]
    pub(crate) last_transition_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus {
    pub(crate) name: Box<str>,
    pub(crate) ready: bool,
    pub(crate) restart_count: u32,
    pub(crate) state: ContainerState,
}

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
    pub(crate) message: Box<str>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Running {
    #[serde(deserialize_with = "optional_time")]
    pub(crate) started_at: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated {
    pub(crate) exit_code: i32,
    #[serde(deserialize_with = "optional_time")]
    pub(crate) started_at: Option<Timestamp>,
}

impl ContainerState {
    /// Start time of a container that runs or has terminated.
    pub(crate) fn started_at(&self) -> Option<Timestamp> {
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
pub(crate) struct Node {
    pub(crate) metadata: ObjectMetadata,
    pub(crate) status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeStatus {
    pub(crate) conditions: Box<[Condition]>,
    pub(crate) addresses: Box<[NodeAddress]>,
    pub(crate) capacity: Labels,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeAddress {
    pub(crate) r#type: Box<str>,
    pub(crate) address: Box<str>,
}

impl View for Node {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl Node {
    /// True if the node is simulated.
    pub(crate) fn is_fake(&self) -> bool {
        self.metadata.annotations.get(crate::NODE) == Some("true")
    }

    /// True if the node is simulated and its heartbeat is not stopped.
    pub(crate) fn is_alive(&self) -> bool {
        self.is_fake() && self.metadata.annotations.get("fake.coracle.dev/heartbeat") != Some("stopped")
    }

    /// Address of the node within the cluster.
    pub(crate) fn internal_ip(&self) -> Option<&str> {
        let internal = self.status.addresses.iter().find(|address| &*address.r#type == "InternalIP");
        internal.map(|address| &*address.address)
    }
}

fn optional_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<std::borrow::Cow<'de, str>>::deserialize(from)?;
    Ok(text.map(|text| timestamp(&text)))
}
