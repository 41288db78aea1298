//! Node lifecycle: marks nodes without heartbeats as not ready, and taints them so that their pods are evicted.
//!
//! Kubernetes checks all nodes every five seconds. Here each node is reconciled when it changes, and otherwise when
//! its last heartbeat becomes too old; heartbeats themselves are only recorded ([`heartbeat`]). The taints of a node
//! follow from its conditions ([`taints`]); the rate of evictions is limited by the health of its zone ([`zones`]).

mod health;
mod heartbeat;
mod metrics;
mod taints;
mod tracker;
mod zones;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_base::{Clock, Timestamp};
use coracle_runtime::{
    Action, Change, Controller, EventType, Informer, Manager, ObjectKey, Objects, ReadYourWrites, Reconcile,
    Recorder, Reference, Written,
};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::view::{Condition, Node, PODS_BY_NODE, Pod, condition, nodes, pods_by_node, rfc3339};
use crate::{Registration, Settings, api_error};
use health::{Health, health};
use heartbeat::{ConnectedTime, Heartbeats, Lease, leases, node_of};
use metrics::NodeMetrics;
use taints::{Eviction, eviction, taints};
use tracker::{NodeChange, NodeTracker};
use zones::{Permit, Zones};

/// Component of the events.
const COMPONENT: &str = "node-controller";

/// Concurrent reconciles: Kubernetes' `nodeUpdateWorkerSize`.
const WORKERS: usize = 8;

pub(crate) const REGISTRATION: Registration = Registration { name: "node-lifecycle-controller", register };

/// Settings of the node lifecycle controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMonitor {
    /// How long after its last heartbeat a node becomes not ready.
    pub grace_period: Duration,
    /// How long a new node may take until its first heartbeat.
    pub startup_grace_period: Duration,
    /// Minimum time between evictions from two nodes of a zone.
    pub eviction_interval: Duration,
    /// The same in a large zone with partial disruption; in a small one evictions stop then.
    pub reduced_eviction_interval: Duration,
    /// Number of nodes above which a zone is large.
    pub large_zone: usize,
    /// Percentage of unready nodes from which a zone is partially disrupted.
    pub unhealthy_zone_percent: usize,
}

impl Default for NodeMonitor {
    /// As kube-controller-manager, except for the grace period, which was 40 s for most of its history and is 50 s
    /// since clients may take 45 s to notice a dead connection.
    fn default() -> Self {
        Self {
            grace_period: Duration::from_secs(40),
            startup_grace_period: Duration::from_secs(60),
            eviction_interval: Duration::from_secs(10),
            reduced_eviction_interval: Duration::from_secs(100),
            large_zone: 50,
            unhealthy_zone_percent: 55,
        }
    }
}

fn register(manager: &mut Manager, settings: &Settings) {
    let (nodes, pods, leases) = (nodes(manager), pods_by_node(manager), leases(manager));
    let (heartbeats, clock) = (Arc::new(Heartbeats::default()), settings.clock.clone());
    let connected_time = ConnectedTime { clock: clock.clone(), leases: leases.clone() };
    let (shifts, shifted) = watch::channel(());
    let zones = Arc::<Mutex<Zones>>::default();
    let reconcile = NodeLifecycle {
        node_objects: Objects::of::<k8s_openapi::api::core::v1::Node>(manager.client()),
        pod_objects: Objects::of::<k8s_openapi::api::core::v1::Pod>(manager.client()),
        nodes: nodes.clone(),
        pods: pods.clone(),
        connected_time: connected_time.clone(),
        heartbeats: Arc::clone(&heartbeats),
        tracker: NodeTracker::default(),
        metrics: NodeMetrics::new(manager.metrics(), &zones),
        zones,
        shifts,
        own_writes: ReadYourWrites::default(),
        recorder: manager.recorder(COMPONENT),
        monitor: settings.node_monitor.clone(),
        clock,
    };
    let (of_nodes, of_leases) = (Arc::clone(&heartbeats), heartbeats);
    let (at_node, at_lease) = (connected_time.clone(), connected_time);
    let (of_pods, of_shifts) = (nodes.clone(), nodes.clone());
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("node_lifecycle_controller")
        .watches(&nodes, move |change| {
            note_status(change, &of_nodes, at_node.time());
            [change.key.clone()]
        })
        .watches(&leases, move |change| {
            note_lease(change, &of_leases, at_lease.time());
            None::<ObjectKey>
        })
        .watches(&pods, move |change| ready_pod_on_unknown_node(change, &of_pods))
        .watches_value(&shifted, move || not_ready(&of_shifts))
        .workers(WORKERS);
    manager.add(controller);
}

/// Records a status update as a heartbeat.
fn note_status(change: &Change<Node>, heartbeats: &Heartbeats, now: Duration) {
    let ready = change.new.as_ref().and_then(|node| condition(&node.status.conditions, "Ready"));
    if let Some(ready) = ready {
        let heartbeat = ready.last_heartbeat_time.unwrap_or_default();
        heartbeats.note_status(change.key.clone(), heartbeat, now);
    }
}

/// Records a renewed lease as a heartbeat.
fn note_lease(change: &Change<Lease>, heartbeats: &Heartbeats, now: Duration) {
    let renewed = change.new.as_ref().and_then(|lease| lease.renew_time());
    heartbeats.note_lease(node_of(&change.key), renewed, now);
}

/// The node of a ready pod, if the node's readiness is unknown.
fn ready_pod_on_unknown_node(change: &Change<Pod>, nodes: &Informer<Node>) -> Option<ObjectKey> {
    let pod = change.new.as_ref().filter(|pod| pod.is_ready() && !pod.spec.node_name.is_empty())?;
    let key = ObjectKey::cluster_wide(change.key.cluster().clone(), &*pod.spec.node_name);
    nodes.store().get(&key).filter(|node| is_unknown(node)).map(|_| key)
}

fn is_unknown(node: &Node) -> bool {
    condition(&node.status.conditions, "Ready").is_some_and(|ready| &*ready.status == "Unknown")
}

fn not_ready(nodes: &Informer<Node>) -> Vec<ObjectKey> {
    let mut keys = nodes.store().keys();
    keys.retain(|key| nodes.store().get(key).is_some_and(|node| !node.is_ready()));
    keys
}

struct NodeLifecycle {
    node_objects: Objects,
    pod_objects: Objects,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    connected_time: ConnectedTime,
    heartbeats: Arc<Heartbeats>,
    tracker: NodeTracker,
    zones: Arc<Mutex<Zones>>,
    metrics: NodeMetrics,
    /// Notified when unready nodes must be checked again because of other nodes.
    shifts: watch::Sender<()>,
    own_writes: ReadYourWrites,
    recorder: Recorder,
    monitor: NodeMonitor,
    clock: Clock,
}

/// Error of a reconcile.
#[derive(Debug, thiserror::Error)]
enum MonitorError {
    #[error(transparent)]
    StaleCache(#[from] coracle_runtime::StaleCache),
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl Reconcile for NodeLifecycle {
    type Error = MonitorError;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, MonitorError> {
        self.own_writes.seen(key, &self.nodes).await?;
        let began = self.clock.uptime();
        let synced = self.sync(key).await;
        self.metrics.took(self.clock.uptime().saturating_sub(began));
        match synced {
            // The node has changed; its event enqueues it again.
            Err(MonitorError::Api(error)) if api_error::is_outdated(&error) => Ok(Action::AwaitChange),
            done => done,
        }
    }
}

impl NodeLifecycle {
    async fn sync(&self, key: &ObjectKey) -> Result<Action, MonitorError> {
        let node = self.nodes.store().get(key);
        self.record_changes(key, node.as_deref());
        let Some(node) = node else {
            self.heartbeats.forget(key);
            return Ok(Action::AwaitChange);
        };
        let (now, uptime) = (self.clock.now(), self.connected_time.time());
        let last_heartbeat =
            self.heartbeats.last(key).map(|last_heartbeat| now - uptime.saturating_sub(last_heartbeat));
        let next = match health(&node, last_heartbeat, now, &self.monitor) {
            Health::Recent(left) => Some(left),
            Health::Stale(conditions) if conditions.is_empty() => None,
            Health::Stale(conditions) => {
                // The change enqueues the node again.
                self.write_conditions(key, &node, &conditions).await?;
                return Ok(Action::AwaitChange);
            }
        };
        let permitted = self.taint(key, &node, now).await?;
        if is_unknown(&node) || self.tracker.has_pods_to_mark(key) {
            self.mark_pods(key, now).await?;
            self.tracker.marked_pods(key);
        }
        let next = next.into_iter().chain(permitted).min();
        Ok(next.map_or(Action::AwaitChange, Action::RequeueAfter))
    }

    /// Records events for changes of a node, and updates its zone.
    fn record_changes(&self, key: &ObjectKey, node: Option<&Node>) {
        match self.tracker.observe(key, node) {
            NodeChange::None => {}
            NodeChange::Registered(about) => {
                if let Some(node) = node {
                    self.metrics.registered(node);
                }
                let text = format!("Registered Node {} in Controller", key.name());
                self.record_event(
                    key,
                    about,
                    "RegisteredNode",
                    &format!("Node {} event: {text}", key.name()),
                );
            }
            NodeChange::Removed(about) => {
                let text = format!("Removing Node {} from Controller", key.name());
                self.record_event(key, about, "RemovingNode", &format!("Node {} event: {text}", key.name()));
            }
            NodeChange::NotReady(about) => {
                let text = format!("Node {} status is now: NodeNotReady", key.name());
                self.record_event(key, about, "NodeNotReady", &text);
            }
        }
        let shift = {
            let mut zones = self.zones();
            if !zones.contains(key.cluster()) {
                for other in self.nodes.store().in_cluster(key.cluster()) {
                    let at = ObjectKey::cluster_wide(key.cluster().clone(), other.metadata.name());
                    zones.observe(&at, Some(&other), &self.monitor);
                }
            }
            zones.observe(key, node, &self.monitor)
        };
        if shift.recovered {
            // Without connection to the server, no heartbeats were received.
            self.heartbeats.revive(key.cluster(), self.connected_time.time());
        }
        if shift.changed {
            self.shifts.send_replace(());
        }
    }

    fn record_event(&self, key: &ObjectKey, about: Reference, reason: &'static str, message: &str) {
        self.recorder.event(key.cluster(), about, EventType::Normal, reason, message);
    }

    async fn write_conditions(
        &self,
        key: &ObjectKey,
        node: &Node,
        conditions: &[Condition],
    ) -> Result<(), MonitorError> {
        // With the resource version, so that a concurrent status update of the kubelet wins.
        let version = node.metadata.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}});
        let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
        let written: Written = self.node_objects.patch_subresource(key, "status", &params, &patch).await?;
        self.own_writes.note(key, &written.metadata.resource_version);
        Ok(())
    }

    /// Sets the taints and labels that a node should have. Returns the delay until it may be tainted for eviction, if
    /// that is rate limited.
    async fn taint(
        &self,
        key: &ObjectKey,
        node: &Node,
        now: Timestamp,
    ) -> Result<Option<Duration>, MonitorError> {
        let (eviction, wait) = self.permitted(key, node, now);
        let taints = taints(node, eviction, now);
        let labels = missing_labels(node);
        if taints.is_none() && labels.is_empty() {
            return Ok(wait);
        }
        let mut patch = json!({"metadata": {"resourceVersion": node.metadata.resource_version()}});
        if let Some(taints) = taints {
            patch["spec"]["taints"] = json!(taints);
        }
        for (label, value) in labels {
            patch["metadata"]["labels"][label] = value.into();
        }
        let written: Result<Written, _> =
            self.node_objects.patch(key, &PatchParams::default(), &Patch::Merge(patch)).await;
        match written {
            Ok(written) => {
                self.own_writes.note(key, &written.metadata.resource_version);
                if matches!(eviction, Eviction::Wanted(_)) {
                    self.metrics.evicted(node);
                }
                Ok(wait)
            }
            Err(error) => {
                if matches!(eviction, Eviction::Wanted(_)) {
                    self.zones().refund(key, node);
                }
                Err(error.into())
            }
        }
    }

    /// The eviction permitted now, and otherwise the delay until it is.
    fn permitted(&self, key: &ObjectKey, node: &Node, now: Timestamp) -> (Eviction, Option<Duration>) {
        let mut zones = self.zones();
        match eviction(node) {
            Eviction::Continued(_) | Eviction::Wanted(_) if zones.is_disrupted(key.cluster()) => {
                (Eviction::None, None)
            }
            Eviction::Wanted(reason) => match zones.permit(key, node, now, &self.monitor) {
                Permit::Granted => (Eviction::Wanted(reason), None),
                Permit::After(wait) => (Eviction::None, Some(wait)),
                Permit::Stopped => (Eviction::None, None),
            },
            other => (other, None),
        }
    }

    /// Marks the pods of a node without heartbeats as not ready, whatever they reported last.
    async fn mark_pods(&self, key: &ObjectKey, now: Timestamp) -> Result<(), MonitorError> {
        for pod in self.pods.store().by_index(PODS_BY_NODE, key.cluster(), key.name()) {
            if !pod.is_ready() {
                continue;
            }
            let metadata = &pod.metadata;
            let at = ObjectKey::namespaced(key.cluster().clone(), metadata.namespace(), metadata.name());
            let patch = Patch::Strategic(not_ready_status(&pod, now));
            let params = PatchParams::default();
            match self.pod_objects.patch_subresource::<Written>(&at, "status", &params, &patch).await {
                Ok(_) => {
                    let about = Reference::to("v1", "Pod", metadata);
                    let (kind, reason) = (EventType::Warning, "NodeNotReady");
                    self.recorder.event(key.cluster(), about, kind, reason, "Node is not ready");
                }
                // The pod is gone or replaced.
                Err(error) if api_error::is_outdated(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn zones(&self) -> MutexGuard<'_, Zones> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn not_ready_status(pod: &Pod, now: Timestamp) -> Value {
    let condition = json!({"type": "Ready", "status": "False", "lastTransitionTime": rfc3339(now)});
    json!({"metadata": {"uid": pod.metadata.uid()}, "status": {"conditions": [condition]}})
}

/// Older labels that duplicate newer ones.
fn missing_labels(node: &Node) -> Vec<(&'static str, String)> {
    let pairs =
        [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];
    let labels = &node.metadata.labels;
    let missing = |(new, old): (&str, &'static str)| {
        let value = labels.get(new)?;
        (labels.get(old) != Some(value)).then(|| (old, value.to_owned()))
    };
    pairs.into_iter().filter_map(missing).collect()
}

#[cfg(test)]
mod tests {
    use coracle_runtime::ClusterId;

    use super::*;

    #[test]
    fn older_labels_follow_newer_ones() {
        let missing = |labels: Value| {
            missing_labels(&serde_json::from_value(json!({"metadata": {"labels": labels}})).unwrap())
        };
        assert!(missing(json!({})).is_empty());
        let both = json!({"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"});
        assert!(missing(both).is_empty());
        let wrong =
            json!({"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "x", "kubernetes.io/arch": "arm64"});
        let expected = [("beta.kubernetes.io/os", "linux"), ("beta.kubernetes.io/arch", "arm64")];
        assert_eq!(missing(wrong), expected.map(|(label, value)| (label, value.to_owned())));
    }

    #[test]
    fn status_updates_and_lease_renewals_are_heartbeats() {
        let (heartbeats, node) = (Heartbeats::default(), ObjectKey::cluster_wide(ClusterId::default(), "n"));
        let at = Duration::from_millis;
        let report: Node = serde_json::from_value(json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]}}))
        .unwrap();
        let change = Change { key: node.clone(), old: None, new: Some(Arc::new(report)) };
        note_status(&change, &heartbeats, at(1));
        assert_eq!(heartbeats.last(&node), Some(at(1)));
        let lease: Lease =
            serde_json::from_value(json!({"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}})).unwrap();
        let key = ObjectKey::namespaced(ClusterId::default(), "kube-node-lease", "n");
        note_lease(&Change { key, old: None, new: Some(Arc::new(lease)) }, &heartbeats, at(2));
        assert_eq!(heartbeats.last(&node), Some(at(2)));
    }
}
