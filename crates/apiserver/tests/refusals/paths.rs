//! Paths that lead to no object, and bodies that are none.

use crate::support::Client;
use http::Method;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn root_lists_the_served_paths() {
    let client = Client::new().await;
    let (code, answer) = client.send(Method::GET, "/", "", Value::Null).await;
    let paths = answer["paths"].as_array().unwrap();
    assert_eq!(code, 200);
    for path in ["/api/v1", "/apis/apps", "/apis/apps/v1", "/openapi/v3/apis/apps/v1", "/version"] {
        assert!(paths.contains(&json!(path)), "{path}");
    }
}

#[tokio::test]
async fn names_that_are_relative_path_segments_are_rejected() {
    let client = Client::new().await;
    for (name, shown) in [(".", "."), ("..", ".."), ("%2e%2E", "..")] {
        let path = format!("{CONFIG_MAPS}/{name}");
        let (code, answer) = client.send(Method::GET, &path, "", Value::Null).await;
        let message = format!("Name parameter invalid: {shown:?}: may not be '{shown}'");
        assert_eq!((code, answer["message"].as_str().unwrap()), (400, &*message), "{name}");
        assert_eq!(client.send(Method::POST, &path, "", json!({})).await.0, 405, "{name}");
    }
    assert_eq!(client.send(Method::GET, "/api/v1/namespaces/../configmaps", "", Value::Null).await.0, 404);
}

#[tokio::test]
async fn a_path_that_watches_does_nothing_else() {
    let client = Client::new().await;
    for method in [Method::DELETE, Method::PUT, Method::POST] {
        let (code, _) = client.send(method, "/api/v1/watch/namespaces/default", "", json!({})).await;
        assert_eq!(code, 405);
    }
    assert_eq!(client.send(Method::GET, "/api/v1/namespaces/default", "", Value::Null).await.0, 200);
}

#[tokio::test]
async fn unserved_path_is_not_found_for_any_method() {
    let client = Client::new().await;
    for path in ["/api/v2", "/apis/apps/v9", "/apis/foo/v1", "/apis/foo"] {
        assert_eq!(client.post(path, json!({})).await.0, 404, "{path}");
    }
    assert_eq!(client.post("/apis/apps", json!({})).await.0, 200);
    assert_eq!(client.post("/api/v1", json!({})).await.0, 405);
}

#[tokio::test]
async fn yaml_body_without_a_kind_is_rejected_as_unrecognized() {
    let client = Client::new().await;
    let (code, answer) = client.send(Method::POST, CONFIG_MAPS, "application/yaml", json!([])).await;
    let message = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; \
                   json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion \
                   string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" } (5b5d)";
    assert_eq!((code, answer["message"].as_str().unwrap()), (400, message));
}

#[tokio::test]
async fn deletion_options_say_what_they_are() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await;
    let path = format!("{CONFIG_MAPS}/a");
    for (body, code) in [
        (json!({"kind": "Foo"}), 400),
        (json!({"apiVersion": "foo/bar/baz"}), 400),
        (json!({"propagationPolicy": ""}), 422),
    ] {
        for media_type in ["application/json", "application/yaml"] {
            let (found, answer) = client.send(Method::DELETE, &path, media_type, body.clone()).await;
            assert_eq!(found, code, "{media_type} {body}: {answer}");
        }
    }
}

#[tokio::test]
async fn creation_with_a_resource_version_is_rejected() {
    let client = Client::new().await;
    let create = |version: &'static str| {
        let metadata = json!({"name": format!("v{version}"), "resourceVersion": version});
        client.post(CONFIG_MAPS, json!({"metadata": metadata}))
    };
    let (code, answer) = create("5").await;
    let message = "resourceVersion should not be set on objects to be created";
    assert_eq!((code, answer["message"].as_str().unwrap(), &answer["reason"]), (500, message, &Value::Null));
    assert_eq!((create("0").await.0, create("x").await.0), (201, 201));
}

#[tokio::test]
async fn some_kinds_have_finalizers_of_any_name() {
    let client = Client::new().await;
    for (path, code) in [
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases", 201),
        ("/api/v1/namespaces/default/serviceaccounts", 422),
    ] {
        let object = json!({"metadata": {"name": "f", "finalizers": ["x"]}});
        assert_eq!(client.post(path, object).await.0, code, "{path}");
    }
}

#[tokio::test]
async fn dry_run_of_a_creation_accepts_and_returns_a_resource_version() {
    let client = Client::new().await;
    for sent in ["5", "0", "x"] {
        let object = json!({"metadata": {"name": "a", "resourceVersion": sent}});
        let (code, answer) = client.post(&format!("{CONFIG_MAPS}?dryRun=All"), object).await;
        assert_eq!((code, &answer["metadata"]["resourceVersion"]), (201, &json!(sent)), "{answer}");
    }
}

#[tokio::test]
async fn invalid_object_whose_name_exists_is_invalid() {
    let client = Client::new().await;
    let valid = json!({"metadata": {"name": "a"}});
    assert_eq!(client.post(CONFIG_MAPS, valid.clone()).await.0, 201);
    let invalid = json!({"metadata": {"name": "a"}, "data": {"no key!": ""}});
    for path in [CONFIG_MAPS.to_owned(), format!("{CONFIG_MAPS}?dryRun=All")] {
        assert_eq!(client.post(&path, invalid.clone()).await.0, 422, "{path}");
        assert_eq!(client.post(&path, valid.clone()).await.0, 409, "{path}");
    }
}

#[tokio::test]
async fn list_options_that_contradict_are_rejected() {
    let client = Client::new().await;
    for name in ["a", "b"] {
        client.post(CONFIG_MAPS, json!({"metadata": {"name": name}})).await;
    }
    let get = async |path: String| client.send(Method::GET, &path, "application/json", Value::Null).await;
    let (_, page) = get(format!("{CONFIG_MAPS}?limit=1")).await;
    let token = page["metadata"]["continue"].as_str().unwrap();
    let next = format!("{CONFIG_MAPS}?limit=1&continue={token}");
    assert_eq!(get(next.clone()).await.0, 200);
    assert_eq!(get(format!("{next}&resourceVersion=0")).await.0, 200);
    let (code, answer) = get(format!("{next}&resourceVersion=1")).await;
    let message = "specifying resource version is not allowed when using continue";
    assert_eq!((code, answer["message"].as_str().unwrap()), (400, message));
}

#[tokio::test]
async fn unreadable_resource_version_of_an_event_is_a_bad_request() {
    let client = Client::new().await;
    let why = r#"resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax"#;
    for (path, code, message) in [
        ("/api/v1/namespaces/default/events/a", 400, format!("invalid resource version: {why}")),
        ("/api/v1/namespaces/default/events", 400, format!("invalid resource version: {why}")),
        (
            "/apis/events.k8s.io/v1/namespaces/default/events/a",
            400,
            format!("invalid resource version: {why}"),
        ),
        ("/api/v1/namespaces/default/configmaps/a", 500, why.to_owned()),
    ] {
        let path = format!("{path}?resourceVersion=abc");
        let (found, answer) = client.send(Method::GET, &path, "application/json", Value::Null).await;
        assert_eq!((found, answer["message"].as_str().unwrap()), (code, &*message), "{path}");
    }
}

/// Kinds with selectable fields of their own have a rule of their own, in which only namespaced kinds have a namespace.
#[tokio::test]
async fn cluster_scoped_kinds_with_selectable_fields_have_no_namespace_to_select_by() {
    let client = Client::new().await;
    for (path, code) in [
        ("/api/v1/nodes", 400),
        ("/api/v1/namespaces", 400),
        ("/apis/certificates.k8s.io/v1/certificatesigningrequests", 400),
        ("/apis/resource.k8s.io/v1/resourceslices", 400),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", 200),
        ("/api/v1/persistentvolumes", 200),
        ("/api/v1/pods", 200),
    ] {
        let path = format!("{path}?fieldSelector=metadata.namespace%3Da");
        let (found, answer) = client.send(Method::GET, &path, "application/json", Value::Null).await;
        assert_eq!(found, code, "{path}: {answer}");
    }
}
