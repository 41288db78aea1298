//! Controllers, scheduler and simulated nodes serve every cluster of a server, not only the default one.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::path::Path;
use std::time::Duration;

use coracle::clusters::LimitsChange;
use coracle::config::FakeNodes;
use coracle::kube::Client;
use coracle::{Config, Coracle, Handle, StoreConfig};
use http::{Method, Request};
use serde_json::{Value, json};

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(60);

/// The annotation of simulated nodes.
const FAKE: &str = "fake.coracle.dev/node";

/// A server, and a client with access to all of its clusters.
struct Server {
    handle: Handle,
    client: Client,
}

impl Server {
    async fn start() -> Self {
        let server = Self::start_on(StoreConfig::Memory, Path::new("/nothing/is/written/there")).await;
        for id in ["blue", "green"] {
            server.create_cluster(id).await;
        }
        server
    }

    async fn start_on(store: StoreConfig, dir: &Path) -> Self {
        let fake_nodes = Some("0".parse::<FakeNodes>().unwrap());
        let config = Config { store, listen: Vec::new(), fake_nodes, ..Config::new(dir) };
        let handle = Coracle::start(config).await.unwrap();
        let client = handle.client();
        Self { handle, client }
    }

    async fn create_cluster(&self, id: &str) {
        self.handle.create_cluster(id, LimitsChange::default()).await.unwrap();
    }

    async fn idle(&self) {
        tokio::time::timeout(LIMIT, self.handle.run_until_idle()).await.unwrap().unwrap();
    }

    /// The response body; null for 404.
    async fn send(&self, method: Method, path: &str, body: &Value) -> Value {
        let bytes = if body.is_null() { Vec::new() } else { serde_json::to_vec(body).unwrap() };
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        match self.client.request(request.body(bytes).unwrap()).await {
            Err(coracle::kube::Error::Api(status)) if status.code == 404 => Value::Null,
            answer => answer.unwrap_or_else(|error| panic!("{path}: {error}")),
        }
    }

    async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, &Value::Null).await
    }

    async fn create(&self, path: &str, object: Value) -> Value {
        self.send(Method::POST, path, &object).await
    }

    async fn delete(&self, path: &str) {
        self.send(Method::DELETE, path, &Value::Null).await;
    }

    /// The names of all objects at a path.
    async fn names(&self, path: &str) -> Vec<String> {
        let list = self.get(path).await;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The number of watches at the moment.
    async fn watches(&self) -> u64 {
        let request = Request::get("/metrics").body(Vec::new()).unwrap();
        let text = self.client.request_text(request).await.unwrap();
        let of_watches = text.lines().filter(|line| {
            line.starts_with("apiserver_longrunning_requests{") && line.contains("verb=\"WATCH\"")
        });
        of_watches.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    async fn stop(self) {
        self.handle.shutdown().await;
    }
}

fn fake_node(name: &str) -> Value {
    let labels = json!({"kubernetes.io/hostname": name});
    json!({"metadata": {"name": name, "labels": labels, "annotations": {FAKE: "true"}}})
}

fn deployment(name: &str, replicas: u32) -> Value {
    let labels = json!({"app": name});
    json!({"metadata": {"name": name}, "spec": {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
    }})
}

/// A definition of boats, whose scope may differ between clusters.
fn boats(scope: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"metadata": {"name": "boats.example.com"}, "spec": {
        "group": "example.com",
        "scope": scope,
        "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
    }})
}

fn owned_by(name: &str, api_version: &str, kind: &str, owner: &Value) -> Value {
    let metadata = &owner["metadata"];
    let reference = json!({
        "apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"],
    });
    json!({"metadata": {"name": name, "ownerReferences": [reference]}})
}

#[tokio::test]
async fn namespaces_of_every_cluster_are_populated_and_deleted_with_their_content() {
    let server = Server::start().await;
    for tenant in ["blue", "green"] {
        let namespaces = format!("/clusters/{tenant}/api/v1/namespaces");
        server.create(&namespaces, json!({"metadata": {"name": "work"}})).await;
        let map = json!({"metadata": {"name": "m"}, "data": {"of": tenant}});
        server.create(&format!("{namespaces}/work/configmaps"), map).await;
    }
    server.idle().await;
    for tenant in ["blue", "green"] {
        for namespace in ["default", "kube-system", "work"] {
            let path = format!("/clusters/{tenant}/api/v1/namespaces/{namespace}/serviceaccounts/default");
            assert_eq!(server.get(&path).await["metadata"]["name"], "default", "{path}");
        }
    }
    assert!(
        server.get("/api/v1/namespaces/work").await.is_null(),
        "the namespace leaked into the default cluster"
    );

    server.delete("/clusters/blue/api/v1/namespaces/work").await;
    server.idle().await;
    assert!(server.get("/clusters/blue/api/v1/namespaces/work").await.is_null());
    assert!(server.get("/clusters/blue/api/v1/namespaces/work/configmaps/m").await.is_null());
    let other = server.get("/clusters/green/api/v1/namespaces/work/configmaps/m").await;
    assert_eq!(other["data"]["of"], "green", "the other tenant keeps its own");

    let account = "/clusters/green/api/v1/namespaces/default/serviceaccounts/default";
    let before = server.get(account).await["metadata"]["uid"].clone();
    server.delete(account).await;
    server.idle().await;
    let after = server.get(account).await["metadata"]["uid"].clone();
    assert!(after.is_string() && after != before, "the initial service account is recreated");
    server.stop().await;
}

#[tokio::test]
async fn pods_of_a_tenant_run_on_its_own_nodes() {
    let server = Server::start().await;
    for tenant in ["blue", "green"] {
        let deployments = format!("/clusters/{tenant}/apis/apps/v1/namespaces/default/deployments");
        server.create(&deployments, deployment("web", 3)).await;
    }
    server.create("/clusters/blue/api/v1/nodes", fake_node("n")).await;
    // Nodes of the default cluster are not used, although they have room.
    server.create("/api/v1/nodes", fake_node("other")).await;
    server.idle().await;

    let blue = server.get("/clusters/blue/apis/apps/v1/namespaces/default/deployments/web").await;
    assert_eq!(blue["status"]["readyReplicas"], 3, "{}", blue["status"]);
    let pods = server.get("/clusters/blue/api/v1/namespaces/default/pods").await;
    let nodes: Vec<_> =
        pods["items"].as_array().unwrap().iter().map(|pod| &pod["spec"]["nodeName"]).collect();
    assert_eq!(nodes, ["n", "n", "n"]);

    let green = server.get("/clusters/green/apis/apps/v1/namespaces/default/deployments/web").await;
    assert_eq!(green["status"]["unavailableReplicas"], 3, "{}", green["status"]);
    let pods = server.get("/clusters/green/api/v1/namespaces/default/pods").await;
    let condition = &pods["items"][0]["status"]["conditions"][0];
    assert_eq!(condition["message"], "no nodes available to schedule pods", "{pods}");
    assert!(server.names("/api/v1/pods").await.is_empty());

    let used = server.get("/clusters/blue/apis/metrics.k8s.io/v1beta1/nodes").await;
    assert_eq!(used["items"].as_array().unwrap().len(), 1);
    assert!(server.names("/clusters/green/apis/metrics.k8s.io/v1beta1/pods").await.is_empty());
    assert_eq!(server.names("/clusters/blue/apis/metrics.k8s.io/v1beta1/pods").await.len(), 3);

    server.create("/clusters/green/api/v1/nodes", fake_node("n")).await;
    server.idle().await;
    let green = server.get("/clusters/green/apis/apps/v1/namespaces/default/deployments/web").await;
    assert_eq!(green["status"]["readyReplicas"], 3, "{}", green["status"]);
    server.stop().await;
}

#[tokio::test]
async fn pod_is_scheduled_by_objects_created_before_the_first_node() {
    let server = Server::start().await;
    // Created long before the first pod, and partly shared by all clusters.
    let labelled = json!({"metadata": {"name": "work", "labels": {"team": "a"}}});
    server.create("/clusters/blue/api/v1/namespaces", labelled).await;
    let class = json!({"metadata": {"name": "manual"}, "provisioner": "example.com/none",
        "volumeBindingMode": "WaitForFirstConsumer"});
    server.create("/clusters/blue/apis/storage.k8s.io/v1/storageclasses", class).await;
    server.idle().await;

    let mut apart = json!({"metadata": {"name": "apart", "labels": {"app": "a"}}, "spec": {
        "containers": [{"name": "c", "image": "nginx"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": "a"}},
            "namespaceSelector": {"matchLabels": {"team": "a"}},
        }]}},
    }});
    server.create("/clusters/blue/api/v1/nodes", fake_node("n1")).await;
    let pods = "/clusters/blue/api/v1/namespaces/work/pods";
    server.create(pods, apart.clone()).await;
    server.idle().await;
    apart["metadata"]["name"] = json!("refused");
    server.create(pods, apart.clone()).await;
    server.idle().await;
    let first = server.get(&format!("{pods}/apart")).await;
    assert_eq!(first["spec"]["nodeName"], "n1", "{}", first["status"]);
    let refused = server.get(&format!("{pods}/refused")).await;
    assert!(refused["spec"]["nodeName"].is_null(), "the labels of the namespace are used");

    let account = "/clusters/blue/api/v1/namespaces/default/pods";
    apart["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["namespaceSelector"] =
        json!({"matchLabels": {"kubernetes.io/metadata.name": "default"}});
    for name in ["one", "two"] {
        apart["metadata"]["name"] = json!(name);
        server.create(account, apart.clone()).await;
        server.idle().await;
    }
    assert!(
        server.get(&format!("{account}/two")).await["spec"]["nodeName"].is_null(),
        "the labels of shared namespaces are used"
    );
    server.stop().await;
}

#[tokio::test]
async fn garbage_is_collected_within_its_own_cluster() {
    let server = Server::start().await;
    for tenant in ["blue", "green"] {
        let maps = format!("/clusters/{tenant}/api/v1/namespaces/default/configmaps");
        let owner = server.create(&maps, json!({"metadata": {"name": "owner"}})).await;
        server.create(&maps, owned_by("dependent", "v1", "ConfigMap", &owner)).await;
        // Objects that all clusters share can be owners, too.
        let account = format!("/clusters/{tenant}/api/v1/namespaces/default/serviceaccounts/default");
        let account = server.get(&account).await;
        server.create(&maps, owned_by("of-account", "v1", "ServiceAccount", &account)).await;
    }
    server.delete("/clusters/blue/api/v1/namespaces/default/configmaps/owner").await;
    server.idle().await;
    let names = async |tenant| {
        let mut names =
            server.names(&format!("/clusters/{tenant}/api/v1/namespaces/default/configmaps")).await;
        names.retain(|name| name != "kube-root-ca.crt");
        names
    };
    assert_eq!(names("blue").await, ["of-account"]);
    assert_eq!(names("green").await, ["dependent", "of-account", "owner"]);

    server.delete("/clusters/green/api/v1/namespaces/default/serviceaccounts/default").await;
    server.idle().await;
    assert_eq!(names("green").await, ["dependent", "owner"]);
    assert_eq!(names("blue").await, ["of-account"]);
    server.stop().await;
}

#[tokio::test]
async fn custom_resources_of_a_tenant_are_reconciled_in_its_cluster() {
    let server = Server::start().await;
    let definitions =
        |tenant: &str| format!("/clusters/{tenant}/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
    server.create(&definitions("blue"), boats("Namespaced")).await;
    server.create(&definitions("green"), boats("Cluster")).await;
    server.create("/clusters/blue/api/v1/namespaces", json!({"metadata": {"name": "harbour"}})).await;
    server.idle().await;
    let before = server.watches().await;

    let boat =
        |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": name}});
    let (blue, green) = (
        "/clusters/blue/apis/example.com/v1/namespaces/harbour/boats",
        "/clusters/green/apis/example.com/v1/boats",
    );
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/boats.example.com": "5"}}});
    let quotas = "/clusters/blue/api/v1/namespaces/harbour/resourcequotas";
    server.create(quotas, quota).await;
    for (tenant, path) in [("blue", blue), ("green", green)] {
        let owner = server.create(path, boat("owner")).await;
        let mut dependent = owned_by("dependent", "example.com/v1", "Boat", &owner);
        dependent["apiVersion"] = json!("example.com/v1");
        dependent["kind"] = json!("Boat");
        server.create(path, dependent).await;
        let namespace = if tenant == "blue" { "harbour" } else { "default" };
        let maps = format!("/clusters/{tenant}/api/v1/namespaces/{namespace}/configmaps");
        server.create(&maps, owned_by("papers", "example.com/v1", "Boat", &owner)).await;
    }
    server.idle().await;
    let counted = server.get(&format!("{quotas}/q")).await;
    assert_eq!(counted["status"]["used"]["count/boats.example.com"], "2", "{}", counted["status"]);

    server.delete(&format!("{blue}/owner")).await;
    server.idle().await;
    assert!(server.names(blue).await.is_empty());
    assert!(server.get("/clusters/blue/api/v1/namespaces/harbour/configmaps/papers").await.is_null());
    assert_eq!(server.names(green).await, ["dependent", "owner"]);
    let counted = server.get(&format!("{quotas}/q")).await;
    assert_eq!(counted["status"]["used"]["count/boats.example.com"], "0", "{}", counted["status"]);

    server.create(blue, boat("last")).await;
    server.delete("/clusters/blue/api/v1/namespaces/harbour").await;
    server.idle().await;
    assert!(
        server.get("/clusters/blue/api/v1/namespaces/harbour").await.is_null(),
        "the namespace was not deleted"
    );

    server.delete(&format!("{}/boats.example.com", definitions("blue"))).await;
    server.idle().await;
    assert_eq!(server.watches().await, before - 1, "the watch of the deleted kind did not end");
    assert_eq!(server.names(green).await, ["dependent", "owner"]);
    server.stop().await;
}

#[tokio::test]
async fn every_controller_serves_tenants() {
    let server = Server::start().await;
    let at = |group: &str, resource: &str| format!("/clusters/blue{group}/namespaces/default/{resource}");
    let labels = json!({"app": "a"});
    let template = |more: Value| {
        let mut spec = json!({"containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80}],
            "resources": {"requests": {"cpu": "100m"}}}]});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        json!({"metadata": {"labels": labels}, "spec": spec})
    };
    let selector = json!({"matchLabels": labels});
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    server.create("/clusters/blue/api/v1/nodes", fake_node("n")).await;
    let set = json!({"metadata": {"name": "db"}, "spec": {"serviceName": "db", "replicas": 2,
        "selector": selector, "template": template(json!({})), "volumeClaimTemplates": [claim]}});
    server.create(&at("/apis/apps/v1", "statefulsets"), set).await;
    let set = json!({"metadata": {"name": "agent"}, "spec": {"selector": {"matchLabels": {"app": "b"}},
        "template": {"metadata": {"labels": {"app": "b"}}, "spec": template(json!({}))["spec"]}}});
    server.create(&at("/apis/apps/v1", "daemonsets"), set).await;
    let mut job = json!({"metadata": {"name": "once"}, "spec": {"completions": 2, "template": {
        "metadata": {"annotations": {"fake.coracle.dev/finish-after": "0"}},
        "spec": template(json!({"restartPolicy": "Never"}))["spec"]}}});
    server.create(&at("/apis/batch/v1", "jobs"), job.clone()).await;
    let service = json!({"metadata": {"name": "db"}, "spec": {"selector": labels, "ports": [{"port": 80}]}});
    server.create(&at("/api/v1", "services"), service).await;
    let budget = json!({"metadata": {"name": "db"}, "spec": {"minAvailable": 1, "selector": selector}});
    server.create(&at("/apis/policy/v1", "poddisruptionbudgets"), budget).await;
    let scaler = json!({"metadata": {"name": "db"}, "spec": {"minReplicas": 3, "maxReplicas": 5,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}}});
    server.create(&at("/apis/autoscaling/v2", "horizontalpodautoscalers"), scaler).await;
    job["spec"]["template"]["metadata"] = json!({});
    let schedule = json!({"metadata": {"name": "never"}, "spec": {"schedule": "@yearly", "suspend": true,
        "jobTemplate": {"spec": job["spec"]}}});
    server.create(&at("/apis/batch/v1", "cronjobs"), schedule).await;
    server.idle().await;

    for (group, resource, field, expected) in [
        ("/apis/apps/v1", "statefulsets/db", "/status/readyReplicas", json!(3)),
        ("/apis/apps/v1", "daemonsets/agent", "/status/numberReady", json!(1)),
        ("/apis/batch/v1", "jobs/once", "/status/succeeded", json!(2)),
        ("/apis/policy/v1", "poddisruptionbudgets/db", "/status/currentHealthy", json!(3)),
        ("/apis/autoscaling/v2", "horizontalpodautoscalers/db", "/status/desiredReplicas", json!(3)),
        ("/api/v1", "persistentvolumeclaims/data-db-0", "/status/phase", json!("Bound")),
        ("/api/v1", "endpoints/db", "/subsets/0/ports/0/port", json!(80)),
    ] {
        let object = server.get(&at(group, resource)).await;
        assert_eq!(object.pointer(field), Some(&expected), "{resource}: {object}");
    }
    let slices = server.get(&at("/apis/discovery.k8s.io/v1", "endpointslices")).await;
    let of_service = |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "db";
    let slice = slices["items"].as_array().unwrap().iter().find(of_service).unwrap();
    assert_eq!(slice["endpoints"].as_array().unwrap().len(), 3);
    let node = server.get("/clusters/blue/api/v1/nodes/n").await;
    assert!(node["spec"]["taints"].is_null(), "{}", node["spec"]);
    for path in ["/api/v1/pods", "/api/v1/persistentvolumes", "/apis/apps/v1/controllerrevisions"] {
        assert!(server.names(path).await.is_empty(), "{path}");
    }
    server.stop().await;
}

#[tokio::test]
async fn restarted_server_reconciles_every_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_on(StoreConfig::Disk, dir.path()).await;
    server.create_cluster("blue").await;
    let definitions = "/clusters/blue/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    server.create(definitions, boats("Namespaced")).await;
    server.create("/clusters/blue/api/v1/nodes", fake_node("n")).await;
    server.create("/clusters/blue/apis/apps/v1/namespaces/default/deployments", deployment("web", 1)).await;
    server.idle().await;
    let boats = "/clusters/blue/apis/example.com/v1/namespaces/default/boats";
    let boat = json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "owner"}});
    let boat = server.create(boats, boat).await;
    let maps = "/clusters/blue/api/v1/namespaces/default/configmaps";
    server.create(maps, owned_by("papers", "example.com/v1", "Boat", &boat)).await;
    server.idle().await;
    server.stop().await;

    let server = Server::start_on(StoreConfig::Disk, dir.path()).await;
    let scaled = "/clusters/blue/apis/apps/v1/namespaces/default/deployments/web/scale";
    let mut scale = server.get(scaled).await;
    scale["spec"]["replicas"] = json!(2);
    server.send(Method::PUT, scaled, &scale).await;
    server.idle().await;
    let web = server.get("/clusters/blue/apis/apps/v1/namespaces/default/deployments/web").await;
    assert_eq!(web["status"]["readyReplicas"], 2, "{}", web["status"]);
    assert!(!server.get(&format!("{maps}/papers")).await.is_null(), "the owner exists");
    server.delete(&format!("{boats}/owner")).await;
    server.idle().await;
    assert!(server.get(&format!("{maps}/papers")).await.is_null());
    server.stop().await;
}

#[tokio::test]
async fn roles_and_tokens_are_reconciled_per_cluster() {
    let server = Server::start().await;
    let rule = json!({"apiGroups": ["example.com"], "resources": ["boats"], "verbs": ["get"]});
    let role = json!({"metadata": {"name": "boats", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [rule]});
    let roles = "/clusters/blue/apis/rbac.authorization.k8s.io/v1/clusterroles";
    server.create(roles, role).await;
    let secret = json!({"metadata": {"name": "t", "annotations": {"kubernetes.io/service-account.name": "default"}},
        "type": "kubernetes.io/service-account-token"});
    let secrets = "/clusters/blue/api/v1/namespaces/default/secrets";
    server.create(secrets, secret).await;
    server.idle().await;
    for whole in ["view", "edit", "admin"] {
        let whole = server.get(&format!("{roles}/{whole}")).await;
        assert!(whole["rules"].as_array().unwrap().contains(&rule), "{whole}");
    }
    let other = server.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/view").await;
    assert!(!other["rules"].as_array().unwrap().contains(&rule));
    let account = server.get("/clusters/blue/api/v1/namespaces/default/serviceaccounts/default").await;
    let secret = server.get(&format!("{secrets}/t")).await;
    let uid = &secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"];
    assert_eq!(*uid, account["metadata"]["uid"]);
    assert!(secret["data"]["token"].is_string());
    server.stop().await;
}

#[tokio::test]
async fn number_of_watches_does_not_grow_with_clusters() {
    let server = Server::start().await;
    server.idle().await;
    let before = server.watches().await;
    assert!(before > 0);
    for number in 0..300 {
        server.create_cluster(&format!("t{number}")).await;
        let namespaces = format!("/clusters/t{number}/api/v1/namespaces");
        server.create(&namespaces, json!({"metadata": {"name": "work"}})).await;
    }
    server.idle().await;
    let last = server.get("/clusters/t299/api/v1/namespaces/work/serviceaccounts/default").await;
    assert_eq!(last["metadata"]["name"], "default");
    assert_eq!(server.watches().await, before);
    server.stop().await;
}
