//! Queueing hints: which events may help a pod that a plugin rejected.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster_state::ClusterState;
use crate::fixture::{merged, node, only, placed, pod, wanting, zoned};
use crate::framework::{ClusterEvent, PodChanges};
use crate::view::{Node, Pod};

fn helps(plugin: &str, pod: &Pod, event: &ClusterEvent) -> bool {
    let profile = only(plugin);
    let enabled = &profile.plugins[0];
    let hinted = enabled.plugin.hint(&ClusterState::default(), pod, event);
    assert!(!hinted || enabled.plugin.wants(event.about()), "{plugin} does not subscribe to the event");
    hinted
}

fn added(node: &Arc<Node>) -> ClusterEvent {
    ClusterEvent::NodeAdded(Arc::clone(node))
}

fn changed(old: &Arc<Node>, new: &Arc<Node>) -> ClusterEvent {
    ClusterEvent::NodeChanged { old: Arc::clone(old), new: Arc::clone(new), changes: new.changes_since(old) }
}

fn gone(pod: Arc<Pod>) -> ClusterEvent {
    ClusterEvent::PodGone(pod)
}

fn pending(old: &Arc<Pod>, new: &Arc<Pod>) -> ClusterEvent {
    let changes = PodChanges::between(old, new);
    ClusterEvent::PendingChanged { old: Arc::clone(old), new: Arc::clone(new), changes }
}

#[test]
fn fit_hint_accepts_nodes_with_capacity_and_freed_resources() {
    let wants_two = pod("p", json!({"spec": wanting("2")}));
    let offering = |cpu: &str| node("n", json!({"status": {"allocatable": {"cpu": cpu}}}));
    for (event, expected) in [
        (added(&offering("4")), true),
        (added(&offering("1")), false),
        (changed(&offering("3"), &offering("4")), true),
        (changed(&offering("4"), &offering("3")), false),
        (changed(&offering("4"), &node("n", json!({"metadata": {"labels": {"new": "x"}}}))), false),
        (gone(placed("q", "n", json!({}))), true),
        (gone(pod("q", json!({}))), false),
        (gone(pod("q", json!({"status": {"nominatedNodeName": "n"}}))), true),
        (ClusterEvent::PodPlaced(placed("q", "n", json!({}))), false),
        (pending(&wants_two, &pod("p", json!({"spec": wanting("1")}))), true),
        (pending(&wants_two, &pod("p", json!({"spec": wanting("3")}))), false),
    ] {
        assert_eq!(helps("NodeResourcesFit", &wants_two, &event), expected, "{event:?}");
    }
    let shrunk = |cpu: &str| placed("q", "n", json!({"spec": wanting(cpu)}));
    let (old, new) = (shrunk("2"), shrunk("1"));
    let changes = PodChanges::between(&old, &new);
    let event = ClusterEvent::PodChanged { old, new, changes };
    assert!(helps("NodeResourcesFit", &wants_two, &event));
    assert!(!helps("NodeResourcesFit", &pod("p", json!({})), &event), "the pod requests no CPU");
}

#[test]
fn node_event_helps_once_the_node_fits() {
    let tainted = node("n", json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}));
    let plain = node("n", json!({}));
    let cordoned = node("n", json!({"spec": {"unschedulable": true}}));
    let any = pod("p", json!({}));
    for (plugin, event, expected) in [
        ("TaintToleration", added(&tainted), false),
        ("TaintToleration", added(&plain), true),
        ("TaintToleration", changed(&tainted, &plain), true),
        ("TaintToleration", changed(&plain, &tainted), false),
        ("NodeUnschedulable", changed(&cordoned, &plain), true),
        ("NodeUnschedulable", added(&cordoned), false),
        ("NodeUnschedulable", changed(&tainted, &plain), false),
        ("NodeName", added(&plain), true),
        ("NodePorts", added(&plain), true),
        ("NodeAffinity", added(&plain), true),
        ("SchedulingGates", added(&plain), false),
    ] {
        assert_eq!(helps(plugin, &any, &event), expected, "{plugin}: {event:?}");
    }
    let selecting = pod("p", json!({"spec": {"nodeSelector": {"zone": "a"}}}));
    assert!(helps("NodeAffinity", &selecting, &changed(&zoned("n", "b"), &zoned("n", "a"))));
    assert!(!helps("NodeAffinity", &selecting, &changed(&zoned("n", "a"), &zoned("n", "b"))));
    assert!(!helps("NodeAffinity", &selecting, &added(&zoned("n", "b"))));
}

#[test]
fn update_of_the_pod_itself_helps() {
    let plain = pod("p", json!({}));
    let tolerant = pod("p", json!({"spec": {"tolerations": [{"operator": "Exists"}]}}));
    let gated = pod("p", json!({"spec": {"schedulingGates": [{"name": "g"}]}}));
    let labelled = pod("p", json!({"metadata": {"labels": {"a": "b"}}}));
    assert!(helps("TaintToleration", &plain, &pending(&plain, &tolerant)));
    assert!(helps("NodeUnschedulable", &plain, &pending(&plain, &tolerant)));
    assert!(!helps("TaintToleration", &pod("other", json!({})), &pending(&plain, &tolerant)));
    assert!(helps("SchedulingGates", &plain, &pending(&gated, &plain)));
    assert!(helps("InterPodAffinity", &plain, &pending(&plain, &labelled)));
    assert!(!helps("InterPodAffinity", &plain, &pending(&plain, &tolerant)));
}

#[test]
fn ports_hint_accepts_deletion_of_a_conflicting_pod() {
    let on = |port: u16| json!({"spec": {"containers": [{"name": "c", "ports": [{"hostPort": port}]}]}});
    let wanting = pod("p", on(80));
    assert!(helps("NodePorts", &wanting, &gone(placed("q", "n", on(80)))));
    assert!(!helps("NodePorts", &wanting, &gone(placed("q", "n", on(81)))));
    assert!(!helps("NodePorts", &wanting, &gone(pod("q", on(80)))));
}

#[test]
fn affinity_hint_accepts_matching_pods_only() {
    let app = |name: &str| json!({"metadata": {"labels": {"app": name}}});
    let term = json!([{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}]);
    let required = |kind: &str| {
        pod(
            "p",
            json!({"spec": {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": term}}}}),
        )
    };
    let (with, without) = (required("podAffinity"), required("podAntiAffinity"));
    let came = |labels: Value| ClusterEvent::PodPlaced(placed("q", "n", labels));
    assert!(helps("InterPodAffinity", &with, &came(app("db"))));
    assert!(!helps("InterPodAffinity", &with, &came(app("web"))));
    assert!(!helps("InterPodAffinity", &without, &came(app("db"))));
    assert!(helps("InterPodAffinity", &without, &gone(placed("q", "n", app("db")))));
    assert!(!helps("InterPodAffinity", &without, &gone(placed("q", "n", app("web")))));
    assert!(helps("InterPodAffinity", &with, &added(&zoned("n", "a"))));
    assert!(!helps("InterPodAffinity", &with, &added(&node("n", json!({})))));
    assert!(helps("InterPodAffinity", &without, &added(&node("n", json!({})))));
    // A pod with anti-affinity against it was deleted.
    let shy = placed(
        "q",
        "n",
        merged(
            json!({"spec": {"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}]}}}}),
            json!({}),
        ),
    );
    assert!(helps("InterPodAffinity", &pod("p", app("web")), &gone(Arc::clone(&shy))));
    assert!(!helps("InterPodAffinity", &pod("p", app("other")), &gone(shy)));
}

#[test]
fn spread_hint_accepts_counted_pods_only() {
    let constraint = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                            "labelSelector": {"matchLabels": {"app": "web"}}});
    let spreading = pod(
        "p",
        json!({"metadata": {"labels": {"app": "web"}},
                                    "spec": {"topologySpreadConstraints": [constraint]}}),
    );
    let app = |name: &str| json!({"metadata": {"labels": {"app": name}}});
    for (event, expected) in [
        (gone(placed("q", "n", app("web"))), true),
        (gone(placed("q", "n", app("db"))), false),
        (gone(placed("q", "n", merged(app("web"), json!({"metadata": {"namespace": "other"}})))), false),
        (ClusterEvent::PodPlaced(placed("q", "n", app("web"))), true),
        (added(&zoned("n", "a")), true),
        (added(&node("n", json!({}))), false),
        (ClusterEvent::NodeGone(zoned("n", "a")), true),
        (changed(&zoned("n", "a"), &zoned("n", "b")), true),
        (changed(&node("n", json!({})), &zoned("n", "b")), true),
        (changed(&zoned("n", "a"), &zoned("n", "a")), false),
    ] {
        assert_eq!(helps("PodTopologySpread", &spreading, &event), expected, "{event:?}");
    }
}
