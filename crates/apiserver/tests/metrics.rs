//! The metrics of an API server: each moves by its event.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::sync::Arc;

use coracle_apiserver::{Identity, PeerIdentity, ServerInfo};
use http::{Method, Request};
use http_body_util::Full;
use serde_json::{Value, json};
use support::{Client, MERGE};
use tower::ServiceExt;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1";

async fn page(client: &Client) -> String {
    let (code, page) = client.send(Method::GET, "/metrics", "*/*", Value::Null).await;
    assert_eq!(code, 200);
    page.as_str().unwrap().to_owned()
}

fn value(page: &str, series: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

/// Checks the value of each series.
async fn check(client: &Client, expected: &[(&str, f64)]) {
    let page = page(client).await;
    for (series, expected) in expected {
        let found = value(&page, series);
        assert_eq!(found, Some(*expected), "{series}\n{page}");
    }
}

async fn created(client: &Client, path: &str, object: Value) {
    let (code, answer) = client.post(path, object).await;
    assert_eq!(code, 201, "{answer}");
}

/// A GET as a user, with headers. Returns the code.
async fn get(client: &Client, user: &str, headers: &[(&str, &str)], path: &str) -> u16 {
    let mut request = Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Full::<bytes::Bytes>::default()).unwrap();
    let groups = vec!["system:authenticated".to_owned()];
    let identity = Identity { name: user.to_owned(), groups, ..Identity::default() };
    request.extensions_mut().insert(PeerIdentity(Some(Arc::new(identity))));
    client.server.clone().oneshot(request).await.unwrap().status().as_u16()
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn requests_are_counted_by_origin_and_field_validation() {
    let client = Client::new().await;
    created(&client, &format!("{MAPS}?fieldValidation=Strict"), json!({"metadata": {"name": "a"}})).await;
    let path = format!("{MAPS}/a?fieldValidation=Warn");
    assert_eq!(client.send(Method::PATCH, &path, MERGE, json!({"data": {"x": "y"}})).await.0, 200);
    check(
        &client,
        &[
            ("field_validation_request_duration_seconds_count{field_validation=\"Warn\"}", 1.0),
            (
                "apiserver_selfrequest_total{group=\"\",resource=\"configmaps\",subresource=\"\",verb=\"POST\"}",
                1.0,
            ),
            ("field_validation_request_duration_seconds_count{field_validation=\"Strict\"}", 1.0),
            // A namespace and a service account.
            ("field_validation_request_duration_seconds_count{field_validation=\"\"}", 2.0),
        ],
    )
    .await;
}

#[tokio::test]
async fn request_that_is_dropped_is_an_abort() {
    let client = Client::new().await;
    let request = Request::builder().uri(MAPS).body(Full::<bytes::Bytes>::default()).unwrap();
    drop(client.server.clone().oneshot(request));
    let request = Request::builder().uri(MAPS).body(Full::<bytes::Bytes>::default()).unwrap();
    let mut server = client.server.clone();
    drop(tower::Service::call(&mut server, request));
    let aborted = "apiserver_request_aborts_total{group=\"\",resource=\"configmaps\",scope=\"namespace\",\
                   subresource=\"\",verb=\"LIST\",version=\"v1\"}";
    check(&client, &[(aborted, 1.0)]).await;
}

#[tokio::test]
async fn decisions_are_counted_by_authorizer() {
    let client = Client::new().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    created(&client, &format!("{rbac}/clusterroles"), json!({"metadata": {"name": "r"}, "rules": rules}))
        .await;
    let subject = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"});
    let binding = json!({
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [subject],
    });
    created(&client, &format!("{rbac}/clusterrolebindings"), binding).await;
    assert_eq!(get(&client, "jane", &[], MAPS).await, 200);
    assert_eq!(get(&client, "jane", &[], "/api/v1/secrets").await, 403);
    let decisions =
        "apiserver_authorization_decisions_total{decision=\"allowed\",name=\"rbac\",type=\"RBAC\"}";
    check(&client, &[(decisions, 1.0)]).await;
    assert!(!page(&client).await.contains("decision=\"denied\",name=\"rbac\""), "no opinion is no decision");
}

#[tokio::test]
async fn impersonation_is_counted_by_decision_and_mode() {
    let client = Client::new().await;
    let (code, _) = {
        let mut request = Request::builder().uri(MAPS).header("impersonate-user", "bob");
        request = request.header("impersonate-group", "system:masters");
        let mut request = request.body(Full::<bytes::Bytes>::default()).unwrap();
        request.extensions_mut().insert(PeerIdentity(Some(client.identity.clone())));
        let response = client.server.clone().oneshot(request).await.unwrap();
        (response.status().as_u16(), response)
    };
    assert_eq!(code, 200);
    assert_eq!(get(&client, "jane", &[("impersonate-user", "bob")], MAPS).await, 403);
    // The group of administrators cannot be taken in a constrained mode.
    check(
        &client,
        &[
            ("apiserver_impersonation_attempts_total{decision=\"allowed\",mode=\"legacy\"}", 1.0),
            ("apiserver_impersonation_attempts_total{decision=\"denied\",mode=\"\"}", 1.0),
            ("apiserver_impersonation_attempts_duration_seconds_count{decision=\"denied\",mode=\"\"}", 1.0),
            ("apiserver_impersonation_authorization_attempts_total{decision=\"denied\",mode=\"user-info\"}", 1.0),
            ("apiserver_impersonation_authorization_attempts_total{decision=\"denied\",mode=\"legacy\"}", 1.0),
            (
                "apiserver_impersonation_authorization_attempts_duration_seconds_count{decision=\"allowed\",mode=\"legacy\"}",
                2.0,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn addresses_and_ports_of_services_are_counted() {
    let client = Client::new().await;
    client.server.bootstrap(&ServerInfo::default()).await.unwrap();
    let before = page(&client).await;
    let names = [
        "kube_apiserver_clusterip_allocator_allocated_ips{cidr=\"10.96.0.0/12\"}",
        "kube_apiserver_clusterip_allocator_available_ips{cidr=\"10.96.0.0/12\"}",
        "kube_apiserver_nodeport_allocator_allocated_ports",
        "kube_apiserver_nodeport_allocator_available_ports",
    ];
    let before = names.map(|name| value(&before, name).unwrap_or_else(|| panic!("{name}: {before}")));
    let spec = json!({"type": "NodePort", "ports": [{"port": 80}]});
    created(&client, SERVICES, json!({"metadata": {"name": "s"}, "spec": spec})).await;
    let after = page(&client).await;
    for ((name, before), change) in names.into_iter().zip(before).zip([1.0, -1.0, 1.0, -1.0]) {
        assert_eq!(value(&after, name), Some(before + change), "{name}");
    }
    let taken = json!({"clusterIP": "10.96.7.7", "ports": [{"port": 80}]});
    created(&client, SERVICES, json!({"metadata": {"name": "fixed"}, "spec": taken})).await;
    assert_eq!(client.post(SERVICES, json!({"metadata": {"name": "late"}, "spec": taken})).await.0, 422);
    let dry = format!("{SERVICES}?dryRun=All");
    created(&client, &dry, json!({"metadata": {"name": "dry"}, "spec": {"ports": [{"port": 80}]}})).await;
    let addresses = |name: &str, scope: &str| {
        format!("kube_apiserver_clusterip_allocator_{name}_total{{cidr=\"10.96.0.0/12\",scope=\"{scope}\"}}")
    };
    check(
        &client,
        &[
            (&addresses("allocation", "dynamic"), 1.0),
            // The service `kubernetes` is a base object of every cluster: nothing is allocated for it.
            (&addresses("allocation", "static"), 1.0),
            (&addresses("allocation_errors", "static"), 1.0),
            ("kube_apiserver_nodeport_allocator_allocation_total{scope=\"dynamic\"}", 1.0),
            (
                "kube_apiserver_clusterip_allocator_allocation_duration_seconds_count{cidr=\"10.96.0.0/12\"}",
                2.0,
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn size_of_the_store_grows_with_its_objects() {
    let client = Client::new().await;
    let size =
        async || value(&page(&client).await, "apiserver_storage_size_bytes{storage_cluster_id=\"memory\"}");
    let before = size().await.unwrap();
    created(&client, MAPS, json!({"metadata": {"name": "a"}, "data": {"a": "x".repeat(10_000)}})).await;
    let after = size().await.unwrap();
    assert!(after > before + 1000.0, "{before} {after}");
}

#[tokio::test]
async fn pod_security_counts_evaluations_and_errors() {
    let client = Client::new().await;
    let prefix = "pod-security.kubernetes.io/";
    for (name, labels) in [
        ("strict", json!({"enforce": "restricted", "enforce-version": "v1.30"})),
        ("warned", json!({"warn": "restricted", "audit": "restricted", "warn-version": "v1.99"})),
    ] {
        let labels: serde_json::Map<String, Value> = labels
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| (format!("{prefix}{key}"), value.clone()))
            .collect();
        created(&client, "/api/v1/namespaces", json!({"metadata": {"name": name, "labels": labels}})).await;
        let accounts = format!("/api/v1/namespaces/{name}/serviceaccounts");
        created(&client, &accounts, json!({"metadata": {"name": "default"}})).await;
    }
    assert_eq!(client.post("/api/v1/namespaces/strict/pods", pod("p")).await.0, 403);
    created(&client, "/api/v1/namespaces/warned/pods", pod("p")).await;
    created(&client, "/api/v1/namespaces/default/pods", pod("p")).await;
    let evaluations = |decision: &str, mode: &str, level: &str, version: &str| {
        format!(
            "pod_security_evaluations_total{{decision=\"{decision}\",mode=\"{mode}\",policy_level=\"{level}\",\
             policy_version=\"{version}\",request_operation=\"create\",resource=\"pod\",subresource=\"\"}}"
        )
    };
    let page = page(&client).await;
    for (series, expected) in [
        (evaluations("deny", "enforce", "restricted", "v1.30"), 1.0),
        (evaluations("allow", "enforce", "privileged", "latest"), 2.0),
        (evaluations("deny", "warn", "restricted", "future"), 1.0),
        (evaluations("deny", "audit", "restricted", "latest"), 1.0),
    ] {
        assert_eq!(value(&page, &series), Some(expected), "{series}\n{page}");
    }
}

/// Creates a policy of each kind and their bindings. The validating one ignores nothing and denies bad names.
async fn add_policies(client: &Client) {
    let rules = json!({"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
    }]});
    let validations =
        json!([{"expression": "object.metadata.name != 'bad'"}, {"expression": "object.data.x != 'y'"}]);
    let spec = json!({"matchConstraints": rules, "validations": validations});
    let policy = json!({"metadata": {"name": "v"}, "spec": spec});
    created(client, &format!("{POLICIES}/validatingadmissionpolicies"), policy).await;
    let spec = json!({"policyName": "v", "validationActions": ["Deny", "Audit"]});
    let binding = json!({"metadata": {"name": "vb"}, "spec": spec});
    created(client, &format!("{POLICIES}/validatingadmissionpolicybindings"), binding).await;
    let expression = "Object{metadata: Object.metadata{labels: {'a': object.data.?l.orValue('b')}}}";
    let mutation =
        json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}});
    let spec = json!({
        "matchConstraints": rules,
        "mutations": [mutation],
        "reinvocationPolicy": "Never",
        "failurePolicy": "Ignore",
    });
    let policy = json!({"metadata": {"name": "m"}, "spec": spec});
    created(client, &format!("{POLICIES}/mutatingadmissionpolicies"), policy).await;
    let binding = json!({"metadata": {"name": "mb"}, "spec": {"policyName": "m"}});
    created(client, &format!("{POLICIES}/mutatingadmissionpolicybindings"), binding).await;
}

#[tokio::test]
async fn policies_and_steps_of_admission_are_counted() {
    let client = Client::new().await;
    add_policies(&client).await;
    let map = |name: &str| json!({"metadata": {"name": name}, "data": {"x": "1"}});
    created(&client, MAPS, map("good")).await;
    assert_eq!(client.post(MAPS, map("bad")).await.0, 422);
    // Without data both expressions of the policies fail.
    assert_eq!(client.post(MAPS, json!({"metadata": {"name": "empty"}})).await.0, 422);
    let validating = |action: &str| {
        format!(
            "{{enforcement_action=\"{action}\",error_type=\"invalid_error\",policy=\"v\",policy_binding=\"vb\"}}"
        )
    };
    let mutating = |error: &str| format!("{{error_type=\"{error}\",policy=\"m\",policy_binding=\"mb\"}}");
    let page = page(&client).await;
    for (name, labels, expected) in [
        ("validating_admission_policy_check_total", validating("deny"), 2.0),
        ("validating_admission_policy_check_total", validating("audit"), 2.0),
        ("validating_admission_policy_check_duration_seconds_count", validating("deny"), 2.0),
        ("mutating_admission_policy_check_total", mutating("no_error"), 2.0),
        ("mutating_admission_policy_check_total", mutating("invalid_error"), 1.0),
        ("mutating_admission_policy_check_duration_seconds_count", mutating("no_error"), 2.0),
    ] {
        assert_eq!(
            value(&page, &format!("apiserver_{name}{labels}")),
            Some(expected),
            "{name} {labels}\n{page}"
        );
    }
    let step = "apiserver_admission_step_admission_duration_seconds";
    let labels = "{operation=\"CREATE\",rejected=\"true\",type=\"validate\"}";
    assert_eq!(value(&page, &format!("{step}_summary_count{labels}")), Some(2.0));
    assert_eq!(value(&page, &format!("{step}_count{labels}")), Some(2.0));
    let median = format!(
        "{step}_summary{{operation=\"CREATE\",rejected=\"true\",type=\"validate\",quantile=\"0.5\"}}"
    );
    assert!(value(&page, &median).is_some_and(|seconds| seconds > 0.0), "{page}");
}
