//! Plans and status of deployments in given situations.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;
use serde_json::{Value, json};

use super::annotations::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION};
use super::plan::{Plan, plan};
use super::sets::{POD_TEMPLATE_HASH, Sets};
use super::status;
use crate::view::{Deployment, ReplicaSet, condition, rfc3339};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn at(seconds: u64) -> String {
    rfc3339(Timestamp::from_millis(seconds * 1000))
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// A deployment of image `b` with the given spec on top of the defaults.
fn deployment(spec: Value, status: Value) -> Deployment {
    let mut whole = json!({
        "replicas": 10, "selector": {"matchLabels": {"app": "x"}}, "template": template("b"),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}},
        "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
    });
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    let metadata =
        json!({"name": "d", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 1});
    serde_json::from_value(json!({"metadata": metadata, "spec": whole, "status": status})).unwrap()
}

/// A set of an image that was last scaled when its deployment had ten replicas.
fn set(image: &str, replicas: i32, available: i32) -> Arc<ReplicaSet> {
    set_for(image, replicas, available, 10, 13)
}

fn set_for(image: &str, replicas: i32, available: i32, desired: i32, max: i32) -> Arc<ReplicaSet> {
    let age = u64::from(image.as_bytes()[0]);
    let annotations = json!({
        REVISION: (age - u64::from(b'a') + 1).to_string(),
        DESIRED_REPLICAS: desired.to_string(), MAX_REPLICAS: max.to_string(),
    });
    let mut template = template(image);
    template["metadata"]["labels"][POD_TEMPLATE_HASH] = image.into();
    let object = json!({
        "metadata": {"name": format!("d-{image}"), "uid": image, "annotations": annotations,
            "creationTimestamp": at(age), "generation": 1},
        "spec": {"replicas": replicas, "template": template},
        "status": {"replicas": replicas, "readyReplicas": available, "availableReplicas": available,
            "terminatingReplicas": 0, "observedGeneration": 1},
    });
    Arc::new(serde_json::from_value(object).unwrap())
}

fn planned(deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> Plan {
    plan(deployment, &Sets::of(deployment, sets.to_vec()), || false, NOW)
}

/// Replicas and available replicas of the old and the new set.
type Known = [(i32, i32); 2];

/// Expected sizes of sets, by image.
type NewSizes = &'static [(&'static str, i32)];

/// Planned sizes of sets, by image.
fn sizes(plan: &Plan) -> Vec<(&str, i32)> {
    let sizes = plan.updates.iter().filter_map(|update| Some((update.set.metadata.uid(), update.replicas?)));
    sizes.collect()
}

fn progressing(plan: &Plan) -> (String, String, String) {
    let condition = condition(&plan.status.conditions, "Progressing").unwrap().clone();
    (condition.status.into(), condition.reason.into(), condition.message.into())
}

#[test]
fn rolling_update_makes_one_step_at_a_time() {
    let rolling = deployment(json!({}), json!({}));
    let cases: &[(Known, NewSizes, &str)] = &[
        ([(10, 10), (0, 0)], &[("b", 3)], "up to the surge"),
        ([(10, 10), (3, 0)], &[("a", 8)], "down by the maximum unavailable"),
        ([(8, 8), (3, 0)], &[("b", 5)], "and up again"),
        ([(8, 8), (5, 0)], &[], "nothing to do until new ones are available"),
        ([(8, 8), (5, 3)], &[("a", 5)], "down by the number of available new pods"),
        ([(8, 6), (5, 3)], &[("a", 5)], "unavailable ones, and one more"),
        ([(8, 2), (5, 0)], &[], "no more unavailable than already are"),
        ([(10, 4), (3, 0)], &[("a", 8)], "unavailable ones go even if too few are available"),
        ([(0, 0), (10, 10)], &[], "done"),
        ([(0, 0), (12, 12)], &[("b", 10)], "no more than desired"),
        ([(2, 2), (9, 9)], &[("b", 10)], "the last one"),
    ];
    for (known, expected, why) in cases {
        let sets = [set("a", known[0].0, known[0].1), set("b", known[1].0, known[1].1)];
        assert_eq!(sizes(&planned(&rolling, &sets)), *expected, "{why}");
    }
    let stale = set("a", 8, 10);
    let plan = planned(&rolling, &[stale, set("b", 5, 3)]);
    assert_eq!(sizes(&plan), [("a", 5)], "pods about to be deleted do not count as available");
    let changed = |image: &str, replicas, available, times: i64| {
        let mut set = ReplicaSet::clone(&set(image, replicas, available));
        set.metadata.generation += times;
        Arc::new(set)
    };
    let was_smaller = planned(&rolling, &[set("a", 8, 8), changed("b", 5, 5, 2)]);
    assert_eq!(sizes(&was_smaller), [], "the set may have been scaled to zero in between");
    let grew = planned(&rolling, &[set("a", 8, 8), changed("b", 5, 3, 1)]);
    assert_eq!(sizes(&grew), [("a", 5)], "a set that grows keeps its pods");
}

#[test]
fn rolling_update_without_surge_deletes_before_creating() {
    let strategy =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "20%"}});
    let rolling = deployment(json!({"strategy": strategy}), json!({}));
    let create = planned(&rolling, &[set("a", 10, 10)]).create.unwrap();
    assert_eq!(create.replicas, 0);
    assert_eq!(sizes(&planned(&rolling, &[set("a", 10, 10), set("b", 0, 0)])), [("a", 8)]);
    assert_eq!(sizes(&planned(&rolling, &[set("a", 8, 8), set("b", 0, 0)])), [("b", 2)]);
}

#[test]
fn old_sets_shrink_oldest_first() {
    let rolling = deployment(json!({"template": template("d")}), json!({}));
    let sets = [set("a", 4, 4), set("b", 5, 5), set("c", 3, 1), set("d", 1, 1)];
    assert_eq!(sizes(&planned(&rolling, &sets)), [("a", 1), ("c", 1)], "unavailable pods go first");
}

#[test]
fn new_template_creates_a_set() {
    let status = json!({"replicas": 10, "updatedReplicas": 10, "readyReplicas": 10, "availableReplicas": 10});
    let deployment = deployment(json!({"minReadySeconds": 5}), status);
    let plan = planned(&deployment, &[set("a", 10, 10)]);
    let create = plan.create.as_ref().unwrap();
    assert_eq!(create.replicas, 3);
    assert_eq!(create.name, format!("d-{}", create.hash));
    assert_eq!(json!(create.annotations), json!({REVISION: "2", DESIRED_REPLICAS: "10", MAX_REPLICAS: "13"}));
    assert_eq!(plan.revision.as_deref(), Some("2"));
    let message = format!("Created new replica set \"{}\"", create.name);
    assert_eq!(progressing(&plan), ("True".into(), "NewReplicaSetCreated".into(), message));
    assert!(plan.updates.is_empty() && plan.delete.is_empty());

    let again = planned(&deployment, &[set("a", 10, 10)]).create.unwrap();
    assert_eq!(again, *create, "the same template has the same name");
    let mut collided = deployment.clone();
    collided.status.collision_count = Some(1);
    assert_ne!(planned(&collided, &[]).create.unwrap().name, create.name);
    collided.metadata.plain.name = "d".repeat(253).into();
    assert_eq!(planned(&collided, &[]).create.unwrap().name.len(), 253);
}

#[test]
fn rollback_makes_the_old_set_the_newest() {
    let status = json!({"replicas": 10, "updatedReplicas": 10, "readyReplicas": 10, "availableReplicas": 10});
    let back = deployment(json!({"template": template("a")}), status);
    let plan = planned(&back, &[set("a", 0, 0), set("b", 10, 10)]);
    assert_eq!(sizes(&plan), [("a", 3)]);
    let changed = json!(plan.updates[0].annotations);
    assert_eq!(changed, json!({REVISION: "3", "deployment.kubernetes.io/revision-history": "1"}));
    assert_eq!(plan.revision.as_deref(), Some("3"));
    let found = "Found new replica set \"d-a\"".to_owned();
    assert_eq!(progressing(&plan), ("True".into(), "FoundNewReplicaSet".into(), found));
}

#[test]
fn deployment_annotations_are_copied_to_its_set() {
    let mut changed = deployment(json!({"minReadySeconds": 7}), json!({}));
    changed.metadata.annotations = [("why", "because"), (REVISION, "2")].into_iter().collect();
    let plan = planned(&changed, &[set("b", 10, 10)]);
    let update = &plan.updates[0];
    assert_eq!((update.replicas, update.min_ready_seconds), (None, Some(7)));
    assert_eq!(json!(update.annotations), json!({"why": "because"}));
    assert_eq!(plan.revision, None);
}

#[test]
fn scaling_during_rollout_is_proportional() {
    // Sizes before, the desired replicas, sizes after.
    let cases: &[([i32; 2], i32, NewSizes)] = &[
        ([0, 10], 12, &[("b", 12)]),
        ([8, 5], 20, &[("a", 14), ("b", 9)]),
        ([8, 5], 5, &[("a", 5), ("b", 3)]),
        ([8, 5], 0, &[("a", 0), ("b", 0)]),
        ([5, 5], 11, &[("b", 9), ("a", 5)]),
    ];
    for (known, wanted, expected) in cases {
        let scaled = deployment(json!({"replicas": wanted}), json!({}));
        let sets = [set("a", known[0], known[0]), set("b", known[1], 0)];
        let plan = planned(&scaled, &sets);
        let mut got = sizes(&plan);
        let mut expected: Vec<_> = expected.to_vec();
        got.sort_unstable();
        expected.sort_unstable();
        expected.retain(|(name, size)| *size != known[usize::from(name.as_bytes()[0] - b'a')]);
        assert_eq!(got, expected, "{known:?} to {wanted}");
        let noted =
            plan.updates.iter().all(|update| update.annotations[DESIRED_REPLICAS] == wanted.to_string());
        assert!(noted && plan.create.is_none());
    }
}

#[test]
fn scaling_updates_annotations_even_without_size_change() {
    let sets = [set_for("b", 10, 10, 8, 11)];
    let plan = planned(&deployment(json!({}), json!({})), &sets);
    assert!(sizes(&plan).is_empty());
    assert_eq!(json!(plan.updates[0].annotations), json!({DESIRED_REPLICAS: "10", MAX_REPLICAS: "13"}));
}

#[test]
fn saturated_new_set_scales_old_sets_down() {
    let paused = deployment(json!({"paused": true}), json!({}));
    assert_eq!(sizes(&planned(&paused, &[set("a", 4, 4), set("b", 10, 10)])), [("a", 0)]);
}

#[test]
fn paused_deployment_only_scales() {
    let paused = deployment(json!({"paused": true, "replicas": 12, "template": template("c")}), json!({}));
    let plan = planned(&paused, &[set("b", 10, 10)]);
    assert!(plan.create.is_none());
    assert_eq!(sizes(&plan), [("b", 12)]);
    let expected = ("Unknown".into(), "DeploymentPaused".into(), "Deployment is paused".into());
    assert_eq!(progressing(&plan), expected);

    let conditions = json!({"conditions": plan.status.conditions});
    let resumed = deployment(json!({"template": template("b")}), conditions);
    let plan = planned(&resumed, &[set("b", 10, 4)]);
    // Without any progress it would stay so.
    assert_eq!(progressing(&plan).1, "ReplicaSetUpdated");
    let mut same = resumed.clone();
    same.status.ready_replicas = 4;
    same.status.available_replicas = 4;
    same.status.updated_replicas = 10;
    let plan = planned(&same, &[set("b", 10, 4)]);
    let expected = ("Unknown".into(), "DeploymentResumed".into(), "Deployment is resumed".into());
    assert_eq!(progressing(&plan), expected);
}

#[test]
fn recreate_waits_until_old_pods_are_gone() {
    let recreate = deployment(json!({"strategy": {"type": "Recreate"}}), json!({}));
    let first = planned(&recreate, &[set_for("a", 10, 10, 10, 10)]);
    assert!(first.create.is_none());
    assert_eq!(sizes(&first), [("a", 0)]);
    let mut counted = ReplicaSet::clone(&set("a", 0, 0));
    counted.status.replicas = 1;
    let waiting = planned(&recreate, &[Arc::new(counted)]);
    assert!(waiting.create.is_none() && waiting.updates.is_empty());
    let sets = Sets::of(&recreate, vec![set("a", 0, 0)]);
    assert!(plan(&recreate, &sets, || true, NOW).create.is_none(), "terminating pods still run");
    assert_eq!(plan(&recreate, &sets, || false, NOW).create.unwrap().replicas, 10);
    let back = [set("a", 0, 0), set_for("b", 0, 0, 10, 10)];
    assert_eq!(sizes(&planned(&recreate, &back)), [("b", 10)]);
}

#[test]
fn revision_history_limit_deletes_old_sets() {
    let complete =
        json!({"replicas": 10, "updatedReplicas": 10, "availableReplicas": 10, "observedGeneration": 1});
    let sets = || {
        let mut unseen = ReplicaSet::clone(&set("d", 0, 0));
        unseen.status.observed_generation = 0;
        [set("c", 0, 0), set("a", 0, 0), Arc::new(unseen), set("e", 0, 0), set("f", 10, 10)]
    };
    let gone = |limit: Value, status: &Value| {
        let deployment =
            deployment(json!({"template": template("f"), "revisionHistoryLimit": limit}), status.clone());
        let plan = planned(&deployment, &sets());
        plan.delete.iter().map(|set| set.metadata.uid().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(gone(json!(2), &complete), ["a", "c"]);
    assert_eq!(gone(json!(0), &complete), ["a", "c", "e"], "one has not been looked at");
    assert_eq!(gone(json!(4), &complete), [""; 0]);
    assert_eq!(gone(json!(i32::MAX), &complete), [""; 0]);
    assert_eq!(gone(json!(0), &json!({})), [""; 0], "not in the middle of a rollout");
}

#[test]
fn status_counts_all_sets() {
    let plan =
        planned(&deployment(json!({}), json!({"collisionCount": 1})), &[set("a", 8, 7), set("b", 5, 2)]);
    let expected = json!({
        "observedGeneration": 1, "replicas": 13, "updatedReplicas": 5, "readyReplicas": 9,
        "availableReplicas": 9, "unavailableReplicas": 4, "terminatingReplicas": 0, "collisionCount": 1,
    });
    let mut written = serde_json::to_value(&plan.status).unwrap();
    written.as_object_mut().unwrap().remove("conditions");
    assert_eq!(written, expected);
    let available = condition(&plan.status.conditions, "Available").unwrap();
    assert_eq!((&*available.status, &*available.reason), ("True", "MinimumReplicasAvailable"));
    let plan = planned(&deployment(json!({}), json!({})), &[set("a", 8, 7), set("b", 5, 0)]);
    let available = condition(&plan.status.conditions, "Available").unwrap();
    assert_eq!((&*available.status, &*available.reason), ("False", "MinimumReplicasUnavailable"));

    let patch = status::patch(&deployment(json!({}), json!({})), &plan.status, Some("4"));
    let metadata = json!({"uid": "u", "resourceVersion": "7", "annotations": {REVISION: "4"}});
    assert_eq!(patch["metadata"], metadata);
    assert_eq!(patch["status"]["collisionCount"], Value::Null);
    let mut silent = ReplicaSet::clone(&set("a", 1, 1));
    silent.status.terminating_replicas = None;
    let plan = planned(&deployment(json!({}), json!({})), &[Arc::new(silent)]);
    assert_eq!(plan.status.terminating_replicas, None);
}

/// A rollout status whose last progress is this long ago.
fn progressed(seconds_ago: u64, reason: &str) -> Value {
    let time = at(1000 - seconds_ago);
    let condition = json!({"type": "Progressing", "status": "True", "reason": reason, "message": "m",
        "lastUpdateTime": time, "lastTransitionTime": time});
    json!({"replicas": 13, "updatedReplicas": 5, "readyReplicas": 8, "availableReplicas": 8,
        "conditions": [condition]})
}

#[test]
fn exceeded_progress_deadline_sets_the_condition() {
    let stuck = |status: Value| planned(&deployment(json!({}), status), &[set("a", 8, 8), set("b", 5, 0)]);
    let plan = stuck(progressed(599, "ReplicaSetUpdated"));
    assert_eq!(progressing(&plan).1, "ReplicaSetUpdated");
    assert_eq!(plan.requeue_after, Some(Duration::from_secs(2)));
    let plan = stuck(progressed(601, "ReplicaSetUpdated"));
    let message = "ReplicaSet \"d-b\" has timed out progressing.".to_owned();
    assert_eq!(progressing(&plan), ("False".into(), "ProgressDeadlineExceeded".into(), message));
    assert_eq!(plan.requeue_after, None);
    let plan = stuck(progressed(999, "NewReplicaSetAvailable"));
    assert_eq!(progressing(&plan).1, "NewReplicaSetAvailable", "that was another rollout");
    assert_eq!(plan.requeue_after, None);

    let plan = planned(
        &deployment(json!({"progressDeadlineSeconds": i32::MAX}), progressed(999, "ReplicaSetUpdated")),
        &[set("a", 8, 8), set("b", 5, 0)],
    );
    assert!(condition(&plan.status.conditions, "Progressing").is_none() && plan.requeue_after.is_none());
}

#[test]
fn progress_restarts_the_deadline_until_complete() {
    let sets = [set("a", 8, 8), set("b", 5, 1)];
    let plan = planned(&deployment(json!({}), progressed(601, "ReplicaSetUpdated")), &sets);
    let progressing_condition = condition(&plan.status.conditions, "Progressing").unwrap();
    assert_eq!(
        (&*progressing_condition.reason, progressing_condition.last_update_time),
        ("ReplicaSetUpdated", Some(NOW))
    );
    assert_ne!(progressing_condition.last_transition_time, Some(NOW), "it was true before");
    assert_eq!(&*progressing_condition.message, "ReplicaSet \"d-b\" is progressing.");

    let done = [set("a", 0, 0), set("b", 10, 10)];
    let plan = planned(&deployment(json!({}), progressed(10, "ReplicaSetUpdated")), &done);
    let message = "ReplicaSet \"d-b\" has successfully progressed.".to_owned();
    assert_eq!(progressing(&plan), ("True".into(), "NewReplicaSetAvailable".into(), message));
    assert_eq!(plan.requeue_after, None);
}

#[test]
fn replica_failure_condition_is_copied_from_sets() {
    let failing = |image: &str| {
        let mut set = ReplicaSet::clone(&set(image, 5, 0));
        let failure = json!([{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
            "message": image, "lastTransitionTime": at(5)}]);
        set.status.conditions = serde_json::from_value(failure).unwrap();
        Arc::new(set)
    };
    let plan = planned(&deployment(json!({}), json!({})), &[failing("a"), failing("b")]);
    let failure = condition(&plan.status.conditions, "ReplicaFailure").unwrap();
    assert_eq!((&*failure.message, failure.last_update_time), ("b", Some(Timestamp::from_millis(5000))));
    let known = json!({"conditions": [{"type": "ReplicaFailure", "status": "True"}]});
    let plan = planned(&deployment(json!({}), known), &[set("b", 10, 10)]);
    assert!(condition(&plan.status.conditions, "ReplicaFailure").is_none());
}

#[test]
fn terminating_deployment_only_updates_status() {
    let mut going = deployment(json!({}), json!({}));
    going.metadata.plain.deletion_timestamp = Some(at(1).into());
    let plan = planned(&going, &[set("a", 10, 10)]);
    assert!(plan.create.is_none() && plan.updates.is_empty() && plan.delete.is_empty());
    assert_eq!(plan.status.replicas, 10);
}
