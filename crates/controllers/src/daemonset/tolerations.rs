//! Tolerations of every daemon pod, which keep it on its node under pressure and other conditions.

use serde_json::{Value, json};

/// Taints by key and effect (`AddOrUpdateDaemonPodTolerations` in Kubernetes' `pkg/controller/daemon/util`).
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// Tolerated only with `hostNetwork`.
const TOLERATED_ON_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// Adds the tolerations to a pod spec, replacing equal ones that have a time limit.
pub(super) fn add(spec: &mut Value) {
    if !spec.is_object() {
        *spec = json!({});
    }
    let host_network = spec["hostNetwork"].as_bool().unwrap_or_default();
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for (key, effect) in TOLERATED.into_iter().chain(host_network.then_some(TOLERATED_ON_HOST_NETWORK)) {
        let added = json!({"key": key, "operator": "Exists", "effect": effect});
        let is_same = |known: &Value| {
            ["key", "operator", "effect", "value"].iter().all(|field| {
                known[*field].as_str().unwrap_or_default() == added[*field].as_str().unwrap_or_default()
            })
        };
        if !tolerations.iter().any(is_same) {
            tolerations.push(added);
            continue;
        }
        for known in tolerations.iter_mut().filter(|known| is_same(known)) {
            *known = added.clone();
        }
    }
    spec["tolerations"] = tolerations.into();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_tolerations_are_not_added_again() {
        let mut spec = json!({"hostNetwork": true, "tolerations": [
            {"key": "mine", "operator": "Exists"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/disk-pressure", "operator": "Equal", "value": "x", "effect": "NoSchedule"},
        ]});
        add(&mut spec);
        let all = spec["tolerations"].as_array().unwrap();
        assert_eq!(all.len(), 3 + 6);
        assert_eq!(
            all[1],
            json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"})
        );
        let mut again = spec.clone();
        add(&mut again);
        assert_eq!(again, spec);
        let mut plain = json!({});
        add(&mut plain);
        assert_eq!(plain["tolerations"].as_array().unwrap().len(), 6);
    }
}
