//! Errors of patches that cannot be applied, or whose result is invalid.

use crate::support::{Client, MERGE};
use http::Method;
use serde_json::{Value, json};

const JSON: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const PATH: &str = "/api/v1/namespaces/default/configmaps/a";

async fn client() -> Client {
    let client = Client::new().await;
    let object = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}});
    assert_eq!(client.post("/api/v1/namespaces/default/configmaps", object).await.0, 201);
    client
}

/// Sends a patch; the response must have this code and a message with this ending.
async fn check(client: &Client, media_type: &str, query: &str, patch: Value, code: u16, ending: &str) {
    let path = format!("{PATH}{query}");
    let (found, answer) = client.send(Method::PATCH, &path, media_type, patch.clone()).await;
    let message = answer["message"].as_str().unwrap_or_default();
    assert_eq!(found, code, "{media_type} {patch}: {answer}");
    assert!(message.ends_with(ending), "{media_type} {patch}: {message}");
    if code == 200 {
        assert_eq!((&answer["kind"], &answer["apiVersion"]), (&json!("ConfigMap"), &json!("v1")), "{patch}");
    }
}

#[tokio::test]
async fn patch_of_the_wrong_json_type_is_rejected_with_the_expected_type() {
    let client = client().await;
    let map = "Go value of type map[string]interface {}";
    let merge = format!("error decoding patch: json: cannot unmarshal array into {map}");
    check(&client, MERGE, "", json!([]), 400, &merge).await;
    check(&client, STRATEGIC, "", json!("x"), 400, &format!("json: cannot unmarshal string into {map}"))
        .await;
    let operations =
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp";
    check(&client, JSON, "", json!({}), 400, operations).await;
    let op = "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string";
    check(&client, JSON, "", json!([{"op": 1}]), 400, op).await;
    let apply = format!(
        "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal number into {map}"
    );
    check(&client, APPLY, "?fieldManager=m", json!(1), 400, &apply).await;
}

#[tokio::test]
async fn patch_that_changes_kind_or_api_version_is_rejected_unless_strategic() {
    let client = client().await;
    let foo =
        "no kind \"Foo\" is registered for version \"v1\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"";
    check(&client, MERGE, "", json!({"kind": "Foo"}), 422, foo).await;
    check(&client, JSON, "", json!([{"op": "replace", "path": "/kind", "value": "Foo"}]), 422, foo).await;
    let version = json!({"apiVersion": "foo/bar/baz"});
    check(&client, MERGE, "", version, 422, "unexpected GroupVersion string: foo/bar/baz").await;
    check(&client, JSON, "", json!([{"op": "remove", "path": "/kind"}]), 200, "").await;
    let nameless = "the name of the object (a based on URL) was undeterminable: name must be provided";
    check(&client, JSON, "", json!([{"op": "remove", "path": "/apiVersion"}]), 400, nameless).await;
    let strict = "strict decoding error: unknown field \"data\", unknown field \"metadata\"";
    check(&client, MERGE, "?fieldValidation=Strict", json!({"apiVersion": null}), 422, strict).await;
    // An object with another kind is decoded as that kind first.
    check(&client, MERGE, "", json!({"kind": "Secret"}), 422, "illegal base64 data at input byte 0").await;
    // The kind in the result of a strategic merge patch is not checked.
    check(&client, STRATEGIC, "", json!({"kind": "Foo", "apiVersion": "v2"}), 200, "").await;
    check(&client, STRATEGIC, "", json!({"kind": null}), 200, "").await;
}

#[tokio::test]
async fn patch_with_a_value_of_the_wrong_type_is_unprocessable() {
    let client = client().await;
    let data = "json: cannot unmarshal number into Go struct field ConfigMap.data of type map[string]string";
    check(&client, MERGE, "", json!({"data": 1}), 422, data).await;
    let tree = " \"\" is invalid: patch: Invalid value: \"map[data:1]\": cannot restore map from int64";
    check(&client, STRATEGIC, "", json!({"data": 1}), 422, tree).await;
    let strict = "strict decoding error: unknown field \"bogus\"";
    check(&client, MERGE, "?fieldValidation=Strict", json!({"bogus": 1}), 422, strict).await;
    let unknown = "unknown patch type: foo in map: map[$patch:foo]";
    check(&client, STRATEGIC, "", json!({"$patch": "foo"}), 500, unknown).await;
    let number = "unknown patch type: %!s(int64=1) in map: map[$patch:1]";
    check(&client, STRATEGIC, "", json!({"$patch": 1}), 500, number).await;
    let order = json!({"$setElementOrder/bogus": ["a"]});
    let bogus = "unable to find api field in struct ConfigMap for the json field \"bogus\"";
    check(&client, STRATEGIC, "", order, 500, bogus).await;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "binaryData": {"a": "%"}});
    let base64 = "failed to convert new object (/; /v1, Kind=ConfigMap) to proper version: unable to convert \
                  unstructured object to /v1, Kind=ConfigMap: error decoding from json: illegal base64 data at \
                  input byte 0";
    check(&client, APPLY, "?fieldManager=m", config, 500, base64).await;
}

#[tokio::test]
async fn revision_zero_is_any() {
    let client = client().await;
    for media_type in [MERGE, STRATEGIC] {
        check(&client, media_type, "", json!({"metadata": {"resourceVersion": "0"}}), 200, "").await;
        let conflict = "please apply your changes to the latest version and try again";
        check(&client, media_type, "", json!({"metadata": {"resourceVersion": "1"}}), 409, conflict).await;
    }
}

#[tokio::test]
async fn options_are_refused_all_at_once() {
    let client = client().await;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let both = "[fieldManager: Required value: is required for apply patch, dryRun: Unsupported value: [\"x\"]: supported values: \"All\"]";
    check(&client, APPLY, "?dryRun=x", config, 422, both).await;
}

#[tokio::test]
async fn apply_of_a_missing_object_with_a_uid_is_a_conflict() {
    let client = client().await;
    let path = "/api/v1/namespaces/default/configmaps/b?fieldManager=m";
    let apply = |metadata: Value| {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        client.send(Method::PATCH, path, APPLY, config)
    };
    let (code, answer) = apply(json!({"uid": "zz"})).await;
    let message = "Operation cannot be fulfilled on configmaps \"b\": uid mismatch: the provided object \
                   specified uid zz, and no existing object was found";
    assert_eq!((code, answer["message"].as_str().unwrap()), (409, message));
    let (code, answer) = apply(json!({"resourceVersion": "5"})).await;
    let message = "the name of the object (b based on URL) was undeterminable: name must be provided";
    assert_eq!((code, answer["message"].as_str().unwrap()), (400, message));
}

#[tokio::test]
async fn patch_of_a_missing_object_is_not_found() {
    let client = client().await;
    let path = "/api/v1/namespaces/default/configmaps/none";
    for media_type in [MERGE, STRATEGIC, JSON] {
        let (code, answer) = client.send(Method::PATCH, path, media_type, json!("no patch")).await;
        assert_eq!(
            (code, &answer["message"]),
            (404, &json!("configmaps \"none\" not found")),
            "{media_type}"
        );
    }
}

#[tokio::test]
async fn only_what_was_written_is_owned_and_system_fields_are_not_taken() {
    let client = client().await;
    let object = |path: &'static str, patch: Value| client.send(Method::PATCH, path, MERGE, patch);
    let (_, answer) = object(PATH, json!({"metadata": {"selfLink": "/x"}})).await;
    assert_eq!(answer["metadata"].get("selfLink"), None);
    let (_, answer) = object(PATH, json!({"metadata": {"managedFields": []}})).await;
    assert_eq!(answer["metadata"].get("managedFields"), None, "no entries ask to forget all of them");
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
    let (code, answer) = object(PATH, json!({"metadata": {"ownerReferences": [owner, owner]}})).await;
    assert_eq!((code, &answer["metadata"]["ownerReferences"]), (200, &json!([owner])));
}

/// How often kube-apiserver reports a fault of the metadata of an update depends on the kind.
#[tokio::test]
async fn faults_of_metadata_are_reported_as_often_as_in_kube_apiserver() {
    let client = Client::new().await;
    let lease =
        json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "x", "leaseDurationSeconds": 1}});
    let limits = json!({"metadata": {"name": "a"}, "spec": {"limits": []}});
    for (path, object, uids, labels) in [
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases", lease, 2, 3),
        ("/api/v1/namespaces/default/limitranges", limits, 1, 3),
    ] {
        assert_eq!(client.post(path, object).await.0, 201, "{path}");
        let path = format!("{path}/a");
        let causes = async |patch: Value| {
            let (code, refused) = client.send(Method::PATCH, &path, MERGE, patch).await;
            assert_eq!(code, 422, "{refused}");
            refused["details"]["causes"].as_array().unwrap().len()
        };
        let label = "b".repeat(64);
        assert_eq!(causes(json!({"metadata": {"uid": "another"}})).await, uids, "{path}");
        assert_eq!(causes(json!({"metadata": {"labels": {"a": label}}})).await, labels, "{path}");
    }
}
