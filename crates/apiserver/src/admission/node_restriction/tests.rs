//! Tests of each check, with kube-apiserver's messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coracle_registry::kinds::certificates::certificate_signing_request::CertificateSigningRequest;
use coracle_registry::kinds::coordination::lease::Lease;
use coracle_registry::kinds::core::node::Node;
use coracle_registry::kinds::core::persistent_volume::PersistentVolume;
use coracle_registry::kinds::core::persistent_volume_claim::PersistentVolumeClaim;
use coracle_registry::kinds::core::pod::Pod;
use coracle_registry::kinds::core::service_account::ServiceAccount;
use coracle_registry::kinds::resource::resource_slice::ResourceSlice;
use coracle_registry::kinds::storage::csi_driver::CsiDriver;
use coracle_registry::kinds::storage::csi_node::CsiNode;
use coracle_registry::{Identity, Kind};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

use super::super::Operation::{Create, Delete, Update};
use super::super::testing::{Bench, masters_only, only};
use super::super::{Chain, Operation};
use super::NodeRestriction;

fn chain() -> Chain {
    only(NodeRestriction::new(masters_only()))
}

fn user(name: &str, groups: &[&str]) -> Identity {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    Identity { name: name.to_owned(), groups, ..Identity::default() }
}

/// A cluster in which the node `a` writes.
async fn bench() -> Bench {
    let bench = Bench::new().await;
    Bench { requester: user("system:node:a", &["system:nodes", "system:authenticated"]), ..bench }
}

/// A write, with the stored object.
struct Case<'a> {
    kind: &'a dyn Kind,
    part: &'a str,
    operation: Operation,
    old: Value,
    new: Value,
}

impl<'a> Case<'a> {
    fn create(kind: &'a dyn Kind, new: Value) -> Self {
        Self { kind, part: "", operation: Create, old: Value::Null, new }
    }

    fn update(kind: &'a dyn Kind, old: &Value, new: Value) -> Self {
        Self { kind, part: "", operation: Update, old: old.clone(), new }
    }

    fn delete(kind: &'a dyn Kind, old: &Value) -> Self {
        Self { kind, part: "", operation: Delete, old: old.clone(), new: old.clone() }
    }

    fn of(self, part: &'a str) -> Self {
        Self { part, ..self }
    }

    /// Checks the write; `fault` is the whole error message, empty if it is admitted.
    async fn check(self, bench: &Bench, fault: &str) {
        let old = Some(&self.old).filter(|old| !old.is_null());
        let outcome = bench.ask(&chain(), self.kind, self.part, self.operation, old, self.new).await;
        assert_eq!(outcome.err().unwrap_or_default(), fault);
    }
}

fn pod_on(node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]},
    })
}

fn pods(fault: &str) -> String {
    format!("pods \"p\" is forbidden: {fault}")
}

#[tokio::test]
async fn user_that_is_not_a_node_is_not_restricted() {
    let mut bench = bench().await;
    for (name, groups) in
        [("a", &["system:nodes"][..]), ("system:node:a", &["system:masters"]), ("admin", &["system:masters"])]
    {
        bench.requester = user(name, groups);
        Case::create(&Pod, pod_on("b")).check(&bench, "").await;
    }
    bench.requester = user("system:node:", &["system:nodes"]);
    let fault = pods("could not determine node from user \"system:node:\"");
    Case::create(&Pod, pod_on("b")).check(&bench, &fault).await;
}

/// A mirror pod of the node `a` with a change.
fn mirror(uid: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = pod_on("a");
    pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": uid, "controller": true}]);
    change(&mut pod);
    pod
}

#[tokio::test]
async fn node_creates_only_its_own_mirror_pods() {
    let bench = bench().await;
    let owned = || pods("node \"a\" can only create pods with an owner reference set to itself");
    Case::create(&Pod, mirror("u", |_| {})).check(&bench, "node \"a\" not found").await;
    bench.create(&Node, json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})).await;
    let node = bench.get(&Node, "a").await;
    let uid = node["metadata"]["uid"].as_str().unwrap();
    let mismatch = format!("node a UID mismatch: expected u got {uid}");
    let check = async |uid: &str, change: fn(&mut Value), fault: &str| {
        Case::create(&Pod, mirror(uid, change)).check(&bench, fault).await;
    };
    check(uid, |_| {}, "").await;
    check("u", |_| {}, &pods(&mismatch)).await;
    let no_mirror = pods(
        "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"a\" can only create mirror pods",
    );
    check(uid, |pod| pod["metadata"]["annotations"] = json!({}), &no_mirror).await;
    let elsewhere = pods("node \"a\" can only create pods with spec.nodeName set to itself");
    check(uid, |pod| pod["spec"]["nodeName"] = "b".into(), &elsewhere).await;
    check(uid, |pod| pod["metadata"]["ownerReferences"] = json!([]), &owned()).await;
    check(uid, |pod| pod["metadata"]["ownerReferences"][0]["name"] = "b".into(), &owned()).await;
    check(uid, |pod| pod["metadata"]["ownerReferences"][0]["kind"] = "Pod".into(), &owned()).await;
    let two = pods("node \"a\" can only create pods with a single owner reference set to itself");
    check(uid, |pod| pod["metadata"]["ownerReferences"] = json!([{}, {}]), &two).await;
    let controller = pods("node \"a\" can only create pods with a controller owner reference set to itself");
    check(uid, |pod| pod["metadata"]["ownerReferences"][0]["controller"] = false.into(), &controller).await;
    let block = pods("node \"a\" must not set blockOwnerDeletion on an owner reference");
    check(uid, |pod| pod["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = true.into(), &block).await;
}

#[tokio::test]
async fn mirror_pod_refers_to_no_api_objects() {
    let bench = bench().await;
    bench.create(&Node, json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})).await;
    let node = bench.get(&Node, "a").await;
    let uid = node["metadata"]["uid"].as_str().unwrap();
    let check = async |spec: Value, needed: &str| {
        let pod = mirror(uid, |pod| {
            let fields = spec.as_object().unwrap().clone();
            pod["spec"].as_object_mut().unwrap().extend(fields);
        });
        let fault = match needed {
            "" => String::new(),
            unknown if unknown.starts_with("unknown") => {
                pods(&format!("error checking mirror pod for API references: {unknown}"))
            }
            needed => pods(&format!("node \"a\" can not create pods that reference {needed}")),
        };
        Case::create(&Pod, pod).check(&bench, &fault).await;
    };
    let volume = |source: Value| {
        let mut volume = source;
        volume["name"] = "v".into();
        json!({"volumes": [volume]})
    };
    check(json!({"serviceAccountName": "s"}), "serviceaccounts").await;
    check(json!({"imagePullSecrets": [{"name": "s"}]}), "secrets").await;
    check(json!({"initContainers": [{"envFrom": [{"configMapRef": {"name": "c"}}]}]}), "configmaps").await;
    check(json!({"resourceClaims": [{"name": "r"}]}), "resourceclaims").await;
    for local in ["hostPath", "emptyDir", "downwardAPI", "image", "nfs"] {
        check(volume(json!({local: {}})), "").await;
    }
    check(volume(json!({"configMap": {}})), "configmaps (via configmap volumes)").await;
    check(volume(json!({"secret": {}})), "secrets (via secret volumes)").await;
    check(volume(json!({"csi": {}})), "csidrivers (via CSI volumes)").await;
    check(volume(json!({"glusterfs": {}})), "endpoints (via glusterFS volumes)").await;
    check(volume(json!({"persistentVolumeClaim": {}})), "persistentvolumeclaims").await;
    check(volume(json!({"ephemeral": {}})), "persistentvolumeclaims (via ephemeral volumes)").await;
    check(volume(json!({"azureFile": {}})), "secrets (via azureFile volumes)").await;
    check(volume(json!({"new": {}})), "unknown volume type for volume  \"v\"").await;
    let projected =
        |source: &str| volume(json!({"projected": {"sources": [{"downwardAPI": {}}, {source: {}}]}}));
    check(projected("downwardAPI"), "").await;
    check(projected("configMap"), "configmaps (via projected volumes)").await;
    check(projected("secret"), "secrets (via projected volumes)").await;
    check(projected("serviceAccountToken"), "serviceaccounts (via projected volumes)").await;
    check(projected("clusterTrustBundle"), "clustertrustbundles").await;
    check(projected("podCertificate"), "podcertificates").await;
    check(projected("new"), "unknown source for projected volume \"v\"").await;
}

#[tokio::test]
async fn node_a_cannot_touch_the_pods_of_node_b() {
    let bench = bench().await;
    let (own, other) = (pod_on("a"), pod_on("b"));
    let delete = pods("node \"a\" can only delete pods with spec.nodeName set to itself");
    Case::delete(&Pod, &own).check(&bench, "").await;
    Case::delete(&Pod, &other).check(&bench, &delete).await;
    let update = pods("unexpected operation \"UPDATE\", node \"a\" can only create and delete mirror pods");
    Case::update(&Pod, &own, own.clone()).check(&bench, &update).await;
    let status = pods("node \"a\" can only update pod status for pods with spec.nodeName set to itself");
    Case::update(&Pod, &own, own.clone()).of("status").check(&bench, "").await;
    Case::update(&Pod, &other, own.clone()).of("status").check(&bench, &status).await;
    for part in ["binding", "ephemeralcontainers", "resize"] {
        let fault =
            pods(&format!("unexpected pod subresource \"{part}\", only 'status' and 'eviction' are allowed"));
        Case::update(&Pod, &own, own.clone()).of(part).check(&bench, &fault).await;
    }
    let created = pods("unexpected operation \"CREATE\"");
    Case::create(&Pod, own.clone()).of("status").check(&bench, &created).await;
}

#[tokio::test]
async fn pod_status_update_changes_neither_labels_nor_claims() {
    let bench = bench().await;
    let old = json!({
        "metadata": {"name": "p", "labels": {"l": "1"}}, "spec": {"nodeName": "a"},
        "status": {
            "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "made"}],
            "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
        },
    });
    let check = async |change: fn(&mut Value), fault: &str| {
        let mut new = old.clone();
        change(&mut new);
        Case::update(&Pod, &old, new).of("status").check(&bench, fault).await;
    };
    check(|pod| pod["status"]["phase"] = "Running".into(), "").await;
    let labels = pods("node \"a\" cannot update labels through pod status");
    check(|pod| pod["metadata"]["labels"]["l"] = "2".into(), &labels).await;
    check(|pod| pod["metadata"]["labels"] = Value::Null, &labels).await;
    let claims = pods("node \"a\" cannot update resource claim statues");
    check(|pod| pod["status"]["resourceClaimStatuses"][0]["resourceClaimName"] = "x".into(), &claims).await;
    check(|pod| pod["status"]["resourceClaimStatuses"] = json!([]), &claims).await;
    let extended = pods("node \"a\" cannot update extended resource claim status");
    check(|pod| pod["status"]["extendedResourceClaimStatus"] = Value::Null, &extended).await;
}

#[tokio::test]
async fn node_evicts_only_its_own_pods() {
    let bench = bench().await;
    let eviction = || json!({"metadata": {"name": "p"}});
    Case::create(&Pod, eviction()).of("eviction").check(&bench, "pod \"p\" not found").await;
    bench.create(&Pod, pod_on("a")).await;
    Case::create(&Pod, eviction()).of("eviction").check(&bench, "").await;
    bench
        .create(
            &Pod,
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"},
                "spec": {"nodeName": "b", "containers": [{"name": "c", "image": "i"}]},
            }),
        )
        .await;
    let fault = "pods \"q\" is forbidden: node a can only evict pods with spec.nodeName set to itself";
    Case::create(&Pod, json!({"metadata": {"name": "q"}})).of("eviction").check(&bench, fault).await;
}

#[tokio::test]
async fn node_a_cannot_write_the_node_object_of_node_b() {
    let bench = bench().await;
    let node = |name: &str| json!({"metadata": {"name": name}, "spec": {}});
    let fault = "nodes \"b\" is forbidden: node \"a\" is not allowed to modify node \"b\"";
    Case::create(&Node, node("a")).check(&bench, "").await;
    Case::create(&Node, node("b")).check(&bench, fault).await;
    for part in ["", "status"] {
        Case::update(&Node, &node("a"), node("a")).of(part).check(&bench, "").await;
        Case::update(&Node, &node("b"), node("b")).of(part).check(&bench, fault).await;
    }
    Case::delete(&Node, &node("b")).check(&bench, fault).await;
}

#[tokio::test]
async fn node_cannot_change_labels_or_taints_that_attract_pods() {
    let bench = bench().await;
    let old = json!({
        "metadata": {"name": "a", "labels": {"example.com/a": "1", "node-restriction.kubernetes.io/pci": "1"}},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    });
    let check = async |change: fn(&mut Value), fault: &str| {
        let mut new = old.clone();
        change(&mut new);
        let fault =
            if fault.is_empty() { String::new() } else { format!("nodes \"a\" is forbidden: {fault}") };
        Case::update(&Node, &old, new).check(&bench, &fault).await;
    };
    check(|node| node["metadata"]["labels"]["example.com/a"] = "2".into(), "").await;
    check(|node| node["metadata"]["labels"]["kubernetes.io/os"] = "linux".into(), "").await;
    check(|node| node["metadata"]["labels"]["sub.node.kubernetes.io/x"] = "".into(), "").await;
    check(|node| node["metadata"]["labels"]["kubelet.kubernetes.io/x"] = "".into(), "").await;
    check(
        |node| {
            let labels = json!({
                "example.com/a": "1", "x.k8s.io/z": "", "kubernetes.io/a": "",
                "sub.node-restriction.kubernetes.io/b": "", "notkubernetes.io/c": "",
            });
            node["metadata"]["labels"] = labels;
        },
        "is not allowed to modify labels: kubernetes.io/a, node-restriction.kubernetes.io/pci, \
         sub.node-restriction.kubernetes.io/b, x.k8s.io/z",
    )
    .await;
    check(|node| node["spec"]["taints"] = json!([]), "node \"a\" is not allowed to modify taints").await;
    let owners = "node \"a\" is not allowed to modify ownerReferences";
    check(|node| node["metadata"]["ownerReferences"] = json!([{"name": "x"}]), owners).await;
    let source = "node \"a\" is not allowed to update configSource to a new non-nil configSource";
    check(|node| node["spec"]["configSource"] = json!({"configMap": {}}), source).await;
    let new = json!({"metadata": {"name": "a", "labels": {"kubernetes.io/role": "x", "kubernetes.io/os": "linux"}}});
    let fault =
        "nodes \"a\" is forbidden: node \"a\" is not allowed to set the following labels: kubernetes.io/role";
    Case::create(&Node, new).check(&bench, fault).await;
    let new = json!({"metadata": {"name": "a"}, "spec": {"configSource": {}}});
    let fault =
        "nodes \"a\" is forbidden: node \"a\" is not allowed to create pods with a non-nil configSource";
    Case::create(&Node, new).check(&bench, fault).await;
}

#[tokio::test]
async fn node_updates_only_the_resize_status_of_claims() {
    let bench = bench().await;
    let old = json!({
        "metadata": {"name": "c", "resourceVersion": "1"},
        "spec": {"volumeName": "v"}, "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}},
    });
    let check = async |change: fn(&mut Value), fault: &str| {
        let mut new = old.clone();
        change(&mut new);
        Case::update(&PersistentVolumeClaim, &old, new).of("status").check(&bench, fault).await;
    };
    check(|claim| claim["status"]["capacity"]["storage"] = "2Gi".into(), "").await;
    check(|claim| claim["status"]["conditions"] = json!([{"type": "x"}]), "").await;
    check(|claim| claim["status"]["allocatedResources"] = json!({"storage": "2Gi"}), "").await;
    check(|claim| claim["metadata"]["resourceVersion"] = "".into(), "").await;
    let fault = "persistentvolumeclaims \"c\" is forbidden: node \"a\" is not allowed to update fields other than \
                 status.quantity and status.conditions: ";
    check(|claim| claim["metadata"]["labels"] = json!({"l": "1"}), &format!("{fault}metadata")).await;
    check(|claim| claim["status"]["phase"] = "Lost".into(), &format!("{fault}status")).await;
    let whole = "persistentvolumeclaims \"c\" is forbidden: may only update PVC status";
    Case::update(&PersistentVolumeClaim, &old, old.clone()).check(&bench, whole).await;
    Case::delete(&PersistentVolumeClaim, &old).check(&bench, whole).await;
}

#[tokio::test]
async fn node_a_cannot_write_the_lease_of_node_b() {
    let mut bench = bench().await;
    let lease = |name: &str| json!({"metadata": {"name": name}});
    let place = "leases.coordination.k8s.io \"a\" is forbidden: can only access leases in the \"kube-node-lease\" system namespace";
    Case::create(&Lease, lease("a")).check(&bench, place).await;
    bench.namespace = "kube-node-lease";
    let fault = "leases.coordination.k8s.io \"b\" is forbidden: can only access node lease with the same name as the requesting node";
    Case::create(&Lease, lease("a")).check(&bench, "").await;
    Case::create(&Lease, lease("b")).check(&bench, fault).await;
    Case::update(&Lease, &lease("a"), lease("a")).check(&bench, "").await;
    Case::update(&Lease, &lease("b"), lease("b")).check(&bench, fault).await;
    Case::delete(&Lease, &lease("b")).check(&bench, fault).await;
}

#[tokio::test]
async fn node_a_cannot_write_resource_slices_of_node_b() {
    let bench = bench().await;
    let named = |name: &str| json!({"metadata": {"name": name}});
    let fault = "csinodes.storage.k8s.io \"b\" is forbidden: can only access CSINode with the same name as the requesting node";
    Case::create(&CsiNode, named("a")).check(&bench, "").await;
    Case::create(&CsiNode, named("b")).check(&bench, fault).await;
    Case::update(&CsiNode, &named("b"), named("b")).check(&bench, fault).await;
    let slice = |node: Value| json!({"metadata": {"name": "s"}, "spec": {"nodeName": node}});
    let fault = |done: &str| {
        format!(
            "resourceslices.resource.k8s.io \"s\" is forbidden: can only {done} ResourceSlice with the same NodeName as the requesting node"
        )
    };
    Case::create(&ResourceSlice, slice("a".into())).check(&bench, "").await;
    Case::create(&ResourceSlice, slice("b".into())).check(&bench, &fault("create")).await;
    Case::create(&ResourceSlice, slice(Value::Null)).check(&bench, &fault("create")).await;
    Case::delete(&ResourceSlice, &slice("a".into())).check(&bench, "").await;
    Case::delete(&ResourceSlice, &slice("b".into())).check(&bench, &fault("delete")).await;
}

#[tokio::test]
async fn node_requests_certificates_of_its_own_name_only() {
    let bench = bench().await;
    let request = |signer: &str, pem: &str| json!({"metadata": {"name": "r"}, "spec": {"signerName": signer, "request": STANDARD.encode(pem)}});
    let pem = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
    };
    let forbidden =
        |fault: &str| format!("certificatesigningrequests.certificates.k8s.io \"r\" is forbidden: {fault}");
    let other = forbidden("can only create a node CSR with CN=system:node:a");
    for signer in super::others::KUBELET_SIGNERS {
        let check = async |pem: &str, fault: &str| {
            Case::create(&CertificateSigningRequest, request(signer, pem)).check(&bench, fault).await;
        };
        check(&pem("system:node:a"), "").await;
        check(&pem("system:node:b"), &other).await;
        check(&pem("admin"), &other).await;
        check("nothing", &forbidden("unable to parse csr: PEM block type must be CERTIFICATE REQUEST")).await;
    }
    let elsewhere = request("example.com/signer", &pem("anybody"));
    Case::create(&CertificateSigningRequest, elsewhere).check(&bench, "").await;
}

fn accounts(fault: &str) -> String {
    format!("serviceaccounts \"s\" is forbidden: {fault}")
}

fn token(uid: &str, audiences: &[&str]) -> Value {
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid});
    json!({"metadata": {"name": "s"}, "spec": {"audiences": audiences, "boundObjectRef": bound}})
}

#[tokio::test]
async fn node_a_gets_no_token_for_a_pod_of_node_b() {
    let bench = bench().await;
    let check = async |request: Value, fault: &str| {
        Case::create(&ServiceAccount, request).of("token").check(&bench, fault).await;
    };
    let unbound = accounts("node requested token not bound to a pod");
    check(json!({"metadata": {"name": "s"}}), &unbound).await;
    let mut to_secret = token("u", &[]);
    to_secret["spec"]["boundObjectRef"]["kind"] = "Secret".into();
    check(to_secret, &unbound).await;
    check(token("", &[]), &accounts("node requested token with a pod binding without a uid")).await;
    check(token("u", &[]), "pod \"p\" not found").await;
    let mut pod = pod_on("b");
    pod["spec"]["serviceAccountName"] = "s".into();
    bench.create(&Pod, pod).await;
    let stale = "the UID in the bound object reference (u) does not match the UID in record. The object might have been deleted and then recreated";
    check(token("u", &[]), &accounts(stale)).await;
    let pod = bench.get(&Pod, "p").await;
    let elsewhere = accounts("node requested token bound to a pod scheduled on a different node");
    check(token(pod["metadata"]["uid"].as_str().unwrap(), &[]), &elsewhere).await;
}

#[tokio::test]
async fn token_audience_must_be_named_by_a_volume_of_the_pod() {
    let bench = bench().await;
    let source = |audience: &str| json!({"serviceAccountToken": {"path": "t", "audience": audience}});
    let mut pod = pod_on("a");
    pod["spec"]["serviceAccountName"] = "s".into();
    pod["spec"]["volumes"] = json!([
        {"name": "own", "projected": {"sources": [source("vault"), source("")]}},
        {"name": "claimed", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "inline", "csi": {"driver": "inline.example.com"}},
    ]);
    bench.create(&Pod, pod).await;
    let pod = bench.get(&Pod, "p").await;
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let check = async |audiences: &[&str], fault: &str| {
        Case::create(&ServiceAccount, token(uid, audiences)).of("token").check(&bench, fault).await;
    };
    check(&[], "").await;
    check(&["vault"], "").await;
    check(&["vault", "x"], &accounts("node may only request 0 or 1 audiences")).await;
    let missing = accounts(
        "error validating audience \"x\": [persistentvolumeclaim \"c\" not found, csidriver.storage.k8s.io \"inline.example.com\" not found]",
    );
    check(&["x"], &missing).await;
    let driver = |name: &str, audience: &str| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name},
            "spec": {"tokenRequests": [{"audience": audience}]},
        })
    };
    bench.create(&CsiDriver, driver("inline.example.com", "inline")).await;
    bench.create(&CsiDriver, driver("ebs.csi.aws.com", "claimed")).await;
    bench
        .create(
            &PersistentVolume,
            json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
                "spec": {
                    "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                    "awsElasticBlockStore": {"volumeID": "i"},
                },
            }),
        )
        .await;
    bench.create(&PersistentVolumeClaim, json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
        "spec": {
            "volumeName": "v", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        },
    })).await;
    check(&["inline"], "").await;
    check(&["claimed"], "").await;
    let refused = accounts(
        "audience \"x\" not found in pod spec volume, system:node:a is not authorized to request tokens for this audience",
    );
    check(&["x"], &refused).await;
}
