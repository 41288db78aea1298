//! Commands that change a part of an object.

use serde_json::json;

use crate::session::{Session, has};

async fn with_deployment() -> Session {
    let kubectl = Session::start().await;
    kubectl.ok("create deployment web --image=nginx:1").await;
    kubectl
}

#[tokio::test]
async fn patch_supports_all_types() {
    let kubectl = with_deployment().await;
    let image = |web: &serde_json::Value| {
        web["spec"]["template"]["spec"]["containers"][0]["image"].as_str().map(str::to_owned)
    };
    let strategic = r#"'{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:2"}]}}}}'"#;
    has(&kubectl.ok(&format!("patch deployment web -p {strategic}")).await, &["web patched"]);
    assert_eq!(image(&kubectl.json("get deployment web").await).as_deref(), Some("nginx:2"));
    let json_patch =
        r#"'[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"nginx:3"}]'"#;
    kubectl.ok(&format!("patch deployment web --type=json -p {json_patch}")).await;
    assert_eq!(image(&kubectl.json("get deployment web").await).as_deref(), Some("nginx:3"));
    let merge = r#"'{"metadata":{"labels":{"app":null,"new":"label"}}}'"#;
    kubectl.ok(&format!("patch deployment web --type=merge -p {merge}")).await;
    assert_eq!(kubectl.json("get deployment web").await["metadata"]["labels"], json!({"new": "label"}));
    has(&kubectl.ok(&format!("patch deployment web --type=merge -p {merge}")).await, &["(no change)"]);
    let status = r#"'{"status":{"message":"by hand"}}'"#;
    kubectl.ok("run one --image=nginx").await;
    kubectl.ok(&format!("patch pod one --subresource=status --type=merge -p {status}")).await;
    assert_eq!(kubectl.json("get pod one").await["status"]["message"], "by hand");
    let wrong = r#"'{"spec":{"replicas":"many"}}'"#;
    has(&kubectl.refused(&format!("patch deployment web -p {wrong}")).await, &["replicas"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn labels_and_annotations_are_set_and_removed() {
    let kubectl = with_deployment().await;
    has(&kubectl.ok("label deployment web tier=front").await, &["deployment.apps/web labeled"]);
    has(&kubectl.refused("label deployment web tier=back").await, &["--overwrite is false"]);
    kubectl.ok("label deployment web tier=back --overwrite").await;
    has(&kubectl.ok("label deployment web --list").await, &["tier=back"]);
    kubectl.ok("label deployment web tier-").await;
    kubectl.ok("annotate deployment web note='two words'").await;
    assert_eq!(kubectl.json("get deployment web").await["metadata"]["annotations"]["note"], "two words");
    kubectl.ok("annotate deployment web note-").await;
    has(&kubectl.refused("label deployment web 'a b=c'").await, &["a b"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn set_changes_pod_templates() {
    let kubectl = with_deployment().await;
    kubectl.ok("set image deployment/web nginx=nginx:5").await;
    kubectl.ok("set env deployment/web A=b C=d").await;
    has(&kubectl.ok("set env deployment/web --list").await, &["A=b", "C=d"]);
    kubectl.ok("set env deployment/web A-").await;
    kubectl.ok("set resources deployment web --limits=cpu=200m,memory=64Mi --requests=cpu=100m").await;
    kubectl.ok("set serviceaccount deployment web robot").await;
    let web = kubectl.json("get deployment web").await;
    let spec = &web["spec"]["template"]["spec"];
    assert_eq!(spec["serviceAccountName"], "robot");
    let container = &spec["containers"][0];
    assert_eq!(
        (&container["image"], &container["env"]),
        (&json!("nginx:5"), &json!([{"name": "C", "value": "d"}]))
    );
    assert_eq!(container["resources"]["limits"], json!({"cpu": "200m", "memory": "64Mi"}));
    assert_eq!(web["metadata"]["generation"], 6);
    kubectl.ok("create service clusterip web --tcp=80").await;
    kubectl.ok("set selector service web app=other").await;
    kubectl.ok("create rolebinding b --role=r --user=u").await;
    kubectl.ok("set subject rolebinding b --user=v").await;
    kubectl.stop().await;
}

#[tokio::test]
async fn scale_changes_replicas() {
    let kubectl = with_deployment().await;
    has(&kubectl.ok("scale deployment web --replicas=3").await, &["deployment.apps/web scaled"]);
    has(&kubectl.ok("scale deployment web --replicas=4 --current-replicas=3").await, &["scaled"]);
    has(&kubectl.refused("scale deployment web --replicas=5 --current-replicas=3").await, &["Expected"]);
    let scale = kubectl.json("get deployment web --subresource=scale").await;
    assert_eq!((&scale["kind"], &scale["spec"]["replicas"]), (&json!("Scale"), &json!(4)));
    assert_eq!(scale["status"]["selector"], "app=web");
    kubectl.ok("autoscale deployment web --min=2 --max=5").await;
    has(&kubectl.ok("get hpa web").await, &["Deployment/web", "2", "5"]);
    has(
        &kubectl.ok("get horizontalpodautoscalers.v1.autoscaling web -o yaml").await,
        &["apiVersion: autoscaling/v1"],
    );
    kubectl.stop().await;
}

#[tokio::test]
async fn taint_and_cordon_change_nodes() {
    let kubectl = Session::start().await;
    kubectl.ok_with("create -f -", "apiVersion: v1\nkind: Node\nmetadata: {name: one}\n").await;
    has(&kubectl.ok("taint node one key=value:NoSchedule").await, &["node/one tainted"]);
    has(&kubectl.ok("describe node one").await, &["key=value:NoSchedule"]);
    kubectl.ok("taint node one key:NoSchedule-").await;
    has(&kubectl.ok("cordon one").await, &["node/one cordoned"]);
    has(&kubectl.ok("get nodes").await, &["SchedulingDisabled"]);
    assert_eq!(kubectl.ok("get nodes --field-selector=spec.unschedulable=true -o name").await, "node/one\n");
    has(&kubectl.ok("uncordon one").await, &["node/one uncordoned"]);
    has(&kubectl.ok("drain one").await, &["node/one drained"]);
    kubectl.stop().await;
}
