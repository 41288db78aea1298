//! PodTopologySpread: spreads pods evenly over zones, nodes or other topology domains.

mod constraint;
mod filter;
mod score;

use std::sync::Arc;

use crate::cache::NodeIndex;
use crate::cluster_state::ClusterState;
use crate::framework::{About, ClusterEvent, Plugin, PreFilter, PreScore};
use crate::view::node::NodeChanges;
use crate::view::spread::{InclusionPolicy, SpreadConstraint, WhenUnsatisfiable};
use crate::view::{Node, Pod};

pub(crate) use constraint::DefaultConstraint;
use constraint::selection;

/// Applies a pod's own constraints, or else the default constraints for pods of a service or workload.
pub(crate) struct PodTopologySpread {
    defaults: Vec<DefaultConstraint>,
}

impl PodTopologySpread {
    /// With kube-scheduler's default constraints, which prefer different nodes and zones.
    pub(crate) fn new() -> Self {
        Self { defaults: DefaultConstraint::system() }
    }

    /// The constraints of a pod with this `whenUnsatisfiable`.
    fn constraints(&self, state: &ClusterState, pod: &Pod, when: WhenUnsatisfiable) -> Vec<SpreadConstraint> {
        if !pod.spread.is_empty() {
            return pod.spread.iter().filter(|own| own.when_unsatisfiable == when).cloned().collect();
        }
        // The default constraints are all ScheduleAnyway.
        if when == WhenUnsatisfiable::DoNotSchedule || self.defaults.is_empty() {
            return Vec::new();
        }
        constraint::default_selector(state, pod)
            .map(|selector| self.defaults.iter().map(|default| default.with(selector.clone())).collect())
            .unwrap_or_default()
    }

    fn required(&self, state: &ClusterState, pod: &Pod) -> Vec<SpreadConstraint> {
        self.constraints(state, pod, WhenUnsatisfiable::DoNotSchedule)
    }
}

impl Plugin for PodTopologySpread {
    fn name(&self) -> &'static str {
        "PodTopologySpread"
    }

    fn prepare(&self, state: &mut ClusterState, pod: &Pod) {
        for when in [WhenUnsatisfiable::DoNotSchedule, WhenUnsatisfiable::ScheduleAnyway] {
            for constraint in self.constraints(state, pod, when) {
                state.cache.ensure_column(&constraint.topology_key);
                state.cache.ensure_counts(&selection(pod, &constraint));
            }
        }
    }

    fn pre_filter<'w>(&'w self, state: &'w ClusterState, pod: &'w Arc<Pod>) -> PreFilter<'w> {
        let constraints = self.required(state, pod);
        if constraints.is_empty() {
            return PreFilter::Skip;
        }
        PreFilter::Filter(Box::new(filter::SpreadFilter::new(state, pod, constraints)))
    }

    fn pre_score<'w>(
        &'w self,
        state: &'w ClusterState,
        pod: &'w Arc<Pod>,
        nodes: &[NodeIndex],
    ) -> PreScore<'w> {
        let constraints = self.constraints(state, pod, WhenUnsatisfiable::ScheduleAnyway);
        if constraints.is_empty() {
            return PreScore::Skip;
        }
        // Only a pod's own constraints require all topology keys; with the default constraints, nodes
        // without a zone count.
        let needs_all = !pod.spread.is_empty();
        PreScore::Score(Box::new(score::SpreadScore::new(state, pod, constraints, nodes, needs_all)))
    }

    fn wants(&self, about: About) -> bool {
        about != About::Storage
    }

    fn hint(&self, state: &ClusterState, pod: &Pod, event: &ClusterEvent) -> bool {
        let constraints = self.required(state, pod);
        let is_counted =
            |other: &Pod| constraints.iter().any(|constraint| constraint.selector.matches(&other.labels));
        let is_near = |other: &Pod| other.occupies_node() && other.namespace() == pod.namespace();
        match event {
            ClusterEvent::PodPlaced(other) | ClusterEvent::PodGone(other) => {
                is_near(other) && is_counted(other)
            }
            ClusterEvent::PodChanged { old, new, changes } => {
                is_near(new) && changes.labels && differs(&constraints, old, new)
            }
            ClusterEvent::PendingChanged { old, new, changes } if new.metadata.uid == pod.metadata.uid => {
                let honors =
                    |constraint: &SpreadConstraint| constraint.node_taints_policy == InclusionPolicy::Honor;
                (changes.tolerations && constraints.iter().any(honors))
                    || (changes.labels && differs(&constraints, old, new))
            }
            ClusterEvent::NodeAdded(node) | ClusterEvent::NodeGone(node) => has_all_keys(&constraints, node),
            ClusterEvent::NodeChanged { old, new, changes } => node_matters(&constraints, old, new, *changes),
            _ => false,
        }
    }
}

/// True if a constraint matches one version of a pod and not the other.
fn differs(constraints: &[SpreadConstraint], old: &Pod, new: &Pod) -> bool {
    constraints.iter().any(|one| one.selector.matches(&old.labels) != one.selector.matches(&new.labels))
}

fn has_all_keys(constraints: &[SpreadConstraint], node: &Node) -> bool {
    constraints.iter().all(|constraint| node.labels.contains_key(&constraint.topology_key))
}

fn node_matters(constraints: &[SpreadConstraint], old: &Node, new: &Node, changes: NodeChanges) -> bool {
    let (had_all, has_all) = (has_all_keys(constraints, old), has_all_keys(constraints, new));
    let moved =
        |one: &SpreadConstraint| old.labels.get(&one.topology_key) != new.labels.get(&one.topology_key);
    (changes.labels || changes.taints)
        && (had_all != has_all || (has_all && (constraints.iter().any(moved) || old.taints != new.taints)))
}
