//! Plugins that look at the node only: taints, names, labels, ports, features, images.

use serde_json::json;

use crate::fixture::{cluster_state, node, placed, pod, refusals, scores};

#[test]
fn cordoned_node_accepts_tolerating_pods_only() {
    let mut state = cluster_state(&[node("n", json!({"spec": {"unschedulable": true}}))], &[]);
    assert_eq!(
        refusals("NodeUnschedulable", &mut state, &pod("p", json!({}))),
        ["node(s) were unschedulable"]
    );
    let tolerant = pod(
        "p",
        json!({"spec": {"tolerations": [
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]}}),
    );
    assert_eq!(refusals("NodeUnschedulable", &mut state, &tolerant), [""]);
}

#[test]
fn tainted_node_rejects_pods_without_toleration() {
    let tainted =
        |effect: &str| json!({"spec": {"taints": [{"key": "dedicated", "value": "a", "effect": effect}]}});
    let nodes =
        [node("n1", tainted("NoSchedule")), node("n2", tainted("PreferNoSchedule")), node("n3", json!({}))];
    let mut state = cluster_state(&nodes, &[]);
    let reason = "node(s) had untolerated taint(s)";
    assert_eq!(refusals("TaintToleration", &mut state, &pod("p", json!({}))), [reason, "", ""]);
    let tolerant = pod("p", json!({"spec": {"tolerations": [{"key": "dedicated", "value": "a"}]}}));
    assert_eq!(refusals("TaintToleration", &mut state, &tolerant), ["", "", ""]);
    assert_eq!(scores("TaintToleration", &mut state, &pod("p", json!({}))), Some(vec![100, 0, 100]));
    assert_eq!(scores("TaintToleration", &mut state, &tolerant), Some(vec![100, 100, 100]));
}

#[test]
fn node_affinity_selects_by_labels_and_names() {
    let zone = |zone: &str| json!({"metadata": {"labels": {"zone": zone}}});
    let mut state = cluster_state(&[node("n1", zone("a")), node("n2", zone("b"))], &[]);
    let reason = "node(s) didn't match Pod's node affinity/selector";
    let selecting = pod("p", json!({"spec": {"nodeSelector": {"zone": "a"}}}));
    assert_eq!(refusals("NodeAffinity", &mut state, &selecting), ["", reason]);
    let required = |terms: serde_json::Value| {
        pod(
            "p",
            json!({"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}}),
        )
    };
    let by_label = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]);
    assert_eq!(refusals("NodeAffinity", &mut state, &required(by_label)), [reason, ""]);
    let named = |name: &str| json!({"key": "metadata.name", "operator": "In", "values": [name]});
    let by_name = json!([{"matchFields": [named("n2")]}]);
    assert_eq!(refusals("NodeAffinity", &mut state, &required(by_name)), [reason, ""]);
    let by_two_names = json!([{"matchFields": [named("n1"), named("n2")]}]);
    assert_eq!(
        refusals("NodeAffinity", &mut state, &required(by_two_names))[0],
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
    assert_eq!(scores("NodeAffinity", &mut state, &preferring), Some(vec![40, 100]));
    assert_eq!(scores("NodeAffinity", &mut state, &selecting), None);
}

#[test]
fn pod_with_node_name_fits_that_node_only() {
    let mut state = cluster_state(&[node("n1", json!({})), node("n2", json!({}))], &[]);
    let naming = placed("p", "n2", json!({}));
    let reason = "node(s) didn't match the requested node name";
    assert_eq!(refusals("NodeName", &mut state, &naming), [reason, ""]);
    assert_eq!(refusals("NodeName", &mut state, &pod("p", json!({}))), ["", ""]);
}

#[test]
fn host_port_in_use_rejects_the_pod() {
    let with = |port: u16, ip: &str| {
        json!({"spec": {"containers": [{"name": "c",
        "ports": [{"hostPort": port, "hostIP": ip, "protocol": "TCP"}]}]}})
    };
    let mut state = cluster_state(&[node("n", json!({}))], &[placed("other", "n", with(80, "127.0.0.1"))]);
    let reason = "node(s) didn't have free ports for the requested pod ports";
    for (port, ip, expected) in
        [(80, "", reason), (80, "127.0.0.1", reason), (80, "127.0.0.2", ""), (81, "", "")]
    {
        assert_eq!(refusals("NodePorts", &mut state, &pod("p", with(port, ip))), [expected], "{ip}:{port}");
    }
}

#[test]
fn node_without_declared_feature_rejects_the_pod() {
    let feature = json!({"status": {"declaredFeatures": ["RestartAllContainersOnContainerExits"]}});
    let mut state = cluster_state(&[node("n1", json!({})), node("n2", feature)], &[]);
    let needing = pod(
        "p",
        json!({"spec": {"containers": [
        {"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]}}),
    );
    let reason = "node(s) didn't match Pod's required features";
    assert_eq!(refusals("NodeDeclaredFeatures", &mut state, &needing), [reason, ""]);
}

#[test]
fn present_images_score_by_size_and_spread() {
    let having = |megabytes: i64| {
        json!({"status": {"images": [
        {"names": ["web:1"], "sizeBytes": megabytes * 1024 * 1024}]}})
    };
    let nodes = [node("n1", having(250)), node("n2", having(10)), node("n3", json!({}))];
    let mut state = cluster_state(&nodes, &[]);
    // Two nodes of three have it: (250 MiB * 2/3 - 23 MiB) of (1000 - 23) MiB.
    assert_eq!(scores("ImageLocality", &mut state, &pod("p", json!({}))), Some(vec![14, 0, 0]));
    let other = pod("p", json!({"spec": {"containers": [{"name": "c", "image": "unknown"}]}}));
    assert_eq!(scores("ImageLocality", &mut state, &other), None);
}
