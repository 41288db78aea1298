//! Custom resources: creation, change and deletion of definitions, and their effects on watches and
//! APIServices.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use coracle::kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
    PostParams, WatchParams,
};
use coracle::kube::core::WatchEvent;
use coracle::kube::{self, Client, ResourceExt};
use coracle::{Config, Coracle, Handle, StoreConfig};
use futures_util::{Stream, StreamExt};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(30);

const BOATS: &str = "boats.example.com";

type Events = Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<DynamicObject>>> + Send>>;

/// An in-memory server, and clients for definitions and APIServices.
struct TestServer {
    cluster: Handle,
    client: Client,
    definitions: Api<CustomResourceDefinition>,
    services: Api<APIService>,
    _dir: TempDir,
}

impl TestServer {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        let config = Config { store: StoreConfig::Memory, listen, ..Config::new(dir.path()) };
        let cluster = Coracle::start(config).await.unwrap();
        let client = cluster.client();
        let (definitions, services) = (Api::all(client.clone()), Api::all(client.clone()));
        Self { cluster, client, definitions, services, _dir: dir }
    }

    async fn settle(&self) {
        tokio::time::timeout(LIMIT, self.cluster.run_until_idle()).await.unwrap().unwrap();
    }

    async fn define(&self, plural: &str, kind: &str, versions: Value) {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.example.com")},
            "spec": {
                "group": "example.com",
                "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind},
                "versions": versions,
            },
        });
        let definition = serde_json::from_value(definition).unwrap();
        self.definitions.create(&PostParams::default(), &definition).await.unwrap();
        self.settle().await;
    }

    async fn change(&self, name: &str, patch: Value) {
        self.definitions.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    fn boats(&self, version: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("example.com", version, "Boat");
        Api::default_namespaced_with(self.client.clone(), &ApiResource::from_gvk_with_plural(&kind, "boats"))
    }

    async fn launch(&self, name: &str) {
        let boat = json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": name}});
        self.boats("v1")
            .create(&PostParams::default(), &serde_json::from_value(boat).unwrap())
            .await
            .unwrap();
    }

    async fn watch(&self, version: &str) -> Events {
        self.boats(version).watch(&WatchParams::default().disable_bookmarks(), "0").await.unwrap().boxed()
    }

    async fn service_names(&self) -> Vec<String> {
        let listed = self.services.list(&ListParams::default()).await.unwrap();
        let names = listed.items.iter().map(ResourceExt::name_any);
        names.filter(|name| name.ends_with(".example.com")).collect()
    }
}

fn version(name: &str, served: bool, storage: bool, field: &str) -> Value {
    let spec = json!({"type": "object", "properties": {field: {"type": "string"}}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({"name": name, "served": served, "storage": storage, "schema": schema})
}

/// The next event; none at the end of the watch.
async fn next(events: &mut Events) -> Option<(&'static str, String)> {
    let event = tokio::time::timeout(LIMIT, events.next()).await.expect("an event arrives")?;
    Some(match event.unwrap() {
        WatchEvent::Added(boat) => ("added", boat.name_any()),
        WatchEvent::Deleted(boat) => ("deleted", boat.name_any()),
        other => panic!("{other:?}"),
    })
}

#[tokio::test]
async fn watch_ends_when_its_definition_changes() {
    let server = TestServer::new().await;
    let versions =
        |served, field| json!([version("v1", true, true, field), version("v2", served, false, "size")]);
    server.define("boats", "Boat", versions(true, "size")).await;
    // Its name has that of the other as a prefix.
    server.define("boatsmen", "Boatsman", json!([version("v1", true, true, "size")])).await;
    let (mut first, mut second) = (server.watch("v1").await, server.watch("v2").await);

    server.change(BOATS, json!({"metadata": {"labels": {"a": "b"}}})).await;
    let condition = json!({"type": "Established", "status": "True", "reason": "Told", "message": "again"});
    let status = json!({"status": {"conditions": [condition]}});
    let params = PatchParams::default();
    server.definitions.patch_status(BOATS, &params, &Patch::Merge(status)).await.unwrap();
    server.settle().await;
    server
        .change("boatsmen.example.com", json!({"spec": {"versions": [version("v1", true, true, "age")]}}))
        .await;
    server.launch("a").await;
    for events in [&mut first, &mut second] {
        assert_eq!(
            next(events).await,
            Some(("added", "a".to_owned())),
            "the watch ended although boats did not change"
        );
    }

    server.launch("b").await;
    server.change(BOATS, json!({"spec": {"versions": versions(true, "color")}})).await;
    for events in [&mut first, &mut second] {
        assert_eq!(next(events).await, Some(("added", "b".to_owned())), "earlier events are delivered");
        assert_eq!(next(events).await, None);
    }

    let mut third = server.watch("v2").await;
    for name in ["a", "b"] {
        assert_eq!(next(&mut third).await, Some(("added", name.to_owned())));
    }
    server.change(BOATS, json!({"spec": {"versions": versions(false, "color")}})).await;
    assert_eq!(next(&mut third).await, None, "the version is no longer served");
    let refused = server.boats("v2").list(&ListParams::default()).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 404));
    server.cluster.shutdown().await;
}

#[tokio::test]
async fn watch_of_a_deleted_definition_receives_all_deletions() {
    let server = TestServer::new().await;
    server.define("boats", "Boat", json!([version("v1", true, true, "size")])).await;
    let mut watches = Vec::new();
    for _ in 0..8 {
        watches.push(server.watch("v1").await);
    }
    let names: Vec<String> = (10..30).map(|number| format!("boat-{number}")).collect();
    for name in &names {
        server.launch(name).await;
    }
    server.definitions.delete(BOATS, &DeleteParams::default()).await.unwrap();
    for events in &mut watches {
        let (mut added, mut deleted) = (Vec::new(), Vec::new());
        while let Some((what, name)) = next(events).await {
            if what == "added" { added.push(name) } else { deleted.push(name) }
        }
        assert_eq!((&added, &deleted), (&names, &names));
    }
    server.cluster.shutdown().await;
}

#[tokio::test]
async fn objects_of_unserved_versions_are_deleted_with_their_definition() {
    let server = TestServer::new().await;
    let versions = |served| json!([version("v1", served, true, "size")]);
    server.define("boats", "Boat", versions(true)).await;
    server.launch("a").await;
    server.change(BOATS, json!({"spec": {"versions": versions(false)}})).await;
    let refused = server.boats("v1").get("a").await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 404), "not served");

    server.definitions.delete(BOATS, &DeleteParams::default()).await.unwrap();
    server.settle().await;
    assert!(server.definitions.get_opt(BOATS).await.unwrap().is_none());
    server.define("boats", "Boat", versions(true)).await;
    assert_eq!(server.boats("v1").list(&ListParams::default()).await.unwrap().items.len(), 0);
    server.cluster.shutdown().await;
}

#[tokio::test]
async fn served_version_has_an_api_service() {
    let server = TestServer::new().await;
    let versions = |beta| json!([version("v1", true, true, "size"), version("v1beta1", beta, false, "size")]);
    server.define("boats", "Boat", versions(true)).await;
    server.define("ships", "Ship", json!([version("v1", true, true, "size")])).await;
    server.settle().await;
    assert_eq!(server.service_names().await, ["v1.example.com", "v1beta1.example.com"]);
    let service = server.services.get("v1.example.com").await.unwrap();
    assert_eq!(service.labels()["kube-aggregator.kubernetes.io/automanaged"], "true");
    let right = json!({
        "group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100,
    });
    assert_eq!(serde_json::to_value(&service.spec).unwrap(), right);
    let condition = service.status.unwrap().conditions.unwrap().remove(0);
    let fields = (&*condition.type_, &*condition.status, condition.reason.as_deref());
    assert_eq!(fields, ("Available", "True", Some("Local")));

    let spoilt = Patch::Merge(json!({"spec": {"versionPriority": 7}}));
    server.services.patch("v1.example.com", &PatchParams::default(), &spoilt).await.unwrap();
    server.services.delete("v1beta1.example.com", &DeleteParams::default()).await.unwrap();
    server.settle().await;
    let repaired = server.services.get("v1.example.com").await.unwrap();
    assert_eq!(serde_json::to_value(&repaired.spec).unwrap(), right);
    assert_eq!(server.service_names().await.len(), 2, "the APIService was recreated");

    server.change(BOATS, json!({"spec": {"versions": versions(false)}})).await;
    server.settle().await;
    assert_eq!(server.service_names().await, ["v1.example.com"]);
    for (name, left) in [(BOATS, 1), ("ships.example.com", 0)] {
        server.definitions.delete(name, &DeleteParams::default()).await.unwrap();
        server.settle().await;
        assert_eq!(
            server.service_names().await.len(),
            left,
            "the APIService exists while a definition serves its version"
        );
    }
    server.cluster.shutdown().await;
}

#[tokio::test]
async fn api_service_with_a_service_is_unavailable_and_says_why() {
    let server = TestServer::new().await;
    let available = async || {
        server.settle().await;
        let service = server.services.get("v1.remote.example.com").await.unwrap();
        let conditions = service.status.and_then(|status| status.conditions).unwrap_or_default();
        let condition = conditions.into_iter().find(|condition| condition.type_ == "Available").unwrap();
        (condition.status, condition.reason.unwrap_or_default())
    };
    let spec = json!({
        "group": "remote.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
        "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": "remote"},
    });
    let api_service = json!({"metadata": {"name": "v1.remote.example.com"}, "spec": spec});
    let api_service = serde_json::from_value(api_service).unwrap();
    server.services.create(&PostParams::default(), &api_service).await.unwrap();
    assert_eq!(available().await, ("False".to_owned(), "ServiceNotFound".to_owned()));
    let written = server.services.get("v1.remote.example.com").await.unwrap();
    let owners = written.metadata.managed_fields.unwrap();
    let owner = owners.iter().find(|owner| owner.subresource.as_deref() == Some("status")).unwrap();
    let by = (owner.manager.as_deref(), owner.operation.as_deref());
    assert_eq!(by, (Some("kube-apiserver"), Some("Update")), "the field manager of kube-aggregator");
    let services: Api<k8s_openapi::api::core::v1::Service> =
        Api::namespaced(server.client.clone(), "default");
    let service = json!({"metadata": {"name": "remote"}, "spec": {"ports": [{"port": 443}]}});
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    assert_eq!(available().await, ("False".to_owned(), "EndpointsNotFound".to_owned()));
    services.delete("remote", &DeleteParams::default()).await.unwrap();
    assert_eq!(available().await, ("False".to_owned(), "ServiceNotFound".to_owned()));
    let local = json!({"spec": {"service": null, "insecureSkipTLSVerify": null}});
    let params = PatchParams::default();
    server.services.patch("v1.remote.example.com", &params, &Patch::Merge(local)).await.unwrap();
    assert_eq!(available().await, ("True".to_owned(), "Local".to_owned()));
    server.cluster.shutdown().await;
}
