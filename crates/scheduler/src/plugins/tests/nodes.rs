//! Plugins that look at the node only: taints, names, labels, ports, features, images.

use serde_json::json;

use crate::fixture::{node, placed, pod, refusals, scores, world};

#[test]
fn a_node_that_takes_no_more_pods_takes_only_those_who_do_not_mind() {
    let mut world = world(&[node("n", json!({"spec": {"unschedulable": true}}))], &[]);
    assert_eq!(
        refusals("NodeUnschedulable", &mut world, &pod("p", json!({}))),
        ["node(s) were unschedulable"]
    );
    let tolerant = pod(
        "p",
        json!({"spec": {"tolerations": [
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]}}),
    );
    assert_eq!(refusals("NodeUnschedulable", &mut world, &tolerant), [""]);
}

#[test]
fn taints_keep_pods_away() {
    let tainted =
        |effect: &str| json!({"spec": {"taints": [{"key": "dedicated", "value": "a", "effect": effect}]}});
    let nodes =
        [node("n1", tainted("NoSchedule")), node("n2", tainted("PreferNoSchedule")), node("n3", json!({}))];
    let mut world = world(&nodes, &[]);
    let reason = "node(s) had untolerated taint(s)";
    assert_eq!(refusals("TaintToleration", &mut world, &pod("p", json!({}))), [reason, "", ""]);
    let tolerant = pod("p", json!({"spec": {"tolerations": [{"key": "dedicated", "value": "a"}]}}));
    assert_eq!(refusals("TaintToleration", &mut world, &tolerant), ["", "", ""]);
    assert_eq!(scores("TaintToleration", &mut world, &pod("p", json!({}))), Some(vec![100, 0, 100]));
    assert_eq!(scores("TaintToleration", &mut world, &tolerant), Some(vec![100, 100, 100]));
}

#[test]
fn pods_go_where_labels_and_names_are_as_they_want() {
    let zone = |zone: &str| json!({"metadata": {"labels": {"zone": zone}}});
    let mut world = world(&[node("n1", zone("a")), node("n2", zone("b"))], &[]);
    let reason = "node(s) didn't match Pod's node affinity/selector";
    let selecting = pod("p", json!({"spec": {"nodeSelector": {"zone": "a"}}}));
    assert_eq!(refusals("NodeAffinity", &mut world, &selecting), ["", reason]);
    let required = |terms: serde_json::Value| {
        pod(
            "p",
            json!({"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}}),
        )
    };
    let by_label = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]);
    assert_eq!(refusals("NodeAffinity", &mut world, &required(by_label)), [reason, ""]);
    let named = |name: &str| json!({"key": "metadata.name", "operator": "In", "values": [name]});
    let by_name = json!([{"matchFields": [named("n2")]}]);
    assert_eq!(refusals("NodeAffinity", &mut world, &required(by_name)), [reason, ""]);
    let by_two_names = json!([{"matchFields": [named("n1"), named("n2")]}]);
    assert_eq!(
        refusals("NodeAffinity", &mut world, &required(by_two_names))[0],
        "pod affinity terms conflict"
    );
    let preferring = pod(
        "p",
        json!({"spec": {"affinity": {"nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 2, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}},
            {"weight": 3, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}},
        ]}}}}),
    );
    assert_eq!(scores("NodeAffinity", &mut world, &preferring), Some(vec![40, 100]));
    assert_eq!(scores("NodeAffinity", &mut world, &selecting), None);
}

#[test]
fn a_pod_that_names_its_node_gets_no_other() {
    let mut world = world(&[node("n1", json!({})), node("n2", json!({}))], &[]);
    let naming = placed("p", "n2", json!({}));
    let reason = "node(s) didn't match the requested node name";
    assert_eq!(refusals("NodeName", &mut world, &naming), [reason, ""]);
    assert_eq!(refusals("NodeName", &mut world, &pod("p", json!({}))), ["", ""]);
}

#[test]
fn a_port_is_taken_once() {
    let with = |port: u16, ip: &str| {
        json!({"spec": {"containers": [{"name": "c",
        "ports": [{"hostPort": port, "hostIP": ip, "protocol": "TCP"}]}]}})
    };
    let mut world = world(&[node("n", json!({}))], &[placed("other", "n", with(80, "127.0.0.1"))]);
    let reason = "node(s) didn't have free ports for the requested pod ports";
    for (port, ip, expected) in
        [(80, "", reason), (80, "127.0.0.1", reason), (80, "127.0.0.2", ""), (81, "", "")]
    {
        assert_eq!(refusals("NodePorts", &mut world, &pod("p", with(port, ip))), [expected], "{ip}:{port}");
    }
}

#[test]
fn a_node_must_have_declared_what_a_pod_needs() {
    let feature = json!({"status": {"declaredFeatures": ["RestartAllContainersOnContainerExits"]}});
    let mut world = world(&[node("n1", json!({})), node("n2", feature)], &[]);
    let needing = pod(
        "p",
        json!({"spec": {"containers": [
        {"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]}}),
    );
    let reason = "node(s) didn't match Pod's required features";
    assert_eq!(refusals("NodeDeclaredFeatures", &mut world, &needing), [reason, ""]);
}

#[test]
fn large_images_that_are_there_count_if_others_have_them_too() {
    let having = |megabytes: i64| {
        json!({"status": {"images": [
        {"names": ["web:1"], "sizeBytes": megabytes * 1024 * 1024}]}})
    };
    let nodes = [node("n1", having(250)), node("n2", having(10)), node("n3", json!({}))];
    let mut world = world(&nodes, &[]);
    // Two nodes of three have it: (250 MiB * 2/3 - 23 MiB) of (1000 - 23) MiB.
    assert_eq!(scores("ImageLocality", &mut world, &pod("p", json!({}))), Some(vec![14, 0, 0]));
    let other = pod("p", json!({"spec": {"containers": [{"name": "c", "image": "unknown"}]}}));
    assert_eq!(scores("ImageLocality", &mut world, &other), None);
}
