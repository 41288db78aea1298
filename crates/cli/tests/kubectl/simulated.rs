//! Commands that connect to containers, with simulated nodes: they return at once with an error that names the
//! simulated node.

use crate::session::{Session, has};

const SIMULATED: &str = "runs on the simulated node \"fake-0\"";

async fn with_pod() -> Session {
    let kubectl = Session::start_with(&["--fake-nodes", "1"]).await;
    kubectl.ok("run web --image=nginx --annotations='fake.coracle.dev/logs=hello'").await;
    kubectl.ok("wait pod/web --for=condition=Ready --timeout=60s").await;
    kubectl
}

#[tokio::test]
async fn logs_print_lines_of_pod_annotation() {
    let kubectl = with_pod().await;
    assert_eq!(kubectl.ok("logs web").await, "hello\n");
    assert_eq!(kubectl.ok("logs -f web --tail=1").await, "hello\n");
    has(&kubectl.refused("logs web --previous").await, &["previous terminated container \"web\""]);
    kubectl.ok("annotate pod web fake.coracle.dev/logs-").await;
    has(&kubectl.ok("logs web").await, &["simulated node fake-0 runs no container"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn exec_attach_and_port_forward_fail_immediately() {
    let kubectl = with_pod().await;
    for line in ["exec web -- ls", "attach web", "port-forward pod/web :80"] {
        has(&kubectl.refused(line).await, &[SIMULATED]);
    }
    kubectl.stop().await;
}

#[tokio::test]
async fn debug_ends_with_the_log_of_its_container() {
    let kubectl = with_pod().await;
    let ran = kubectl.run("debug web --image=busybox --attach --container=shell", "").await;
    let stderr = String::from_utf8_lossy(&ran.stderr);
    has(&stderr, &["falling back to streaming logs", SIMULATED]);
    has(&String::from_utf8_lossy(&ran.stdout), &["hello"]);
    assert!(ran.status.success(), "{stderr}");
    kubectl.stop().await;
}

#[tokio::test]
async fn misspelt_annotation_is_warned_about_and_invalid_value_is_reported() {
    let kubectl = with_pod().await;
    let ran = kubectl.run("annotate pod web fake.coracle.dev/finish-aftr=1s", "").await;
    has(
        &String::from_utf8_lossy(&ran.stderr),
        &["Warning: annotation fake.coracle.dev/finish-aftr", "finish-after?"],
    );
    let ran = kubectl.run("run bad --image=nginx --annotations=fake.coracle.dev/finish-after=soon", "").await;
    has(&String::from_utf8_lossy(&ran.stderr), &["Warning: ", "\"soon\" is not a duration"]);
    let waiting = "'{.status.containerStatuses[0].state.waiting.reason}'=CreateContainerConfigError";
    kubectl.ok(&format!("wait pod/bad --for=jsonpath={waiting} --timeout=60s")).await;
    let pod = kubectl.json("get pod bad").await;
    let message = &pod["status"]["containerStatuses"][0]["state"]["waiting"]["message"];
    has(message.as_str().expect("a message"), &["finish-after", "\"soon\" is not a duration"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn pod_that_is_not_restarted_completes() {
    let kubectl = with_pod().await;
    kubectl.ok("run once --image=busybox --restart=Never -- date").await;
    kubectl.ok("wait pod/once --for=jsonpath='{.status.phase}'=Succeeded --timeout=60s").await;
    kubectl.stop().await;
}
