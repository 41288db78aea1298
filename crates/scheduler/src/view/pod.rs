//! Cached representation of a Pod.

use coracle_meta::time::Time;
use coracle_runtime::informer::{Metadata, View};
use serde::Deserialize;

use super::affinity::{Affinity, RawAffinity};
use super::metadata::{RawMetadata, RawOwner};
use super::pod_requests::{ContainerRequests, PodRequests, RawResources, ReportedResources};
use super::resources::{ResourceList, Resources};
use super::spread::{RawSpreadConstraint, SpreadConstraint};
use super::storage::PodVolume;
use super::storage::pod_volume::RawVolume;
use super::taint::Toleration;
use coracle_runtime::informer::Labels;

/// A pod, reduced to the fields the scheduler reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawPod")]
pub struct Pod {
    pub(crate) metadata: Metadata,
    pub(crate) generation: i64,
    pub(crate) labels: Labels,
    /// The controller owner reference.
    pub(crate) controller: Option<Box<Owner>>,
    /// `spec.nodeName`; empty if the pod is not assigned.
    pub(crate) node_name: Box<str>,
    pub(crate) scheduler_name: Box<str>,
    pub(crate) priority: i32,
    /// False if `preemptionPolicy` is `Never`.
    pub(crate) may_preempt: bool,
    pub(crate) requests: Resources,
    /// Requests with defaults for missing ones, used for scoring.
    pub(crate) assumed_requests: Resources,
    /// `spec.nodeSelector`.
    pub(crate) node_selector: Labels,
    pub(crate) affinity: Option<Box<Affinity>>,
    pub(crate) tolerations: Box<[Toleration]>,
    pub(crate) host_ports: Box<[HostPort]>,
    pub(crate) spread: Box<[SpreadConstraint]>,
    pub(crate) volumes: Box<[PodVolume]>,
    /// Images of containers and image volumes, with tags.
    pub(crate) images: Box<[Box<str>]>,
    /// Number of containers, including init containers.
    pub(crate) containers: usize,
    /// Names of the scheduling gates.
    pub(crate) gates: Box<[Box<str>]>,
    /// Features the node must have declared.
    pub(crate) needed_features: &'static [&'static str],
    /// `status.nominatedNodeName`; empty if there is none.
    pub(crate) nominated_node: Box<str>,
    pub(crate) start_time: Option<Time>,
    /// The `PodScheduled` condition.
    pub(crate) scheduled: Option<Box<Condition>>,
    /// True if it has a `DisruptionTarget` condition because of preemption.
    pub(crate) is_preempted: bool,
}

/// The controller of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) api_version: Box<str>,
    pub(crate) kind: Box<str>,
    pub(crate) name: Box<str>,
}

/// A host port of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HostPort {
    pub(crate) protocol: Box<str>,
    /// `0.0.0.0` for all addresses.
    pub(crate) ip: Box<str>,
    pub(crate) port: u16,
}

/// The host IP that stands for all addresses of a node.
pub(crate) const ANY_ADDRESS: &str = "0.0.0.0";

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    pub(crate) r#type: Box<str>,
    pub(crate) status: Box<str>,
    pub(crate) reason: Box<str>,
    pub(crate) message: Box<str>,
    pub(crate) last_transition_time: Option<Box<str>>,
}

impl Pod {
    /// The name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.metadata.namespace
    }

    /// The UID.
    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// The labels.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The priority.
    pub fn priority(&self) -> i32 {
        self.priority
    }

    /// `spec.schedulerName`.
    pub fn scheduler_name(&self) -> &str {
        &self.scheduler_name
    }

    /// `spec.nodeName`; empty if the pod is not assigned.
    pub fn node_name(&self) -> &str {
        &self.node_name
    }

    /// `status.nominatedNodeName`; empty if there is none.
    pub fn nominated_node_name(&self) -> &str {
        &self.nominated_node
    }

    /// The requests of the whole pod.
    pub fn requests(&self) -> &Resources {
        &self.requests
    }

    /// True if `spec.nodeName` is set.
    pub(crate) fn is_assigned(&self) -> bool {
        !self.node_name.is_empty()
    }

    /// True if the pod has a deletion timestamp.
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// True if it counts on a node: it is assigned or nominated.
    pub(crate) fn occupies_node(&self) -> bool {
        self.is_assigned() || !self.nominated_node.is_empty()
    }

    /// A copy assigned to a node.
    pub(crate) fn on_node(&self, node: &str) -> Self {
        Self { node_name: node.into(), ..self.clone() }
    }

    /// A copy nominated to a node.
    pub(crate) fn nominated_to(&self, node: &str) -> Self {
        Self { nominated_node: node.into(), ..self.clone() }
    }

    /// `namespace/name`.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }
}

impl View for Pod {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPod {
    metadata: RawMetadata,
    spec: RawSpec,
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    node_name: Box<str>,
    scheduler_name: Box<str>,
    priority: i32,
    preemption_policy: Box<str>,
    node_selector: Labels,
    affinity: Option<RawAffinity>,
    tolerations: Box<[Toleration]>,
    containers: Vec<RawContainer>,
    init_containers: Vec<RawContainer>,
    resources: Option<RawResources>,
    overhead: ResourceList,
    topology_spread_constraints: Vec<RawSpreadConstraint>,
    volumes: Vec<RawVolume>,
    scheduling_gates: Vec<RawGate>,
    host_network: bool,
    host_users: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawContainer {
    name: Box<str>,
    image: Box<str>,
    resources: RawResources,
    ports: Vec<RawPort>,
    restart_policy: Box<str>,
    restart_policy_rules: Vec<RawRestartRule>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPort {
    host_port: u16,
    #[serde(rename = "hostIP")]
    host_ip: Box<str>,
    protocol: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawRestartRule {
    action: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawGate {
    name: Box<str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    nominated_node_name: Box<str>,
    start_time: Option<Box<str>>,
    conditions: Vec<Condition>,
    container_statuses: Vec<RawContainerStatus>,
    init_container_statuses: Vec<RawContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawContainerStatus {
    name: Box<str>,
    resources: Option<RawResources>,
    allocated_resources: ResourceList,
}

impl RawContainer {
    fn is_sidecar(&self) -> bool {
        &*self.restart_policy == "Always"
    }
}

impl From<RawPod> for Pod {
    fn from(raw: RawPod) -> Self {
        let (requests, assumed_requests) = {
            let requests_of = requests_of(&raw.spec, &raw.status);
            (requests_of.total(), requests_of.assumed())
        };
        let RawPod { metadata: mut raw, spec, status } = raw;
        let (metadata, labels) = (raw.take(), raw.labels);
        let affinity = spec.affinity.map(|affinity| Box::new(affinity.parse(&metadata.namespace)));
        let condition = |kind: &str| status.conditions.iter().find(|condition| &*condition.r#type == kind);
        let is_preempted = condition("DisruptionTarget").is_some_and(|disruption| {
            &*disruption.status == "True" && &*disruption.reason == "PreemptionByScheduler"
        });
        let needs = needs(
            &spec.containers,
            &spec.init_containers,
            spec.host_network && spec.host_users == Some(false),
        );
        Self {
            generation: raw.generation,
            controller: raw.owner_references.into_iter().find(|owner| owner.controller).map(Owner::boxed),
            may_preempt: &*spec.preemption_policy != "Never",
            requests,
            assumed_requests,
            affinity,
            host_ports: host_ports(&spec.containers, &spec.init_containers),
            spread: spec.topology_spread_constraints.into_iter().map(|raw| raw.parse(&labels)).collect(),
            images: images(&spec.containers, &spec.init_containers, &spec.volumes),
            containers: spec.containers.len() + spec.init_containers.len(),
            volumes: spec.volumes.into_iter().filter_map(|volume| volume.parse(&metadata.name)).collect(),
            gates: spec.scheduling_gates.into_iter().map(|gate| gate.name).collect(),
            needed_features: needs,
            start_time: status.start_time.as_deref().and_then(|time| time.parse().ok()),
            scheduled: condition("PodScheduled").cloned().map(Box::new),
            is_preempted,
            metadata,
            labels,
            node_name: spec.node_name,
            scheduler_name: spec.scheduler_name,
            priority: spec.priority,
            node_selector: spec.node_selector,
            tolerations: spec.tolerations,
            nominated_node: status.nominated_node_name,
        }
    }
}

impl Owner {
    fn boxed(raw: RawOwner) -> Box<Self> {
        Box::new(Self { api_version: raw.api_version, kind: raw.kind, name: raw.name })
    }
}

fn requests_of<'a>(spec: &'a RawSpec, status: &'a RawStatus) -> PodRequests<'a> {
    fn reported<'a>(name: &str, statuses: &'a [RawContainerStatus]) -> Option<ReportedResources<'a>> {
        let status = statuses.iter().find(|status| *status.name == *name)?;
        let actuated = &status.resources.as_ref()?.requests;
        Some(ReportedResources { actuated, allocated: &status.allocated_resources })
    }
    let infeasible = |condition: &Condition| {
        &*condition.r#type == "PodResizePending" && &*condition.reason == "Infeasible"
    };
    PodRequests {
        containers: (spec.containers.iter())
            .map(|container| ContainerRequests {
                requests: &container.resources.requests,
                is_sidecar: false,
                reported: reported(&container.name, &status.container_statuses),
            })
            .collect(),
        init_containers: (spec.init_containers.iter())
            .map(|container| ContainerRequests {
                requests: &container.resources.requests,
                is_sidecar: container.is_sidecar(),
                reported: (container.is_sidecar())
                    .then(|| reported(&container.name, &status.init_container_statuses))
                    .flatten(),
            })
            .collect(),
        pod_level: spec.resources.as_ref().map(|resources| &resources.requests),
        overhead: &spec.overhead,
        resize_is_infeasible: status.conditions.iter().any(infeasible),
    }
}

/// Host ports of containers and sidecars; plain init containers have ended by then.
fn host_ports(containers: &[RawContainer], init_containers: &[RawContainer]) -> Box<[HostPort]> {
    let sidecars = init_containers.iter().filter(|container| container.is_sidecar());
    let ports = containers.iter().chain(sidecars).flat_map(|container| &container.ports);
    ports
        .filter(|port| port.host_port > 0)
        .map(|port| HostPort {
            protocol: if port.protocol.is_empty() { "TCP".into() } else { port.protocol.clone() },
            ip: if port.host_ip.is_empty() { ANY_ADDRESS.into() } else { port.host_ip.clone() },
            port: port.host_port,
        })
        .collect()
}

fn images(
    containers: &[RawContainer],
    init_containers: &[RawContainer],
    volumes: &[RawVolume],
) -> Box<[Box<str>]> {
    let run = containers.iter().chain(init_containers).map(|container| &*container.image);
    let mounted = volumes.iter().filter_map(RawVolume::image);
    run.chain(mounted).map(with_tag).collect()
}

/// The image name with its tag, as nodes report it.
pub(crate) fn with_tag(image: &str) -> Box<str> {
    if image.rfind(':') <= image.rfind('/') { format!("{image}:latest").into() } else { image.into() }
}

/// Features that the pod requires of its node.
fn needs(
    containers: &[RawContainer],
    init_containers: &[RawContainer],
    own_users_in_host_network: bool,
) -> &'static [&'static str] {
    const RESTART_ALL: &str = "RestartAllContainersOnContainerExits";
    const OWN_USERS: &str = "UserNamespacesHostNetworkSupport";
    let mut rules =
        containers.iter().chain(init_containers).flat_map(|container| &container.restart_policy_rules);
    match (rules.any(|rule| &*rule.action == "RestartAllContainers"), own_users_in_host_network) {
        (false, false) => &[],
        (true, false) => &[RESTART_ALL],
        (false, true) => &[OWN_USERS],
        (true, true) => &[RESTART_ALL, OWN_USERS],
    }
}

#[cfg(test)]
mod tests;
