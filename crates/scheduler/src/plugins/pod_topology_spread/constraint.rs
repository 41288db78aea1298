//! Topology spread constraints: defaults and evaluation.

use std::collections::BTreeMap;

use coracle_meta::selector::labels::Selector;

use crate::cache::{ColumnId, Namespaces, NodeInfo, PodSelection};
use crate::cluster_state::ClusterState;
use crate::plugins::node_affinity::is_wanted;
use crate::view::node::{HOSTNAME, ZONE};
use crate::view::spread::{InclusionPolicy, SpreadConstraint, WhenUnsatisfiable};
use crate::view::taint::has_untolerated;
use crate::view::{Node, Pod};

/// A constraint for pods without constraints of their own; it lacks the selector.
pub(crate) struct DefaultConstraint {
    max_skew: i64,
    topology_key: &'static str,
}

impl DefaultConstraint {
    /// kube-scheduler's `systemDefaultConstraints`.
    pub(super) fn system() -> Vec<Self> {
        vec![Self { max_skew: 3, topology_key: HOSTNAME }, Self { max_skew: 5, topology_key: ZONE }]
    }

    pub(super) fn with(&self, selector: Selector) -> SpreadConstraint {
        SpreadConstraint {
            max_skew: self.max_skew,
            topology_key: self.topology_key.into(),
            when_unsatisfiable: WhenUnsatisfiable::ScheduleAnyway,
            selector,
            min_domains: 1,
            node_affinity_policy: InclusionPolicy::Honor,
            node_taints_policy: InclusionPolicy::Ignore,
        }
    }
}

/// Selector of the pods that belong to the same services and controller as this one; none if there are
/// none.
pub(super) fn default_selector(state: &ClusterState, pod: &Pod) -> Option<Selector> {
    let workloads = &state.workloads;
    let services = workloads.services_of(pod.namespace(), &pod.labels);
    let mut labels: BTreeMap<&str, &str> = services.flat_map(|service| service.labels()).collect();
    let mut more: &[_] = &[];
    if let Some(owner) = &pod.controller {
        let key = (pod.metadata.namespace.clone(), owner.name.clone());
        match (&*owner.api_version, &*owner.kind) {
            ("v1", "ReplicationController") => {
                labels.extend(
                    workloads.replication_controllers.get(&key).iter().flat_map(|owner| owner.labels()),
                );
            }
            ("apps/v1", "ReplicaSet") => {
                more = workloads.replica_sets.get(&key).map_or(more, |owner| owner.selector.requirements());
            }
            ("apps/v1", "StatefulSet") => {
                more = workloads.stateful_sets.get(&key).map_or(more, |owner| owner.selector.requirements());
            }
            _ => {}
        }
    }
    let own = Selector::from_set(labels);
    let all: Vec<_> = own.requirements().iter().chain(more).cloned().collect();
    (!all.is_empty()).then(|| Selector::new(all))
}

/// The pods that a constraint of a pod counts.
pub(super) fn selection(pod: &Pod, constraint: &SpreadConstraint) -> PodSelection {
    let meant = (Namespaces::one(pod.namespace()), constraint.selector.clone());
    PodSelection { all_of: Box::new([meant]), exclude_terminating: true }
}

/// A constraint with its counts.
#[derive(Clone)]
pub(super) struct ConstraintCounts<'w> {
    pub(super) constraint: SpreadConstraint,
    /// None if no node has the topology key.
    pub(super) column: Option<ColumnId>,
    /// Number of matching pods on each node.
    by_node: &'w [u32],
}

impl<'w> ConstraintCounts<'w> {
    pub(super) fn new(state: &'w ClusterState, pod: &Pod, constraint: SpreadConstraint) -> Self {
        let everybody = constraint.selector.is_everything();
        // A selector that matches everything counts no pods, as in kube-scheduler.
        let answer = (!everybody)
            .then(|| state.cache.selection_counts().by_node(&selection(pod, &constraint)))
            .flatten();
        Self {
            column: state.cache.topology().column(&constraint.topology_key),
            by_node: answer.unwrap_or(&[]),
            constraint,
        }
    }

    pub(super) fn on_node(&self, info: &NodeInfo) -> i64 {
        self.by_node.get(info.index.slot()).copied().unwrap_or(0).into()
    }

    /// True if a node is in the constraint's scope, according to its node affinity and taints policies.
    pub(super) fn includes(&self, pod: &Pod, node: &Node) -> bool {
        let constraint = &self.constraint;
        (constraint.node_affinity_policy == InclusionPolicy::Ignore || is_wanted(pod, node))
            && (constraint.node_taints_policy == InclusionPolicy::Ignore
                || !has_untolerated(&node.taints, &pod.tolerations))
    }
}
