//! `delete`: how its options set finalizers and fields. Deleting dependents is the controllers' work.

use crate::session::{Session, has};

#[tokio::test]
async fn delete_removes_objects() {
    let kubectl = Session::start().await;
    for name in ["a", "b", "c", "d"] {
        kubectl.ok(&format!("create configmap {name}")).await;
    }
    kubectl.ok("label configmap a b some=label").await;
    has(&kubectl.ok("delete configmap c").await, &["configmap \"c\" deleted"]);
    has(&kubectl.refused("delete configmap c").await, &["NotFound"]);
    kubectl.ok("delete configmap c --ignore-not-found").await;
    has(&kubectl.ok("delete configmap d --dry-run=server").await, &["server dry run"]);
    let deleted = kubectl.ok("delete configmap -l some=label").await;
    has(&deleted, &["\"a\" deleted", "\"b\" deleted"]);
    kubectl.ok("get configmap d").await;
    kubectl.ok("delete configmap --all").await;
    has(&kubectl.refused("get configmap d").await, &["NotFound"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn delete_cascade_deletes_or_orphans_dependents() {
    let kubectl = Session::start().await;
    for cascade in ["orphan", "foreground"] {
        // Without pods, the rollout completes as soon as the ReplicaSet exists.
        kubectl.ok(&format!("create deployment {cascade} --image=nginx --replicas=0")).await;
        kubectl.ok(&format!("rollout status deployment {cascade} --timeout=60s")).await;
        kubectl.ok(&format!("delete deployment {cascade} --cascade={cascade}")).await;
        has(&kubectl.refused(&format!("get deployment {cascade}")).await, &["NotFound"]);
    }
    let sets = kubectl.ok("get replicasets -o name").await;
    assert!(sets.contains("/orphan-") && !sets.contains("/foreground-"), "{sets}");
    kubectl.ok("create deployment background --image=nginx").await;
    kubectl.ok("delete deployment background --cascade=background").await;
    has(&kubectl.refused("get deployment background").await, &["NotFound"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn delete_of_bound_pod_sets_grace_period() {
    let kubectl = Session::start().await;
    let pod = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  nodeName: one\n  containers: [{{name: c, image: i}}]\n"
        )
    };
    for name in ["slow", "fast", "forced"] {
        kubectl.ok_with("create -f -", &pod(name)).await;
    }
    kubectl.ok("delete pod slow --wait=false").await;
    has(&kubectl.ok("get pod slow").await, &["Terminating"]);
    let grace = "-o 'jsonpath={.metadata.deletionGracePeriodSeconds}'";
    assert_eq!(kubectl.ok(&format!("get pod slow {grace}")).await, "30");
    kubectl.ok("delete pod slow --grace-period=5 --wait=false").await;
    assert_eq!(kubectl.ok(&format!("get pod slow {grace}")).await, "5");
    kubectl.ok("delete pod fast --now --wait=false").await;
    assert_eq!(kubectl.ok(&format!("get pod fast {grace}")).await, "1");
    kubectl.ok("delete pod forced --grace-period=0 --force").await;
    has(&kubectl.refused("get pod forced").await, &["NotFound"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn delete_of_system_namespaces_is_rejected() {
    let kubectl = Session::start().await;
    for name in ["default", "kube-system", "kube-public"] {
        has(
            &kubectl.refused(&format!("delete namespace {name}")).await,
            &["this namespace may not be deleted"],
        );
    }
    kubectl.ok("create namespace doomed").await;
    kubectl.ok("delete namespace doomed --wait=false").await;
    kubectl.stop().await;
}
