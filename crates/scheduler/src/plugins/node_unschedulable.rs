//! NodeUnschedulable: cordoned nodes reject pods that do not tolerate the unschedulable taint.

use std::sync::Arc;

use crate::cache::NodeInfo;
use crate::cluster_state::ClusterState;
use crate::framework::{About, ClusterEvent, Filter, NodeFilter, Plugin, PreFilter, Rejection};
use crate::view::taint::{Effect, Taint};
use crate::view::{Pod, Toleration};

const REASON: &str = "node(s) were unschedulable";
const TAINT: &str = "node.kubernetes.io/unschedulable";

pub(crate) struct NodeUnschedulable;

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn pre_filter<'w>(&'w self, _state: &'w ClusterState, pod: &'w Arc<Pod>) -> PreFilter<'w> {
        // A pod that tolerates the taint fits any node.
        if tolerates(&pod.tolerations) { PreFilter::Skip } else { PreFilter::Filter(Box::new(Schedulable)) }
    }

    fn wants(&self, about: About) -> bool {
        matches!(about, About::Node | About::PendingPod)
    }

    fn hint(&self, _state: &ClusterState, pod: &Pod, event: &ClusterEvent) -> bool {
        if let ClusterEvent::PendingChanged { new, changes, .. } = event {
            return changes.tolerations
                && new.metadata.uid == pod.metadata.uid
                && tolerates(&new.tolerations);
        }
        let Some((old, new)) = event.node() else { return false };
        !new.unschedulable && old.is_none_or(|old| old.unschedulable)
    }
}

fn tolerates(tolerations: &[Toleration]) -> bool {
    let taint = Taint { key: TAINT.into(), value: "".into(), effect: Effect::NoSchedule };
    tolerations.iter().any(|toleration| toleration.tolerates(&taint))
}

#[derive(Clone)]
struct Schedulable;

impl<'w> NodeFilter<'w> for Schedulable {
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection> {
        match &info.node {
            Some(node) if node.unschedulable => Err(Rejection::unresolvable(REASON)),
            _ => Ok(()),
        }
    }

    fn boxed(&self) -> Filter<'w> {
        Box::new(self.clone())
    }
}
