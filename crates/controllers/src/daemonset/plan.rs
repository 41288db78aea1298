//! Plans pods to create and delete, and the status of a DaemonSet. Pure.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::eligible::{Eligible, eligible};
use super::failed::{FailedOn, FailedPods};
use super::object::{DaemonSet, Status, Strategy};
use super::rolling;
use crate::view::{self, Node, Phase, Pod};

/// Pod label with the hash of the pod's revision.
pub(super) const HASH_LABEL: &str = "controller-revision-hash";

/// Label of the template generation, from before there were revisions.
pub(super) const TEMPLATE_GENERATION_LABEL: &str = "pod-template-generation";

/// Observed state that the plan is based on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'a> {
    pub(super) set: &'a DaemonSet,
    pub(super) nodes: &'a [Arc<Node>],
    /// Pods of the set.
    pub(super) pods: &'a [Arc<Pod>],
    /// Hash of the current revision.
    pub(super) hash: &'a str,
    pub(super) now: Timestamp,
}

/// Steps to take.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Nodes that need a pod.
    pub(super) create: Vec<Box<str>>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// Pods that have succeeded or failed.
    pub(super) finished: Vec<FinishedPod>,
    /// When to reconcile again if nothing changes.
    pub(super) requeue_after: Option<Duration>,
}

/// A finished pod to delete.
#[derive(Debug)]
pub(super) struct FinishedPod {
    pub(super) pod: Arc<Pod>,
    pub(super) node: Box<str>,
    pub(super) failed: bool,
}

/// Pods of a set by the node they are on or are pending for.
pub(super) type ByNode<'a> = BTreeMap<&'a str, Vec<&'a Arc<Pod>>>;

impl<'a> Observed<'a> {
    /// Groups the pods by node, without finished pods that are being deleted.
    pub(super) fn by_node(&self) -> ByNode<'a> {
        let mut by_node = ByNode::new();
        let going = |pod: &Pod| pod.is_finished() && pod.metadata.is_terminating();
        for pod in self.pods.iter().filter(|pod| !going(pod)) {
            if let Some(node) = target_node(pod) {
                by_node.entry(node).or_default().push(pod);
            }
        }
        for pods in by_node.values_mut() {
            pods.sort_by(|one, other| order(one).cmp(&order(other)));
        }
        by_node
    }

    pub(super) fn is_updated(&self, pod: &Pod) -> bool {
        let label = |key| pod.metadata.labels.get(key);
        let by_generation = || {
            let generation = self.set.template_generation().map(|generation| generation.to_string());
            generation.is_some() && label(TEMPLATE_GENERATION_LABEL) == generation.as_deref()
        };
        (!self.hash.is_empty() && label(HASH_LABEL) == Some(self.hash)) || by_generation()
    }

    pub(super) fn is_available(&self, pod: &Pod) -> bool {
        pod.is_available(self.set.min_ready_seconds, self.now)
    }
}

/// The node of a pod, or the only one that its affinity allows.
fn target_node(pod: &Pod) -> Option<&str> {
    let spec = &pod.spec;
    if spec.node_name.is_empty() { spec.affinity_node.0.as_deref() } else { Some(&spec.node_name) }
}

/// Bound pods first, then the oldest.
fn order(pod: &Pod) -> (bool, Timestamp, &str) {
    (pod.spec.node_name.is_empty(), pod.metadata.creation_timestamp, pod.metadata.name())
}

/// Plans the steps. Old pods are replaced only when nothing else is left to do.
pub(super) fn plan(observed: &Observed<'_>, failed: &mut FailedPods) -> Plan {
    let by_node = observed.by_node();
    let mut plan = Plan::default();
    for node in observed.nodes {
        let on_node = by_node.get(node.metadata.name()).map(Vec::as_slice).unwrap_or_default();
        manage_node(observed, node, on_node, failed, &mut plan);
    }
    plan.delete.extend(without_node(observed.nodes, &by_node));
    if plan.create.is_empty()
        && plan.delete.is_empty()
        && plan.finished.is_empty()
        && let Strategy::RollingUpdate { max_unavailable, max_surge } = &observed.set.strategy
    {
        rolling::update(observed, by_node, max_unavailable, max_surge, &mut plan);
    }
    plan
}

/// Pending pods for nodes that do not exist, which neither the scheduler nor the pod garbage collector would ever
/// handle.
fn without_node(nodes: &[Arc<Node>], by_node: &ByNode<'_>) -> Vec<Arc<Pod>> {
    let there: HashSet<&str> = nodes.iter().map(|node| node.metadata.name()).collect();
    let lost = by_node.iter().filter(|(node, _)| !there.contains(**node)).flat_map(|(_, pods)| pods);
    lost.filter(|pod| pod.spec.node_name.is_empty()).map(|pod| Arc::clone(pod)).collect()
}

fn manage_node(
    observed: &Observed<'_>,
    node: &Node,
    pods: &[&Arc<Pod>],
    failed: &mut FailedPods,
    plan: &mut Plan,
) {
    let Eligible { should_run, should_continue } = eligible(observed.set, node);
    if should_run && pods.is_empty() {
        plan.create.push(node.metadata.name().into());
    } else if should_continue {
        let running = delete_finished(observed, node, pods, failed, plan);
        if observed.set.allows_surge() {
            if running.is_empty() && should_run {
                plan.create.push(node.metadata.name().into());
            }
            plan.delete.extend(surplus_of_two(observed, &running));
        } else {
            plan.delete.extend(running.into_iter().skip(1).cloned());
        }
    } else {
        plan.delete
            .extend(pods.iter().filter(|pod| !pod.metadata.is_terminating()).map(|pod| Arc::clone(pod)));
    }
}

/// Plans the deletion of finished pods, and returns the others.
fn delete_finished<'a>(
    observed: &Observed<'_>,
    node: &Node,
    pods: &[&'a Arc<Pod>],
    failed: &mut FailedPods,
    plan: &mut Plan,
) -> Vec<&'a Arc<Pod>> {
    let mut running = Vec::with_capacity(pods.len());
    for pod in pods.iter().copied().filter(|pod| !pod.metadata.is_terminating()) {
        let has_failed = pod.status.phase == Phase::Failed;
        if has_failed {
            let on = FailedOn {
                set: observed.set.metadata.uid().into(),
                generation: observed.set.status.observed_generation,
                node: node.metadata.name().into(),
            };
            if let Err(wait) = failed.replace(on, observed.now) {
                min_delay(&mut plan.requeue_after, wait);
                continue;
            }
        }
        if pod.is_finished() {
            let (pod, node) = (Arc::clone(pod), node.metadata.name().into());
            plan.finished.push(FinishedPod { pod, node, failed: has_failed });
        } else {
            running.push(pod);
        }
    }
    running
}

/// With surge a node may have two pods: an old one that is ready, and a new one that is not available yet.
fn surplus_of_two(observed: &Observed<'_>, running: &[&Arc<Pod>]) -> Vec<Arc<Pod>> {
    if running.len() <= 1 {
        return Vec::new();
    }
    let is_new = |pod: &Pod| pod.metadata.labels.get(HASH_LABEL) == Some(observed.hash);
    let (new, old): (Vec<_>, Vec<_>) = running.iter().copied().partition(|pod| is_new(pod));
    let mut surplus: Vec<_> = new.iter().skip(1).chain(old.iter().skip(1)).copied().cloned().collect();
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!old.is_ready() || observed.is_available(new))
    {
        surplus.push(Arc::clone(old));
    }
    surplus
}

/// Computes the status.
pub(super) fn status(observed: &Observed<'_>) -> Status {
    let by_node = observed.by_node();
    let mut status = Status {
        observed_generation: observed.set.metadata.generation,
        collision_count: observed.set.status.collision_count,
        ..Status::default()
    };
    for node in observed.nodes {
        let first = by_node.get(node.metadata.name()).and_then(|pods| pods.first());
        if !eligible(observed.set, node).should_run {
            status.number_misscheduled += i32::from(first.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = first else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pod.is_ready());
        status.number_available += i32::from(observed.is_available(pod));
        status.updated_number_scheduled += i32::from(observed.is_updated(pod));
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    status
}

/// When the next ready pod becomes available.
pub(super) fn next_available(observed: &Observed<'_>) -> Option<Duration> {
    let pods = observed.pods.iter().filter(|pod| !pod.metadata.is_terminating());
    pods.filter_map(|pod| view::next_available(pod, observed.set.min_ready_seconds, observed.now)).min()
}

/// Reduces the delay to the smaller of the two.
pub(super) fn min_delay(requeue_after: &mut Option<Duration>, wait: Duration) {
    *requeue_after = Some(requeue_after.map_or(wait, |observed| observed.min(wait)));
}
