//! Pods that a set creates and deletes, and its status.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;
use coracle_runtime::informer::Labels;
use coracle_runtime::{Action, Change, ClusterId, ObjectKey};
use kube::core::Status;
use serde_json::{Value, json};

use super::is_relevant;
use super::plan::{BURST_REPLICAS, Plan, age_ratios, plan};
use super::status::{Failure, next_availability, patch, status};
use crate::view::{Phase, Pod, ReplicaSet, rfc3339};

const NOW: Timestamp = Timestamp::from_millis(100_000);

fn pod(name: &str, labels: Value, ready_at_s: Option<u64>) -> Arc<Pod> {
    let at = |seconds: u64| rfc3339(Timestamp::from_millis(seconds * 1000));
    let ready = |seconds| json!({"type": "Ready", "status": "True", "lastTransitionTime": at(seconds)});
    let conditions: Vec<_> = ready_at_s.map(ready).into_iter().collect();
    let pod = json!({
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "conditions": conditions},
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn pods(count: usize) -> Vec<Arc<Pod>> {
    (0..count).map(|index| pod(&format!("p{index:04}"), json!({}), None)).collect()
}

fn set(status: Value) -> ReplicaSet {
    serde_json::from_value(json!({
        "metadata": {"name": "r", "uid": "u", "resourceVersion": "7", "generation": 2},
        "spec": {"replicas": 3, "minReadySeconds": 10, "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": {"labels": {"app": "x", "more": "y"}}}},
        "status": status,
    }))
    .unwrap()
}

fn api_error(message: &str) -> kube::Error {
    let status: Status = serde_json::from_value(json!({"code": 403, "message": message})).unwrap();
    kube::Error::Api(Box::new(status))
}

#[test]
fn pods_are_created_or_deleted_to_match_replicas() {
    // Desired and existing replicas; number to create and to delete.
    let cases = [
        (3, 3, 0, 0),
        (3, 1, 2, 0),
        (0, 2, 0, 2),
        (1, 3, 0, 2),
        (-1, 1, 0, 1),
        (2000, 0, BURST_REPLICAS, 0),
        (0, 600, 0, BURST_REPLICAS),
    ];
    for (wanted, there, create, delete) in cases {
        let (created, deleted) = match plan(wanted, &pods(there), Vec::new, NOW) {
            Plan::Nothing => (0, 0),
            Plan::Create(count) => (count, 0),
            Plan::Delete(pods) => (0, pods.len()),
        };
        assert_eq!((created, deleted), (create, delete), "{wanted} wanted, {there} there");
    }
}

#[test]
fn least_useful_pods_are_deleted_first() {
    let active = [pod("a", json!({}), Some(50)), pod("b", json!({}), None), pod("c", json!({}), Some(50))];
    let Plan::Delete(gone) = plan(2, &active, Vec::new, NOW) else { panic!("nothing to delete") };
    assert_eq!(gone.iter().map(|pod| pod.metadata.name()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn only_relevant_changes_enqueue_a_set() {
    let plain = pod("p", json!({"app": "x"}), None);
    let changed = |change: fn(&mut Pod)| {
        let mut pod = Pod::clone(&plain);
        change(&mut pod);
        let key = ObjectKey::namespaced(ClusterId::default(), "n", "p");
        is_relevant(&Change { key, old: Some(Arc::clone(&plain)), new: Some(Arc::new(pod)) })
    };
    assert!(!changed(|pod| pod.spec.node_name = "other".into()));
    assert!(!changed(|pod| pod.status.pod_ip = "10.0.0.1".into()));
    assert!(!changed(|pod| pod.status.phase = Phase::Pending));
    assert!(changed(|pod| pod.status.phase = Phase::Failed));
    assert!(changed(|pod| pod.metadata.plain.uid = "another".into()));
    assert!(changed(|pod| pod.metadata.plain.deletion_timestamp = Some("2026-01-01T00:00:00Z".into())));
    assert!(changed(|pod| pod.metadata.labels = Labels::default()));
    assert!(changed(|pod| {
        let ready =
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        pod.status.conditions = serde_json::from_value(ready).unwrap();
    }));
}

#[test]
fn age_ratios_cover_chosen_ready_pods() {
    let pod = |made_s: u64, is_ready: bool| {
        let mut pod = Pod::clone(&pod("p", json!({}), is_ready.then_some(95)));
        pod.metadata.creation_timestamp = Timestamp::from_millis(made_s * 1000);
        Arc::new(pod)
    };
    // Created 90, 50, 10 and 5 seconds ago; the youngest is not ready.
    let active = [pod(10, true), pod(50, true), pod(90, true), pod(95, false)];
    assert_eq!(age_ratios(&active, &active[..2], NOW), [9.0, 5.0]);
    assert_eq!(age_ratios(&active, &active[3..], NOW), [] as [f64; 0]);
    assert_eq!(age_ratios(&active, &active, NOW), [] as [f64; 0], "no pods were chosen");
    assert_eq!(age_ratios(&active[3..], &[], NOW), [] as [f64; 0]);
}

#[test]
fn status_counts_pods() {
    let labels = json!({"app": "x", "more": "y"});
    let active =
        [pod("a", labels.clone(), Some(50)), pod("b", labels, Some(95)), pod("c", json!({"app": "x"}), None)];
    let set = set(json!({}));
    let counted = status(&set, &active, Some(4), None, NOW);
    let numbers = [
        counted.replicas,
        counted.fully_labeled_replicas,
        counted.ready_replicas,
        counted.available_replicas,
    ];
    assert_eq!(numbers, [3, 2, 2, 1]);
    assert_eq!((counted.terminating_replicas, counted.observed_generation), (Some(4), 2));
    assert_eq!(next_availability(&active, 10, NOW), Action::RequeueAfter(Duration::from_secs(5)));
    assert_eq!(next_availability(&active, 0, NOW), Action::AwaitChange);

    let written = patch(&set, &status(&set, &[], Some(0), None, NOW));
    assert_eq!(written["metadata"], json!({"uid": "u", "resourceVersion": "7"}));
    let expected = json!({
        "replicas": 0, "fullyLabeledReplicas": null, "readyReplicas": null, "availableReplicas": null,
        "terminatingReplicas": 0, "observedGeneration": 2, "conditions": null,
    });
    assert_eq!(written["status"], expected);
}

#[test]
fn failure_condition_is_kept_until_resolved() {
    let other = json!({"type": "Other", "status": "True"});
    let set_with = |conditions: &[Value]| set(json!({"conditions": conditions}));
    let create = Failure::create(&api_error("exceeded quota"));
    let reported = status(&set_with(std::slice::from_ref(&other)), &[], None, Some(&create), NOW).conditions;
    let failure = json!({
        "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota",
        "lastTransitionTime": "1970-01-01T00:01:40Z",
    });
    assert_eq!(serde_json::to_value(&reported).unwrap(), json!([other, failure]));

    let delete = Failure::delete(&api_error("no"));
    let later = Timestamp::from_millis(200_000);
    let again = status(&set_with(&[other.clone(), failure.clone()]), &[], None, Some(&delete), later);
    assert_eq!(again.conditions, reported, "as it was first reported");
    let over = status(&set_with(&[failure, other.clone()]), &[], None, None, later);
    assert_eq!(serde_json::to_value(&over.conditions).unwrap(), json!([other]));
}
