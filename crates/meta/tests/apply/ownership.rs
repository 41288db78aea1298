//! Who owns what after writes, and what conflicts.

use coracle_meta::apply::Operation::{Apply, Update};
use coracle_meta::apply::{ApplyError, unchanged_but_for_times};
use serde_json::{Value, json};

use crate::fixture::{Story, deployment};

fn conflict_message(result: Result<bool, ApplyError>) -> String {
    match result {
        Err(ApplyError::Conflicts(conflicts)) => conflicts.to_string(),
        other => panic!("expected conflicts, not {other:?}"),
    }
}

#[test]
fn creation_owns_every_field_but_those_of_the_server() {
    let mut story = Story::new();
    story.put(
        "kubectl-create",
        deployment(json!({
            "metadata": {"namespace": "default", "labels": {"app": "web"}, "generation": 1},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"containers": [{
                    "name": "nginx",
                    "args": ["-v"],
                    "ports": [{"containerPort": 443}, {"containerPort": 80, "protocol": "UDP"}],
                    "resources": {},
                }]},
                "tags": ["b", "a"],
            },
        })),
    );
    assert_eq!(
        story.owned("kubectl-create", Update),
        concat!(
            r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{".":{},"f:replicas":{},"f:selector":{},"#,
            r#""f:tags":{".":{},"v:\"a\"":{},"v:\"b\"":{}},"f:template":{".":{},"f:containers":{".":{},"#,
            r#""k:{\"name\":\"nginx\"}":{".":{},"f:args":{},"f:name":{},"f:ports":{".":{},"#,
            r#""k:{\"containerPort\":80,\"protocol\":\"UDP\"}":{".":{},"f:containerPort":{},"f:protocol":{}},"#,
            r#""k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},"f:resources":{}}}}}}"#,
        )
    );
    let entry = &story.live()["metadata"]["managedFields"][0];
    let text = |field: &str| entry[field].as_str().unwrap().to_owned();
    assert_eq!(
        [text("operation"), text("apiVersion"), text("time"), text("fieldsType")],
        ["Update", "apps/v1", "2024-01-01T00:00:01Z", "FieldsV1"]
    );
}

#[test]
fn whoever_changes_a_field_owns_it_alone() {
    let mut story = Story::new();
    story.put("a", deployment(json!({"spec": {"replicas": 1, "paused": false}})));
    story.edit("b", |object| object["spec"]["replicas"] = json!(2));
    assert_eq!(story.owned("a", Update), r#"{"f:spec":{".":{},"f:paused":{}}}"#);
    assert_eq!(story.owned("b", Update), r#"{"f:spec":{"f:replicas":{}}}"#);
    story.edit("b", |object| {
        object["spec"].as_object_mut().unwrap().remove("replicas");
    });
    assert_eq!(story.entries(), ["a Update"], "who owns nothing has no entry");
}

#[test]
fn equal_values_are_owned_together_and_others_conflict() {
    let mut story = Story::new();
    story.apply("a", json!({"spec": {"replicas": 1}})).unwrap();
    story.apply("b", json!({"spec": {"replicas": 1}})).unwrap();
    assert_eq!(story.owned("a", Apply), story.owned("b", Apply));
    assert_eq!(
        conflict_message(story.apply("b", json!({"spec": {"replicas": 2}}))),
        "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas"
    );
    story.force("b", json!({"spec": {"replicas": 2}}));
    assert_eq!(story.entries(), ["b Apply"]);
    assert_eq!(story.live()["spec"]["replicas"], 2);
}

#[test]
fn conflicts_are_listed_by_manager() {
    let mut story = Story::new();
    story.put(
        "edit",
        deployment(
            json!({"spec": {"replicas": 1, "template": {"containers": [{"name": "c", "image": "1"}]}}}),
        ),
    );
    story.apply("other", json!({"spec": {"paused": true}})).unwrap();
    let config = json!({"spec": {"replicas": 3, "paused": false, "template": {"containers": [{"name": "c", "image": "2"}]}}});
    assert_eq!(
        conflict_message(story.apply("me", config)),
        concat!(
            "Apply failed with 3 conflicts: conflicts with \"edit\" using apps/v1:\n- .spec.replicas\n",
            "- .spec.template.containers[name=\"c\"].image\nconflicts with \"other\":\n- .spec.paused"
        )
    );
    assert_eq!(story.live()["spec"]["replicas"], 1, "nothing changes");
}

#[test]
fn what_is_not_applied_any_more_is_removed_if_nobody_else_owns_it() {
    let mut story = Story::new();
    let both = json!({"spec": {"replicas": 1, "nodeSelector": {"a": "1", "b": "2"}, "tags": ["x", "y"]}});
    story.apply("me", both).unwrap();
    story
        .apply("other", json!({"spec": {"replicas": 1, "nodeSelector": {"b": "2"}, "tags": ["y"]}}))
        .unwrap();
    story.apply("me", json!({"spec": {"paused": true}})).unwrap();
    assert_eq!(
        story.live()["spec"],
        json!({"replicas": 1, "paused": true, "nodeSelector": {"b": "2"}, "tags": ["y"]})
    );
    story.apply("other", json!({})).unwrap();
    assert_eq!(story.live()["spec"], json!({"paused": true}));
    assert_eq!(story.entries(), ["me Apply"]);
}

#[test]
fn fields_that_nobody_owns_stay_beside_what_goes() {
    let mut story = Story::new();
    let container = json!({"spec": {"template": {"containers": [{"name": "c", "image": "1"}]}}});
    story.apply("me", container).unwrap();
    // The server's own defaults have no owner.
    story.live.as_mut().unwrap()["spec"]["template"]["containers"][0]["args"] = json!(["default"]);
    story.live.as_mut().unwrap()["spec"]["paused"] = json!(false);
    story.apply("me", json!({"spec": {"template": {"containers": [{"name": "c"}]}}})).unwrap();
    assert_eq!(
        story.live()["spec"],
        json!({"paused": false, "template": {"containers": [{"name": "c", "args": ["default"]}]}})
    );
    story.apply("me", json!({})).unwrap();
    assert_eq!(story.live().get("spec"), None, "a field of which nothing is owned any more goes whole");
}

#[test]
fn updates_of_one_manager_share_an_entry_and_subresources_do_not() {
    let mut story = Story::new();
    story.put("m", deployment(json!({"spec": {"replicas": 1}})));
    story.edit("m", |object| object["spec"]["paused"] = json!(true));
    let mut with_status = story.live().clone();
    with_status["status"] = json!({"readyReplicas": 1});
    story.put_to("status", "m", with_status);
    story.apply("m", json!({"spec": {"paused": true}})).unwrap();
    assert_eq!(story.entries(), ["m Apply", "m Update", "m Update status"]);
    assert_eq!(story.owned("m", Apply), r#"{"f:spec":{"f:paused":{}}}"#);
}

#[test]
fn only_ten_updates_are_remembered_apart() {
    let mut story = Story::new();
    story.put("first", deployment(json!({"spec": {"nodeSelector": {"first": "1"}}})));
    for manager in ["b", "c", "d", "e", "f", "g", "h", "i", "j"] {
        story.edit(manager, |object| object["spec"]["nodeSelector"][manager] = json!("1"));
    }
    assert_eq!(story.entries().len(), 10);
    for manager in ["k", "l"] {
        story.edit(manager, |object| object["spec"]["nodeSelector"][manager] = json!("1"));
    }
    let updates = ["ancient-changes", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    assert_eq!(story.entries(), updates.map(|manager| format!("{manager} Update")));
    assert_eq!(
        story.owned("ancient-changes", Update),
        r#"{"f:spec":{".":{},"f:nodeSelector":{".":{},"f:b":{},"f:c":{},"f:first":{}}}}"#
    );
    let time = &story.live()["metadata"]["managedFields"][0]["time"];
    assert_eq!(time, "2024-01-01T00:00:03Z", "that of the youngest in it");
}

#[test]
fn what_was_not_tracked_belongs_to_before_first_apply() {
    let mut story = Story::new();
    story.live = Some(deployment(json!({"metadata": {"uid": "1"}, "spec": {"replicas": 1}})));
    story.edit("ignored", |object| object["spec"]["paused"] = json!(true));
    assert!(story.entries().is_empty(), "tracking starts with creation or with apply");
    assert_eq!(
        conflict_message(story.apply("me", json!({"spec": {"replicas": 2}}))),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using apps/v1: .spec.replicas"
    );
    story.apply("me", json!({"spec": {"replicas": 1}})).unwrap();
    assert_eq!(
        story.owned("before-first-apply", Update),
        r#"{"f:spec":{".":{},"f:paused":{},"f:replicas":{}}}"#
    );
    assert_eq!(story.owned("me", Apply), r#"{"f:spec":{"f:replicas":{}}}"#);
}

#[test]
fn managed_fields_can_be_reset_and_not_be_lost() {
    for reset in [json!([{}]), json!([{"manager": "", "fieldsV1": null}])] {
        let mut story = Story::new();
        story.put("m", deployment(json!({"spec": {"replicas": 1}})));
        story.edit("m", |object| object["metadata"]["managedFields"] = reset.clone());
        assert!(story.entries().is_empty(), "{reset}");
    }
    for kept in [
        None,
        Some(json!([])),
        Some(Value::Null),
        Some(json!([{"operation": "Huh"}])),
        Some(json!([3])),
        Some(json!("x")),
    ] {
        let mut story = Story::new();
        story.put("m", deployment(json!({"spec": {"replicas": 1}})));
        story.edit("m", |object| {
            let metadata = object["metadata"].as_object_mut().unwrap();
            match &kept {
                Some(sent) => metadata.insert("managedFields".to_owned(), sent.clone()),
                None => metadata.remove("managedFields"),
            };
        });
        assert_eq!(story.entries(), ["m Update"], "{kept:?}");
    }
}

#[test]
fn entries_can_be_edited_but_not_through_a_subresource() {
    let mut story = Story::new();
    story.put("m", deployment(json!({"spec": {"replicas": 1, "paused": true}})));
    let edit = |object: &mut Value| {
        object["metadata"]["managedFields"][0]["fieldsV1"] = json!({"f:spec": {"f:replicas": {}}});
    };
    let mut edited = story.live().clone();
    edit(&mut edited);
    story.put_to("status", "m", edited);
    assert_eq!(story.owned("m", Update), r#"{"f:spec":{".":{},"f:paused":{},"f:replicas":{}}}"#);
    story.edit("m", edit);
    assert_eq!(story.owned("m", Update), r#"{"f:spec":{"f:replicas":{}}}"#);
}

#[test]
fn reset_fields_are_not_owned() {
    let mut story = Story::new();
    story.reset(&[&["status"]]);
    story.apply("me", json!({"spec": {"replicas": 1}, "status": {"readyReplicas": 1}})).unwrap();
    assert_eq!(story.owned("me", Apply), r#"{"f:spec":{"f:replicas":{}}}"#);
    story.reset(&[&["spec"], &["metadata", "labels"]]);
    let mut written = story.live().clone();
    written["metadata"]["labels"] = json!({"a": "b"});
    written["spec"]["replicas"] = json!(9);
    written["status"]["readyReplicas"] = json!(2);
    story.put_to("status", "controller", written);
    assert_eq!(story.owned("controller", Update), r#"{"f:status":{"f:readyReplicas":{}}}"#);
    assert_eq!(story.owned("me", Apply), r#"{"f:spec":{"f:replicas":{}}}"#, "what is reset is not taken");
}

#[test]
fn applying_again_changes_nothing() {
    let mut story = Story::new();
    let config = json!({"spec": {"replicas": 1, "template": {"containers": [{"name": "c"}]}}});
    assert!(story.apply("me", config.clone()).unwrap(), "creation is a change");
    let before = story.live().clone();
    assert!(!story.apply("me", config).unwrap());
    assert_eq!(*story.live(), before, "not even the time");
}

#[test]
fn a_new_owner_of_equal_values_is_a_change() {
    let mut story = Story::new();
    story.apply("a", json!({"spec": {"replicas": 1}})).unwrap();
    let before = story.live().clone();
    assert!(story.apply("b", json!({"spec": {"replicas": 1}})).unwrap());
    assert!(!unchanged_but_for_times(&before, story.live()));
    assert!(story.managed().entries.iter().any(|entry| entry.time.is_none()), "it changed nothing itself");
}

#[test]
fn configurations_that_cannot_be_applied_are_refused() {
    let mut story = Story::new();
    let place = "(/web; apps/v1, Kind=Deployment)";
    let typed = |problem: &str| format!("failed to create typed patch object {place}: {problem}");
    for (parts, message) in [
        (json!({"kind": "Pod"}), "invalid object type: apps/v1, Kind=Pod".to_owned()),
        (json!({"apiVersion": "v1"}), "invalid object type: /v1, Kind=Deployment".to_owned()),
        (json!({"metadata": {"managedFields": []}}), "metadata.managedFields must be nil".to_owned()),
        (json!({"spec": {"x": 1}}), typed(".spec.x: field not declared in schema")),
        (
            json!({"spec": {"template": {"containers": [{"name": "a"}, {"name": "a"}]}}}),
            typed(".spec.template.containers: duplicate entries for key [name=\"a\"]"),
        ),
        (json!({"spec": {"tags": ["a", "a"]}}), typed(".spec.tags: duplicate entries for key [=\"a\"]")),
        (
            json!({"spec": {"replicas": "1"}}),
            typed(".spec.replicas: expected numeric (int or float), got string"),
        ),
        (json!({"spec": {"tags": "a"}}), typed(".spec.tags: expected list, got &{a}")),
        (json!({"spec": [1]}), typed(".spec: expected map, got &{[1]}")),
        (
            json!({"spec": {"paused": 1, "nodeSelector": {"a": true}}}),
            typed(
                "errors:\n  .spec.nodeSelector.a: expected string, got &value.valueUnstructured{Value:true}\n  .spec.paused: expected boolean, got &{1}",
            ),
        ),
        (
            json!({"spec": {"template": {"containers": [{"image": "x"}]}}}),
            typed(
                ".spec.template.containers: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values for any key fields)",
            ),
        ),
    ] {
        let error = story.apply("me", parts.clone()).unwrap_err();
        assert_eq!(error.to_string(), message, "{parts}");
    }
}

#[test]
fn item_without_its_keys_makes_a_write_untrackable() {
    let containers = |item: Value| deployment(json!({"spec": {"template": {"containers": [item]}}}));
    let mut story = Story::new();
    let refused = story.try_put(containers(json!({"image": "x"})));
    assert!(matches!(refused, Err(ApplyError::NotTyped { .. })), "on creation: {refused:?}");
    story.put("a", containers(json!({"name": "a"})));
    let refused = story.try_put(containers(json!({"image": "x"})));
    assert!(matches!(refused, Err(ApplyError::NotTyped { .. })), "on update: {refused:?}");
}
