//! A DaemonSet has one pod per node.

use serde_json::Value;

use super::{Rule, active_of};
use crate::history::Change;
use crate::state::{PODS, State, controller, format_pods, namespace, text};

/// The node name in the affinity of a DaemonSet's pod.
const TARGET: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution\
                      /nodeSelectorTerms/0/matchFields/0/values/0";

pub(super) struct OnePerNode;

impl Rule for OnePerNode {
    fn check(&mut self, change: &Change, state: &State) -> Result<(), String> {
        let pod = &change.object;
        let Some(("DaemonSet", set)) = controller(pod).filter(|_| change.resource == PODS) else {
            return Ok(());
        };
        if change.created().is_none() {
            return Ok(());
        }
        let node = text(pod, TARGET);
        let on_node: Vec<&Value> =
            active_of(state, namespace(pod), set).filter(|other| text(other, TARGET) == node).collect();
        if node.is_empty() || on_node.len() > 1 {
            return Err(format!("{} has several pods for {node}: {}", namespace(pod), format_pods(on_node)));
        }
        Ok(())
    }
}
