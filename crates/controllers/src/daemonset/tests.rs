//! Plans for DaemonSets, as tables.

use std::sync::Arc;

use coracle_base::{Rng, Timestamp};
use serde_json::{Value, json};

use super::failed::FailedPods;
use super::object::DaemonSet;
use super::plan::{Observed, Plan, next_available, plan, status};
use crate::view::{Node, Pod};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn set(strategy: Value) -> DaemonSet {
    let spec = json!({
        "selector": {"matchLabels": {"app": "d"}}, "template": {"spec": {}},
        "updateStrategy": strategy, "minReadySeconds": 10,
    });
    serde_json::from_value(json!({"metadata": {"name": "d", "uid": "u", "generation": 7}, "spec": spec}))
        .unwrap()
}

fn rolling(max_unavailable: Value, max_surge: Value) -> DaemonSet {
    let rolling = json!({"maxUnavailable": max_unavailable, "maxSurge": max_surge});
    set(json!({"type": "RollingUpdate", "rollingUpdate": rolling}))
}

fn nodes(names: &str) -> Vec<Arc<Node>> {
    let node = |name: &str| {
        // A node whose name ends with this character has a taint.
        let taints = match name.chars().last() {
            Some('!') => json!([{"key": "k", "effect": "NoSchedule"}]),
            Some('?') => json!([{"key": "k", "effect": "NoExecute"}]),
            _ => json!([]),
        };
        let name = name.trim_end_matches(['!', '?']);
        Arc::new(
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"taints": taints}})).unwrap(),
        )
    };
    names.split_whitespace().map(node).collect()
}

/// Pods as `node:hash:state`, created in this order. States are `a`vailable, `r`eady, `p`ending, `u`nscheduled,
/// `f`ailed, `s`ucceeded, `d`eleted, and `g` for one that is held only by a finalizer.
fn pods(text: &str) -> Vec<Arc<Pod>> {
    let pod = |(index, text): (usize, &str)| {
        let parts: Vec<_> = text.split(':').collect();
        let [node, hash, state] = parts[..] else { panic!("{text}") };
        let ready_since = match state {
            "a" => Some("1970-01-01T00:00:00Z"),
            "r" => Some("1970-01-01T00:16:35Z"),
            _ => None,
        };
        let phase = match state {
            "f" | "g" => "Failed",
            "s" => "Succeeded",
            "p" | "u" => "Pending",
            _ => "Running",
        };
        let conditions = ready_since
            .map(|since| json!([{"type": "Ready", "status": "True", "lastTransitionTime": since}]));
        let terms = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]);
        let required =
            json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
        let created = format!("1970-01-01T00:00:{index:02}Z");
        let mut object = json!({
            "metadata": {"name": format!("{node}-{index}"), "namespace": "n", "creationTimestamp": created,
                "labels": {"app": "d", "controller-revision-hash": hash}},
            "spec": {"nodeName": node, "affinity": {"nodeAffinity": required}},
            "status": {"phase": phase, "conditions": conditions.unwrap_or_else(|| json!([]))},
        });
        if state == "d" || state == "g" {
            object["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:16:00Z");
        }
        if state == "u" {
            object["spec"]["nodeName"] = json!("");
        }
        Arc::new(serde_json::from_value(object).unwrap())
    };
    text.split_whitespace().enumerate().map(pod).collect()
}

fn planned(set: &DaemonSet, nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> Plan {
    plan(&Observed { set, nodes, pods, hash: "new", now: NOW }, &mut FailedPods::default())
}

/// Checks created, deleted and finished pods.
fn check(set: &DaemonSet, on: &str, having: &str, create: &str, delete: &str, finished: &str) {
    let plan = planned(set, &nodes(on), &pods(having));
    let name = |pod: &Arc<Pod>| pod.metadata.name().to_owned();
    let mut deleted: Vec<_> = plan.delete.iter().map(name).collect();
    deleted.sort();
    let over: Vec<_> = plan.finished.iter().map(|finished| name(&finished.pod)).collect();
    let mut created = plan.create.clone();
    created.sort();
    assert_eq!(created.join(" "), create, "created on {on} with {having}");
    assert_eq!(deleted.join(" "), delete, "deleted on {on} with {having}");
    assert_eq!(over.join(" "), finished, "finished on {on} with {having}");
}

#[test]
fn each_eligible_node_has_one_pod() {
    let set = set(json!({"type": "OnDelete"}));
    for (on, having, create, delete, finished) in [
        ("a b", "", "a b", "", ""),
        ("a b", "a:new:a", "b", "", ""),
        ("a b!", "", "a", "", ""),
        ("a!", "a:new:a", "", "", ""),
        ("a?", "a:new:a", "", "a-0", ""),
        ("a?", "a:new:d", "", "", ""),
        ("a", "a:new:p a:new:a a:old:a", "", "a-1 a-2", ""),
        ("a", "a:new:u a:new:a", "", "a-0", ""),
        ("a", "a:old:a", "", "", ""),
        ("a", "a:new:f", "", "", "a-0"),
        ("a", "a:new:s", "", "", "a-0"),
        ("a", "a:new:d", "", "", ""),
        ("a", "a:new:g", "a", "", ""),
        ("a", "b:new:u", "a", "b-0", ""),
        ("a", "a:new:a b:new:a", "", "", ""),
    ] {
        check(&set, on, having, create, delete, finished);
    }
}

#[test]
fn rolling_update_respects_max_unavailable() {
    for (max_unavailable, on, having, delete) in [
        (json!(1), "a b c", "a:old:a b:old:a c:old:a", "a-0"),
        (json!(2), "a b c", "a:old:a b:old:a c:old:a", "a-0 b-1"),
        (json!("50%"), "a b c", "a:old:a b:old:a c:old:a", "a-0 b-1"),
        (json!(1), "a b c", "a:new:r b:old:a c:old:a", ""),
        (json!(1), "a b c", "a:new:a b:old:a c:old:a", "b-1"),
        (json!(1), "a b c", "a:new:d b:old:a c:old:a", ""),
        (json!(1), "a b c", "a:old:r b:old:p c:old:a", "a-0 b-1"),
        (json!(3), "a b c", "a:old:r b:old:a c:old:a", "a-0 b-1 c-2"),
        (json!(0), "a b c", "a:old:a b:old:a c:old:a", "a-0"),
        (json!(1), "a b c", "a:new:a b:new:a c:new:a", ""),
    ] {
        check(&rolling(max_unavailable, json!(0)), on, having, "", delete, "");
    }
    check(&set(json!({"type": "OnDelete"})), "a", "a:old:a", "", "", "");
}

#[test]
fn rolling_update_with_surge_creates_before_deleting() {
    for (max_surge, on, having, create, delete) in [
        (json!(1), "a b", "a:old:a b:old:a", "a", ""),
        (json!("100%"), "a b", "a:old:a b:old:a", "a b", ""),
        (json!(1), "a b", "a:old:a a:new:p b:old:a", "", ""),
        (json!(1), "a b", "a:old:a a:new:r b:old:a", "", ""),
        (json!(1), "a b", "a:old:a a:new:a b:old:a", "", "a-0"),
        (json!(1), "a b", "a:old:p b:old:a", "a b", ""),
        (json!(1), "a", "a:old:p a:new:p", "", "a-0"),
        (json!(1), "a", "a:old:d", "a", ""),
        (json!(1), "a", "a:new:a a:new:a", "", "a-1"),
        // A pod leaves a node that is not eligible any more when enough others are available.
        (json!(1), "a b!", "a:new:a b:old:a", "", "b-1"),
        (json!(1), "a b!", "a:new:r b:old:a", "", ""),
        (json!(1), "a b!", "a:new:r b:old:p", "", "b-1"),
    ] {
        check(&rolling(json!(0), max_surge), on, having, create, delete, "");
    }
}

#[test]
fn failed_pod_is_replaced_with_backoff() {
    let (set, nodes, pods) = (set(json!({"type": "OnDelete"})), nodes("a"), pods("a:new:f"));
    let mut failed = FailedPods::default();
    let mut at = |millis: u64| {
        let now = Timestamp::from_millis(millis);
        let plan = plan(&Observed { set: &set, nodes: &nodes, pods: &pods, hash: "new", now }, &mut failed);
        (plan.finished.len(), plan.requeue_after.map(|requeue_after| requeue_after.as_millis()))
    };
    assert_eq!(at(0), (1, None));
    assert_eq!(at(300), (0, Some(700)));
    assert_eq!(at(1000), (1, None));
}

#[test]
fn status_counts_nodes() {
    let (set, nodes) = (rolling(json!(1), json!(0)), nodes("a b c d! e"));
    let pods = pods("a:new:a a:old:a b:old:r c:new:p d:new:a");
    let observed = Observed { set: &set, nodes: &nodes, pods: &pods, hash: "new", now: NOW };
    let counted = serde_json::to_value(status(&observed)).unwrap();
    let expected = json!({
        "observedGeneration": 7, "desiredNumberScheduled": 4, "currentNumberScheduled": 3,
        "numberMisscheduled": 1, "numberReady": 2, "updatedNumberScheduled": 2, "numberAvailable": 1,
        "numberUnavailable": 3,
    });
    assert_eq!(counted, expected);
    assert_eq!(next_available(&observed).map(|wait| wait.as_secs()), Some(5));
}

/// Simulates a set, its scheduler and its nodes with random failures until the update is complete.
fn play(seed: u64) {
    let mut rng = Rng::seeded(seed);
    let max_surge = usize::try_from(rng.below(2)).unwrap();
    let set = rolling(json!(if max_surge == 0 { 2 } else { 0 }), json!(max_surge));
    let nodes = nodes("a b c d e");
    let mut text: Vec<String> = ["a", "b", "c", "d", "e"].map(|node| format!("{node}:old:a")).to_vec();
    while text.iter().any(|pod| !pod.ends_with(":new:a")) || text.len() != nodes.len() {
        let before = available(&text);
        step(&set, &nodes, &mut text);
        // No step exceeds the limit, whatever has failed before.
        assert!(available(&text) + 2 >= before, "seed {seed}");
        assert!(max_surge == 0 || available(&text) + 1 >= before.min(5), "seed {seed}");
        for node in ["a", "b", "c", "d", "e"] {
            let on_node = text.iter().filter(|pod| pod.starts_with(node)).count();
            assert!(on_node <= 1 + max_surge, "seed {seed}: {text:?}");
        }
        for pod in &mut text {
            *pod = aged(pod, rng.below(8) == 0);
        }
    }
}

#[test]
fn returning_ineligible_node_enqueues_sets_with_pods() {
    let spec = json!({
        "selector": {"matchLabels": {"app": "d"}}, "template": {"spec": {"nodeSelector": {"role": "d"}}},
    });
    let set = json!({"metadata": {"name": "d", "uid": "u"}, "spec": spec});
    let set: DaemonSet = serde_json::from_value(set).unwrap();
    let pod = |owner: &str| -> Arc<Pod> {
        let owner = json!({"kind": "DaemonSet", "name": "d", "uid": owner, "controller": true});
        let pod = json!({"metadata": {"name": "p", "ownerReferences": [owner]}});
        Arc::new(serde_json::from_value(pod).unwrap())
    };
    let back = &nodes("n")[0];
    assert!(!super::is_affected(&set, None, Some(back), &[pod("other")]));
    assert!(super::is_affected(&set, None, Some(back), &[pod("other"), pod("u")]));
}

fn available(text: &[String]) -> usize {
    text.iter().filter(|pod| pod.ends_with(":a")).count()
}

/// Applies the plan.
fn step(set: &DaemonSet, nodes: &[Arc<Node>], text: &mut Vec<String>) {
    let observed = pods(&text.join(" "));
    let plan = planned(set, nodes, &observed);
    let position = |pod: &Arc<Pod>| observed.iter().position(|other| Arc::ptr_eq(pod, other)).unwrap();
    let finished = plan.finished.iter().map(|finished| &finished.pod);
    let mut gone: Vec<_> = plan.delete.iter().chain(finished).map(position).collect();
    gone.sort_unstable();
    for index in gone.into_iter().rev() {
        text.remove(index);
    }
    text.extend(plan.create.iter().map(|node| format!("{node}:new:u")));
}

/// The state of a pod some time later.
fn aged(pod: &str, fails: bool) -> String {
    let (name, state) = pod.rsplit_once(':').unwrap();
    let state = match state {
        "u" => "p",
        "p" if fails => "f",
        "p" => "r",
        "r" => "a",
        other => other,
    };
    format!("{name}:{state}")
}

#[test]
fn rolling_updates_complete_despite_random_failures() {
    for seed in 0..50 {
        play(seed);
    }
}
