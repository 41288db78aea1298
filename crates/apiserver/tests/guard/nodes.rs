//! Permissions of a node for its own pods, and attacks on pods of another node: each attack is a test of its
//! own.

use std::sync::Arc;

use crate::support::{Client, MERGE};
use coracle_apiserver::{CredentialScope, Identity};
use http::Method;
use serde_json::{Value, json};

const NODES: &str = "system:nodes";
const AUTHENTICATED: &str = "system:authenticated";

/// Attempts before a permission must have become effective. Far more than it takes.
const ATTEMPTS: usize = 10_000;

/// Two nodes, each with a pod that needs a secret of its own.
struct World {
    admin: Client,
    a: Client,
    b: Client,
}

impl World {
    async fn new() -> Self {
        let admin = Client::new().await;
        let node = |name: &str| other(&admin, &format!("system:node:{name}"), &[NODES, AUTHENTICATED]);
        let world = Self { a: node("a"), b: node("b"), admin };
        world.make("/api/v1/namespaces", json!({"metadata": {"name": "kube-node-lease"}})).await;
        for name in ["a", "b"] {
            world.make("/api/v1/nodes", json!({"metadata": {"name": name}})).await;
            let lease = json!({"metadata": {"name": name}, "spec": {"holderIdentity": name}});
            world.make("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease).await;
            let secret =
                json!({"metadata": {"name": format!("secret-{name}")}, "stringData": {"key": "hidden"}});
            world.make("/api/v1/namespaces/default/secrets", secret).await;
            let account = json!({"metadata": {"name": format!("account-{name}")}});
            world.make("/api/v1/namespaces/default/serviceaccounts", account).await;
            world.make("/api/v1/namespaces/default/pods", pod(name)).await;
        }
        world.until_known(&world.a, "/api/v1/namespaces/default/secrets/secret-a").await;
        world.until_known(&world.b, "/api/v1/namespaces/default/secrets/secret-b").await;
        world
    }

    async fn make(&self, path: &str, body: Value) {
        let (code, answer) = self.admin.post(path, body).await;
        assert!(code == 201 || code == 409, "{path}: {answer}");
    }

    /// Waits until the node may read the path: the authorizer's cache lags behind writes.
    async fn until_known(&self, node: &Client, path: &str) {
        for _ in 0..ATTEMPTS {
            if get(node, path).await.0 == 200 {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{path} never became readable");
    }
}

/// A client of the same server with another user.
fn other(client: &Client, name: &str, groups: &[&str]) -> Client {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    let identity = Identity { name: name.to_owned(), groups, ..Identity::default() };
    Client {
        server: client.server.clone(),
        identity: Arc::new(identity),
        scope: CredentialScope::DefaultCluster,
    }
}

/// The pod of a node.
fn pod(node: &str) -> Value {
    json!({
        "metadata": {"name": format!("pod-{node}")},
        "spec": {
            "nodeName": node, "serviceAccountName": format!("account-{node}"),
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "s", "secret": {"secretName": format!("secret-{node}")}}],
        },
    })
}

async fn get(client: &Client, path: &str) -> (u16, Value) {
    client.send(Method::GET, path, "application/json", Value::Null).await
}

async fn patch(client: &Client, path: &str, patch: Value) -> (u16, Value) {
    client.send(Method::PATCH, path, MERGE, patch).await
}

fn check((code, answer): (u16, Value), expected: u16, message: &str) {
    assert_eq!(code, expected, "{answer}");
    let told = answer["message"].as_str().unwrap_or_default();
    assert!(told.contains(message), "{told}");
}

const UNRELATED: &str = "no relationship found between node 'a' and this object";

#[tokio::test]
async fn node_a_reads_no_secrets_of_pods_on_node_b() {
    let world = World::new().await;
    let secrets = "/api/v1/namespaces/default/secrets";
    assert_eq!(get(&world.a, &format!("{secrets}/secret-a")).await.0, 200);
    let refused = get(&world.a, &format!("{secrets}/secret-b")).await;
    assert!(!refused.1.to_string().contains("aGlkZGVu"));
    let message = "secrets \"secret-b\" is forbidden: User \"system:node:a\" cannot get resource \"secrets\" in API \
                   group \"\" in the namespace \"default\": no relationship found between node 'a' and this object";
    check(refused, 403, message);
    check(get(&world.a, secrets).await, 403, "No Object name found");
    check(get(&world.a, "/api/v1/secrets").await, 403, "can only read namespaced object of this type");
    let one = format!("{secrets}?fieldSelector=metadata.name%3Dsecret-b");
    check(get(&world.a, &one).await, 403, UNRELATED);
    check(get(&world.a, &format!("{one}&watch=true")).await, 403, UNRELATED);
    let old_watch = "/api/v1/watch/namespaces/default/secrets/secret-b";
    check(get(&world.a, old_watch).await, 403, UNRELATED);
}

#[tokio::test]
async fn node_a_reads_no_secret_any_longer_when_its_pod_is_gone() {
    let world = World::new().await;
    let pod = "/api/v1/namespaces/default/pods/pod-a";
    let options = json!({"gracePeriodSeconds": 0});
    world.admin.send(Method::DELETE, pod, "application/json", options).await;
    for _ in 0..ATTEMPTS {
        let answer = get(&world.a, "/api/v1/namespaces/default/secrets/secret-a").await;
        if answer.0 != 200 {
            return check(answer, 403, UNRELATED);
        }
        tokio::task::yield_now().await;
    }
    panic!("the secret stays readable");
}

#[tokio::test]
async fn node_a_does_not_see_the_pods_of_node_b() {
    let world = World::new().await;
    let pods = "/api/v1/namespaces/default/pods";
    assert_eq!(get(&world.a, &format!("{pods}/pod-a")).await.0, 200);
    check(get(&world.a, &format!("{pods}/pod-b")).await, 403, UNRELATED);
    let own = "/api/v1/pods?fieldSelector=spec.nodeName%3Da";
    let (code, list) = get(&world.a, own).await;
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 1));
    let selector = "can only list/watch pods with spec.nodeName field selector";
    check(get(&world.a, "/api/v1/pods").await, 403, selector);
    check(get(&world.a, "/api/v1/pods?fieldSelector=spec.nodeName%3Db").await, 403, selector);
    check(get(&world.a, "/api/v1/pods?fieldSelector=spec.nodeName!%3Da").await, 403, selector);
}

#[tokio::test]
async fn node_a_writes_no_pods_of_node_b() {
    let world = World::new().await;
    let pods = "/api/v1/namespaces/default/pods";
    let status = json!({"status": {"phase": "Failed"}});
    assert_eq!(patch(&world.a, &format!("{pods}/pod-a/status"), status.clone()).await.0, 200);
    let message = "node \"a\" can only update pod status for pods with spec.nodeName set to itself";
    check(patch(&world.a, &format!("{pods}/pod-b/status"), status).await, 403, message);
    let delete =
        world.a.send(Method::DELETE, &format!("{pods}/pod-b"), "application/json", Value::Null).await;
    check(delete, 403, "node \"a\" can only delete pods with spec.nodeName set to itself");
    let eviction = json!({"metadata": {"name": "pod-b"}});
    let evicted = world.a.post(&format!("{pods}/pod-b/eviction"), eviction).await;
    check(evicted, 403, "node a can only evict pods with spec.nodeName set to itself");
    let spec = json!({"spec": {"activeDeadlineSeconds": 1}});
    check(
        patch(&world.a, &format!("{pods}/pod-b"), spec.clone()).await,
        403,
        "cannot patch resource \"pods\"",
    );
    check(patch(&world.a, &format!("{pods}/pod-a"), spec).await, 403, "cannot patch resource \"pods\"");
    let mut new = pod("a");
    new["metadata"]["name"] = "mine".into();
    check(world.a.post(pods, new).await, 403, "node \"a\" can only create mirror pods");
    let binding = json!({"metadata": {"name": "pod-b"}, "target": {"kind": "Node", "name": "a"}});
    check(
        world.a.post(&format!("{pods}/pod-b/binding"), binding).await,
        403,
        "cannot create resource \"pods/binding\"",
    );
    assert_eq!(get(&world.b, &format!("{pods}/pod-b")).await.0, 200);
}

#[tokio::test]
async fn node_a_writes_no_node_object_of_node_b() {
    let world = World::new().await;
    let taint = json!({"metadata": {"labels": {"x": "y"}}});
    assert_eq!(patch(&world.a, "/api/v1/nodes/a", taint.clone()).await.0, 200);
    let message = "node \"a\" is not allowed to modify node \"b\"";
    check(patch(&world.a, "/api/v1/nodes/b", taint).await, 403, message);
    let status = json!({"status": {"conditions": []}});
    check(patch(&world.a, "/api/v1/nodes/b/status", status).await, 403, message);
    check(
        world.a.post("/api/v1/nodes", json!({"metadata": {"name": "c"}})).await,
        403,
        "is not allowed to modify node \"c\"",
    );
    check(get(&world.a, "/api/v1/nodes/b").await, 403, "node 'a' cannot read 'b', only its own Node object");
    check(
        get(&world.a, "/api/v1/nodes").await,
        403,
        "node 'a' cannot read all nodes, only its own Node object",
    );
    let restricted = json!({"metadata": {"labels": {"node-restriction.kubernetes.io/trusted": "yes"}}});
    check(patch(&world.a, "/api/v1/nodes/a", restricted).await, 403, "is not allowed to modify labels");
    let untaint = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    check(patch(&world.a, "/api/v1/nodes/a", untaint).await, 403, "is not allowed to modify taints");
    let delete = world.a.send(Method::DELETE, "/api/v1/nodes/b", "application/json", Value::Null).await;
    check(delete, 403, "cannot delete resource \"nodes\"");
}

#[tokio::test]
async fn node_a_writes_no_lease_of_node_b() {
    let world = World::new().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let renew = json!({"spec": {"holderIdentity": "a"}});
    assert_eq!(patch(&world.a, &format!("{leases}/a"), renew.clone()).await.0, 200);
    let message = "can only access node lease with the same name as the requesting node";
    check(patch(&world.a, &format!("{leases}/b"), renew).await, 403, message);
    check(world.a.post(leases, json!({"metadata": {"name": "c"}})).await, 403, message);
    let elsewhere = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let message = "can only access leases in the \"kube-node-lease\" system namespace";
    check(world.a.post(elsewhere, json!({"metadata": {"name": "a"}})).await, 403, message);
}

#[tokio::test]
async fn node_creates_nothing_under_a_generated_name() {
    let world = World::new().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let csi_nodes = "/apis/storage.k8s.io/v1/csinodes";
    let spec = json!({"drivers": []});
    for (path, message) in [
        ("/api/v1/nodes", "nodes \"a\" is forbidden: node \"a\" is not allowed to modify node \"\""),
        (leases, "can only access node lease with the same name as the requesting node"),
        (csi_nodes, "can only access CSINode with the same name as the requesting node"),
    ] {
        let generated = json!({"metadata": {"generateName": "a"}, "spec": spec});
        check(world.a.post(path, generated).await, 403, message);
    }
    let named = world.a.post(csi_nodes, json!({"metadata": {"name": "a"}, "spec": spec})).await;
    assert_eq!(named.0, 201, "{}", named.1);
}

#[tokio::test]
async fn node_a_gets_no_token_for_a_pod_of_node_b() {
    let world = World::new().await;
    let uid = async |pod: &str| {
        let (_, pod) = get(&world.admin, &format!("/api/v1/namespaces/default/pods/{pod}")).await;
        pod["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    let request = |pod: &str, uid: &str| json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid}}});
    let path = |account: &str| format!("/api/v1/namespaces/default/serviceaccounts/{account}/token");
    let (uid_a, uid_b) = (uid("pod-a").await, uid("pod-b").await);
    let (code, answer) = world.a.post(&path("account-a"), request("pod-a", &uid_a)).await;
    assert_eq!(code, 201, "{answer}");
    check(world.a.post(&path("account-b"), request("pod-b", &uid_b)).await, 403, UNRELATED);
    let message = "node requested token bound to a pod scheduled on a different node";
    check(world.a.post(&path("account-a"), request("pod-b", &uid_b)).await, 403, message);
    check(
        world.a.post(&path("account-a"), json!({"spec": {}})).await,
        403,
        "node requested token not bound to a pod",
    );
    let mut other_audience = request("pod-a", &uid_a);
    other_audience["spec"]["audiences"] = json!(["vault"]);
    let message = "audience \"vault\" not found in pod spec volume, system:node:a is not authorized to request tokens \
                   for this audience";
    check(world.a.post(&path("account-a"), other_audience).await, 403, message);
}

#[tokio::test]
async fn the_group_or_the_name_alone_makes_no_node() {
    let world = World::new().await;
    let secret = "/api/v1/namespaces/default/secrets/secret-a";
    for (name, groups) in [
        ("a", &[NODES, AUTHENTICATED][..]),
        ("system:node:a", &[AUTHENTICATED]),
        ("system:node:", &[NODES, AUTHENTICATED]),
        ("system:nodes:a", &[NODES, AUTHENTICATED]),
    ] {
        let somebody = other(&world.admin, name, groups);
        for path in [secret, "/api/v1/nodes/a", "/api/v1/namespaces/default/pods/pod-a", "/api/v1/services"] {
            assert_eq!(get(&somebody, path).await.0, 403, "{name} {path}");
        }
    }
}

#[tokio::test]
async fn node_a_gives_itself_no_role() {
    let world = World::new().await;
    let binding = json!({
        "metadata": {"name": "mine"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:node:a"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    check(world.a.post(bindings, binding).await, 403, "cannot create resource \"clusterrolebindings\"");
}

#[tokio::test]
async fn node_may_create_subject_access_reviews() {
    let world = World::new().await;
    let review = json!({"spec": {"user": "system:node:b", "groups": [NODES], "resourceAttributes": {
        "verb": "get", "resource": "secrets", "namespace": "default", "name": "secret-a",
    }}});
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let (code, answer) = world.a.post(path, review.clone()).await;
    assert_eq!((code, &answer["status"]["allowed"]), (201, &false.into()), "{answer}");
    let mut own = review;
    own["spec"]["resourceAttributes"]["name"] = "secret-b".into();
    let (code, answer) = world.a.post(path, own).await;
    assert_eq!((code, &answer["status"]["allowed"]), (201, &true.into()), "{answer}");
}
