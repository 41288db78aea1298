//! DaemonSets, StatefulSets and volumes in a running server. The test acts as scheduler and kubelet.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::time::Duration;

use coracle::kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use coracle::kube::{Error, Resource};
use coracle::{Config, Coracle, Handle, StoreConfig};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, StatefulSet};
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use support::wait_for;
use tempfile::TempDir;

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(60);

const NAMESPACE: &str = "default";

/// Maximum number of rounds of [`TestServer::run_pods`] until nothing changes any more.
const MAX_ROUNDS: usize = 50;

/// A running server with helpers.
struct TestServer {
    cluster: Handle,
    _dir: TempDir,
}

impl TestServer {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = Config { store: StoreConfig::Memory, listen: Vec::new(), ..Config::new(dir.path()) };
        Self { cluster: Coracle::start(config).await.unwrap(), _dir: dir }
    }

    /// The objects of a namespaced kind.
    fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client(), NAMESPACE)
    }

    async fn idle(&self) {
        tokio::time::timeout(LIMIT, self.cluster.run_until_idle()).await.unwrap().unwrap();
    }

    /// Creates a ready node.
    async fn create_node(&self, name: &str, taints: Value) {
        let nodes = Api::<Node>::all(self.cluster.client());
        create(&nodes, json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})).await;
        let amounts = json!({"cpu": "8", "memory": "8Gi", "pods": "110"});
        let ready = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        let status = json!({"conditions": ready, "allocatable": amounts, "capacity": amounts});
        let patch = Patch::Strategic(json!({"status": status}));
        nodes.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        // A new node has a taint until it is ready.
        merge(&nodes, name, json!({"spec": {"taints": taints}})).await;
    }

    /// All pods, sorted by name.
    async fn pods(&self) -> Vec<Value> {
        list(&self.api::<Pod>()).await
    }

    /// Runs one round of scheduler and kubelet. True if there was something to do.
    async fn run_pods(&self, node: &str) -> bool {
        let pods = self.api::<Pod>();
        let mut changed = false;
        for pod in self.pods().await {
            let name = text(&pod, "/metadata/name");
            if pod.pointer("/metadata/deletionTimestamp").is_some() {
                let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
                pods.delete(name, &now).await.unwrap();
                changed = true;
                continue;
            }
            if text(&pod, "/spec/nodeName").is_empty() {
                let term = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0";
                let wanted = text(&pod, &format!("{term}/matchFields/0/values/0"));
                let target = json!({"kind": "Node", "name": if wanted.is_empty() { node } else { wanted }});
                let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
                // The server's own scheduler may have been faster.
                let bound: Result<Value, _> =
                    pods.create_subresource("binding", name, &PostParams::default(), &binding).await;
                assert!(!matches!(bound, Err(Error::Api(status)) if status.code != 409));
            }
            if text(&pod, "/status/phase") == "Pending" {
                run(&pods, name).await;
                changed = true;
            }
        }
        changed
    }

    /// Runs rounds until nothing changes any more.
    async fn settle(&self) {
        for _ in 0..MAX_ROUNDS {
            self.idle().await;
            if !self.run_pods("a").await {
                return;
            }
        }
        panic!("it does not settle");
    }

    /// The reasons of all events, in no order.
    async fn event_reasons(&self) -> Vec<String> {
        let events = list(&self.api::<Event>()).await;
        events.iter().map(|event| text(event, "/reason").to_owned()).collect()
    }
}

/// Sets a pod's status to running and ready.
async fn run(pods: &Api<Pod>, name: &str) {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(condition);
    let status = json!({"phase": "Running", "conditions": conditions, "startTime": "2026-01-01T00:00:00Z"});
    pods.patch_status(name, &PatchParams::default(), &Patch::Strategic(json!({"status": status})))
        .await
        .unwrap();
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

async fn merge<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn get<K>(api: &Api<K>, name: &str) -> Value
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    serde_json::to_value(api.get(name).await.unwrap()).unwrap()
}

async fn list<K>(api: &Api<K>) -> Vec<Value>
where
    K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let all = api.list(&ListParams::default()).await.unwrap();
    all.items.into_iter().map(|object| serde_json::to_value(object).unwrap()).collect()
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// A field of each object, sorted.
fn each<'a>(objects: &'a [Value], path: &str) -> Vec<&'a str> {
    let mut found: Vec<_> = objects.iter().map(|object| text(object, path)).collect();
    found.sort_unstable();
    found
}

fn template(app: &str, image: &str) -> Value {
    json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

#[tokio::test]
async fn daemon_set_has_a_pod_on_every_suitable_node() {
    let server = TestServer::start().await;
    server.create_node("a", json!(null)).await;
    server.create_node("b", json!(null)).await;
    server.create_node("c", json!([{"key": "mine", "effect": "NoSchedule"}])).await;
    let sets = server.api::<DaemonSet>();
    let spec = json!({"selector": {"matchLabels": {"app": "d"}}, "template": template("d", "one")});
    create(&sets, json!({"metadata": {"name": "d"}, "spec": spec})).await;
    server.settle().await;
    let pods = server.pods().await;
    assert_eq!(each(&pods, "/spec/nodeName"), ["a", "b"]);
    let first = text(&pods[0], "/metadata/labels/controller-revision-hash").to_owned();
    assert!(!first.is_empty() && text(&pods[0], "/metadata/labels/pod-template-generation") == "1");
    let status = get(&sets, "d").await["status"].take();
    let expected = json!({
        "observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 2,
        "numberMisscheduled": 0, "numberReady": 2, "updatedNumberScheduled": 2, "numberAvailable": 2,
    });
    assert_eq!(status, expected);

    server.create_node("d", json!(null)).await;
    merge(&Api::<Node>::all(server.cluster.client()), "c", json!({"spec": {"taints": null}})).await;
    server.settle().await;
    assert_eq!(each(&server.pods().await, "/spec/nodeName"), ["a", "b", "c", "d"]);

    let evict = json!({"spec": {"taints": [{"key": "mine", "effect": "NoExecute"}]}});
    merge(&Api::<Node>::all(server.cluster.client()), "c", evict).await;
    server.settle().await;
    assert_eq!(each(&server.pods().await, "/spec/nodeName"), ["a", "b", "d"]);
    server.cluster.shutdown().await;
}

#[tokio::test]
async fn daemon_set_is_updated_node_by_node_and_rolled_back() {
    let server = TestServer::start().await;
    for node in ["a", "b", "c"] {
        server.create_node(node, json!(null)).await;
    }
    let sets = server.api::<DaemonSet>();
    let spec = json!({"selector": {"matchLabels": {"app": "d"}}, "template": template("d", "one")});
    create(&sets, json!({"metadata": {"name": "d"}, "spec": spec})).await;
    server.settle().await;
    let first = text(&server.pods().await[0], "/metadata/labels/controller-revision-hash").to_owned();

    merge(&sets, "d", json!({"spec": {"template": template("d", "two")}})).await;
    for _ in 0..MAX_ROUNDS {
        server.idle().await;
        let going = server
            .pods()
            .await
            .into_iter()
            .filter(|pod| pod.pointer("/metadata/deletionTimestamp").is_some());
        assert!(going.count() <= 1, "more than one pod is terminating");
        if !server.run_pods("a").await {
            break;
        }
    }
    let pods = server.pods().await;
    assert_eq!(each(&pods, "/spec/containers/0/image"), ["two"; 3]);
    let revisions = server.api::<ControllerRevision>();
    let numbers = |revisions: &[Value]| {
        let mut numbers: Vec<_> = revisions.iter().map(|revision| revision["revision"].as_i64()).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(numbers(&list(&revisions).await), [Some(1), Some(2)]);

    merge(&sets, "d", json!({"spec": {"template": template("d", "one")}})).await;
    server.settle().await;
    let pods = server.pods().await;
    assert_eq!(each(&pods, "/metadata/labels/controller-revision-hash"), [first.as_str(); 3]);
    assert_eq!(numbers(&list(&revisions).await), [Some(2), Some(3)], "the first revision was not renumbered");

    let failed = text(&pods[0], "/metadata/name");
    let status = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    server.api::<Pod>().patch_status(failed, &PatchParams::default(), &status).await.unwrap();
    server.settle().await;
    let pods = server.pods().await;
    assert_eq!(each(&pods, "/status/phase"), ["Running"; 3]);
    assert!(!each(&pods, "/metadata/name").contains(&failed));
    let reasons = server.event_reasons().await;
    for reason in ["SuccessfulCreate", "SuccessfulDelete", "FailedDaemonPod"] {
        assert!(reasons.iter().any(|found| found == reason), "{reason}");
    }
    server.cluster.shutdown().await;
}

fn stateful_set(replicas: i32, more: Value) -> Value {
    let claim = json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}}},
    });
    let mut spec = json!({
        "replicas": replicas, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
        "template": template("web", "one"), "volumeClaimTemplates": [claim],
    });
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"metadata": {"name": "web"}, "spec": spec})
}

async fn claims(server: &TestServer) -> Vec<Value> {
    list(&server.api::<PersistentVolumeClaim>()).await
}

#[tokio::test]
async fn stateful_set_scales_in_order_and_keeps_its_claims() {
    let server = TestServer::start().await;
    server.create_node("a", json!(null)).await;
    let sets = server.api::<StatefulSet>();
    create(&sets, stateful_set(3, json!({}))).await;
    for names in [&["web-0"][..], &["web-0", "web-1"], &["web-0", "web-1", "web-2"]] {
        server.idle().await;
        assert_eq!(each(&server.pods().await, "/metadata/name"), names);
        server.run_pods("a").await;
    }
    server.settle().await;
    let pods = server.pods().await;
    let last = &pods[2];
    assert_eq!(text(last, "/metadata/labels/statefulset.kubernetes.io~1pod-name"), "web-2");
    assert_eq!(text(last, "/metadata/labels/apps.kubernetes.io~1pod-index"), "2");
    assert_eq!((text(last, "/spec/hostname"), text(last, "/spec/subdomain")), ("web-2", "web"));
    let status = get(&sets, "web").await["status"].take();
    let revision = text(&status, "/currentRevision").to_owned();
    let expected = json!({
        "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "currentReplicas": 3,
        "updatedReplicas": 3, "currentRevision": revision, "updateRevision": revision, "collisionCount": 0,
    });
    assert_eq!(status, expected);
    assert_eq!(text(last, "/metadata/labels/controller-revision-hash"), revision);

    merge(&sets, "web", json!({"spec": {"replicas": 1}})).await;
    server.idle().await;
    let going = |pods: &[Value]| {
        let gone = |pod: &&Value| pod.pointer("/metadata/deletionTimestamp").is_some();
        pods.iter().filter(gone).map(|pod| text(pod, "/metadata/name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(going(&server.pods().await), ["web-2"]);
    server.settle().await;
    assert_eq!(each(&server.pods().await, "/metadata/name"), ["web-0"]);
    assert_eq!(each(&claims(&server).await, "/metadata/name"), ["data-web-0", "data-web-1", "data-web-2"]);

    let status = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    let pods = server.api::<Pod>();
    let before = get(&pods, "web-0").await;
    pods.patch_status("web-0", &PatchParams::default(), &status).await.unwrap();
    server.settle().await;
    let after = get(&pods, "web-0").await;
    assert_ne!(text(&after, "/metadata/uid"), text(&before, "/metadata/uid"));
    assert_eq!(text(&after, "/status/phase"), "Running");
    let reasons = server.event_reasons().await;
    assert!(reasons.iter().any(|reason| reason == "SuccessfulDelete"), "{reasons:?}");
    server.cluster.shutdown().await;
}

#[tokio::test]
async fn stateful_set_is_updated_down_to_the_partition() {
    let server = TestServer::start().await;
    server.create_node("a", json!(null)).await;
    let sets = server.api::<StatefulSet>();
    let parallel = json!({"podManagementPolicy": "Parallel", "persistentVolumeClaimRetentionPolicy":
        {"whenDeleted": "Delete", "whenScaled": "Delete"}});
    create(&sets, stateful_set(3, parallel)).await;
    server.idle().await;
    assert_eq!(server.pods().await.len(), 3, "pods are created in parallel");
    server.settle().await;
    assert_eq!(each(&claims(&server).await, "/metadata/ownerReferences/0/kind"), ["StatefulSet"; 3]);

    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    merge(&sets, "web", json!({"spec": {"updateStrategy": strategy, "template": template("web", "two")}}))
        .await;
    server.settle().await;
    let images = |pods: &[Value]| {
        pods.iter().map(|pod| text(pod, "/spec/containers/0/image").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(images(&server.pods().await), ["one", "one", "two"]);
    let status = get(&sets, "web").await["status"].take();
    assert_eq!((&status["currentReplicas"], &status["updatedReplicas"]), (&json!(2), &json!(1)));
    assert_ne!(status["currentRevision"], status["updateRevision"]);

    // A pod below the partition is recreated with the old revision.
    server.api::<Pod>().delete("web-0", &DeleteParams::default()).await.unwrap();
    server.settle().await;
    assert_eq!(images(&server.pods().await), ["one", "one", "two"]);
    merge(&sets, "web", json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})).await;
    server.settle().await;
    assert_eq!(images(&server.pods().await), ["two"; 3]);
    let status = get(&sets, "web").await["status"].take();
    assert_eq!(status["currentRevision"], status["updateRevision"]);

    merge(&sets, "web", json!({"spec": {"replicas": 1}})).await;
    server.idle().await;
    let claims = claims(&server).await;
    let owners: Vec<_> = claims.iter().map(|claim| text(claim, "/metadata/ownerReferences/0/kind")).collect();
    assert_eq!(owners, ["StatefulSet", "Pod", "Pod"], "{claims:?}");
    server.cluster.shutdown().await;
}

fn claim(name: &str, more: Value) -> Value {
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({"metadata": {"name": name}, "spec": spec})
}

fn volume(name: &str, size: &str) -> Value {
    let spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "hostPath": {"path": "/data"}});
    json!({"metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn claims_are_bound_to_matching_volumes() {
    let server = TestServer::start().await;
    let volumes = Api::<PersistentVolume>::all(server.cluster.client());
    let claims = server.api::<PersistentVolumeClaim>();
    create(&volumes, volume("large", "10Gi")).await;
    create(&volumes, volume("small", "2Gi")).await;
    create(&volumes, volume("tiny", "1Mi")).await;
    server.idle().await;
    assert_eq!(each(&list(&volumes).await, "/status/phase"), ["Available"; 3]);
    create(&claims, claim("data", json!({"storageClassName": ""}))).await;
    server.idle().await;
    let bound = get(&claims, "data").await;
    assert_eq!(text(&bound, "/spec/volumeName"), "small");
    let status = json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "2Gi"}});
    assert_eq!(bound["status"], status);
    assert_eq!(text(&bound, "/metadata/annotations/pv.kubernetes.io~1bind-completed"), "yes");
    let small = get(&volumes, "small").await;
    assert_eq!(text(&small, "/status/phase"), "Bound");
    assert_eq!(text(&small, "/spec/claimRef/uid"), text(&bound, "/metadata/uid"));
    assert_eq!(text(&small, "/metadata/annotations/pv.kubernetes.io~1bound-by-controller"), "yes");

    // A pending claim is bound to a volume that is created later.
    create(
        &claims,
        claim("later", json!({"storageClassName": "", "resources": {"requests": {"storage": "20Gi"}}})),
    )
    .await;
    server.idle().await;
    assert_eq!(text(&get(&claims, "later").await, "/status/phase"), "Pending");
    assert!(server.event_reasons().await.contains(&"FailedBinding".to_owned()));
    create(&volumes, volume("huge", "1Ti")).await;
    server.idle().await;
    assert_eq!(text(&get(&claims, "later").await, "/spec/volumeName"), "huge");

    claims.delete("data", &DeleteParams::default()).await.unwrap();
    server.idle().await;
    assert_eq!(text(&get(&volumes, "small").await, "/status/phase"), "Released");
    volumes.delete("small", &DeleteParams::default()).await.unwrap();
    volumes.delete("huge", &DeleteParams::default()).await.unwrap();
    server.idle().await;
    assert!(volumes.get_opt("small").await.unwrap().is_none());
    assert_eq!(text(&get(&volumes, "huge").await, "/status/phase"), "Bound", "the volume is in use");
    server.cluster.shutdown().await;
}

#[tokio::test]
async fn volume_is_provisioned_for_the_first_consumer() {
    let server = TestServer::start().await;
    server.create_node("a", json!(null)).await;
    let classes = Api::<StorageClass>::all(server.cluster.client());
    let class = get(&classes, "standard").await;
    assert_eq!(text(&class, "/volumeBindingMode"), "WaitForFirstConsumer");
    let volumes = Api::<PersistentVolume>::all(server.cluster.client());
    let claims = server.api::<PersistentVolumeClaim>();
    create(&claims, claim("data", json!({}))).await;
    server.idle().await;
    assert_eq!(text(&get(&claims, "data").await, "/spec/storageClassName"), "standard");
    assert!(server.event_reasons().await.contains(&"WaitForFirstConsumer".to_owned()));
    assert!(list(&volumes).await.is_empty());

    // The annotation that the scheduler writes when it has chosen a node.
    let selected = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "a"}}});
    merge(&claims, "data", selected).await;
    server.idle().await;
    let bound = get(&claims, "data").await;
    assert_eq!(text(&bound, "/status/phase"), "Bound");
    assert_eq!(
        text(&bound, "/metadata/annotations/volume.kubernetes.io~1storage-provisioner"),
        "coracle.dev/local"
    );
    let name = format!("pvc-{}", text(&bound, "/metadata/uid"));
    let made = get(&volumes, &name).await;
    assert_eq!(text(&made, "/status/phase"), "Bound");
    assert_eq!(text(&made, "/spec/hostPath/path"), format!("/var/lib/coracle/volumes/{name}"));
    assert_eq!(text(&made, "/metadata/annotations/pv.kubernetes.io~1provisioned-by"), "coracle.dev/local");
    assert!(server.event_reasons().await.contains(&"ProvisioningSucceeded".to_owned()));

    merge(&claims, "data", json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}})).await;
    server.idle().await;
    assert_eq!(text(&get(&claims, "data").await, "/status/capacity/storage"), "3Gi");
    assert_eq!(text(&get(&volumes, &name).await, "/spec/capacity/storage"), "3Gi");

    claims.delete("data", &DeleteParams::default()).await.unwrap();
    server.idle().await;
    assert!(volumes.get_opt(&name).await.unwrap().is_none(), "the volume was not deleted");
    server.cluster.shutdown().await;
}

#[tokio::test]
async fn pod_and_its_volume_are_scheduled_together() {
    let server = TestServer::start().await;
    server.create_node("a", json!(null)).await;
    create(&server.api::<PersistentVolumeClaim>(), claim("data", json!({}))).await;
    let source = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "volumes": source});
    create(&server.api::<Pod>(), json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let is_scheduled = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    wait_for(LIMIT, &server.api::<Pod>(), "p", is_scheduled).await;
    let bound = get(&server.api::<PersistentVolumeClaim>(), "data").await;
    assert_eq!(text(&bound, "/status/phase"), "Bound");
    assert_eq!(text(&bound, "/metadata/annotations/volume.kubernetes.io~1selected-node"), "a");
    server.cluster.shutdown().await;
}
