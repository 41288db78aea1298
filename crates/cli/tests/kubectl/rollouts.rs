//! `kubectl rollout`; the test sets the pods ready, because no node runs.

use crate::session::{Session, has};

/// The status that a kubelet would report.
const READY: &str = r#"'{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}'"#;

/// Sets pods ready until `rollout status` returns; returns its output.
async fn rolled_out(kubectl: &Session) -> String {
    let nodes = async {
        loop {
            let pods = kubectl.ok("get pods -o name --field-selector=status.phase=Pending").await;
            for pod in pods.lines() {
                // The pod may have been deleted meanwhile.
                kubectl.run(&format!("patch {pod} --subresource=status --type=merge -p {READY}"), "").await;
            }
        }
    };
    // Both are safe to drop: unfinished commands are killed.
    tokio::select! {
        said = kubectl.ok("rollout status deployment/web --timeout=100s") => said,
        () = nodes => unreachable!("nodes do not stop"),
    }
}

async fn image(kubectl: &Session) -> String {
    kubectl.ok("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}").await
}

/// Creates a deployment of two pods and completes its rollout.
async fn with_rollout() -> Session {
    let kubectl = Session::start().await;
    kubectl.ok("create deployment web --image=nginx:1 --replicas=2").await;
    has(&rolled_out(&kubectl).await, &["deployment \"web\" successfully rolled out"]);
    kubectl
}

#[tokio::test]
async fn rollout_status_history_and_undo_work() {
    let kubectl = with_rollout().await;
    has(&kubectl.ok("get deployment web").await, &["2/2"]);
    kubectl.ok("set image deployment/web nginx=nginx:2").await;
    kubectl.ok("annotate deployment web kubernetes.io/change-cause='to two'").await;
    has(&rolled_out(&kubectl).await, &["successfully rolled out"]);
    has(&kubectl.ok("rollout history deployment/web").await, &["1         <none>", "2         to two"]);
    let second = kubectl.ok("rollout history deployment/web --revision=2").await;
    has(&second, &["with revision #2", "pod-template-hash=", "Image:\tnginx:2"]);

    has(&kubectl.ok("rollout undo deployment/web").await, &["deployment.apps/web rolled back"]);
    rolled_out(&kubectl).await;
    assert_eq!(image(&kubectl).await, "nginx:1");
    let history = kubectl.ok("rollout history deployment/web").await;
    has(&history, &["2         to two", "3         <none>"]);
    assert!(!history.contains("\n1 "), "{history}");
    kubectl.ok("rollout undo deployment/web --to-revision=2").await;
    rolled_out(&kubectl).await;
    assert_eq!(image(&kubectl).await, "nginx:2");
    has(&kubectl.refused("rollout undo deployment/web --to-revision=9").await, &["unable to find"]);

    let described = kubectl.ok("describe deployment web").await;
    has(
        &described,
        &["NewReplicaSetAvailable", "MinimumReplicasAvailable", "OldReplicaSets:", "ScalingReplicaSet"],
    );
    has(&described, &["2 desired | 2 updated | 2 total | 2 available | 0 unavailable"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn rollout_pause_resume_and_restart_work() {
    let kubectl = with_rollout().await;
    has(&kubectl.ok("rollout pause deployment web").await, &["deployment.apps/web paused"]);
    kubectl.ok("set image deployment/web nginx=nginx:2").await;
    has(&kubectl.refused("rollout undo deployment/web --to-revision=1").await, &["paused"]);
    let paused = "--for=jsonpath={.status.conditions[?(@.type==\"Progressing\")].reason}=DeploymentPaused";
    kubectl.ok(&format!("wait deployment/web '{paused}' --timeout=100s")).await;
    assert_eq!(kubectl.ok("get replicasets -o name").await.lines().count(), 1);
    kubectl.ok("rollout resume deployment web").await;
    rolled_out(&kubectl).await;
    assert_eq!(kubectl.ok("get replicasets -o name").await.lines().count(), 2);

    kubectl.ok("rollout restart deployment web").await;
    rolled_out(&kubectl).await;
    let pods = kubectl.json("get pods").await;
    let pods = pods["items"].as_array().cloned().unwrap_or_default();
    assert_eq!(pods.len(), 2);
    for pod in &pods {
        let annotations = &pod["metadata"]["annotations"];
        assert!(annotations["kubectl.kubernetes.io/restartedAt"].is_string(), "{pod}");
    }
    kubectl.ok("wait deployment/web --for=condition=Available --timeout=100s").await;
    kubectl.stop().await;
}
