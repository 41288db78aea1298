//! Tests of the migration between client-side and server-side apply.

use coracle_meta::apply::LAST_APPLIED_ANNOTATION;
use coracle_meta::apply::Operation::{Apply, Update};
use serde_json::{Value, json};

use crate::fixture::{ObjectHistory, deployment};

/// Creates an object that was applied client-side, with the last-applied annotation.
fn applied_client_side(parts: Value) -> ObjectHistory {
    let config = deployment(parts);
    let mut object = config.clone();
    object["metadata"]["annotations"] = json!({LAST_APPLIED_ANNOTATION: config.to_string()});
    let mut history = ObjectHistory::new();
    history.put("kubectl-client-side-apply", object);
    history
}

fn annotation(history: &ObjectHistory) -> Value {
    history.live()["metadata"]["annotations"][LAST_APPLIED_ANNOTATION].clone()
}

#[test]
fn fields_applied_client_side_do_not_conflict() {
    let mut history = applied_client_side(json!({"spec": {"replicas": 1, "paused": false}}));
    history.apply("kubectl", json!({"spec": {"replicas": 2}})).unwrap();
    assert_eq!(history.owned("kubectl", Apply), r#"{"f:spec":{"f:replicas":{}}}"#);
    assert_eq!(
        annotation(&history),
        "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"web\"},\"spec\":{\"replicas\":2}}\n",
        "the way back stays open"
    );
}

#[test]
fn fields_changed_after_client_side_apply_conflict() {
    let mut history = applied_client_side(json!({"spec": {"replicas": 1, "paused": false}}));
    history.edit("hpa", |object| object["spec"]["replicas"] = json!(5));
    let before = history.live().clone();
    let error = history.apply("kubectl", json!({"spec": {"replicas": 2, "paused": true}})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"hpa\" using apps/v1: .spec.replicas",
        "only what the client does not own counts"
    );
    assert_eq!(*history.live(), before);
}

#[test]
fn annotation_is_ignored_for_other_managers() {
    let mut history = applied_client_side(json!({"spec": {"replicas": 1}}));
    let error = history.apply("other", json!({"spec": {"replicas": 2}})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas"
    );
    history.force("other", json!({"spec": {"replicas": 2}}));
    assert!(
        annotation(&history).as_str().unwrap().contains("\"replicas\":1"),
        "and does not update the annotation"
    );
}

#[test]
fn malformed_annotation_is_ignored() {
    let other_version = deployment(json!({"apiVersion": "apps/v2", "spec": {"replicas": 1}})).to_string();
    let wrong_type = deployment(json!({"spec": {"replicas": "1"}})).to_string();
    for text in ["", "{", "[]", "{}", "3", &other_version, &wrong_type] {
        let mut history = applied_client_side(json!({"spec": {"replicas": 1}}));
        history.live.as_mut().unwrap()["metadata"]["annotations"][LAST_APPLIED_ANNOTATION] = json!(text);
        assert!(history.apply("kubectl", json!({"spec": {"replicas": 2}})).is_err(), "{text}");
    }
}

#[test]
fn too_large_annotation_is_removed() {
    let mut history = applied_client_side(json!({"spec": {"replicas": 1}}));
    let large = "x".repeat(300 << 10);
    history.apply("kubectl", json!({"spec": {"replicas": 1, "nodeSelector": {"a": large}}})).unwrap();
    assert_eq!(annotation(&history), Value::Null);
}

#[test]
fn client_side_apply_takes_ownership_of_changed_fields() {
    let mut history = applied_client_side(json!({"spec": {"replicas": 1}}));
    history.apply("kubectl", json!({"spec": {"replicas": 2}})).unwrap();
    history.edit("kubectl-client-side-apply", |object| object["spec"]["replicas"] = json!(3));
    assert_eq!(history.owned("kubectl", Apply), "{}");
    let client = history.owned("kubectl-client-side-apply", Update);
    assert!(client.contains(r#""f:spec":{".":{},"f:replicas":{}}"#), "{client}");
}
