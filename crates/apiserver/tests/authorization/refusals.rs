//! Refusals, as kube-apiserver 1.36.4 answers the same requests.

use http::Method;
use serde_json::{Value, json};

use super::server::{admin, binding};

#[tokio::test]
async fn rejections_are_those_of_kube_apiserver() {
    let jane = admin().await.user("jane");
    let in_ns = |verb: &str, resource: &str| {
        format!(
            "User \"jane\" cannot {verb} resource \"{resource}\" in API group \"\" in the namespace \"ns\""
        )
    };
    let secrets = json!({"kind": "secrets"});
    let parent = json!({"name": "..", "kind": "pods"});
    for (method, path, message, details) in [
        (Method::GET, "/api/v1/namespaces/ns/secrets", format!("secrets is forbidden: {}", in_ns("list", "secrets")), secrets.clone()),
        (Method::DELETE, "/api/v1/namespaces/ns/secrets", format!("secrets is forbidden: {}", in_ns("deletecollection", "secrets")), secrets.clone()),
        (Method::OPTIONS, "/api/v1/namespaces/ns/secrets", format!("secrets is forbidden: {}", in_ns("", "secrets")), secrets.clone()),
        (Method::GET, "/api/v1/namespaces/ns", format!("namespaces \"ns\" is forbidden: {}", in_ns("get", "namespaces")), json!({"name": "ns", "kind": "namespaces"})),
        (Method::GET, "/metrics", "forbidden: User \"jane\" cannot get path \"/metrics\"".to_owned(), json!({})),
        (Method::GET, "/foo%3ca%3e", "forbidden: User \"jane\" cannot get path \"/foo&lt;a&gt;\"".to_owned(), json!({})),
        (Method::GET, "/api/v1/proxy/namespaces/ns/pods/x", format!("pods \"x\" is forbidden: {}", in_ns("proxy", "pods")), json!({"name": "x", "kind": "pods"})),
        (
            Method::GET,
            "/apis/unknown.example/v1/things/x",
            "things.unknown.example \"x\" is forbidden: User \"jane\" cannot get resource \"things\" in API group \
             \"unknown.example\" at the cluster scope"
                .to_owned(),
            json!({"name": "x", "group": "unknown.example", "kind": "things"}),
        ),
        (Method::GET, "//api/v1/namespaces/ns/secrets", format!("secrets is forbidden: {}", in_ns("list", "secrets")), secrets),
        (Method::GET, "/api/v1/namespaces/ns/pods/..%2fsecrets", format!("pods \"..\" is forbidden: {}", in_ns("get", "pods/secrets")), parent.clone()),
        (Method::GET, "/api/v1/namespaces/ns/pods/%2e%2e/secrets", format!("pods \"..\" is forbidden: {}", in_ns("get", "pods/secrets")), parent),
    ] {
        let (code, status) = jane.send(method.clone(), path, "application/json", Value::Null).await;
        assert_eq!(code, 403, "{method} {path}");
        let expected = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": "Forbidden", "details": details, "code": 403,
        });
        assert_eq!(status, expected, "{method} {path}");
    }
}

#[tokio::test]
async fn bindings_to_missing_roles_are_rejected_as_in_kube_apiserver() {
    let admin = admin().await;
    admin.bind("jane", "ns", "admin").await;
    let jane = admin.user("jane");
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/rolebindings";
    let (code, status) = jane.post(path, binding("b", "nope", "jane")).await;
    assert_eq!(code, 404);
    assert_eq!(status["message"], "rolebindings.rbac.authorization.k8s.io \"nope\" not found");
    let mut dog = binding("b", "nope", "jane");
    dog["roleRef"]["kind"] = json!("Dog");
    let (code, status) = jane.post(path, dog).await;
    assert_eq!(
        (code, status),
        (
            500,
            json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "unsupported role reference kind: \"Dog\"", "code": 500,
            })
        )
    );
}
