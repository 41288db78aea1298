//! ReplicaSets, ReplicationControllers and Deployments. The test makes pods ready in place of a node.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use coracle::kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use coracle::kube::{Client, ResourceExt};
use coracle::{Config, Coracle, Handle, StoreConfig};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Pod, ReplicationController, ServiceAccount};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use support::wait_for;
use tempfile::TempDir;

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(60);

/// An in-memory server in which pods can be created.
async fn start() -> (Handle, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let config = Config { store: StoreConfig::Memory, listen, ..Config::new(dir.path()) };
    let cluster = Coracle::start(config).await.unwrap();
    let accounts = Api::<ServiceAccount>::namespaced(cluster.client(), "default");
    wait_for(LIMIT, &accounts, "default", |_| true).await;
    (cluster, dir)
}

async fn idle(cluster: &Handle) {
    tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

async fn merge<K>(api: &Api<K>, name: &str, patch: Value) -> K
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
}

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    })
}

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), "default")
}

async fn all_pods(client: &Client) -> Vec<Pod> {
    pods(client).list(&ListParams::default()).await.unwrap().items
}

/// Acts as the kubelet: every pod runs and is ready.
async fn make_ready(client: &Client) {
    for pod in all_pods(client).await {
        let is_ready = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        if !is_ready {
            let since = "2026-01-01T00:00:00Z";
            let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": since});
            let status = json!({"status": {"phase": "Running", "conditions": [ready]}});
            let patch = Patch::Merge(status);
            pods(client).patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
        }
    }
}

/// Reasons and messages of the events about an object.
async fn events_about(client: &Client, kind: &str) -> Vec<(String, String)> {
    let events = Api::<Event>::namespaced(client.clone(), "default");
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let about = events.into_iter().filter(|event| event.involved_object.kind.as_deref() == Some(kind));
    about.map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default())).collect()
}

#[tokio::test]
async fn replica_set_keeps_its_number_of_pods() {
    let (cluster, _dir) = start().await;
    let client = cluster.client();
    let sets = Api::<ReplicaSet>::namespaced(client.clone(), "default");
    let orphan = json!({"metadata": {"name": "orphan", "labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    create(&pods(&client), orphan).await;
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"app": "x"}}, "template": template("i")});
    let set = create(&sets, json!({"metadata": {"name": "r"}, "spec": spec})).await;
    idle(&cluster).await;

    let there = all_pods(&client).await;
    assert_eq!(there.len(), 3);
    for pod in &there {
        let [owner] = pod.owner_references() else { panic!("{:?}", pod.metadata) };
        assert_eq!((owner.kind.as_str(), Some(&owner.uid)), ("ReplicaSet", set.metadata.uid.as_ref()));
        assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
        assert!(pod.name_any() == "orphan" || pod.name_any().starts_with("r-"));
    }
    let created = events_about(&client, "ReplicaSet").await;
    assert_eq!(created.iter().filter(|(reason, _)| reason == "SuccessfulCreate").count(), 2);
    make_ready(&client).await;
    idle(&cluster).await;
    let status = sets.get("r").await.unwrap().status.unwrap();
    let numbers = [Some(status.replicas), status.ready_replicas, status.available_replicas];
    assert_eq!(numbers, [Some(3); 3]);
    assert_eq!((status.fully_labeled_replicas, status.terminating_replicas), (Some(3), Some(0)));
    assert_eq!(status.observed_generation, Some(1));

    // A pod that no longer matches is released and replaced; a deleted pod is replaced.
    merge(&pods(&client), "orphan", json!({"metadata": {"labels": {"app": "y"}}})).await;
    let victim = there.iter().find(|pod| pod.name_any() != "orphan").unwrap().name_any();
    pods(&client).delete(&victim, &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    let there = all_pods(&client).await;
    assert_eq!(there.len(), 4);
    let orphan = there.iter().find(|pod| pod.name_any() == "orphan").unwrap();
    assert!(orphan.owner_references().is_empty());

    merge(&sets, "r", json!({"spec": {"replicas": 1}})).await;
    idle(&cluster).await;
    let left: Vec<_> = all_pods(&client).await.into_iter().filter(|pod| pod.name_any() != "orphan").collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].status.as_ref().unwrap().phase.as_deref(), Some("Running"), "the ready pod was kept");
    assert_eq!(sets.get("r").await.unwrap().status.unwrap().replicas, 1);
    let deleted = events_about(&client, "ReplicaSet").await;
    assert_eq!(deleted.iter().filter(|(reason, _)| reason == "SuccessfulDelete").count(), 2);
    cluster.shutdown().await;
}

#[tokio::test]
async fn replication_controller_reports_why_it_has_no_pods() {
    let (cluster, _dir) = start().await;
    let client = cluster.client();
    let controllers = Api::<ReplicationController>::namespaced(client.clone(), "default");
    let mut template = template("i");
    template["spec"]["serviceAccountName"] = "missing".into();
    let spec = json!({"replicas": 2, "selector": {"app": "x"}, "template": template});
    create(&controllers, json!({"metadata": {"name": "r"}, "spec": spec})).await;
    let failed = |controller: &ReplicationController| {
        let conditions = controller.status.as_ref().and_then(|status| status.conditions.clone());
        conditions.unwrap_or_default().iter().any(|condition| condition.type_ == "ReplicaFailure")
    };
    let controller = wait_for(LIMIT, &controllers, "r", failed).await;
    let condition = controller.status.unwrap().conditions.unwrap().remove(0);
    assert_eq!((condition.status.as_str(), condition.reason.as_deref()), ("True", Some("FailedCreate")));
    assert!(condition.message.unwrap().contains("serviceaccount \"missing\" not found"));
    assert!(all_pods(&client).await.is_empty());

    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
    create(&accounts, json!({"metadata": {"name": "missing"}})).await;
    let well = |controller: &ReplicationController| {
        !failed(controller) && controller.status.as_ref().unwrap().replicas == 2
    };
    let controller = wait_for(LIMIT, &controllers, "r", well).await;
    assert_eq!(controller.status.unwrap().observed_generation, Some(1));
    assert_eq!(all_pods(&client).await.len(), 2);
    let events = events_about(&client, "ReplicationController").await;
    assert!(
        events.iter().any(|(reason, message)| {
            reason == "FailedCreate" && message.starts_with("Error creating: pods \"r-")
        }),
        "{events:?}"
    );
    cluster.shutdown().await;
}

/// The annotation in which a deployment counts its rollouts.
const REVISION: &str = "deployment.kubernetes.io/revision";

fn deployment(spec: Value) -> Value {
    let mut whole =
        json!({"replicas": 4, "selector": {"matchLabels": {"app": "x"}}, "template": template("a")});
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    json!({"metadata": {"name": "d", "annotations": {"why": "because"}}, "spec": whole})
}

fn use_image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn reason_of(deployment: &Deployment, r#type: &str) -> String {
    let conditions = deployment.status.as_ref().and_then(|status| status.conditions.as_ref()).unwrap();
    let condition = conditions.iter().find(|condition| condition.type_ == r#type);
    condition.and_then(|condition| condition.reason.clone()).unwrap_or_default()
}

fn image_of(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap()
}

/// Runs kubelet and controllers in turn until the rollout is complete. Returns the number of pods after
/// each step.
async fn roll_out(cluster: &Handle, name: &str) -> Vec<usize> {
    let client = cluster.client();
    let deployments = Api::<Deployment>::namespaced(client.clone(), "default");
    let mut counts = Vec::new();
    for _ in 0..30 {
        idle(cluster).await;
        counts.push(all_pods(&client).await.len());
        let deployment = deployments.get(name).await.unwrap();
        let (wanted, status) =
            (deployment.spec.as_ref().unwrap().replicas, deployment.status.as_ref().unwrap());
        let is_over = [status.replicas, status.updated_replicas, status.available_replicas] == [wanted; 3];
        if is_over && status.observed_generation == deployment.metadata.generation {
            assert_eq!(reason_of(&deployment, "Progressing"), "NewReplicaSetAvailable");
            assert_eq!(reason_of(&deployment, "Available"), "MinimumReplicasAvailable");
            return counts;
        }
        make_ready(&client).await;
    }
    panic!("the rollout does not end: {counts:?}");
}

#[tokio::test]
async fn deployment_is_rolled_out_and_back() {
    let (cluster, _dir) = start().await;
    let client = cluster.client();
    let deployments = Api::<Deployment>::namespaced(client.clone(), "default");
    let sets = Api::<ReplicaSet>::namespaced(client.clone(), "default");
    create(&deployments, deployment(json!({"revisionHistoryLimit": 1}))).await;
    roll_out(&cluster, "d").await;
    let first = sets.list(&ListParams::default()).await.unwrap().items.remove(0);
    let hash = first.labels()["pod-template-hash"].clone();
    assert_eq!(first.name_any(), format!("d-{hash}"));
    assert_eq!(
        first.spec.as_ref().unwrap().selector.match_labels.as_ref().unwrap()["pod-template-hash"],
        hash
    );
    assert_eq!(
        (first.annotations()["why"].as_str(), first.annotations()[REVISION].as_str()),
        ("because", "1")
    );
    assert_eq!(first.annotations()["deployment.kubernetes.io/max-replicas"], "5");
    assert!(all_pods(&client).await.iter().all(|pod| pod.labels()["pod-template-hash"] == hash));

    merge(&deployments, "d", use_image("b")).await;
    let counts = roll_out(&cluster, "d").await;
    assert!(counts.iter().all(|count| (3..=5).contains(count)), "{counts:?}");
    assert!(all_pods(&client).await.iter().all(|pod| image_of(pod) == "b"));
    assert_eq!(deployments.get("d").await.unwrap().annotations()[REVISION], "2");
    let old = sets.get(&first.name_any()).await.unwrap();
    assert_eq!((old.spec.unwrap().replicas, old.status.unwrap().replicas), (Some(0), 0));

    // Equivalent of `kubectl rollout undo`.
    merge(&deployments, "d", use_image("a")).await;
    roll_out(&cluster, "d").await;
    let back = sets.get(&first.name_any()).await.unwrap();
    assert_eq!(back.annotations()[REVISION], "3");
    assert_eq!(back.annotations()["deployment.kubernetes.io/revision-history"], "1");
    assert_eq!(deployments.get("d").await.unwrap().annotations()[REVISION], "3");

    merge(&deployments, "d", use_image("c")).await;
    roll_out(&cluster, "d").await;
    idle(&cluster).await;
    let kept = sets.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(kept.len(), 2, "the revision history limit is one");
    let events = events_about(&client, "Deployment").await;
    let scaled = format!("Scaled up replica set {} from 0 to 4", first.name_any());
    assert!(events.contains(&("ScalingReplicaSet".to_owned(), scaled)), "{events:?}");
    cluster.shutdown().await;
}

#[tokio::test]
async fn paused_deployment_only_scales_and_recreate_stops_old_pods_first() {
    let (cluster, _dir) = start().await;
    let client = cluster.client();
    let deployments = Api::<Deployment>::namespaced(client.clone(), "default");
    let strategy = json!({"strategy": {"type": "Recreate"}});
    create(&deployments, deployment(strategy)).await;
    roll_out(&cluster, "d").await;

    merge(&deployments, "d", json!({"spec": {"paused": true, "replicas": 6}})).await;
    merge(&deployments, "d", use_image("b")).await;
    idle(&cluster).await;
    let paused = deployments.get("d").await.unwrap();
    assert_eq!(reason_of(&paused, "Progressing"), "DeploymentPaused");
    let there = all_pods(&client).await;
    assert!(
        there.len() == 6 && there.iter().all(|pod| image_of(pod) == "a"),
        "the paused deployment was only scaled"
    );

    // A pod on a node terminates slowly: it is gone when its kubelet deletes it.
    let held = there[0].name_any();
    let binding = json!({"metadata": {"name": held}, "target": {"kind": "Node", "name": "n"}});
    let binding = serde_json::to_vec(&binding).unwrap();
    let request = http::Request::post(format!("/api/v1/namespaces/default/pods/{held}/binding"));
    let request = request.header("content-type", "application/json").body(binding).unwrap();
    client.request::<Value>(request).await.unwrap();
    merge(&deployments, "d", json!({"spec": {"paused": false}})).await;
    idle(&cluster).await;
    let there = all_pods(&client).await;
    assert!(there.len() == 1 && there[0].name_any() == held, "{there:?}");
    pods(&client).delete(&held, &DeleteParams::default().grace_period(0)).await.unwrap();
    let counts = roll_out(&cluster, "d").await;
    assert!(counts.iter().all(|count| *count == 6), "{counts:?}");
    assert!(all_pods(&client).await.iter().all(|pod| image_of(pod) == "b"));
    cluster.shutdown().await;
}

#[tokio::test]
async fn hash_collision_with_another_replica_set_is_resolved() {
    let (cluster, _dir) = start().await;
    let client = cluster.client();
    let deployments = Api::<Deployment>::namespaced(client.clone(), "default");
    let sets = Api::<ReplicaSet>::namespaced(client.clone(), "default");
    create(&deployments, deployment(json!({"replicas": 0}))).await;
    idle(&cluster).await;
    let first = sets.list(&ListParams::default()).await.unwrap().items.remove(0).name_any();
    deployments.delete("d", &DeleteParams::default()).await.unwrap();
    let labels = json!({"app": "y"});
    let other = json!({"metadata": {"name": first, "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    wait_until_gone(&sets, &first).await;
    create(&sets, other).await;

    create(&deployments, deployment(json!({"replicas": 1}))).await;
    let counted = |deployment: &Deployment| {
        deployment.status.as_ref().is_some_and(|status| status.updated_replicas == Some(1))
    };
    let deployment = wait_for(LIMIT, &deployments, "d", counted).await;
    assert_eq!(deployment.status.unwrap().collision_count, Some(1));
    assert_eq!(sets.list(&ListParams::default()).await.unwrap().items.len(), 2);
    cluster.shutdown().await;
}

async fn wait_until_gone<K>(api: &Api<K>, name: &str)
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let gone = async {
        while api.get_opt(name).await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, gone).await.unwrap();
}

#[tokio::test]
async fn deployment_with_a_thousand_replicas_gets_all_pods() {
    let (cluster, _dir) = start().await;
    let client = cluster.client();
    let deployments = Api::<Deployment>::namespaced(client.clone(), "default");
    create(&deployments, deployment(json!({"replicas": 1000}))).await;
    let made = |deployment: &Deployment| {
        deployment.status.as_ref().is_some_and(|status| status.replicas == Some(1000))
    };
    wait_for(LIMIT, &deployments, "d", made).await;
    assert_eq!(all_pods(&client).await.len(), 1000);
    merge(&deployments, "d", json!({"spec": {"replicas": 0}})).await;
    idle(&cluster).await;
    assert!(all_pods(&client).await.is_empty());
    cluster.shutdown().await;
}
