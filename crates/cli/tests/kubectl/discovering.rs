//! Discovery, OpenAPI and raw paths.

use crate::session::{Session, has};

#[tokio::test]
async fn version_and_health_are_served() {
    let kubectl = Session::start().await;
    assert_eq!(kubectl.ok("get --raw /readyz").await, "ok");
    let verbose = kubectl.ok("get --raw /readyz?verbose").await;
    has(&verbose, &["[+]ping ok", "[+]store ok", "[+]shutdown ok", "readyz check passed"]);
    has(&kubectl.ok("version").await, &["Server Version: v1.36."]);
    has(&kubectl.ok("cluster-info").await, &["control plane", "is running at"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn api_resources_lists_every_resource() {
    let kubectl = Session::start().await;
    let versions = kubectl.ok("api-versions").await;
    has(&versions, &["v1\n", "apps/v1\n", "autoscaling/v1\n", "autoscaling/v2\n", "events.k8s.io/v1\n"]);
    let resources = kubectl.ok("api-resources -o wide").await;
    has(&resources, &["configmaps", "cm", "deploy", "csr", "NAMESPACED", "KIND", "CATEGORIES"]);
    has(&kubectl.ok("api-resources --namespaced=false -o name").await, &["nodes\n", "persistentvolumes\n"]);
    has(&kubectl.ok("api-resources --api-group=apps -o name").await, &["statefulsets.apps\n"]);
    has(&kubectl.ok("api-resources --verbs=list,watch -o name").await, &["leases.coordination.k8s.io\n"]);
    kubectl.stop().await;
}

#[tokio::test]
async fn every_discovered_resource_can_be_listed() {
    let kubectl = Session::start().await;
    let names = kubectl.ok("api-resources --verbs=list -o name").await;
    assert!(names.lines().count() > 50, "{names}");
    let all = names.lines().collect::<Vec<_>>().join(",");
    kubectl.ok(&format!("get {all} -A")).await;
    kubectl.ok(&format!("get {all} -A -o wide")).await;
    kubectl.stop().await;
}

#[tokio::test]
async fn explain_describes_fields() {
    let kubectl = Session::start().await;
    has(&kubectl.ok("explain pods").await, &["KIND:", "Pod", "VERSION:", "v1", "FIELDS:", "spec"]);
    let field = kubectl.ok("explain deployment.spec.template.spec.containers.image").await;
    has(&field, &["GROUP:", "apps", "FIELD: image <string>", "DESCRIPTION:", "image"]);
    let tree = kubectl.ok("explain pod.spec --recursive").await;
    has(&tree, &["containers", "-required-", "readinessProbe", "httpGet", "topologySpreadConstraints"]);
    has(&kubectl.ok("explain hpa --api-version=autoscaling/v1").await, &["VERSION:", "v1"]);
    has(&kubectl.refused("explain pod.spec.nothing").await, &["nothing"]);
    kubectl.stop().await;
}
