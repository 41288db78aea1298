//! Decides when a pod is evicted because of its node's taints. Pure.

use std::time::Duration;

use crate::view::{Pod, Taint};

/// How long a pod may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stay {
    Forever,
    For(Duration),
    /// It is evicted at once.
    Evicted,
}

/// Taints that evict pods.
pub(super) fn no_execute(taints: &[Taint]) -> impl Iterator<Item = &Taint> {
    taints.iter().filter(|taint| &*taint.effect == "NoExecute")
}

/// How long a pod may stay on a node with these taints: it must tolerate each, and the shortest toleration time
/// counts.
pub(super) fn stay(pod: &Pod, taints: &[Taint]) -> Stay {
    if pod.metadata.is_terminating() {
        return Stay::Forever;
    }
    let mut shortest: Option<u64> = None;
    for taint in no_execute(taints) {
        let Some(toleration) = pod.spec.tolerations.iter().find(|toleration| toleration.tolerates(taint))
        else {
            return Stay::Evicted;
        };
        if let Some(seconds) = toleration.toleration_seconds {
            let seconds = u64::try_from(seconds).unwrap_or_default();
            shortest = Some(shortest.map_or(seconds, |known| known.min(seconds)));
        }
    }
    shortest.map_or(Stay::Forever, |seconds| Stay::For(Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stays(tolerations: Value, taints: Value) -> Stay {
        let pod = serde_json::from_value(json!({"spec": {"tolerations": tolerations}})).unwrap();
        let taints: Vec<Taint> = serde_json::from_value(taints).unwrap();
        stay(&pod, &taints)
    }

    #[test]
    fn shortest_toleration_determines_the_stay() {
        let taint = || json!([{"key": "k", "value": "v", "effect": "NoExecute"}]);
        let both = || json!([{"key": "k", "effect": "NoExecute"}, {"key": "l", "effect": "NoExecute"}]);
        let seconds = |seconds| Stay::For(Duration::from_secs(seconds));
        let cases = [
            (json!([]), json!([]), Stay::Forever),
            (json!([]), json!([{"key": "k", "effect": "NoSchedule"}]), Stay::Forever),
            (json!([]), taint(), Stay::Evicted),
            (json!([{"key": "k", "value": "v"}]), taint(), Stay::Forever),
            (json!([{"key": "k", "value": "w"}]), taint(), Stay::Evicted),
            (json!([{"key": "k", "operator": "Exists"}]), taint(), Stay::Forever),
            (json!([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]), taint(), Stay::Evicted),
            (json!([{"operator": "Exists"}]), both(), Stay::Forever),
            (json!([{"key": "k", "operator": "Exists"}]), both(), Stay::Evicted),
            (json!([{"operator": "Exists", "tolerationSeconds": 30}]), taint(), seconds(30)),
            (json!([{"operator": "Exists", "tolerationSeconds": -1}]), taint(), seconds(0)),
            (
                json!([{"key": "k", "operator": "Exists", "tolerationSeconds": 30},
                    {"key": "l", "operator": "Exists", "tolerationSeconds": 20}]),
                both(),
                seconds(20),
            ),
            (
                json!([{"key": "k", "operator": "Exists"},
                    {"key": "l", "operator": "Exists", "tolerationSeconds": 20}]),
                both(),
                seconds(20),
            ),
        ];
        for (tolerations, taints, expected) in cases {
            assert_eq!(stays(tolerations.clone(), taints.clone()), expected, "{tolerations} {taints}");
        }
    }
}
