//! `apply` on the client side and the server side, `diff`, `replace` and `edit`.

use serde_json::json;

use crate::session::{Session, has};

const DEPLOYMENT: &str = "apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {set: a}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: nginx:1
        ports: [{containerPort: 80}]
      - name: log
        image: fluentd:1
";

#[tokio::test]
async fn client_side_apply_creates_and_updates() {
    let kubectl = Session::start().await;
    kubectl.file("web.yaml", DEPLOYMENT);
    has(&kubectl.ok("apply -f web.yaml").await, &["deployment.apps/web created"]);
    has(&kubectl.ok("apply -f web.yaml").await, &["deployment.apps/web unchanged"]);
    kubectl.ok("scale deployment web --replicas=4").await;
    let one_container = DEPLOYMENT.replace("nginx:1", "nginx:2").replace("  replicas: 1\n", "");
    kubectl.file("web.yaml", one_container.split("      - name: log").next().expect("a part"));
    has(&kubectl.ok("apply -f web.yaml").await, &["deployment.apps/web configured"]);
    let web = kubectl.json("get deployment web").await;
    let containers = web["spec"]["template"]["spec"]["containers"].as_array().expect("containers");
    assert_eq!((containers.len(), &containers[0]["image"]), (1, &json!("nginx:2")));
    has(&kubectl.ok("apply view-last-applied deployment/web").await, &["image: nginx:2"]);
    kubectl.ok("apply set-last-applied -f web.yaml").await;
    has(&kubectl.ok("apply -f web.yaml --dry-run=server").await, &["(server dry run)"]);
    let two =
        format!("{DEPLOYMENT}---\n{}", DEPLOYMENT.replace("name: web\n  labels", "name: two\n  labels"));
    kubectl.file("two.yaml", &two);
    kubectl.ok("apply -f two.yaml --prune -l set=a").await;
    kubectl.file("one.yaml", DEPLOYMENT);
    has(&kubectl.ok("apply -f one.yaml --prune -l set=a").await, &["deployment.apps/two pruned"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn server_side_apply_creates_and_updates() {
    let kubectl = Session::start().await;
    kubectl.file("web.yaml", DEPLOYMENT);
    has(&kubectl.ok("apply --server-side -f web.yaml").await, &["deployment.apps/web serverside-applied"]);
    kubectl.file("other.yaml", &DEPLOYMENT.replace("nginx:1", "nginx:2"));
    let conflict = kubectl.refused("apply --server-side -f other.yaml --field-manager=other").await;
    has(&conflict, &["conflict", "kubectl", "image"]);
    kubectl.ok("apply --server-side -f other.yaml --field-manager=other --force-conflicts").await;
    let web = kubectl.json("get deployment web --show-managed-fields").await;
    let managers = web["metadata"]["managedFields"].as_array().expect("managers");
    assert!(
        managers.iter().any(|entry| entry["manager"] == "other" && entry["operation"] == "Apply"),
        "{web}"
    );
    has(
        &kubectl.ok("apply --server-side -f web.yaml --dry-run=server --force-conflicts").await,
        &["dry run"],
    );
    // Migration from client-side to server-side apply.
    kubectl.ok("create namespace moved").await;
    kubectl.ok("apply -n moved -f web.yaml").await;
    kubectl.ok("apply -n moved --server-side -f web.yaml").await;
    kubectl.stop().await;
}

#[tokio::test]
async fn diff_shows_changes() {
    let kubectl = Session::start().await;
    kubectl.file("web.yaml", DEPLOYMENT);
    kubectl.ok("apply -f web.yaml").await;
    assert_eq!(kubectl.ok("diff -f web.yaml").await, "");
    kubectl.file("web.yaml", &DEPLOYMENT.replace("replicas: 1", "replicas: 3"));
    for line in ["diff -f web.yaml", "diff --server-side --force-conflicts -f web.yaml"] {
        let ran = kubectl.run(line, "").await;
        assert_eq!(ran.status.code(), Some(1), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
        has(&String::from_utf8_lossy(&ran.stdout), &["-  replicas: 1", "+  replicas: 3"]);
    }
    assert_eq!(kubectl.json("get deployment web").await["spec"]["replicas"], 1);
    kubectl.stop().await;
}

#[tokio::test]
async fn replace_and_edit_change_objects() {
    let kubectl = Session::start().await;
    kubectl.file("web.yaml", DEPLOYMENT);
    kubectl.ok("create -f web.yaml").await;
    kubectl.file("web.yaml", &DEPLOYMENT.replace("replicas: 1", "replicas: 3"));
    has(&kubectl.ok("replace -f web.yaml").await, &["deployment.apps/web replaced"]);
    assert_eq!(kubectl.json("get deployment web").await["spec"]["replicas"], 3);
    let before = kubectl.ok("get deployment web -o 'jsonpath={.metadata.uid}'").await;
    has(&kubectl.ok("replace --force -f web.yaml").await, &["deleted", "replaced"]);
    assert_ne!(kubectl.ok("get deployment web -o 'jsonpath={.metadata.uid}'").await, before);
    let edited = kubectl.ok_edited("edit deployment web", "s/replicas: 3/replicas: 5/").await;
    has(&edited, &["deployment.apps/web edited"]);
    assert_eq!(kubectl.json("get deployment web").await["spec"]["replicas"], 5);
    let stale = kubectl.ok("get deployment web -o yaml").await;
    kubectl.ok("label deployment web new=label").await;
    has(&kubectl.refused_with("replace -f -", &stale).await, &["the object has been modified"]);
    kubectl.stop().await;
}
