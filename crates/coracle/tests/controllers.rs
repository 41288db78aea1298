//! Controllers in a running server.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use coracle::kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use coracle::kube::{Client, ResourceExt};
use coracle::{Config, Coracle, Handle, StoreConfig};
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, PersistentVolume, PersistentVolumeClaim, Pod, Secret, ServiceAccount,
};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use support::wait_for;
use tempfile::TempDir;

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(30);

const ROOT_CA: &str = "kube-root-ca.crt";

/// An in-memory server with a listener, so that there are certificates to publish.
async fn start() -> (Handle, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let config = Config { store: StoreConfig::Memory, listen, ..Config::new(dir.path()) };
    (Coracle::start(config).await.unwrap(), dir)
}

async fn create_namespace(client: &Client, name: &str) {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
}

#[tokio::test]
async fn namespace_gets_a_service_account_and_keeps_it() {
    let (cluster, _dir) = start().await;
    create_namespace(&cluster.client(), "blue").await;
    for namespace in ["default", "kube-system", "blue"] {
        let accounts = Api::<ServiceAccount>::namespaced(cluster.client(), namespace);
        let first = wait_for(LIMIT, &accounts, "default", |_| true).await;
        accounts.delete("default", &DeleteParams::default()).await.unwrap();
        wait_for(LIMIT, &accounts, "default", |account| account.uid() != first.uid()).await;
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn server_without_controllers_reconciles_custom_resources_only() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::new(dir.path());
    (config.store, config.controllers, config.scheduler) = (StoreConfig::Memory, false, false);
    config.listen.clear();
    let cluster = Coracle::start(config).await.unwrap();
    create_namespace(&cluster.client(), "blue").await;
    let node = json!({"metadata": {"name": "n"}});
    let nodes = Api::<k8s_openapi::api::core::v1::Node>::all(cluster.client());
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let pod = json!({"metadata": {"name": "p"}, "spec": spec});
    let pods = Api::<Pod>::namespaced(cluster.client(), "default");
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let definitions = Api::<CustomResourceDefinition>::all(cluster.client());
    definitions.create(&PostParams::default(), &boats()).await.unwrap();
    tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();
    let accounts = Api::<ServiceAccount>::namespaced(cluster.client(), "blue");
    assert!(accounts.get_opt("default").await.unwrap().is_none());
    let status = pods.get("p").await.unwrap().status.unwrap();
    assert_eq!(status.conditions, None, "the pod was scheduled");
    let conditions = definitions.get("boats.example.org").await.unwrap().status.unwrap().conditions.unwrap();
    let is_served = conditions.iter().any(|one| one.type_ == "Established" && one.status == "True");
    assert!(is_served, "the definition is not established");
    cluster.shutdown().await;
}

fn boats() -> CustomResourceDefinition {
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let names = json!({"plural": "boats", "singular": "boat", "kind": "Boat"});
    let spec = json!({"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]});
    serde_json::from_value(json!({"metadata": {"name": "boats.example.org"}, "spec": spec})).unwrap()
}

#[tokio::test]
async fn namespace_gets_the_root_ca_and_keeps_it() {
    let (cluster, dir) = start().await;
    let ca = std::fs::read_to_string(dir.path().join("pki/ca.crt")).unwrap();
    create_namespace(&cluster.client(), "blue").await;
    let config_maps = Api::<ConfigMap>::namespaced(cluster.client(), "blue");
    let right = |map: &ConfigMap| {
        map.data.as_ref().is_some_and(|data| data.len() == 1 && data["ca.crt"] == ca)
            && map.annotations().contains_key("kubernetes.io/description")
    };
    let first = wait_for(LIMIT, &config_maps, ROOT_CA, right).await;

    config_maps.delete(ROOT_CA, &DeleteParams::default()).await.unwrap();
    let second = wait_for(LIMIT, &config_maps, ROOT_CA, |map| right(map) && map.uid() != first.uid()).await;

    let spoilt = json!({"metadata": {"labels": {"mine": "kept"}}, "data": {"ca.crt": "wrong", "more": "x"}});
    config_maps.patch(ROOT_CA, &PatchParams::default(), &Patch::Merge(spoilt)).await.unwrap();
    let repaired =
        wait_for(LIMIT, &config_maps, ROOT_CA, |map| right(map) && map.labels().contains_key("mine")).await;
    assert_eq!(repaired.uid(), second.uid());
    cluster.shutdown().await;
}

#[tokio::test]
async fn deleted_namespace_deletes_its_content() {
    let (cluster, _dir) = start().await;
    let client = cluster.client();
    create_namespace(&client, "blue").await;
    let held = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "held", "finalizers": ["example.org/hold"]},
    });
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), "blue");
    config_maps.create(&PostParams::default(), &serde_json::from_value(held).unwrap()).await.unwrap();
    tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();

    let namespaces = Api::<Namespace>::all(client.clone());
    namespaces.delete("blue", &DeleteParams::default()).await.unwrap();
    tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();
    let status = namespaces.get("blue").await.unwrap().status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Terminating"));
    let messages: Vec<_> =
        status.conditions.unwrap().into_iter().filter_map(|condition| condition.message).collect();
    assert!(
        messages.contains(&"Some resources are remaining: configmaps. has 1 resource instances".to_owned()),
        "{messages:?}"
    );
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "blue");
    assert!(accounts.get_opt("default").await.unwrap().is_none(), "the service account was recreated");

    let let_go = json!({"metadata": {"finalizers": null}});
    config_maps.patch("held", &PatchParams::default(), &Patch::Merge(let_go)).await.unwrap();
    tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();
    assert!(namespaces.get_opt("blue").await.unwrap().is_none());
    cluster.shutdown().await;
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

fn claim(spec: Value) -> Value {
    let mut claim = json!({"metadata": {"name": "data"}, "spec": spec});
    claim["spec"]["accessModes"] = json!(["ReadWriteOnce"]);
    claim["spec"]["resources"] = json!({"requests": {"storage": "1Gi"}});
    claim
}

#[tokio::test]
async fn claim_in_use_is_not_deleted() {
    let (cluster, _dir) = start().await;
    let client = cluster.client();
    idle(&cluster).await;
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), "default");
    let created = create(&claims, claim(json!({}))).await;
    assert_eq!(created.finalizers(), ["kubernetes.io/pvc-protection"]);
    let pods = Api::<Pod>::namespaced(client, "default");
    let volumes = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    let containers = json!([{"name": "c", "image": "i"}]);
    let spec = json!({"nodeName": "n1", "containers": containers, "volumes": volumes});
    create(&pods, json!({"metadata": {"name": "p"}, "spec": spec})).await;

    claims.delete("data", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    let held = claims.get("data").await.unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
    assert_eq!(held.finalizers(), ["kubernetes.io/pvc-protection"]);

    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    idle(&cluster).await;
    assert!(claims.get_opt("data").await.unwrap().is_none());
    cluster.shutdown().await;
}

#[tokio::test]
async fn bound_volume_is_not_deleted() {
    let (cluster, _dir) = start().await;
    let volumes = Api::<PersistentVolume>::all(cluster.client());
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"},
    });
    let created = create(&volumes, json!({"metadata": {"name": "v"}, "spec": spec})).await;
    assert_eq!(created.finalizers(), ["kubernetes.io/pv-protection"]);
    let claims = Api::<PersistentVolumeClaim>::namespaced(cluster.client(), "default");
    create(&claims, claim(json!({"storageClassName": "", "volumeName": "v"}))).await;
    idle(&cluster).await;
    volumes.delete("v", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    let held = volumes.get("v").await.unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
    assert_eq!(held.status.unwrap().phase.as_deref(), Some("Bound"));
    claims.delete("data", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert!(volumes.get_opt("v").await.unwrap().is_none());
    cluster.shutdown().await;
}

#[tokio::test]
async fn attributes_class_in_use_is_deleted_after_its_claims() {
    let (cluster, _dir) = start().await;
    let client = cluster.client();
    create_namespace(&client, "blue").await;
    let classes = Api::<VolumeAttributesClass>::all(client.clone());
    let gold = json!({"metadata": {"name": "gold"}, "driverName": "d.example.com", "parameters": {"a": "b"}});
    let created = create(&classes, gold).await;
    assert_eq!(created.finalizers(), ["kubernetes.io/vac-protection"]);
    let claims = Api::<PersistentVolumeClaim>::namespaced(client.clone(), "blue");
    create(&claims, claim(json!({"volumeAttributesClassName": "gold"}))).await;
    idle(&cluster).await;
    classes.delete("gold", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert!(classes.get("gold").await.unwrap().metadata.deletion_timestamp.is_some());

    let namespaces = Api::<Namespace>::all(client);
    namespaces.delete("blue", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert!(claims.get_opt("data").await.unwrap().is_none());
    assert!(classes.get_opt("gold").await.unwrap().is_none());
    // The claim may be deleted after the namespace was reconciled. A change triggers another reconcile; if
    // the namespace is gone already there is nothing to change.
    let touch = json!({"metadata": {"labels": {"touched": "yes"}}});
    drop(namespaces.patch("blue", &PatchParams::default(), &Patch::Merge(touch)).await);
    idle(&cluster).await;
    assert!(namespaces.get_opt("blue").await.unwrap().is_none());
    cluster.shutdown().await;
}

#[tokio::test]
async fn idle_server_has_completed_all_reconciles() {
    let (cluster, _dir) = start().await;
    let client = cluster.client();
    for number in 0..50 {
        create_namespace(&client, &format!("n{number}")).await;
    }
    let report = tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();
    assert_eq!(report.delayed, 0, "nothing failed");
    for number in 0..50 {
        let namespace = format!("n{number}");
        Api::<ServiceAccount>::namespaced(client.clone(), &namespace).get("default").await.unwrap();
        Api::<ConfigMap>::namespaced(client.clone(), &namespace).get(ROOT_CA).await.unwrap();
    }
    let again = tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();
    assert_eq!(again, report, "there were further reconciles");
    cluster.shutdown().await;
}

#[tokio::test]
async fn client_of_a_stopped_server_gets_an_error() {
    let (cluster, _dir) = start().await;
    let client = cluster.client();
    cluster.shutdown().await;
    let namespaces = Api::<Namespace>::all(client);
    let answer = tokio::time::timeout(LIMIT, namespaces.get("default")).await.unwrap();
    assert!(answer.is_err(), "{answer:?}");
}

/// The status of a TokenReview.
async fn review(client: &Client, token: &str) -> Value {
    let body = json!({"spec": {"token": token}}).to_string().into_bytes();
    let request = http::Request::post("/apis/authentication.k8s.io/v1/tokenreviews");
    let request = request.header("content-type", "application/json").body(body).unwrap();
    client.request::<Value>(request).await.unwrap()["status"].clone()
}

#[tokio::test]
async fn token_secret_is_filled_and_deleted_with_its_service_account() {
    let (cluster, _dir) = start().await;
    let client = cluster.client();
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
    let secrets = Api::<Secret>::namespaced(client.clone(), "default");
    let post = PostParams::default();
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "robot"}})).unwrap();
    let uid = accounts.create(&post, &account).await.unwrap().uid().unwrap();
    let annotations = json!({"kubernetes.io/service-account.name": "robot"});
    let secret = json!({
        "metadata": {"name": "robot-token", "annotations": annotations},
        "type": "kubernetes.io/service-account-token",
    });
    secrets.create(&post, &serde_json::from_value(secret).unwrap()).await.unwrap();
    cluster.run_until_idle().await.unwrap();

    let secret = secrets.get("robot-token").await.unwrap();
    assert_eq!(secret.annotations()["kubernetes.io/service-account.uid"], uid);
    let data = secret.data.unwrap();
    let text = |key: &str| String::from_utf8(data[key].0.clone()).unwrap();
    assert_eq!(text("namespace"), "default");
    assert!(text("ca.crt").starts_with("-----BEGIN CERTIFICATE-----"));
    let status = review(&client, &text("token")).await;
    assert_eq!(status["user"]["username"], "system:serviceaccount:default:robot", "{status}");

    accounts.delete("robot", &DeleteParams::default()).await.unwrap();
    cluster.run_until_idle().await.unwrap();
    assert!(secrets.get_opt("robot-token").await.unwrap().is_none());
    assert_eq!(review(&client, &text("token")).await["authenticated"], Value::Null);
    cluster.shutdown().await;
}
