//! `get`, `describe`, `events` and `wait`.

use crate::session::{Session, has};

async fn with_pods() -> Session {
    let kubectl = Session::start().await;
    for (name, tier) in [("b", "front"), ("a", "back"), ("c", "front")] {
        kubectl.ok(&format!("run {name} --image=nginx --labels=tier={tier}")).await;
    }
    kubectl
}

#[tokio::test]
async fn get_supports_every_output_format() {
    let kubectl = with_pods().await;
    has(&kubectl.ok("get pods").await, &["NAME", "READY", "STATUS", "RESTARTS", "AGE", "0/1", "Pending"]);
    has(&kubectl.ok("get pods -o wide").await, &["NODE", "NOMINATED NODE", "READINESS GATES", "<none>"]);
    has(&kubectl.ok("get pod a -o yaml").await, &["apiVersion: v1\n", "kind: Pod\n", "  name: a\n"]);
    assert_eq!(kubectl.json("get pod a").await["metadata"]["name"], "a");
    assert_eq!(kubectl.ok("get pods -o name").await, "pod/a\npod/b\npod/c\n");
    let path = "'jsonpath={.items[*].metadata.name}'";
    assert_eq!(kubectl.ok(&format!("get pods -o {path}")).await, "a b c");
    let template = "'go-template={{range .items}}{{.metadata.name}};{{end}}'";
    assert_eq!(kubectl.ok(&format!("get pods -o {template}")).await, "a;b;c;");
    let columns = "custom-columns=N:.metadata.name,T:.metadata.labels.tier";
    has(&kubectl.ok(&format!("get pods -o {columns}")).await, &["N     T", "a     back", "c     front"]);
    has(&kubectl.ok("get pods --show-labels").await, &["LABELS", "tier=back"]);
    has(&kubectl.ok("get pods -L tier").await, &["TIER", "front"]);
    assert!(!kubectl.ok("get pods --no-headers").await.contains("NAME"));
    has(&kubectl.ok("get pod/a service/kubernetes").await, &["pod/a", "service/kubernetes"]);
    has(&kubectl.ok("get all -A").await, &["pod/a", "service/kubernetes"]);
    has(&kubectl.ok("get pod a --show-managed-fields -o yaml").await, &["managedFields", "kubectl-run"]);
    has(&kubectl.ok("get pod a --subresource=status -o yaml").await, &["phase: Pending"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn get_selects_and_sorts_objects() {
    let kubectl = with_pods().await;
    assert_eq!(kubectl.ok("get pods -l tier=front -o name").await, "pod/b\npod/c\n");
    assert_eq!(kubectl.ok("get pods -l 'tier in (back,none)' -o name").await, "pod/a\n");
    assert_eq!(kubectl.ok("get pods --field-selector=metadata.name!=a -o name").await, "pod/b\npod/c\n");
    assert_eq!(
        kubectl.ok("get pods --field-selector=status.phase=Pending,metadata.name=c -o name").await,
        "pod/c\n"
    );
    let sorted = kubectl.ok("get pods --sort-by=.metadata.creationTimestamp --no-headers").await;
    assert_eq!(sorted.lines().count(), 3);
    let sorted = kubectl.ok("get pods --sort-by=.metadata.labels.tier -o name").await;
    assert!(sorted.starts_with("pod/a\n"), "{sorted}");
    assert_eq!(kubectl.ok("get pods --chunk-size=1 -o name").await, "pod/a\npod/b\npod/c\n");
    has(&kubectl.ok("get pods -A").await, &["NAMESPACE", "default"]);
    has(&kubectl.refused("get pods --field-selector=spec.nothing=x").await, &["field label not supported"]);
    has(&kubectl.refused("get pods -l 'a in b'").await, &["unable to parse requirement"]);
    has(&kubectl.refused("get pod none").await, &["Error from server (NotFound): pods \"none\" not found"]);
    has(&kubectl.refused("get nothings").await, &["the server doesn't have a resource type \"nothings\""]);
    assert_eq!(kubectl.ok("get pod none --ignore-not-found").await, "");
    kubectl.stop().await;
}

#[tokio::test]
async fn get_watch_prints_changes() {
    let kubectl = with_pods().await;
    let mut rows = kubectl.follow("get pods -w");
    rows.line_with("c ").await;
    kubectl.ok("run d --image=nginx").await;
    rows.line_with("d ").await;
    let mut events = kubectl.follow("get pods -w --output-watch-events -o name");
    events.line_with("pod/d").await;
    kubectl.ok("delete pod d --wait=false").await;
    rows.line_with("d ").await;
    events.line_with("pod/d").await;
    let mut one = kubectl.follow("get pod a -w -o 'jsonpath={.metadata.labels.tier}{\"\\n\"}'");
    one.line_with("back").await;
    kubectl.ok("label pod a tier=middle --overwrite").await;
    one.line_with("middle").await;
    kubectl.stop().await;
}

#[tokio::test]
async fn describe_prints_objects() {
    let kubectl = with_pods().await;
    has(
        &kubectl.ok("describe pod a").await,
        &["Name:", "a", "Labels:", "tier=back", "Containers:", "Events:"],
    );
    kubectl.ok("create deployment web --image=nginx").await;
    has(&kubectl.ok("describe deployment web").await, &["StrategyType:", "RollingUpdate", "Pod Template:"]);
    has(&kubectl.ok("describe service kubernetes").await, &["ClusterIP", "443/TCP", "Endpoints:"]);
    has(&kubectl.ok("describe namespace default").await, &["Status:", "Active"]);
    for kind in ["configmap", "secret", "serviceaccount", "node", "ingress", "priorityclass", "networkpolicy"]
    {
        kubectl.run(&format!("describe {kind}"), "").await;
    }
    kubectl.ok("describe all -A").await;
    kubectl.stop().await;
}

#[tokio::test]
async fn events_are_listed() {
    let kubectl = with_pods().await;
    let uid = kubectl.ok("get pod a -o 'jsonpath={.metadata.uid}'").await;
    let event = format!(
        "apiVersion: v1\nkind: Event\nmetadata: {{name: a.1, namespace: default}}\ninvolvedObject: {{kind: Pod, name: a, namespace: default, uid: {uid}, apiVersion: v1}}\nreason: Tested\nmessage: it was looked at\ntype: Normal\nfirstTimestamp: '2026-01-02T03:04:05Z'\nlastTimestamp: '2026-01-02T03:04:05Z'\ncount: 1\nsource: {{component: test}}\n"
    );
    kubectl.ok_with("create -f -", &event).await;
    has(&kubectl.ok("events").await, &["Tested", "Pod/a", "it was looked at"]);
    has(&kubectl.ok("events --for=pod/a --types=Normal").await, &["Tested"]);
    has(&kubectl.ok("get events").await, &["LAST SEEN", "Tested", "pod/a"]);
    has(&kubectl.ok("get events.events.k8s.io -o yaml").await, &["note: it was looked at", "regarding:"]);
    has(&kubectl.ok("describe pod a").await, &["it was looked at"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn wait_returns_on_condition() {
    let kubectl = with_pods().await;
    kubectl.ok("wait pod/a '--for=jsonpath={.status.phase}=Pending' --timeout=60s").await;
    let mut deleted = kubectl.follow_log("wait pod/b --for=delete --timeout=60s");
    deleted.line_with("watch=true").await;
    kubectl.ok("delete pod b").await;
    deleted.succeeds().await;
    let mut created = kubectl.follow("wait pod/late --for=create --timeout=60s");
    kubectl.ok("run late --image=nginx").await;
    created.line_with("pod/late condition met").await;
    let status = r#"'{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'"#;
    kubectl.ok(&format!("patch pod late --subresource=status -p {status}")).await;
    has(&kubectl.ok("wait pod/late --for=condition=Ready --timeout=60s").await, &["condition met"]);
    has(&kubectl.refused("wait pod/a --for=condition=Ready --timeout=1ms").await, &["timed out"]);
    kubectl.stop().await;
}
