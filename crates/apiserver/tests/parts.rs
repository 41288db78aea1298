//! Subresources: scale, binding, eviction, tokens, and subresources that connect to nodes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use http::Method;
use serde_json::{Value, json};
use support::{Client, MERGE};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const APPLY: &str = "application/apply-patch+yaml";

async fn get(client: &Client, path: &str) -> (u16, Value) {
    client.send(Method::GET, path, "", Value::Null).await
}

async fn put(client: &Client, path: &str, body: Value) -> (u16, Value) {
    client.send(Method::PUT, path, "application/json", body).await
}

fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

async fn deployment(client: &Client) {
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template()});
    let (code, _) = client.post(DEPLOYMENTS, json!({"metadata": {"name": "d"}, "spec": spec})).await;
    assert_eq!(code, 201);
}

async fn pod(client: &Client, name: &str) {
    let mut pod = template();
    pod["metadata"]["name"] = name.into();
    assert_eq!(client.post(PODS, pod).await.0, 201);
}

fn scale(replicas: i64) -> Value {
    json!({"metadata": {"name": "d"}, "spec": {"replicas": replicas}})
}

#[tokio::test]
async fn a_scale_changes_how_many_there_are_to_be() {
    let client = Client::new().await;
    deployment(&client).await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    let (code, found) = get(&client, &path).await;
    assert_eq!(
        (code, &found["kind"], &found["apiVersion"]),
        (200, &json!("Scale"), &json!("autoscaling/v1"))
    );
    assert_eq!(found["status"], json!({"replicas": 0, "selector": "a=b"}));
    assert_eq!(put(&client, &path, scale(3)).await.1["spec"], json!({"replicas": 3}));
    assert_eq!(put(&client, &path, scale(0)).await.1["spec"], json!({}));
    let patch = json!({"spec": {"replicas": 5}});
    assert_eq!(client.send(Method::PATCH, &path, MERGE, patch).await.0, 200);
    let (_, whole) = get(&client, &format!("{DEPLOYMENTS}/d")).await;
    assert_eq!((&whole["spec"]["replicas"], &whole["metadata"]["generation"]), (&json!(5), &json!(4)));
}

#[tokio::test]
async fn a_scale_says_which_state_it_was_made_from() {
    let client = Client::new().await;
    deployment(&client).await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    for (field, value) in [("resourceVersion", "1"), ("uid", "another")] {
        let mut wrong = scale(3);
        wrong["metadata"][field] = value.into();
        assert_eq!(put(&client, &path, wrong).await.0, 409, "{field}");
    }
    let (code, refused) = put(&client, &path, scale(-1)).await;
    assert_eq!((code, &refused["details"]["kind"]), (422, &json!("Scale")));
    assert_eq!(put(&client, &format!("{DEPLOYMENTS}/none/scale"), scale(1)).await.0, 400);
    assert_eq!(client.post(&path, scale(1)).await.0, 405);
}

#[tokio::test]
async fn scaling_manager_owns_replicas() {
    let client = Client::new().await;
    deployment(&client).await;
    let config = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 4}});
    let path = format!("{DEPLOYMENTS}/d/scale?fieldManager=me");
    let (code, refused) = client.send(Method::PATCH, &path, APPLY, config.clone()).await;
    assert_eq!((code, &refused["reason"]), (409, &json!("Conflict")));
    let (code, _) = client.send(Method::PATCH, &format!("{path}&force=true"), APPLY, config).await;
    assert_eq!(code, 200);
    let (_, whole) = get(&client, &format!("{DEPLOYMENTS}/d")).await;
    let entries = whole["metadata"]["managedFields"].as_array().unwrap();
    let own: Vec<_> =
        entries.iter().filter(|entry| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null()).collect();
    assert_eq!(own.len(), 1);
    assert_eq!((&own[0]["manager"], &own[0]["subresource"]), (&json!("me"), &json!("scale")));
    assert_eq!(own[0]["apiVersion"], "apps/v1");
}

#[tokio::test]
async fn binding_of_a_bound_pod_is_rejected() {
    let client = Client::new().await;
    pod(&client, "p").await;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    let path = format!("{PODS}/p/binding");
    let nameless = client.post(&path, json!({"target": {"name": "n"}})).await;
    assert_eq!(nameless.0, 400);
    let (code, done) = client.post(&path, binding.clone()).await;
    assert_eq!((code, &done["status"]), (201, &json!("Success")));
    let (_, pod) = get(&client, &format!("{PODS}/p")).await;
    assert_eq!((&pod["spec"]["nodeName"], &pod["metadata"]["generation"]), (&json!("n"), &json!(1)));
    let (code, refused) = client.post("/api/v1/namespaces/default/bindings", binding).await;
    assert_eq!(code, 409);
    let why = "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n\"";
    assert_eq!(refused["message"], why);
}

#[tokio::test]
async fn binding_in_an_unknown_namespace_is_not_found_whatever_its_target() {
    let client = Client::new().await;
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Wrong", "name": "n"}});
    assert_eq!(client.post("/api/v1/namespaces/nosuch/bindings", binding).await.0, 404);
}

#[tokio::test]
async fn connecting_to_a_pod_has_no_dry_run() {
    let client = Client::new().await;
    for path in ["exec", "attach", "portforward", "proxy"] {
        let (code, refused) = client.post(&format!("{PODS}/nosuch/{path}?dryRun=All"), json!({})).await;
        assert_eq!((code, &refused["message"]), (400, &json!("dryRun is not supported")), "{path}");
    }
}

#[tokio::test]
async fn eviction_of_a_pod_that_does_not_run_deletes_it_at_once() {
    let client = Client::new().await;
    pod(&client, "p").await;
    let eviction = json!({"metadata": {"name": "p"}});
    let path = format!("{PODS}/p/eviction");
    let (code, done) = client.post(&format!("{path}?dryRun=All"), eviction.clone()).await;
    assert_eq!((code, &done["status"]), (201, &json!("Success")));
    assert_eq!(get(&client, &format!("{PODS}/p")).await.0, 200);
    assert_eq!(client.post(&path, eviction.clone()).await.0, 201);
    assert_eq!(get(&client, &format!("{PODS}/p")).await.0, 404);
    assert_eq!(client.post(&path, eviction).await.0, 404);
}

#[tokio::test]
async fn budgets_count_evictions() {
    let client = Client::new().await;
    for name in ["p", "q"] {
        pod(&client, name).await;
        let binding = json!({"metadata": {"name": name}, "target": {"name": "n"}});
        client.post(&format!("{PODS}/{name}/binding"), binding).await;
        let running =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        client.send(Method::PATCH, &format!("{PODS}/{name}/status"), MERGE, running).await;
    }
    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}});
    client.post(BUDGETS, json!({"metadata": {"name": "b"}, "spec": spec})).await;

    let evict = async |name: &str| {
        let eviction = json!({"metadata": {"name": name}});
        client.post(&format!("{PODS}/{name}/eviction"), eviction).await
    };
    let (code, refused) = evict("p").await;
    assert_eq!((code, &refused["details"]["retryAfterSeconds"]), (429, &json!(10)));
    let counted = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1}});
    client.send(Method::PATCH, &format!("{BUDGETS}/b/status"), MERGE, counted).await;
    assert_eq!(evict("p").await.0, 201);
    let (_, pod) = get(&client, &format!("{PODS}/p")).await;
    assert_eq!(pod["status"]["conditions"][1]["reason"], "EvictionByEvictionAPI");
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    let (_, budget) = get(&client, &format!("{BUDGETS}/b")).await;
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(budget["status"]["disruptedPods"]["p"].is_string());
    let (code, refused) = evict("q").await;
    assert_eq!((code, &refused["details"]["causes"][0]["reason"]), (429, &json!("DisruptionBudget")));

    client.post(BUDGETS, json!({"metadata": {"name": "c"}, "spec": budget["spec"]})).await;
    assert_eq!(evict("q").await.0, 500);
}

#[tokio::test]
async fn containers_are_added_and_resized_through_subresources() {
    let client = Client::new().await;
    pod(&client, "p").await;
    let added = json!({"spec": {"ephemeralContainers": [{"name": "debug", "image": "i"}]}});
    let kind = "application/strategic-merge-patch+json";
    let path = format!("{PODS}/p/ephemeralcontainers");
    let (code, pod) = client.send(Method::PATCH, &path, kind, added).await;
    assert_eq!((code, &pod["spec"]["ephemeralContainers"][0]["name"]), (200, &json!("debug")));
    assert_eq!(pod["metadata"]["generation"], 2);
    assert_eq!(get(&client, &path).await.0, 200);
    assert_eq!(get(&client, &format!("{PODS}/p/resize")).await.0, 200);
    assert_eq!(get(&client, &format!("{PODS}/p/nothing")).await.0, 404);
}

#[tokio::test]
async fn subresource_that_needs_a_node_reports_the_missing_part() {
    let client = Client::new().await;
    pod(&client, "p").await;
    assert_eq!(get(&client, &format!("{PODS}/none/log")).await.0, 404);
    assert_eq!(get(&client, &format!("{PODS}/p/log")).await.0, 204);
    let (code, refused) = get(&client, &format!("{PODS}/p/log?container=x")).await;
    assert_eq!((code, &refused["message"]), (400, &json!("container x is not valid for pod p")));
    let (code, refused) = client.post(&format!("{PODS}/p/exec?command=ls"), Value::Null).await;
    assert_eq!((code, &refused["message"]), (400, &json!("pod p does not have a host assigned")));
    let binding = json!({"metadata": {"name": "p"}, "target": {"name": "n"}});
    client.post(&format!("{PODS}/p/binding"), binding).await;
    for path in ["log", "exec?command=ls", "attach", "portforward"] {
        let (code, refused) = get(&client, &format!("{PODS}/p/{path}")).await;
        assert_eq!((code, &refused["reason"]), (503, &json!("ServiceUnavailable")), "{path}");
    }
    assert_eq!(get(&client, "/api/v1/nodes/none/proxy/metrics").await.0, 404);
    let proxied = client.send(Method::DELETE, &format!("{PODS}/none/proxy/a/b"), "", Value::Null).await;
    assert_eq!(proxied.0, 404);
}

#[tokio::test]
async fn service_proxy_connects_to_addresses_of_pods_only() {
    let client = Client::new().await;
    pod(&client, "p").await;
    let services = "/api/v1/namespaces/default/services";
    let missing = get(&client, &format!("{services}/web/proxy")).await;
    assert_eq!((missing.0, &missing.1["message"]), (404, &json!("services \"web\" not found")));
    let spec = json!({"ports": [{"name": "http", "port": 80}]});
    client.post(services, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    let missing = get(&client, &format!("{services}/web:80/proxy")).await;
    assert_eq!((missing.0, &missing.1["message"]), (404, &json!("services \"web\" not found")));
    let endpoints = "/api/v1/namespaces/default/endpoints";
    let address =
        json!({"ip": "10.1.2.3", "targetRef": {"kind": "Pod", "namespace": "default", "name": "p"}});
    let subset =
        json!({"addresses": [{"ip": "10.1.2.4"}, address], "ports": [{"name": "http", "port": 8080}]});
    client.post(endpoints, json!({"metadata": {"name": "web"}, "subsets": [subset]})).await;
    for service in ["web", "web:80", "https:web:http", "web:other"] {
        let (code, refused) = get(&client, &format!("{services}/{service}/proxy")).await;
        let message = format!("no endpoints available for service \"{service}\"");
        assert_eq!((code, &refused["message"]), (503, &json!(message)), "the pod has no such address");
    }
    let status = json!({"status": {"podIPs": [{"ip": "10.1.2.3"}], "podIP": "10.1.2.3"}});
    client.send(Method::PATCH, &format!("{PODS}/p/status"), MERGE, status).await;
    let (code, refused) = get(&client, &format!("{services}/web:80/proxy")).await;
    let message = "services/proxy is not implemented: this server does not connect to web";
    assert_eq!((code, &refused["message"]), (503, &json!(message)));
}

#[tokio::test]
async fn finalized_namespace_is_deleted() {
    let client = Client::new().await;
    client.post("/api/v1/namespaces", json!({"metadata": {"name": "gone"}})).await;
    let path = "/api/v1/namespaces/gone";
    let (_, namespace) = client.send(Method::DELETE, path, "", Value::Null).await;
    assert_eq!(namespace["status"]["phase"], "Terminating");
    let body = json!({"metadata": {"name": "gone"}, "spec": {"finalizers": []}});
    assert_eq!(put(&client, "/api/v1/namespaces/gone/finalize", body).await.0, 200);
    assert_eq!(get(&client, path).await.0, 404);
}

#[tokio::test]
async fn tokens_are_issued_for_accounts() {
    let client = Client::new().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    client.post(accounts, json!({"metadata": {"name": "a"}})).await;
    let path = format!("{accounts}/a/token");
    let (code, issued) = client.post(&path, json!({})).await;
    assert_eq!((code, &issued["spec"]["expirationSeconds"]), (201, &json!(3600)));
    assert_eq!(issued["spec"]["audiences"], json!([support::ISSUER]));
    assert_eq!(issued["status"]["token"].as_str().unwrap().split('.').count(), 3);
    assert_eq!(client.post(&path, json!({"spec": {"expirationSeconds": 599}})).await.0, 422);
    assert_eq!(client.post(&path, json!({"metadata": {"name": "b"}})).await.0, 422);
    assert_eq!(client.post(&format!("{accounts}/none/token"), json!({})).await.0, 404);
    let bound = json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "none"}}});
    assert_eq!(client.post(&path, bound).await.0, 404);
}
