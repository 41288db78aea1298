//! Plans the reconciliation of one pod.

use coracle_base::Timestamp;
use coracle_runtime::informer::Labels;
use serde_json::Value;

use crate::lifecycle::PodLifecycle;
use crate::rules::PodRules;
use crate::run::Run;
use crate::status::{self, PodPlacement, Waiting};
use crate::view::Pod;

/// Waiting reason of containers that cannot be created, as in the kubelet.
const CONFIG_ERROR: &str = "CreateContainerConfigError";

/// The actions for a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// Status patch to write first.
    pub(crate) status: Option<Value>,
    /// True if the pod object is to be deleted without grace.
    pub(crate) delete: bool,
    /// The next time at which the pod changes without an event.
    pub(crate) next: Option<Timestamp>,
}

/// The actions for `pod`, on a node with these annotations.
pub(crate) fn plan(pod: &Pod, node: &Labels, placement: &PodPlacement, now: Timestamp) -> Plan {
    let rules = match PodRules::of(pod, node) {
        Ok(rules) => rules,
        Err(error) => return misconfigured(pod, &error.to_string(), placement, now),
    };
    let has_ended = pod.status.phase.is_terminal();
    let mut lifecycle = PodLifecycle::at(pod, &rules, placement.accepted, now);
    if has_ended && (lifecycle.phase != pod.status.phase || !has_no_running_container(pod)) {
        // A final phase does not change.
        let ended = PodLifecycle::ended_by_others(pod, &rules, placement.accepted, now);
        lifecycle = PodLifecycle { is_gone: lifecycle.is_gone, next: lifecycle.next, ..ended };
    }
    let first = if pod.spec.init_containers.is_empty() { "ContainerCreating" } else { "PodInitializing" };
    let reason = rules.waiting_reason.as_deref().unwrap_or(first);
    let waiting = Waiting { reason, message: &rules.waiting_message };
    let is_reported = has_ended && has_no_running_container(pod);
    let status = if is_reported { None } else { status::patch(pod, &lifecycle, &waiting, placement, now) };
    Plan { status, delete: lifecycle.is_gone && !is_released(pod), next: lifecycle.next }
}

/// True if no container of an ended pod is reported as running.
fn has_no_running_container(pod: &Pod) -> bool {
    let status = &pod.status;
    // A pod that ended before its node accepted it has no container statuses, and gets none.
    status.container_statuses.iter().all(|container| container.state.running.is_none())
        && status.init_container_statuses.iter().all(|container| container.state.running.is_none())
}

/// True if the pod was deleted without grace already and only finalizers hold it.
fn is_released(pod: &Pod) -> bool {
    pod.metadata.is_terminating() && pod.metadata.deletion_grace_period_seconds == Some(0)
}

/// A pod with invalid rules waits until they are corrected.
fn misconfigured(pod: &Pod, message: &str, placement: &PodPlacement, now: Timestamp) -> Plan {
    if pod.metadata.is_terminating() {
        return Plan { delete: !is_released(pod), ..Plan::default() };
    }
    let wait = |containers: &[_]| containers.iter().map(|_| Run::waiting(None)).collect();
    let lifecycle = PodLifecycle {
        phase: crate::view::Phase::Pending,
        reason: Box::default(),
        message: Box::default(),
        init_containers: wait(&pod.spec.init_containers),
        containers: wait(&pod.spec.containers),
        ephemeral_containers: wait(&pod.spec.ephemeral_containers),
        is_gone: false,
        next: None,
    };
    let waiting = Waiting { reason: CONFIG_ERROR, message };
    let status =
        (!pod.status.phase.is_terminal()).then(|| status::patch(pod, &lifecycle, &waiting, placement, now));
    Plan { status: status.flatten(), ..Plan::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn pod(metadata: Value, status: Value) -> Pod {
        let spec = json!({"nodeName": "fake-0", "containers": [{"name": "c"}]});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn plan_at(pod: &Pod, now: u64) -> Plan {
        let placement = PodPlacement { host_ip: "h".into(), pod_ip: "p".into(), accepted: at(10) };
        plan(pod, &Labels::default(), &placement, at(now))
    }

    #[test]
    fn reported_status_is_not_written_again() {
        let first = plan_at(&pod(json!({}), json!({})), 10);
        let status = first.status.unwrap()["status"].take();
        assert!(!first.delete);
        assert_eq!(plan_at(&pod(json!({}), status), 99), Plan::default());
    }

    #[test]
    fn deleted_pod_is_reported_as_ended_and_then_deleted() {
        let going = json!({"deletionTimestamp": "1970-01-01T00:00:50Z", "deletionGracePeriodSeconds": 30});
        let first = plan_at(&pod(going.clone(), json!({})), 20);
        assert!(first.delete);
        let status = first.status.unwrap()["status"].take();
        assert_eq!(status["phase"], "Failed");
        assert_eq!(plan_at(&pod(going, status.clone()), 20), Plan { delete: true, ..Plan::default() });
        let held = json!({"deletionTimestamp": "1970-01-01T00:00:20Z", "deletionGracePeriodSeconds": 0});
        assert_eq!(plan_at(&pod(held, status), 20), Plan::default(), "only finalizers hold it");
    }

    #[test]
    fn pod_ended_by_another_client_stays_ended() {
        let running = plan_at(&pod(json!({}), json!({})), 10).status.unwrap()["status"].take();
        let mut evicted = running;
        evicted["phase"] = "Failed".into();
        evicted["reason"] = "Evicted".into();
        let status = plan_at(&pod(json!({}), evicted), 20).status.unwrap()["status"].take();
        assert_eq!((&status["phase"], status.get("reason")), (&json!("Failed"), None));
        assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], 137);
        assert_eq!(plan_at(&pod(json!({}), status), 30), Plan::default());
        assert_eq!(plan_at(&pod(json!({}), json!({"phase": "Failed"})), 30), Plan::default());
    }

    #[test]
    fn invalid_rule_is_reported_in_the_pod_status() {
        let wrong = json!({"annotations": {"fake.coracle.dev/start-after": "soon"}});
        let status = plan_at(&pod(wrong, json!({})), 10).status.unwrap()["status"].take();
        let waiting = &status["containerStatuses"][0]["state"]["waiting"];
        assert_eq!(waiting["reason"], CONFIG_ERROR);
        assert!(waiting["message"].as_str().unwrap().contains("start-after"));
        let other = json!({"annotations": {"fake.coracle.dev/start-after": "later"}});
        let changed = plan_at(&pod(other, status), 11).status.unwrap();
        let waiting = &changed["status"]["containerStatuses"][0]["state"]["waiting"];
        assert!(waiting["message"].as_str().unwrap().contains("later"), "{waiting}");
    }
}
