//! Simulated nodes and their pods.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::time::Duration;

use coracle::config::FakeNodes;
use coracle::kube::ResourceExt;
use coracle::kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use coracle::{Config, Coracle, Handle, StoreConfig};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Node, Pod, PodStatus};
use serde_json::{Value, json};
use support::wait_for;

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(30);

async fn start(nodes: &str) -> Handle {
    let fake_nodes = Some(nodes.parse::<FakeNodes>().unwrap());
    let nowhere = Config::new("/nothing/is/written/there");
    let config = Config { store: StoreConfig::Memory, listen: Vec::new(), fake_nodes, ..nowhere };
    Coracle::start(config).await.unwrap()
}

/// A pod on the first node, with these rules.
fn pod(name: &str, rules: &Value, spec: &Value) -> Pod {
    let rules: serde_json::Map<_, _> = rules
        .as_object()
        .unwrap()
        .iter()
        .map(|(key, value)| (format!("fake.coracle.dev/{key}"), value.clone()))
        .collect();
    let mut pod = json!({
        "metadata": {"name": name, "annotations": rules},
        "spec": {"nodeName": "fake-0", "containers": [{"name": "c", "image": "nginx:1.27"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

async fn idle(cluster: &Handle) {
    tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();
}

fn is_ready(status: &PodStatus) -> bool {
    let conditions = status.conditions.iter().flatten();
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

#[tokio::test]
async fn nodes_are_ready_and_renew_their_leases() {
    let cluster = start("3,cpu=4,zones=2,taint=a=b:NoSchedule").await;
    idle(&cluster).await;
    let nodes = Api::<Node>::all(cluster.client()).list(&ListParams::default()).await.unwrap().items;
    assert_eq!(nodes.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["fake-0", "fake-1", "fake-2"]);
    let status = nodes[1].status.as_ref().unwrap();
    assert_eq!(status.allocatable.as_ref().unwrap()["cpu"].0, "4");
    assert_eq!(nodes[1].labels()["topology.kubernetes.io/zone"], "zone-1");
    assert!(nodes[1].spec.as_ref().unwrap().taints.as_ref().unwrap().iter().any(|taint| taint.key == "a"));
    let leases = Api::<Lease>::namespaced(cluster.client(), "kube-node-lease");
    let lease = leases.get("fake-2").await.unwrap();
    assert_eq!(lease.owner_references()[0].uid, nodes[2].uid().unwrap());
    assert_eq!(lease.spec.unwrap().lease_duration_seconds, Some(40));
    cluster.shutdown().await;
}

#[tokio::test]
async fn pod_runs_and_terminates_as_on_a_real_node() {
    let cluster = start("1").await;
    let pods = Api::<Pod>::namespaced(cluster.client(), "default");
    idle(&cluster).await;
    let init = json!({"initContainers": [{"name": "i", "image": "busybox"}]});
    pods.create(&PostParams::default(), &pod("p", &json!({}), &init)).await.unwrap();
    idle(&cluster).await;
    let running = pods.get("p").await.unwrap();
    let status = running.status.clone().unwrap();
    assert!(is_ready(&status));
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.host_ip.as_deref(), Some("10.192.0.1"));
    assert!(status.pod_ip.unwrap().starts_with("10.128."));
    let container = &status.container_statuses.unwrap()[0];
    assert!(container.state.as_ref().unwrap().running.is_some() && container.ready);
    let init = &status.init_container_statuses.unwrap()[0];
    assert_eq!(init.state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 0);

    pods.delete("p", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert!(pods.get_opt("p").await.unwrap().is_none());
    cluster.shutdown().await;
}

#[tokio::test]
async fn pods_follow_their_rules() {
    let cluster = start("1").await;
    let pods = Api::<Pod>::namespaced(cluster.client(), "default");
    let never = json!({"restartPolicy": "Never"});
    let cases = [
        ("done", json!({"finish-after": "0"}), &never),
        ("failed", json!({"finish-after": "0", "exit-code": "3"}), &never),
        ("evicted", json!({"phase-after": "Failed=0", "phase-reason": "Evicted"}), &json!({})),
        ("looping", json!({"finish-after": "0", "exit-code": "1"}), &json!({})),
        ("stuck", json!({"start-after": "never", "waiting-reason": "ImagePullBackOff"}), &json!({})),
        ("unready", json!({"ready": "false"}), &json!({})),
    ];
    for (name, rules, spec) in &cases {
        pods.create(&PostParams::default(), &pod(name, rules, spec)).await.unwrap();
    }
    let waiting = |pod: &Pod, reason: &str| {
        let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        statuses
            .filter_map(|status| status.state.as_ref()?.waiting.as_ref()?.reason.as_deref())
            .any(|r| r == reason)
    };
    wait_for(LIMIT, &pods, "done", |pod| phase(pod) == "Succeeded").await;
    wait_for(LIMIT, &pods, "failed", |pod| phase(pod) == "Failed").await;
    let evicted = wait_for(LIMIT, &pods, "evicted", |pod| phase(pod) == "Failed").await;
    assert_eq!(evicted.status.unwrap().reason.as_deref(), Some("Evicted"));
    wait_for(LIMIT, &pods, "looping", |pod| waiting(pod, "CrashLoopBackOff")).await;
    let stuck = wait_for(LIMIT, &pods, "stuck", |pod| waiting(pod, "ImagePullBackOff")).await;
    assert_eq!(phase(&stuck), "Pending");
    let unready = wait_for(LIMIT, &pods, "unready", |pod| phase(pod) == "Running").await;
    assert!(!is_ready(&unready.status.unwrap()));
    let better = json!({"metadata": {"annotations": {"fake.coracle.dev/ready": null}}});
    pods.patch("unready", &PatchParams::default(), &Patch::Merge(better)).await.unwrap();
    wait_for(LIMIT, &pods, "unready", |pod| pod.status.as_ref().is_some_and(is_ready)).await;
    cluster.shutdown().await;
}

/// The response to a GET of a path, as text.
async fn get_text(cluster: &Handle, path: &str) -> coracle::kube::Result<String> {
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    cluster.client().request_text(request).await
}

#[tokio::test]
async fn connection_to_a_simulated_node_is_rejected_at_once() {
    let cluster = start("1").await;
    let pods = Api::<Pod>::namespaced(cluster.client(), "default");
    let rules = json!({"logs": "one\ntwo"});
    pods.create(&PostParams::default(), &pod("a", &rules, &json!({}))).await.unwrap();
    idle(&cluster).await;
    let path = "/api/v1/namespaces/default/pods/a";
    assert_eq!(get_text(&cluster, &format!("{path}/log")).await.unwrap(), "one\ntwo\n");
    assert_eq!(get_text(&cluster, &format!("{path}/log?tailLines=1&follow=true")).await.unwrap(), "two\n");
    for part in ["exec?command=ls", "attach", "portforward", "proxy"] {
        let error = get_text(&cluster, &format!("{path}/{part}")).await.unwrap_err();
        let coracle::kube::Error::Api(status) = error else { panic!("{part}: {error}") };
        assert_eq!(status.code, 400, "{part}: {status:?}");
        let subject = "pod \"a\" runs on the simulated node \"fake-0\"";
        assert!(status.message.starts_with(subject), "{part}: {status:?}");
    }
    let error = get_text(&cluster, "/api/v1/nodes/fake-0/proxy/metrics").await.unwrap_err().to_string();
    assert!(error.contains("node \"fake-0\" is simulated"), "{error}");
    cluster.shutdown().await;
}

#[tokio::test]
async fn ephemeral_container_runs_and_has_a_log() {
    let cluster = start("1").await;
    let pods = Api::<Pod>::namespaced(cluster.client(), "default");
    pods.create(&PostParams::default(), &pod("a", &json!({}), &json!({}))).await.unwrap();
    idle(&cluster).await;
    let ephemeral = json!({"spec": {"ephemeralContainers": [{"name": "shell", "image": "busybox", "targetContainerName": "c"}]}});
    let patch = Patch::Strategic(ephemeral);
    pods.patch_ephemeral_containers("a", &PatchParams::default(), &patch).await.unwrap();
    idle(&cluster).await;
    let status = pods.get("a").await.unwrap().status.unwrap();
    let statuses = status.ephemeral_container_statuses.unwrap();
    assert_eq!(statuses.len(), 1);
    assert!(statuses[0].state.as_ref().unwrap().running.is_some(), "{statuses:?}");
    let log = get_text(&cluster, "/api/v1/namespaces/default/pods/a/log?container=shell").await.unwrap();
    assert!(log.starts_with("simulated node fake-0 runs no container"), "{log}");
    cluster.shutdown().await;
}

#[tokio::test]
async fn pod_that_is_not_restarted_completes() {
    let cluster = start("1").await;
    let pods = Api::<Pod>::namespaced(cluster.client(), "default");
    let never = json!({"restartPolicy": "Never"});
    pods.create(&PostParams::default(), &pod("a", &json!({}), &never)).await.unwrap();
    wait_for(LIMIT, &pods, "a", |pod| phase(pod) == "Succeeded").await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn node_with_stopped_heartbeat_does_nothing_until_it_resumes() {
    let cluster = start("0").await;
    let nodes = Api::<Node>::all(cluster.client());
    let mark = json!({"fake.coracle.dev/node": "true", "fake.coracle.dev/heartbeat": "stopped"});
    let node = json!({"metadata": {"name": "fake-0", "annotations": mark}});
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let pods = Api::<Pod>::namespaced(cluster.client(), "default");
    pods.create(&PostParams::default(), &pod("p", &json!({}), &json!({}))).await.unwrap();
    idle(&cluster).await;
    assert_eq!(phase(&pods.get("p").await.unwrap()), "Pending");
    let power = json!({"metadata": {"annotations": {"fake.coracle.dev/heartbeat": null}}});
    nodes.patch("fake-0", &PatchParams::default(), &Patch::Merge(power)).await.unwrap();
    wait_for(LIMIT, &pods, "p", |pod| phase(pod) == "Running").await;
    cluster.shutdown().await;
}

#[tokio::test]
async fn usage_of_nodes_and_pods_is_served_by_the_metrics_api() {
    let cluster = start("2").await;
    let pods = Api::<Pod>::namespaced(cluster.client(), "default");
    let resources = json!({"requests": {"cpu": "200m", "memory": "64Mi"}});
    let spec = json!({"containers": [{"name": "c", "image": "i", "resources": resources}]});
    let usage = json!({"usage-cpu": "75%"});
    pods.create(&PostParams::default(), &pod("p", &usage, &spec)).await.unwrap();
    pods.create(&PostParams::default(), &pod("q", &json!({}), &json!({}))).await.unwrap();
    idle(&cluster).await;
    let get = async |path: &str| {
        let request = http::Request::get(format!("/apis/metrics.k8s.io/v1beta1{path}"));
        cluster.client().request::<Value>(request.body(Vec::new()).unwrap()).await
    };
    let one = get("/namespaces/default/pods/p").await.unwrap();
    assert_eq!((&one["kind"], &one["window"]), (&json!("PodMetrics"), &json!("15s")));
    assert_eq!(one["containers"], json!([{"name": "c", "usage": {"cpu": "150m", "memory": "32Mi"}}]));
    let listed = get("/pods").await.unwrap();
    assert_eq!((&listed["kind"], listed["items"].as_array().unwrap().len()), (&json!("PodMetricsList"), 2));
    assert!(get("/pods?labelSelector=a%3Db").await.unwrap()["items"].as_array().unwrap().is_empty());
    let nodes = get("/nodes").await.unwrap();
    assert_eq!(nodes["items"][0]["usage"], json!({"cpu": "151m", "memory": "48Mi"}));
    assert_eq!(nodes["items"][1]["usage"], json!({"cpu": "0", "memory": "0"}));
    let missing = get("/namespaces/default/pods/x").await.unwrap_err().to_string();
    assert!(missing.contains("podmetrics.metrics.k8s.io \"default/x\" not found"), "{missing}");
    let resources = get("").await.unwrap();
    assert_eq!(resources["resources"][1]["verbs"], json!(["get", "list"]));
    cluster.shutdown().await;
}

#[tokio::test]
async fn autoscaler_follows_the_usage_of_pods() {
    let cluster = start("1").await;
    let client = cluster.client();
    let nodes = Api::<Node>::all(client.clone());
    let uses = async |share: &str| {
        let annotations = json!({"fake.coracle.dev/usage-memory": share});
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        nodes.patch("fake-0", &PatchParams::default(), &patch).await.unwrap();
    };
    uses("160%").await;
    let sets = Api::<ReplicaSet>::namespaced(client.clone(), "default");
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"memory": "100Mi"}}});
    let set = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"nodeName": "fake-0", "containers": [container]},
            },
        },
    });
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    wait_for(LIMIT, &sets, "web", |set| set.status.as_ref().is_some_and(|s| s.ready_replicas == Some(2)))
        .await;

    let scalers = Api::<HorizontalPodAutoscaler>::namespaced(client.clone(), "default");
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    let scaler = json!({
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"},
            "minReplicas": 1,
            "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": {"name": "memory", "target": target}}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    });
    scalers.create(&PostParams::default(), &serde_json::from_value(scaler).unwrap()).await.unwrap();
    let scaled = wait_for(LIMIT, &scalers, "web", |scaler| {
        scaler.status.as_ref().is_some_and(|status| status.desired_replicas == 4)
    })
    .await;
    let status = serde_json::to_value(scaled.status.unwrap()).unwrap();
    let current = json!({"averageUtilization": 160, "averageValue": "160Mi"});
    let expected = json!([{"type": "Resource", "resource": {"name": "memory", "current": current}}]);
    assert_eq!(status["currentMetrics"], expected);
    let reasons: Vec<_> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| condition["reason"].as_str().unwrap())
        .collect();
    assert_eq!(reasons, ["SucceededRescale", "ValidMetricFound", "DesiredWithinRange"]);
    wait_for(LIMIT, &sets, "web", |set| set.status.as_ref().is_some_and(|s| s.ready_replicas == Some(4)))
        .await;

    uses("10%").await;
    idle(&cluster).await;
    // The autoscaler would reconcile after some seconds anyway; a change triggers it now.
    let fewer = json!({"spec": {"minReplicas": 2}});
    scalers.patch("web", &PatchParams::default(), &Patch::Merge(fewer)).await.unwrap();
    wait_for(LIMIT, &sets, "web", |set| set.spec.as_ref().unwrap().replicas == Some(2)).await;
    idle(&cluster).await;
    let events =
        Api::<Event>::namespaced(client, "default").list(&ListParams::default()).await.unwrap().items;
    let messages: Vec<_> = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("SuccessfulRescale"))
        .filter_map(|event| event.message.as_deref())
        .collect();
    let above = "New size: 4; reason: memory resource utilization (percentage of request) above target";
    assert!(
        messages.contains(&above) && messages.contains(&"New size: 2; reason: All metrics below target"),
        "{messages:?}"
    );
    cluster.shutdown().await;
}

#[tokio::test]
async fn autoscaler_reports_why_it_cannot_scale() {
    let cluster = start("0").await;
    let scalers = Api::<HorizontalPodAutoscaler>::namespaced(cluster.client(), "default");
    for (name, kind, expected) in [
        ("missing", "Deployment", "deployments.apps \"x\" not found"),
        ("unknown", "Boat", "no matches for kind \"Boat\" in group \"apps\""),
    ] {
        let target = json!({"apiVersion": "apps/v1", "kind": kind, "name": "x"});
        let scaler =
            json!({"metadata": {"name": name}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}});
        scalers.create(&PostParams::default(), &serde_json::from_value(scaler).unwrap()).await.unwrap();
        let scaler = wait_for(LIMIT, &scalers, name, |scaler| {
            scaler.status.as_ref().is_some_and(|status| status.conditions.is_some())
        })
        .await;
        let condition = &scaler.status.unwrap().conditions.unwrap()[0];
        assert_eq!((&*condition.type_, condition.reason.as_deref()), ("AbleToScale", Some("FailedGetScale")));
        let message = format!("the HPA controller was unable to get the target's current scale: {expected}");
        assert_eq!(condition.message.as_deref(), Some(&*message));
    }
    cluster.shutdown().await;
}
