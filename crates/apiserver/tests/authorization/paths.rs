//! Attacks by ambiguous paths: the server serves the resource that was authorized, or nothing.

use http::Method;
use serde_json::json;

use super::server::admin;

#[tokio::test]
async fn attack_paths_that_look_like_others() {
    let admin = admin().await;
    // A user with all verbs on pods of one namespace and on all non-resource paths.
    let rules = json!([
        {"verbs": ["*"], "apiGroups": [""], "resources": ["pods", "pods/log", "pods/proxy"]},
    ]);
    admin.allow("jane", "ns", rules).await;
    let paths = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
    admin.make_cluster_role("paths", paths).await;
    admin.bind("jane", "", "paths").await;
    let jane = admin.user("jane");
    assert_eq!(jane.get("/api/v1/namespaces/ns/pods").await.0, 200);
    for path in [
        "//api/v1/namespaces/ns/secrets",
        "/api//v1/namespaces/ns/secrets",
        "/api/v1//namespaces/ns/secrets",
        "/api/v1/namespaces//secrets",
        "/api/v1/namespaces/ns//secrets",
        "/api/v1/namespaces/ns/secrets/",
        "/api/v1/namespaces/ns/secrets//",
        "/api/v1/namespaces/ns/pods/../secrets",
        "/api/v1/namespaces/ns/pods/%2e%2e/secrets",
        "/api/v1/namespaces/ns/pods/%2E%2E/secrets/s",
        "/api/v1/namespaces/ns/pods/..%2fsecrets",
        "/api/v1/namespaces/ns/pods%2f..%2fsecrets",
        "/api/v1/namespaces/ns/pods/p/log/../../../secrets/s",
        "/api/v1/namespaces/ns/pods/p/proxy/../../../secrets/s",
        "/api/v1/namespaces/ns%2fsecrets/pods",
        "/api/v1/namespaces/ns%2f..%2fother/pods",
        "/api/v1/namespaces/other%2f..%2fns/pods",
        "/api/v1/namespaces/ns%2fsecrets",
        "/api/v1/%6eamespaces/other/secrets",
        "/api/v1/namespaces/other/%73ecrets",
        "/%61pi/v1/namespaces/other/secrets",
        "/api/v1/namespaces/other/secrets?watch=false",
        "/api/v1/namespaces/other/secrets;ns/pods",
        "/api/v1/watch/namespaces/other/secrets",
        "/api/v1/proxy/namespaces/ns/pods/../secrets/s",
        "/api/v1/namespaces/ns/status/x",
        "/API/v1/namespaces/ns/secrets",
        "/Api/V1/Namespaces/ns/Secrets",
        "/api/v1/namespaces/ns/Secrets",
        "/api/v1/namespaces/NS/pods",
        "/api/v1/secrets?fieldSelector=metadata.namespace%3Dns",
        "/clusters/default/api/v1/namespaces/ns/secrets",
        "/clusters/default//api/v1/namespaces/ns/secrets",
        "/clusters/../api/v1/namespaces/ns/secrets",
        "/clusters/%2e/api/v1/namespaces/ns/secrets",
        "/clusters/t%2fapi/v1/namespaces/ns/secrets",
        "/clusters/t/api/v1/namespaces/ns/pods",
        "/clusters/t/../default/api/v1/namespaces/ns/secrets",
        "/%63lusters/t/api/v1/namespaces/ns/secrets",
    ] {
        for method in [Method::GET, Method::DELETE, Method::POST] {
            let code = jane.code(&method, path).await;
            assert!(matches!(code, 400 | 403 | 404), "{method} {path}: {code}");
        }
    }
}

#[tokio::test]
async fn attack_methods_that_are_not_what_they_seem() {
    let admin = admin().await;
    admin.bind("jane", "ns", "view").await;
    let jane = admin.user("jane");
    for name in ["x-http-method-override", "x-method-override", "x-original-url", "x-rewrite-url"] {
        for value in ["GET", "/api/v1/namespaces/ns/pods"] {
            let client = jane.with(name, value);
            assert_eq!(
                client.code(&Method::DELETE, "/api/v1/namespaces/ns/pods/p").await,
                403,
                "{name}: {value}"
            );
            assert_eq!(
                client.code(&Method::GET, "/api/v1/namespaces/ns/secrets").await,
                403,
                "{name}: {value}"
            );
        }
    }
    for name in ["x-remote-user", "x-remote-group", "x-forwarded-user", "x-coracle-user"] {
        let client = jane.with(name, "system:masters");
        assert_eq!(client.code(&Method::GET, "/api/v1/nodes").await, 403, "{name}");
    }
    for method in ["TRACE", "CONNECT", "get", "PROPFIND"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let code = jane.code(&method, "/api/v1/namespaces/ns/secrets").await;
        assert_eq!(code, 403, "{method}");
    }
}
