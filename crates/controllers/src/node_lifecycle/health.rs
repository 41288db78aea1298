//! Health of a node by its last heartbeat.

use std::time::Duration;

use coracle_base::Timestamp;

use super::NodeMonitor;
use crate::view::{Condition, Node, condition};

/// Conditions that the kubelet reports. NetworkUnavailable is set by other components.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Health of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Health {
    /// There was a recent heartbeat; check again after this time.
    Recent(Duration),
    /// There was no recent heartbeat; set these conditions.
    Stale(Vec<Condition>),
}

/// Determines the health of a node from its last heartbeat, if there was one.
pub(super) fn health(node: &Node, last: Option<Timestamp>, now: Timestamp, monitor: &NodeMonitor) -> Health {
    let reported = condition(&node.status.conditions, "Ready").is_some();
    let grace = if reported { monitor.grace_period } else { monitor.startup_grace_period };
    let due = last.unwrap_or(node.metadata.creation_timestamp) + grace;
    if now < due {
        return Health::Recent(due.since(now));
    }
    Health::Stale(REPORTED.into_iter().filter_map(|r#type| unknown(node, r#type, now)).collect())
}

/// A condition with the status Unknown; `None` if it already has it.
fn unknown(node: &Node, r#type: &str, now: Timestamp) -> Option<Condition> {
    let known = condition(&node.status.conditions, r#type);
    if known.is_some_and(|known| &*known.status == "Unknown") {
        return None;
    }
    let (reason, message) = match known {
        Some(_) => ("NodeStatusUnknown", "Kubelet stopped posting node status."),
        None => ("NodeStatusNeverUpdated", "Kubelet never posted node status."),
    };
    let heartbeat = match known {
        Some(known) => known.last_heartbeat_time,
        None => Some(node.metadata.creation_timestamp),
    };
    Some(Condition {
        r#type: r#type.into(),
        status: "Unknown".into(),
        last_heartbeat_time: heartbeat,
        last_transition_time: Some(now),
        reason: reason.into(),
        message: message.into(),
        ..Condition::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn judged(conditions: Value, last_s: Option<u64>, now_s: u64) -> Health {
        let node = json!({
            "metadata": {"name": "n", "creationTimestamp": "1970-01-01T00:01:40Z"},
            "status": {"conditions": conditions},
        });
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1000);
        let node = serde_json::from_value(node).unwrap();
        health(&node, last_s.map(at), at(now_s), &NodeMonitor::default())
    }

    fn written(health: Health) -> Value {
        let Health::Stale(conditions) = health else { panic!("{health:?}") };
        serde_json::to_value(conditions).unwrap()
    }

    #[test]
    fn node_is_stale_forty_seconds_after_its_last_heartbeat() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        assert_eq!(judged(ready.clone(), Some(200), 230), Health::Recent(Duration::from_secs(10)));
        assert!(matches!(judged(ready, Some(200), 240), Health::Stale(_)));
    }

    #[test]
    fn new_node_has_a_startup_grace_period() {
        assert_eq!(judged(json!([]), None, 130), Health::Recent(Duration::from_secs(30)));
        let said = written(judged(json!([]), None, 160));
        assert_eq!(said.as_array().unwrap().len(), 4);
        assert_eq!(
            said[0],
            json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": "1970-01-01T00:01:40Z", "lastTransitionTime": "1970-01-01T00:02:40Z"})
        );
    }

    #[test]
    fn stale_node_gets_unknown_conditions() {
        let heartbeat = "1970-01-01T00:03:00Z";
        let conditions = json!([
            {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": heartbeat},
            {"type": "MemoryPressure", "status": "Unknown", "reason": "old"},
            {"type": "DiskPressure", "status": "False"},
            {"type": "NetworkUnavailable", "status": "False"},
        ]);
        let said = written(judged(conditions, Some(200), 300));
        let types: Vec<_> = said.as_array().unwrap().iter().map(|said| said["type"].clone()).collect();
        assert_eq!(types, ["Ready", "DiskPressure", "PIDPressure"]);
        assert_eq!(
            said[0],
            json!({"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastHeartbeatTime": heartbeat, "lastTransitionTime": "1970-01-01T00:05:00Z"})
        );
    }
}
