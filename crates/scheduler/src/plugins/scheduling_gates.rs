//! SchedulingGates: holds a pod back until its last scheduling gate is removed.

use crate::cluster_state::ClusterState;
use crate::framework::{About, ClusterEvent, Plugin};
use crate::view::Pod;

pub(crate) struct SchedulingGates;

impl Plugin for SchedulingGates {
    fn name(&self) -> &'static str {
        "SchedulingGates"
    }

    fn pre_enqueue(&self, pod: &Pod) -> bool {
        pod.gates.is_empty()
    }

    fn wants(&self, about: About) -> bool {
        about == About::PendingPod
    }

    fn hint(&self, _state: &ClusterState, pod: &Pod, event: &ClusterEvent) -> bool {
        matches!(event, ClusterEvent::PendingChanged { new, changes, .. }
            if changes.gates_gone && new.metadata.uid == pod.metadata.uid)
    }
}
