//! The kube crate as a client: the same steps in-process and over the network.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::net::SocketAddr;
use std::time::Duration;

use coracle::kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams,
    WatchParams,
};
use coracle::kube::config::{KubeConfigOptions, Kubeconfig};
use coracle::kube::core::{GroupVersionKind, WatchEvent};
use coracle::kube::discovery::{Discovery, Scope, verbs};
use coracle::kube::{self, Client, ResourceExt};
use coracle::{Config, Coracle, Handle, StoreConfig};
use futures_util::{StreamExt, TryStreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(60);

async fn start() -> (Handle, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let config = Config { store: StoreConfig::Memory, listen, ..Config::new(dir.path()) };
    (Coracle::start(config).await.unwrap(), dir)
}

/// A client with the certificates of the administrator's kubeconfig.
async fn over_the_network(cluster: &Handle) -> Client {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig().unwrap()).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

#[tokio::test]
async fn kube_client_works_in_process() {
    let (cluster, _dir) = start().await;
    let client = cluster.client();
    tokio::time::timeout(LIMIT, everything(client)).await.unwrap();
    cluster.shutdown().await;
}

#[tokio::test]
async fn kube_client_works_over_the_network() {
    let (cluster, _dir) = start().await;
    let client = over_the_network(&cluster).await;
    tokio::time::timeout(LIMIT, everything(client)).await.unwrap();
    cluster.shutdown().await;
}

async fn everything(client: Client) {
    objects_are_created_read_replaced_and_deleted(&client).await;
    changes_are_watched(&client).await;
    patches_of_every_type_are_applied(&client).await;
    fields_have_owners(&client).await;
    kinds_are_discovered(&client).await;
    errors_have_their_codes_and_reasons(&client).await;
}

fn config_map(name: &str, data: Value) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap()
}

fn value<'a>(map: &'a ConfigMap, key: &str) -> Option<&'a str> {
    map.data.as_ref()?.get(key).map(String::as_str)
}

async fn objects_are_created_read_replaced_and_deleted(client: &Client) {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let made = maps.create(&PostParams::default(), &config_map("crud", json!({"a": "1"}))).await.unwrap();
    assert!(made.uid().is_some() && made.creation_timestamp().is_some());
    let mut read = maps.get("crud").await.unwrap();
    assert_eq!(read, made);
    read.data.as_mut().unwrap().insert("b".to_owned(), "2".to_owned());
    let replaced = maps.replace("crud", &PostParams::default(), &read).await.unwrap();
    assert_eq!(value(&replaced, "b"), Some("2"));
    assert_ne!(replaced.resource_version(), made.resource_version());

    let params = ListParams::default().fields("metadata.name=crud");
    assert_eq!(maps.list(&params).await.unwrap().items, [replaced]);
    let metadata = maps.list_metadata(&params).await.unwrap();
    assert_eq!(metadata.items[0].name_any(), "crud");
    let dry_run = DeleteParams { dry_run: true, ..DeleteParams::default() };
    maps.delete("crud", &dry_run).await.unwrap();
    assert!(maps.get_opt("crud").await.unwrap().is_some());
    maps.delete("crud", &DeleteParams::default()).await.unwrap();
    assert!(maps.get_opt("crud").await.unwrap().is_none());
}

async fn changes_are_watched(client: &Client) {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let params = WatchParams::default().fields("metadata.name=watched");
    let from = maps.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = maps.watch(&params, &from).await.unwrap().boxed();
    maps.create(&PostParams::default(), &config_map("unwatched", json!({}))).await.unwrap();
    let mut made =
        maps.create(&PostParams::default(), &config_map("watched", json!({"a": "1"}))).await.unwrap();
    made.data = Some([("a".to_owned(), "2".to_owned())].into());
    maps.replace("watched", &PostParams::default(), &made).await.unwrap();
    maps.delete("watched", &DeleteParams::default()).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(match events.try_next().await.unwrap().expect("the watch ended") {
            WatchEvent::Added(map) => ("added", value(&map, "a").map(str::to_owned)),
            WatchEvent::Modified(map) => ("modified", value(&map, "a").map(str::to_owned)),
            WatchEvent::Deleted(map) => ("deleted", value(&map, "a").map(str::to_owned)),
            other => panic!("{other:?}"),
        });
    }
    let expected = [("added", "1"), ("modified", "2"), ("deleted", "2")];
    assert_eq!(seen, expected.map(|(event, value)| (event, Some(value.to_owned()))));
    maps.delete("unwatched", &DeleteParams::default()).await.unwrap();
}

fn deployment() -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "one"}, {"name": "side", "image": "two"}]},
            },
        },
    }))
    .unwrap()
}

async fn patches_of_every_type_are_applied(client: &Client) {
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    deployments.create(&PostParams::default(), &deployment()).await.unwrap();
    let params = PatchParams::default();

    let merge = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let patched = deployments.patch("web", &params, &merge).await.unwrap();
    assert_eq!(patched.spec.as_ref().unwrap().replicas, Some(3));

    let containers = json!([{"name": "side", "image": "three"}]);
    let strategic = Patch::Strategic(json!({"spec": {"template": {"spec": {"containers": containers}}}}));
    let patched = deployments.patch("web", &params, &strategic).await.unwrap();
    let containers = &patched.spec.unwrap().template.spec.unwrap().containers;
    let images: Vec<_> = containers.iter().filter_map(|container| container.image.as_deref()).collect();
    assert_eq!(images, ["one", "three"], "merged by name");

    let operations = json!([
        {"op": "test", "path": "/spec/replicas", "value": 3},
        {"op": "replace", "path": "/spec/replicas", "value": 5},
    ]);
    let patched = json_patch(client, &operations).await.unwrap();
    assert_eq!(patched["spec"]["replicas"], 5);
    let refused = json_patch(client, &operations).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 422));

    deployments.delete("web", &DeleteParams::default()).await.unwrap();
}

/// Without kube's own type for JSON patches, which needs one more crate.
async fn json_patch(client: &Client, operations: &Value) -> kube::Result<Value> {
    let request = http::Request::patch("/apis/apps/v1/namespaces/default/deployments/web")
        .header(http::header::CONTENT_TYPE, "application/json-patch+json")
        .body(operations.to_string().into_bytes());
    client.request(request.unwrap()).await
}

async fn fields_have_owners(client: &Client) {
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let apply = |data: Value| {
        Patch::Apply(json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": data
        }))
    };
    let mine = PatchParams::apply("mine");
    maps.patch("applied", &mine, &apply(json!({"a": "1", "b": "2"}))).await.unwrap();
    let map = maps.patch("applied", &mine, &apply(json!({"a": "1"}))).await.unwrap();
    assert_eq!(value(&map, "b"), None, "a field that is no longer applied is removed");
    let yours = PatchParams::apply("yours");
    let refused = maps.patch("applied", &yours, &apply(json!({"a": "9"}))).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 409));
    let map = maps.patch("applied", &yours.force(), &apply(json!({"a": "9"}))).await.unwrap();
    assert_eq!(value(&map, "a"), Some("9"));
    let managers: Vec<_> = map.managed_fields().iter().filter_map(|owner| owner.manager.as_deref()).collect();
    assert!(managers.contains(&"yours"), "{managers:?}");
    maps.delete("applied", &DeleteParams::default()).await.unwrap();
}

async fn kinds_are_discovered(client: &Client) {
    assert_eq!(client.apiserver_version().await.unwrap().minor, "36");
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    let kind = GroupVersionKind::gvk("apps", "v1", "Deployment");
    let (resource, capabilities) = discovery.resolve_gvk(&kind).unwrap();
    assert_eq!((resource.plural.as_str(), &capabilities.scope), ("deployments", &Scope::Namespaced));
    assert!(capabilities.supports_operation(verbs::WATCH));
    let groups: Vec<_> = discovery.groups().map(|group| group.name().to_owned()).collect();
    assert!(["", "batch", "rbac.authorization.k8s.io"].iter().all(|name| groups.iter().any(|g| g == name)));

    let kind = GroupVersionKind::gvk("", "v1", "Namespace");
    let namespaces = Api::<DynamicObject>::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    assert_eq!(namespaces.get("default").await.unwrap().data["status"]["phase"], "Active");
}

async fn errors_have_their_codes_and_reasons(client: &Client) {
    let namespaces = Api::<Namespace>::all(client.clone());
    let code = |error: kube::Error| match error {
        kube::Error::Api(status) => (status.code, status.reason),
        other => panic!("{other}"),
    };
    let missing = namespaces.get("missing").await.unwrap_err();
    assert_eq!(code(missing), (404, "NotFound".to_owned()));
    let named = |name: &str| {
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        Namespace { metadata, ..Namespace::default() }
    };
    let twice = namespaces.create(&PostParams::default(), &named("default")).await.unwrap_err();
    assert_eq!(code(twice), (409, "AlreadyExists".to_owned()));
    let invalid = namespaces.create(&PostParams::default(), &named("No Name")).await.unwrap_err();
    assert_eq!(code(invalid), (422, "Invalid".to_owned()));
}
