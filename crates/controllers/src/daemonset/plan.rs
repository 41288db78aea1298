//! What is to be done for a DaemonSet, as a pure function: pods to make and to delete, and its status.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::eligible::{Eligible, eligible};
use super::failed::{FailedOn, FailedPods};
use super::object::{DaemonSet, Status, Strategy};
use super::rolling;
use crate::view::{self, Node, Phase, Pod};

/// How its pods are told apart from those of before; the value is that of the revision.
pub(super) const HASH_LABEL: &str = "controller-revision-hash";

/// The same since before there were revisions.
pub(super) const TEMPLATE_GENERATION_LABEL: &str = "pod-template-generation";

/// All that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) set: &'a DaemonSet,
    pub(super) nodes: &'a [Arc<Node>],
    /// Those of the set.
    pub(super) pods: &'a [Arc<Pod>],
    /// That of the revision of how the set looks now.
    pub(super) hash: &'a str,
    pub(super) now: Timestamp,
}

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Nodes that need a pod.
    pub(super) create: Vec<Box<str>>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// Pods that have come to an end, and whether it was a bad one, by the node they were on.
    pub(super) ended: Vec<Ended>,
    /// When to look again, should nothing happen before.
    pub(super) again: Option<Duration>,
}

/// A pod that has come to an end and is to be deleted.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) pod: Arc<Pod>,
    pub(super) node: Box<str>,
    pub(super) failed: bool,
}

/// The pods of a set by the node they are on or will be on.
pub(super) type ByNode<'a> = BTreeMap<&'a str, Vec<&'a Arc<Pod>>>;

impl<'a> Known<'a> {
    /// Pods whose life is over and whose deletion has begun are of no interest.
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

/// The node a pod is on, or the only one it can be on.
fn target_node(pod: &Pod) -> Option<&str> {
    let spec = &pod.spec;
    if spec.node_name.is_empty() { spec.affinity_node.0.as_deref() } else { Some(&spec.node_name) }
}

/// Those on nodes come first, then the oldest.
fn order(pod: &Pod) -> (bool, Timestamp, &str) {
    (pod.spec.node_name.is_empty(), pod.metadata.creation_timestamp, pod.metadata.name())
}

/// What is to be done. Pods are replaced by newer ones only when nothing else is left to do.
pub(super) fn plan(known: &Known<'_>, failed: &mut FailedPods) -> Plan {
    let by_node = known.by_node();
    let mut plan = Plan::default();
    for node in known.nodes {
        let on_node = by_node.get(node.metadata.name()).map(Vec::as_slice).unwrap_or_default();
        manage_node(known, node, on_node, failed, &mut plan);
    }
    plan.delete.extend(without_node(known.nodes, &by_node));
    if plan.create.is_empty()
        && plan.delete.is_empty()
        && plan.ended.is_empty()
        && let Strategy::RollingUpdate { max_unavailable, max_surge } = &known.set.strategy
    {
        rolling::update(known, by_node, max_unavailable, max_surge, &mut plan);
    }
    plan
}

/// Pods that wait for a node that is not there: no scheduler and no collector will ever see to them.
fn without_node(nodes: &[Arc<Node>], by_node: &ByNode<'_>) -> Vec<Arc<Pod>> {
    let there: HashSet<&str> = nodes.iter().map(|node| node.metadata.name()).collect();
    let lost = by_node.iter().filter(|(node, _)| !there.contains(**node)).flat_map(|(_, pods)| pods);
    lost.filter(|pod| pod.spec.node_name.is_empty()).map(|pod| Arc::clone(pod)).collect()
}

fn manage_node(known: &Known<'_>, node: &Node, pods: &[&Arc<Pod>], failed: &mut FailedPods, plan: &mut Plan) {
    let Eligible { should_run, should_continue } = eligible(known.set, node);
    if should_run && pods.is_empty() {
        plan.create.push(node.metadata.name().into());
    } else if should_continue {
        let running = end_ended(known, node, pods, failed, plan);
        if known.set.allows_surge() {
            if running.is_empty() && should_run {
                plan.create.push(node.metadata.name().into());
            }
            plan.delete.extend(surplus_of_two(known, &running));
        } else {
            plan.delete.extend(running.into_iter().skip(1).cloned());
        }
    } else {
        plan.delete
            .extend(pods.iter().filter(|pod| !pod.metadata.is_terminating()).map(|pod| Arc::clone(pod)));
    }
}

/// Plans the end of pods that have ended. Gives back those that go on.
fn end_ended<'a>(
    known: &Known<'_>,
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
                set: known.set.metadata.uid().into(),
                generation: known.set.status.observed_generation,
                node: node.metadata.name().into(),
            };
            if let Err(wait) = failed.replace(on, known.now) {
                sooner(&mut plan.again, wait);
                continue;
            }
        }
        if pod.is_finished() {
            let (pod, node) = (Arc::clone(pod), node.metadata.name().into());
            plan.ended.push(Ended { pod, node, failed: has_failed });
        } else {
            running.push(pod);
        }
    }
    running
}

/// With surge a node may have two pods: an old one that is ready, and a new one that is not available yet.
fn surplus_of_two(known: &Known<'_>, running: &[&Arc<Pod>]) -> Vec<Arc<Pod>> {
    if running.len() <= 1 {
        return Vec::new();
    }
    let is_new = |pod: &Pod| pod.metadata.labels.get(HASH_LABEL) == Some(known.hash);
    let (new, old): (Vec<_>, Vec<_>) = running.iter().copied().partition(|pod| is_new(pod));
    let mut surplus: Vec<_> = new.iter().skip(1).chain(old.iter().skip(1)).copied().cloned().collect();
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!old.is_ready() || known.is_available(new))
    {
        surplus.push(Arc::clone(old));
    }
    surplus
}

/// What the status is to say.
pub(super) fn status(known: &Known<'_>) -> Status {
    let by_node = known.by_node();
    let mut status = Status {
        observed_generation: known.set.metadata.generation,
        collision_count: known.set.status.collision_count,
        ..Status::default()
    };
    for node in known.nodes {
        let first = by_node.get(node.metadata.name()).and_then(|pods| pods.first());
        if !eligible(known.set, node).should_run {
            status.number_misscheduled += i32::from(first.is_some());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = first else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pod.is_ready());
        status.number_available += i32::from(known.is_available(pod));
        status.updated_number_scheduled += i32::from(known.is_updated(pod));
    }
    status.number_unavailable = status.desired_number_scheduled - status.number_available;
    status
}

/// When the next pod becomes available that is ready.
pub(super) fn next_available(known: &Known<'_>) -> Option<Duration> {
    let pods = known.pods.iter().filter(|pod| !pod.metadata.is_terminating());
    pods.filter_map(|pod| view::next_available(pod, known.set.min_ready_seconds, known.now)).min()
}

/// Looks again at the earlier of two times.
pub(super) fn sooner(again: &mut Option<Duration>, wait: Duration) {
    *again = Some(again.map_or(wait, |known| known.min(wait)));
}
