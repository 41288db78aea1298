//! Creation and deletion of clusters on a running server, with controllers, scheduler and simulated nodes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;
use std::time::Duration;

use coracle::clusters::{self, ClusterLimits, LimitsChange, RegistryError};
use coracle::config::FakeNodes;
use coracle::{Config, Coracle, Handle, IdleReport, StoreConfig, kube};
use http::{Method, Request};
use serde_json::{Value, json};

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(60);

/// Cycles of a cluster with workloads in it.
const CYCLES: usize = 20;

struct Server(Handle);

impl Server {
    async fn start(store: StoreConfig, dir: &Path) -> Self {
        let fake_nodes = Some("0".parse::<FakeNodes>().unwrap());
        let config = Config { store, listen: Vec::new(), fake_nodes, ..Config::new(dir) };
        Self(Coracle::start(config).await.unwrap())
    }

    async fn in_memory() -> Self {
        Self::start(StoreConfig::Memory, Path::new("/nothing/is/written/there")).await
    }

    async fn create_cluster(&self, id: &str) {
        self.0.create_cluster(id, LimitsChange::default()).await.unwrap();
    }

    async fn idle(&self) -> IdleReport {
        tokio::time::timeout(LIMIT, self.0.run_until_idle()).await.unwrap().unwrap()
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> kube::Result<Value> {
        let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        self.0.client().request(request.body(bytes).unwrap()).await
    }

    async fn get(&self, path: &str) -> kube::Result<Value> {
        self.send(Method::GET, path, &Value::Null).await
    }

    async fn create(&self, path: &str, object: Value) {
        self.send(Method::POST, path, &object).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    async fn metrics(&self) -> String {
        let request = Request::get("/metrics").body(Vec::new()).unwrap();
        self.0.client().request_text(request).await.unwrap()
    }

    /// The number of watches at the moment.
    async fn watches(&self) -> u64 {
        let text = self.metrics().await;
        let watches = text.lines().filter(|line| {
            line.starts_with("apiserver_longrunning_requests{") && line.contains("verb=\"WATCH\"")
        });
        watches.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Creates workloads of every controller that keeps state by cluster, and a custom kind with objects.
    async fn fill(&self, id: &str) {
        let at = |path: &str| format!("/clusters/{id}{path}");
        let node = json!({"metadata": {"name": "n", "annotations": {"fake.coracle.dev/node": "true"}}});
        self.create(&at("/api/v1/nodes"), node).await;
        self.create(&at("/api/v1/namespaces"), json!({"metadata": {"name": "work"}})).await;
        let labels = json!({"app": "web"});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
        let spec = json!({"replicas": 2, "selector": {"matchLabels": labels}, "template": template});
        let deployments = at("/apis/apps/v1/namespaces/default/deployments");
        self.create(&deployments, json!({"metadata": {"name": "web"}, "spec": spec})).await;
        let service = json!({"selector": labels, "ports": [{"port": 80}]});
        let services = at("/api/v1/namespaces/default/services");
        self.create(&services, json!({"metadata": {"name": "web"}, "spec": service})).await;
        let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "10"}}});
        self.create(&at("/api/v1/namespaces/default/resourcequotas"), quota).await;
        self.create(&at("/apis/apiextensions.k8s.io/v1/customresourcedefinitions"), boats()).await;
        // A base object that the cluster has deleted.
        let class = at("/apis/storage.k8s.io/v1/storageclasses/standard");
        self.send(Method::DELETE, &class, &Value::Null).await.unwrap();
        self.idle().await;
        let boats = at("/apis/example.com/v1/namespaces/default/boats");
        self.create(
            &boats,
            json!({"metadata": {"name": "b"}, "kind": "Boat", "apiVersion": "example.com/v1"}),
        )
        .await;
        self.idle().await;
        let web = self.get(&format!("{deployments}/web")).await.unwrap();
        assert_eq!(web["status"]["readyReplicas"], 2, "{}", web["status"]);
    }

    async fn stop(self) {
        self.0.shutdown().await;
    }
}

fn boats() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"metadata": {"name": "boats.example.com"}, "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
    }})
}

fn is_unknown(answer: &kube::Result<Value>) -> bool {
    matches!(answer, Err(kube::Error::Api(status)) if status.code == 404 && status.message.contains("cluster"))
}

#[tokio::test]
async fn deleted_cluster_leaves_no_work_and_its_id_can_be_reused() {
    let server = Server::in_memory().await;
    let before = server.idle().await;
    let watches = server.watches().await;
    for _ in 0..2 {
        server.create_cluster("t1").await;
        let stored = server.0.clusters().await.unwrap()[1].usage;
        assert_eq!((stored.bytes, stored.objects), (0, 0));
        server.fill("t1").await;
        assert!(server.watches().await > watches, "the custom resource is watched");
        server.0.delete_cluster("t1").await.unwrap();
        let after = server.idle().await;
        assert_eq!(after.delayed, before.delayed, "nothing is retried in a deleted cluster");
        assert!(is_unknown(&server.get("/clusters/t1/api/v1/pods").await));
        // The watch of the custom kind ends when its reflector is dropped.
        let ended = async {
            while server.watches().await != watches {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LIMIT, ended).await.unwrap();
    }
    server.stop().await;
}

#[tokio::test]
async fn cycles_of_clusters_with_workloads_leave_no_object() {
    let server = Server::in_memory().await;
    server.idle().await;
    for cycle in 0..CYCLES {
        let id = format!("t{}", cycle % 3);
        server.create_cluster(&id).await;
        if cycle % 5 == 0 {
            server.fill(&id).await;
        } else {
            // Controllers are still reconciling when the cluster is deleted.
            let namespaces = format!("/clusters/{id}/api/v1/namespaces");
            server.create(&namespaces, json!({"metadata": {"name": "work"}})).await;
        }
        server.0.delete_cluster(&id).await.unwrap();
    }
    let report = server.idle().await;
    assert_eq!(report.delayed, 0);
    let clusters = server.0.clusters().await.unwrap();
    assert_eq!(clusters.len(), 1);
    for path in
        ["/clusters/*/api/v1/pods", "/clusters/*/apis/apps/v1/deployments", "/clusters/*/api/v1/nodes"]
    {
        assert_eq!(server.get(path).await.unwrap()["items"], json!([]), "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn restart_keeps_clusters_with_their_limits_and_not_deleted_ones() {
    let dir = tempfile::tempdir().unwrap();
    let limits = LimitsChange { max_bytes: Some(None), max_objects: Some(Some(3)) };
    let server = Server::start(StoreConfig::Disk, dir.path()).await;
    server.0.create_cluster("kept", limits).await.unwrap();
    server.create("/clusters/kept/api/v1/namespaces", json!({"metadata": {"name": "a"}})).await;
    server.create_cluster("gone").await;
    server.create("/clusters/gone/api/v1/namespaces", json!({"metadata": {"name": "a"}})).await;
    server.idle().await;
    let before = clusters::get(&server.0.client(), "kept").await.unwrap();
    server.0.delete_cluster("gone").await.unwrap();
    server.stop().await;

    let server = Server::start(StoreConfig::Disk, dir.path()).await;
    let ids: Vec<_> = server.0.clusters().await.unwrap().into_iter().map(|cluster| cluster.id).collect();
    assert_eq!(ids, ["default", "kept"]);
    let after = clusters::get(&server.0.client(), "kept").await.unwrap();
    assert_eq!((&after.uid, after.created_at), (&before.uid, before.created_at));
    assert_eq!(after.limits, ClusterLimits { max_bytes: None, max_objects: Some(3) });
    assert_eq!(after.usage, before.usage);
    assert!(server.get("/clusters/kept/api/v1/namespaces/a").await.is_ok());
    assert!(is_unknown(&server.get("/clusters/gone/api/v1/namespaces/a").await));
    server.stop().await;
}

#[tokio::test]
async fn limits_of_the_configuration_apply_to_created_clusters() {
    let cluster_limits = ClusterLimits { max_bytes: Some(1 << 20), max_objects: Some(2) };
    let nowhere = Config::new("/nothing/is/written/there");
    let config = Config {
        store: StoreConfig::Memory,
        listen: Vec::new(),
        controllers: false,
        scheduler: false,
        cluster_limits,
        ..nowhere
    };
    let server = Server(Coracle::start(config).await.unwrap());
    let created = clusters::create(&server.0.client(), "t1", &LimitsChange::default()).await.unwrap();
    assert_eq!(created.limits, cluster_limits);
    let namespaces = "/clusters/t1/api/v1/namespaces";
    for name in ["a", "b"] {
        server.create(namespaces, json!({"metadata": {"name": name}})).await;
    }
    let refused = server.send(Method::POST, namespaces, &json!({"metadata": {"name": "c"}})).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));
    let raised = LimitsChange { max_objects: Some(Some(3)), max_bytes: None };
    clusters::set_limits(&server.0.client(), "t1", &raised).await.unwrap();
    server.create(namespaces, json!({"metadata": {"name": "c"}})).await;
    let again = server.0.create_cluster("t1", LimitsChange::default()).await;
    assert!(matches!(again, Err(RegistryError::ClusterExists { .. })));
    clusters::delete(&server.0.client(), "t1").await.unwrap();
    assert_eq!(clusters::list(&server.0.client()).await.unwrap().len(), 1);
    server.stop().await;
}
