//! Parsing of pods.

use serde_json::{Value, json};

use super::*;

fn pod(value: Value) -> Pod {
    serde_json::from_value(value).unwrap()
}

fn requests(spec: Value) -> (i64, i64) {
    let pod = pod(json!({"metadata": {"name": "p"}, "spec": spec}));
    (pod.requests.milli_cpu, pod.requests.memory)
}

fn container(cpu: &str, memory: &str) -> Value {
    json!({"name": cpu, "resources": {"requests": {"cpu": cpu, "memory": memory}}})
}

fn sidecar(cpu: &str, memory: &str) -> Value {
    let mut container = container(cpu, memory);
    container["restartPolicy"] = "Always".into();
    container
}

#[test]
fn effective_requests_are_the_larger_of_containers_and_initialization() {
    let two = [container("2", "1"), container("1", "1")];
    assert_eq!(requests(json!({"containers": two})), (3000, 2));
    let init = [container("2", "1"), container("2", "3")];
    assert_eq!(requests(json!({"containers": two, "initContainers": init})), (3000, 3));
    let with_sidecar = [sidecar("1", "1"), container("5", "0")];
    assert_eq!(requests(json!({"containers": two, "initContainers": with_sidecar})), (6000, 3));
    let late_sidecar = [container("5", "0"), sidecar("1", "1")];
    assert_eq!(requests(json!({"containers": two, "initContainers": late_sidecar})), (5000, 3));
    let spec = json!({"containers": two, "overhead": {"cpu": "250m", "memory": "10"}});
    assert_eq!(requests(spec), (3250, 12));
    let spec = json!({"containers": two, "resources": {"requests": {"cpu": "8"}}});
    assert_eq!(requests(spec), (8000, 2));
}

#[test]
fn resized_pod_counts_with_its_largest_requests() {
    let mut value = json!({
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "3"}},
                                          "allocatedResources": {"cpu": "2"}}]},
    });
    assert_eq!(pod(value.clone()).requests.milli_cpu, 3000);
    value["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "9".into();
    assert_eq!(pod(value.clone()).requests.milli_cpu, 9000);
    value["status"]["conditions"] =
        json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
    assert_eq!(pod(value).requests.milli_cpu, 3000);
}

#[test]
fn missing_requests_are_assumed_per_container() {
    let pod = pod(json!({"spec": {"containers": [{"name": "a"}, container("1", "1")]}}));
    assert_eq!((pod.requests.milli_cpu, pod.assumed_requests.milli_cpu), (1000, 1100));
    assert_eq!(pod.assumed_requests.memory, 200 * 1024 * 1024 + 1);
}

#[test]
fn host_ports_are_those_of_containers_and_sidecars() {
    let pod = pod(json!({"spec": {
        "containers": [{"ports": [{"hostPort": 80, "containerPort": 80}, {"containerPort": 81}]}],
        "initContainers": [
            {"ports": [{"hostPort": 82}]},
            {"restartPolicy": "Always", "ports": [{"hostPort": 83, "hostIP": "127.0.0.1", "protocol": "UDP"}]},
        ],
    }}));
    let ports: Vec<_> = pod.host_ports.iter().map(|port| (&*port.protocol, &*port.ip, port.port)).collect();
    assert_eq!(ports, [("TCP", ANY_ADDRESS, 80), ("UDP", "127.0.0.1", 83)]);
}

#[test]
fn image_without_tag_gets_latest() {
    for (image, expected) in [
        ("web", "web:latest"),
        ("web:1", "web:1"),
        ("registry:5000/web", "registry:5000/web:latest"),
        ("registry:5000/web@sha256:abc", "registry:5000/web@sha256:abc"),
    ] {
        assert_eq!(&*with_tag(image), expected);
    }
}

#[test]
fn remaining_pod_fields_are_parsed() {
    let pod = pod(json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 2,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "x"},
                                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "controller": true}]},
        "spec": {"schedulerName": "default-scheduler", "priority": 5, "preemptionPolicy": "Never",
            "schedulingGates": [{"name": "wait"}], "hostNetwork": true, "hostUsers": false,
            "containers": [{"restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
        "status": {"nominatedNodeName": "n", "startTime": "2026-01-01T00:00:00Z", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]},
    }));
    assert_eq!(pod.full_name(), "ns/p");
    assert_eq!(&*pod.metadata.resource_version, "7");
    assert_eq!((pod.priority, pod.may_preempt, pod.generation), (5, false, 2));
    assert_eq!(&*pod.controller.as_ref().unwrap().name, "rs");
    assert_eq!(pod.needed_features.len(), 2);
    assert_eq!(&*pod.gates[0], "wait");
    assert!(pod.is_preempted && pod.occupies_node() && !pod.is_assigned());
    assert_eq!(&*pod.scheduled.as_ref().unwrap().reason, "Unschedulable");
    assert!(pod.start_time.is_some());
    assert!(pod.on_node("m").is_assigned());
}
