//! What is said of a node that has not been heard of.

use std::time::Duration;

use coracle_base::Timestamp;

use super::NodeMonitor;
use crate::view::{Condition, Node, condition};

/// What nodes report of themselves. That the network is there is said by others.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// Whether a node has been heard of.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Health {
    /// Recently; it is to be looked at again after this time.
    Heard(Duration),
    /// Not for too long. These conditions are to be written.
    Silent(Vec<Condition>),
}

/// Judges a node by its last sign of life, if there was one.
pub(super) fn health(node: &Node, last: Option<Timestamp>, now: Timestamp, monitor: &NodeMonitor) -> Health {
    let reported = condition(&node.status.conditions, "Ready").is_some();
    let grace = if reported { monitor.grace_period } else { monitor.startup_grace_period };
    let due = last.unwrap_or(node.metadata.creation_timestamp) + grace;
    if now < due {
        return Health::Heard(due.since(now));
    }
    Health::Silent(REPORTED.into_iter().filter_map(|r#type| unknown(node, r#type, now)).collect())
}

/// A condition that says that nothing is known; none if it says so already.
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
        let Health::Silent(conditions) = health else { panic!("{health:?}") };
        serde_json::to_value(conditions).unwrap()
    }

    #[test]
    fn a_node_has_forty_seconds_from_its_last_sign_of_life() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        assert_eq!(judged(ready.clone(), Some(200), 230), Health::Heard(Duration::from_secs(10)));
        assert!(matches!(judged(ready, Some(200), 240), Health::Silent(_)));
    }

    #[test]
    fn a_new_node_has_a_minute_to_report() {
        assert_eq!(judged(json!([]), None, 130), Health::Heard(Duration::from_secs(30)));
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
    fn what_was_reported_is_not_known_any_more() {
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
