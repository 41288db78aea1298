//! Deletion, and preconditions of writes.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use http::Method;
use serde_json::{Value, json};
use support::{Client, MERGE};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn delete(client: &Client, path: &str, options: Value) -> (u16, Value) {
    client.send(Method::DELETE, path, "application/json", options).await
}

async fn get(client: &Client, path: &str) -> (u16, Value) {
    client.send(Method::GET, path, "", Value::Null).await
}

async fn config_map(client: &Client, name: &str) -> Value {
    client.post(CONFIG_MAPS, json!({"metadata": {"name": name}})).await.1
}

#[tokio::test]
async fn deletion_with_a_failed_precondition_is_rejected() {
    let client = Client::new().await;
    let object = config_map(&client, "a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let (code, refused) = delete(&client, &path, json!({"preconditions": {"uid": "another"}})).await;
    let found = object["metadata"]["uid"].as_str().unwrap();
    let why = format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (another) does not match the UID in record ({found}). The object might have been deleted and then recreated"
    );
    assert_eq!((code, &refused["message"]), (409, &json!(why)));
    let stale = json!({"preconditions": {"resourceVersion": "1"}});
    assert_eq!(delete(&client, &path, stale).await.0, 409);
    let exact =
        json!({"preconditions": {"uid": found, "resourceVersion": object["metadata"]["resourceVersion"]}});
    let (code, done) = delete(&client, &path, exact).await;
    assert_eq!((code, &done["details"]["uid"]), (200, &json!(found)));
}

#[tokio::test]
async fn contradicting_deletion_options_are_rejected() {
    let client = Client::new().await;
    config_map(&client, "a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let both = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
    let (code, refused) = delete(&client, &path, both).await;
    assert_eq!((code, &refused["details"]["kind"]), (422, &json!("DeleteOptions")));
    assert_eq!(delete(&client, &path, json!({"propagationPolicy": "Never"})).await.0, 422);
    let (code, kept) = delete(&client, &format!("{path}?propagationPolicy=Orphan"), Value::Null).await;
    assert_eq!((code, &kept["metadata"]["finalizers"]), (200, &json!(["orphan"])));
    let (code, _) = delete(&client, &path, json!({"orphanDependents": false})).await;
    assert_eq!(code, 200, "nothing keeps it any more");
}

#[tokio::test]
async fn a_running_pod_is_given_time() {
    let client = Client::new().await;
    let spec = json!({"nodeName": "n", "containers": [{"name": "c", "image": "i"}]});
    client.post(PODS, json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let path = format!("{PODS}/p");
    let (_, pod) = delete(&client, &path, Value::Null).await;
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    let (_, shorter) = delete(&client, &path, json!({"gracePeriodSeconds": 5})).await;
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    let (_, same) = delete(&client, &path, json!({"gracePeriodSeconds": 20})).await;
    assert_eq!(same["metadata"]["deletionGracePeriodSeconds"], 5);
    let (code, exists) = client.post(PODS, json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let why = "object is being deleted: pods \"p\" already exists";
    assert_eq!((code, &exists["message"]), (409, &json!(why)));
    delete(&client, &path, json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(get(&client, &path).await.0, 404);
}

#[tokio::test]
async fn many_go_at_once_or_page_by_page() {
    let client = Client::new().await;
    for index in 0..5 {
        config_map(&client, &format!("c{index}")).await;
    }
    let (code, page) = delete(&client, &format!("{CONFIG_MAPS}?limit=2"), Value::Null).await;
    assert_eq!((code, page["items"].as_array().unwrap().len()), (200, 2));
    assert!(page["metadata"]["continue"].is_string());
    let (_, dry) = delete(&client, &format!("{CONFIG_MAPS}?dryRun=All"), Value::Null).await;
    assert_eq!(dry["items"].as_array().unwrap().len(), 3);
    let (_, rest) = delete(&client, CONFIG_MAPS, Value::Null).await;
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["kind"]), (3, &json!("ConfigMapList")));
    assert_eq!(get(&client, CONFIG_MAPS).await.1["items"], json!([]));
}

#[tokio::test]
async fn a_put_is_of_the_object_at_its_path() {
    let client = Client::new().await;
    config_map(&client, "a").await;
    let path = format!("{CONFIG_MAPS}/a");
    let put = async |metadata: Value| {
        let body = json!({"metadata": metadata});
        client.send(Method::PUT, &path, "application/json", body).await
    };
    for (metadata, code, message) in [
        (json!({"name": "b"}), 400, "the name of the object (b) does not match the name on the URL (a)"),
        (json!({}), 400, "the name of the object (a based on URL) was undeterminable: name must be provided"),
        (
            json!({"name": "a", "namespace": "other"}),
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            json!({"name": "a", "resourceVersion": "x"}),
            500,
            "strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
    ] {
        let (found, refused) = put(metadata).await;
        assert_eq!((found, refused["message"].as_str().unwrap()), (code, message));
    }
    let (code, refused) = put(json!({"name": "a", "uid": "u"})).await;
    assert_eq!(code, 409);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("Precondition failed: UID in precondition: u, UID in object meta:"),
        "{message}"
    );
    assert_eq!(put(json!({"name": "a"})).await.0, 200);
}

#[tokio::test]
async fn some_kinds_are_only_updated_from_a_state_that_was_seen() {
    let client = Client::new().await;
    let leases = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1}});
    client.post(leases, budget.clone()).await;
    let (code, refused) = client.send(Method::PUT, &format!("{leases}/b"), "application/json", budget).await;
    let cause = &refused["details"]["causes"][0];
    assert_eq!((code, &cause["field"]), (422, &json!("metadata.resourceVersion")));
    assert_eq!(cause["message"], "Invalid value: 0: must be specified for an update");
}

#[tokio::test]
async fn a_status_changes_what_its_kind_says_of_the_metadata() {
    let client = Client::new().await;
    let labels = json!({"metadata": {"labels": {"l": "x"}, "annotations": {"a": "x"}}});
    for (path, body, written) in [
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"selector": {"matchLabels": {"a": "b"}}, "template": {
                "metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}),
            (false, true),
        ),
        ("/api/v1/namespaces/default/resourcequotas", json!({"hard": {"pods": "1"}}), (true, true)),
        (
            "/apis/storage.k8s.io/v1/volumeattachments",
            json!({"attacher": "a.b", "nodeName": "n", "source": {"persistentVolumeName": "p"}}),
            (false, false),
        ),
    ] {
        client.post(path, json!({"metadata": {"name": "o"}, "spec": body})).await;
        let status = format!("{path}/o/status");
        let (code, object) = client.send(Method::PATCH, &status, MERGE, labels.clone()).await;
        assert_eq!(code, 200, "{object}");
        let found = |field: &str, key: &str| object["metadata"][field][key] == "x";
        assert_eq!((found("labels", "l"), found("annotations", "a")), written, "{path}");
        assert!(object["metadata"]["generation"].as_i64().unwrap_or(1) == 1, "{path}");
    }
}

#[tokio::test]
async fn first_deletion_of_a_definition_only_marks_it() {
    let client = Client::new().await;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let names = json!({"plural": "boats", "kind": "Boat"});
    let spec = json!({"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version]});
    let (code, created) =
        client.post(definitions, json!({"metadata": {"name": "boats.example.com"}, "spec": spec})).await;
    assert_eq!(code, 201, "{created}");
    let path = format!("{definitions}/boats.example.com");
    let (code, refused) = delete(&client, &path, json!({"preconditions": {"uid": "another"}})).await;
    let message = refused["message"].as_str().unwrap();
    let why = "Operation cannot be fulfilled on customresourcedefinitions.apiextensions.k8s.io \"boats.example.com\": Precondition failed: UID in precondition: another, UID in object meta: ";
    assert!(code == 409 && message.starts_with(why), "{message}");
    let (code, deleted) = delete(&client, &path, json!({"propagationPolicy": "Foreground"})).await;
    let metadata = &deleted["metadata"];
    assert_eq!(code, 200, "{deleted}");
    assert_eq!(metadata["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!(metadata.get("deletionGracePeriodSeconds"), None);
    assert!(metadata["deletionTimestamp"].is_string());
    assert_eq!(metadata["generation"], created["metadata"]["generation"]);
    let (_, again) = delete(&client, &path, Value::Null).await;
    assert_eq!(again["metadata"]["deletionGracePeriodSeconds"], 0, "{again}");
}
