//! `create`, with every generator, `run` and `expose`.

use serde_json::json;

use crate::session::{Session, has};

/// Generators without prerequisites, and the objects they create.
const GENERATORS: &[(&str, &str)] = &[
    ("create namespace made", "namespace/made"),
    ("create configmap cm --from-literal=a=b --from-literal=c=d", "configmap/cm"),
    ("create secret generic plain --from-literal=password=secret", "secret/plain"),
    (
        "create secret docker-registry pull --docker-username=u --docker-password=p --docker-server=registry.example.com",
        "secret/pull",
    ),
    ("create serviceaccount robot", "serviceaccount/robot"),
    ("create deployment web --image=nginx --replicas=2 --port=80", "deployment.apps/web"),
    ("create job once --image=busybox -- date", "job.batch/once"),
    ("create cronjob daily --image=busybox '--schedule=0 3 * * *' -- date", "cronjob.batch/daily"),
    ("create service clusterip inner --tcp=80:8080", "service/inner"),
    ("create service nodeport outer --tcp=80:8080", "service/outer"),
    ("create service loadbalancer balanced --tcp=80:8080", "service/balanced"),
    ("create service externalname elsewhere --external-name=example.com", "service/elsewhere"),
    ("create service clusterip headless --clusterip=None --tcp=80", "service/headless"),
    ("create ingress front --rule=example.com/path=inner:80", "ingress.networking.k8s.io/front"),
    ("create quota limits --hard=pods=10,cpu=4", "resourcequota/limits"),
    (
        "create poddisruptionbudget budget --selector=app=web --min-available=1",
        "poddisruptionbudget.policy/budget",
    ),
    ("create priorityclass urgent --value=1000", "priorityclass.scheduling.k8s.io/urgent"),
    ("create role reader --verb=get,list --resource=pods", "role.rbac.authorization.k8s.io/reader"),
    (
        "create clusterrole reader --verb=get --resource=deployments.apps",
        "clusterrole.rbac.authorization.k8s.io/reader",
    ),
    (
        "create rolebinding readers --role=reader --serviceaccount=default:robot",
        "rolebinding.rbac.authorization.k8s.io/readers",
    ),
    (
        "create clusterrolebinding readers --clusterrole=reader --user=jane",
        "clusterrolebinding.rbac.authorization.k8s.io/readers",
    ),
];

#[tokio::test]
async fn every_generator_creates_its_object() {
    let kubectl = Session::start().await;
    for (line, name) in GENERATORS {
        has(&kubectl.ok(line).await, &[&format!("{name} created")]);
        assert_eq!(kubectl.ok(&format!("get {name} -o name")).await.trim(), *name);
    }
    let job = kubectl.ok("create job --from=cronjob/daily now").await;
    has(&job, &["job.batch/now created"]);
    has(&kubectl.ok("create token robot").await, &["."]);
    let again = kubectl.refused("create configmap cm").await;
    has(&again, &["configmaps \"cm\" already exists"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn create_secret_tls_stores_key_and_certificate() {
    let kubectl = Session::start().await;
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = rcgen::CertificateParams::new(vec!["example.com".to_owned()])
        .and_then(|params| params.self_signed(&key))
        .expect("a certificate");
    kubectl.file("tls.key", &key.serialize_pem());
    kubectl.file("tls.crt", &certificate.pem());
    kubectl.ok("create secret tls served --cert=tls.crt --key=tls.key").await;
    assert_eq!(kubectl.json("get secret served").await["type"], "kubernetes.io/tls");
    kubectl.stop().await;
}

#[tokio::test]
async fn services_are_allocated_ips_and_node_ports() {
    let kubectl = Session::start().await;
    kubectl.ok("create service nodeport outer --tcp=80:8080").await;
    let service = kubectl.json("get service outer").await;
    let address = service["spec"]["clusterIP"].as_str().expect("an address");
    assert!(address.starts_with("10."), "{service}");
    let port = service["spec"]["ports"][0]["nodePort"].as_u64().expect("a port");
    assert!((30_000..=32_767).contains(&port), "{service}");
    let taken = kubectl.refused(&format!("create service nodeport other --tcp=80 --node-port={port}")).await;
    has(&taken, &["provided port is already allocated"]);
    let kubernetes = kubectl.json("get service kubernetes").await;
    assert_eq!(kubernetes["spec"]["ports"][0]["port"], json!(443));
    has(&kubectl.ok("get endpoints,endpointslices").await, &["endpoints/kubernetes"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn create_from_file_validates_fields() {
    let kubectl = Session::start().await;
    let both = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\ndata: {n: '2'}\n";
    has(&kubectl.ok_with("create -f -", both).await, &["configmap/one created", "configmap/two created"]);
    let odd = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: odd}\nunknown: 1\n";
    has(&kubectl.refused_with("create -f -", odd).await, &["unknown"]);
    let warned = kubectl.run("create --validate=warn -f -", odd).await;
    assert!(warned.status.success());
    has(&String::from_utf8_lossy(&warned.stderr), &["Warning: unknown field \"unknown\""]);
    let invalid = "apiVersion: v1\nkind: Pod\nmetadata: {name: Bad_Name}\nspec: {containers: []}\n";
    let refusal = kubectl.refused_with("create -f -", invalid).await;
    has(&refusal, &["is invalid", "metadata.name", "spec.containers: Required value"]);
    has(&kubectl.ok("create configmap dry --dry-run=server -o name").await, &["configmap/dry"]);
    has(&kubectl.refused("get configmap dry").await, &["NotFound"]);
    let generated = "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: gen-}\n";
    has(&kubectl.ok_with("create -f -", generated).await, &["configmap/gen-"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn run_and_expose_create_pods_and_services() {
    let kubectl = Session::start().await;
    has(&kubectl.ok("run web --image=nginx --port=80 --labels=app=web").await, &["pod/web created"]);
    has(&kubectl.ok("expose pod web --port=8080 --target-port=80 --name=front").await, &["service/front"]);
    kubectl.ok("create deployment app --image=nginx --port=8080").await;
    kubectl.ok("expose deployment app --type=NodePort").await;
    let service = kubectl.json("get service app").await;
    assert_eq!(service["spec"]["selector"], json!({"app": "app"}));
    assert_eq!(service["spec"]["type"], "NodePort");
    has(&kubectl.ok("get pod web").await, &["web", "0/1", "Pending"]);
    // Without a running container the log is empty.
    assert_eq!(kubectl.ok("logs web").await, "");
    kubectl.stop().await;
}
