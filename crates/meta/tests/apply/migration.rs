//! From client-side to server-side apply, and back.

use coracle_meta::apply::LAST_APPLIED_ANNOTATION;
use coracle_meta::apply::Operation::{Apply, Update};
use serde_json::{Value, json};

use crate::fixture::{Story, deployment};

/// An object that kubectl applied itself, with the configuration in its annotation.
fn applied_by_the_client(parts: Value) -> Story {
    let config = deployment(parts);
    let mut object = config.clone();
    object["metadata"]["annotations"] = json!({LAST_APPLIED_ANNOTATION: config.to_string()});
    let mut story = Story::new();
    story.put("kubectl-client-side-apply", object);
    story
}

fn annotation(story: &Story) -> Value {
    story.live()["metadata"]["annotations"][LAST_APPLIED_ANNOTATION].clone()
}

#[test]
fn what_the_client_applied_does_not_conflict() {
    let mut story = applied_by_the_client(json!({"spec": {"replicas": 1, "paused": false}}));
    story.apply("kubectl", json!({"spec": {"replicas": 2}})).unwrap();
    assert_eq!(story.owned("kubectl", Apply), r#"{"f:spec":{"f:replicas":{}}}"#);
    assert_eq!(
        annotation(&story),
        "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"web\"},\"spec\":{\"replicas\":2}}\n",
        "the way back stays open"
    );
}

#[test]
fn what_others_changed_since_does() {
    let mut story = applied_by_the_client(json!({"spec": {"replicas": 1, "paused": false}}));
    story.edit("hpa", |object| object["spec"]["replicas"] = json!(5));
    let before = story.live().clone();
    let error = story.apply("kubectl", json!({"spec": {"replicas": 2, "paused": true}})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"hpa\" using apps/v1: .spec.replicas",
        "only what the client does not own counts"
    );
    assert_eq!(*story.live(), before);
}

#[test]
fn only_kubectl_is_believed() {
    let mut story = applied_by_the_client(json!({"spec": {"replicas": 1}}));
    let error = story.apply("other", json!({"spec": {"replicas": 2}})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas"
    );
    story.force("other", json!({"spec": {"replicas": 2}}));
    assert!(annotation(&story).as_str().unwrap().contains("\"replicas\":1"), "nor is it kept true");
}

#[test]
fn annotations_that_say_nothing_are_not_believed() {
    let other_version = deployment(json!({"apiVersion": "apps/v2", "spec": {"replicas": 1}})).to_string();
    let wrong_type = deployment(json!({"spec": {"replicas": "1"}})).to_string();
    for text in ["", "{", "[]", "{}", "3", &other_version, &wrong_type] {
        let mut story = applied_by_the_client(json!({"spec": {"replicas": 1}}));
        story.live.as_mut().unwrap()["metadata"]["annotations"][LAST_APPLIED_ANNOTATION] = json!(text);
        assert!(story.apply("kubectl", json!({"spec": {"replicas": 2}})).is_err(), "{text}");
    }
}

#[test]
fn an_annotation_that_would_be_too_large_goes() {
    let mut story = applied_by_the_client(json!({"spec": {"replicas": 1}}));
    let large = "x".repeat(300 << 10);
    story.apply("kubectl", json!({"spec": {"replicas": 1, "nodeSelector": {"a": large}}})).unwrap();
    assert_eq!(annotation(&story), Value::Null);
}

#[test]
fn the_client_takes_over_what_it_changes_again() {
    let mut story = applied_by_the_client(json!({"spec": {"replicas": 1}}));
    story.apply("kubectl", json!({"spec": {"replicas": 2}})).unwrap();
    story.edit("kubectl-client-side-apply", |object| object["spec"]["replicas"] = json!(3));
    assert_eq!(story.owned("kubectl", Apply), "{}");
    let client = story.owned("kubectl-client-side-apply", Update);
    assert!(client.contains(r#""f:spec":{".":{},"f:replicas":{}}"#), "{client}");
}
