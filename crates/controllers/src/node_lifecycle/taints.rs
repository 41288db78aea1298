//! Taints of a node that follow from its conditions.

use coracle_base::Timestamp;

use crate::view::{Condition, Node, Taint, condition};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Condition type and status, and the NoSchedule taint for it.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Eviction of a node's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Eviction {
    /// The node has not reported its readiness.
    Undecided,
    /// No eviction.
    None,
    /// The node already has an eviction taint, possibly for another reason.
    Continued(&'static str),
    /// A taint is to be added, which is rate limited.
    Wanted(&'static str),
}

/// Determines the eviction from the Ready condition.
pub(super) fn eviction(node: &Node) -> Eviction {
    let reason = match condition(&node.status.conditions, "Ready").map(|ready| &*ready.status) {
        None => return Eviction::Undecided,
        Some("True") => return Eviction::None,
        Some("False") => NOT_READY,
        Some(_) => UNREACHABLE,
    };
    if node.spec.taints.iter().any(evicts) { Eviction::Continued(reason) } else { Eviction::Wanted(reason) }
}

/// The taints that a node should have; `None` if it has them.
pub(super) fn taints(node: &Node, eviction: Eviction, now: Timestamp) -> Option<Vec<Taint>> {
    let mut wanted: Vec<(&str, &str)> = no_schedule(node).map(|key| (key, "NoSchedule")).collect();
    match eviction {
        Eviction::Undecided => {}
        Eviction::None => {}
        Eviction::Continued(key) | Eviction::Wanted(key) => wanted.push((key, "NoExecute")),
    }
    let is_ours = |taint: &Taint| keeps_away(taint) || eviction != Eviction::Undecided && evicts(taint);
    let is_wanted =
        |taint: &Taint| wanted.iter().any(|(key, effect)| *taint.key == **key && *taint.effect == **effect);
    let mut taints: Vec<Taint> =
        node.spec.taints.iter().filter(|taint| !is_ours(taint) || is_wanted(taint)).cloned().collect();
    let kept = taints.len();
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| *taint.key == *key && *taint.effect == *effect) {
            let time_added = Some(now);
            taints.push(Taint { key: key.into(), effect: effect.into(), time_added, ..Taint::default() });
        }
    }
    (kept != node.spec.taints.len() || kept != taints.len()).then_some(taints)
}

fn no_schedule(node: &Node) -> impl Iterator<Item = &'static str> {
    let says = |(r#type, status, _): &(&str, &str, &str)| {
        let found = condition(&node.status.conditions, r#type);
        found.is_some_and(|condition: &Condition| *condition.status == **status)
    };
    let by_condition = BY_CONDITION.into_iter().filter(says).map(|(_, _, key)| key);
    by_condition.chain(node.spec.unschedulable.then_some(UNSCHEDULABLE))
}

/// True for NoSchedule taints that follow from conditions.
fn keeps_away(taint: &Taint) -> bool {
    let known = BY_CONDITION.iter().any(|(_, _, key)| *taint.key == **key);
    &*taint.effect == "NoSchedule" && (known || &*taint.key == UNSCHEDULABLE)
}

/// True for NoExecute taints of unready nodes.
fn evicts(taint: &Taint) -> bool {
    &*taint.effect == "NoExecute" && matches!(&*taint.key, NOT_READY | UNREACHABLE)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(ready: &str, taints: &[(&str, &str)]) -> Value {
        let taints: Vec<_> =
            taints.iter().map(|(key, effect)| json!({"key": key, "effect": effect})).collect();
        let conditions =
            if ready.is_empty() { json!([]) } else { json!([{"type": "Ready", "status": ready}]) };
        json!({"spec": {"taints": taints}, "status": {"conditions": conditions}})
    }

    fn tainted(node: Value, eviction: Option<Eviction>) -> Option<Vec<(String, String)>> {
        let node: Node = serde_json::from_value(node).unwrap();
        let eviction = eviction.unwrap_or_else(|| super::eviction(&node));
        let taints = taints(&node, eviction, Timestamp::from_millis(1000))?;
        Some(taints.into_iter().map(|taint| (taint.key.into(), taint.effect.into())).collect())
    }

    fn these(taints: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(taints.iter().map(|(key, effect)| (key.to_string(), effect.to_string())).collect())
    }

    #[test]
    fn taints_follow_the_conditions() {
        let own = ("example.org/own", "NoExecute");
        let cases: [(&str, &[(&str, &str)], _); 8] = [
            ("True", &[], None),
            ("True", &[own], None),
            ("True", &[own, (NOT_READY, "NoSchedule"), (UNREACHABLE, "NoExecute")], these(&[own])),
            ("False", &[own], these(&[own, (NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")])),
            ("False", &[(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")], None),
            (
                "Unknown",
                &[(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")],
                these(&[(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
            ),
            ("", &[(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")], these(&[(NOT_READY, "NoExecute")])),
            ("", &[], None),
        ];
        for (ready, before, after) in cases {
            assert_eq!(tainted(node(ready, before), None), after, "{ready} {before:?}");
        }
    }

    #[test]
    fn no_eviction_taint_without_permit() {
        let not_ready = node("False", &[]);
        assert_eq!(tainted(not_ready, Some(Eviction::None)), these(&[(NOT_READY, "NoSchedule")]));
        let going = node("False", &[(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]);
        assert_eq!(tainted(going, Some(Eviction::None)), these(&[(NOT_READY, "NoSchedule")]));
    }

    #[test]
    fn pressure_and_cordon_add_no_schedule_taints() {
        let mut node = node("True", &[]);
        node["spec"]["unschedulable"] = true.into();
        for (r#type, status) in [
            ("MemoryPressure", "True"),
            ("DiskPressure", "False"),
            ("PIDPressure", "True"),
            ("Other", "True"),
        ] {
            let condition = json!({"type": r#type, "status": status});
            node["status"]["conditions"].as_array_mut().unwrap().push(condition);
        }
        let expected = these(&[
            ("node.kubernetes.io/memory-pressure", "NoSchedule"),
            ("node.kubernetes.io/pid-pressure", "NoSchedule"),
            (UNSCHEDULABLE, "NoSchedule"),
        ]);
        assert_eq!(tainted(node, None), expected);
    }

    #[test]
    fn eviction_continues_with_another_reason() {
        let of = |ready: &str, taints: &[(&str, &str)]| {
            eviction(&serde_json::from_value(node(ready, taints)).unwrap())
        };
        assert_eq!(of("", &[]), Eviction::Undecided);
        assert_eq!(of("True", &[]), Eviction::None);
        assert_eq!(of("False", &[]), Eviction::Wanted(NOT_READY));
        assert_eq!(of("Unknown", &[(NOT_READY, "NoExecute")]), Eviction::Continued(UNREACHABLE));
    }
}
