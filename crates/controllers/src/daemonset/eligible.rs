//! Node eligibility for a DaemonSet.

use super::object::DaemonSet;
use crate::view::{Node, Taint};

/// Eligibility of a node for a DaemonSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Eligible {
    /// The node should have a pod.
    pub(super) should_run: bool,
    /// An existing pod may stay.
    pub(super) should_continue: bool,
}

/// Determines whether a node runs a pod of the set. A pod scheduled before the node was tainted stays, unless the
/// taint evicts it. `spec.unschedulable` is not checked: the node has a taint then, which all daemon pods tolerate.
pub(super) fn eligible(set: &DaemonSet, node: &Node) -> Eligible {
    let wanted = &set.nodes;
    let is_named = wanted.name.is_empty() || *wanted.name == *node.metadata.name();
    if !is_named || !wanted.required.fits(node) {
        return Eligible::default();
    }
    let bears = |taint: &&Taint| wanted.tolerations.iter().any(|toleration| toleration.tolerates(taint));
    let mut taints = node.spec.taints.iter().filter(|taint| !bears(taint)).peekable();
    let evicts = |taint: &Taint| &*taint.effect == "NoExecute";
    let keeps_away = |taint: &Taint| evicts(taint) || &*taint.effect == "NoSchedule";
    let (mut should_run, mut should_continue) = (true, true);
    for taint in &mut taints {
        should_run &= !keeps_away(taint);
        should_continue &= !evicts(taint);
    }
    Eligible { should_run, should_continue }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn on(spec: Value, taints: Value) -> (bool, bool) {
        let template = json!({"spec": spec});
        let set = serde_json::from_value(json!({"spec": {"template": template}})).unwrap();
        let node =
            serde_json::from_value(json!({"metadata": {"name": "n1"}, "spec": {"taints": taints}})).unwrap();
        let Eligible { should_run, should_continue } = eligible(&set, &node);
        (should_run, should_continue)
    }

    #[test]
    fn taints_exclude_new_pods_and_no_execute_evicts() {
        let taint = |key: &str, effect: &str| json!([{"key": key, "effect": effect}]);
        let bears = json!({"tolerations": [{"key": "mine", "operator": "Exists"}]});
        for (spec, taints, expected) in [
            (json!({}), json!([]), (true, true)),
            (json!({}), taint("mine", "NoSchedule"), (false, true)),
            (json!({}), taint("mine", "NoExecute"), (false, false)),
            (json!({}), taint("mine", "PreferNoSchedule"), (true, true)),
            (bears.clone(), taint("mine", "NoSchedule"), (true, true)),
            (bears, taint("mine", "NoExecute"), (true, true)),
            (json!({}), taint("node.kubernetes.io/unschedulable", "NoSchedule"), (true, true)),
            (json!({}), taint("node.kubernetes.io/not-ready", "NoExecute"), (true, true)),
            (json!({}), taint("node.kubernetes.io/not-ready", "NoSchedule"), (false, true)),
            (json!({}), taint("node.kubernetes.io/network-unavailable", "NoSchedule"), (false, true)),
            (
                json!({"hostNetwork": true}),
                taint("node.kubernetes.io/network-unavailable", "NoSchedule"),
                (true, true),
            ),
            (json!({"nodeName": "n1"}), json!([]), (true, true)),
            (json!({"nodeName": "n2"}), json!([]), (false, false)),
            (json!({"nodeSelector": {"disk": "ssd"}}), json!([]), (false, false)),
        ] {
            assert_eq!(on(spec.clone(), taints.clone()), expected, "{spec} on {taints}");
        }
    }
}
