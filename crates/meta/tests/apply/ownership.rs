//! Tests of field ownership after writes, and of conflicts.

use coracle_meta::apply::Operation::{Apply, Update};
use coracle_meta::apply::{ApplyError, unchanged_but_for_times};
use serde_json::{Value, json};

use crate::fixture::{ObjectHistory, deployment};

fn conflict_message(result: Result<bool, ApplyError>) -> String {
    match result {
        Err(ApplyError::Conflicts(conflicts)) => conflicts.to_string(),
        other => panic!("expected conflicts, not {other:?}"),
    }
}

#[test]
fn create_owns_all_fields_except_system_fields() {
    let mut history = ObjectHistory::new();
    history.put(
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
        history.owned("kubectl-create", Update),
        concat!(
            r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{".":{},"f:replicas":{},"f:selector":{},"#,
            r#""f:tags":{".":{},"v:\"a\"":{},"v:\"b\"":{}},"f:template":{".":{},"f:containers":{".":{},"#,
            r#""k:{\"name\":\"nginx\"}":{".":{},"f:args":{},"f:name":{},"f:ports":{".":{},"#,
            r#""k:{\"containerPort\":80,\"protocol\":\"UDP\"}":{".":{},"f:containerPort":{},"f:protocol":{}},"#,
            r#""k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},"f:resources":{}}}}}}"#,
        )
    );
    let entry = &history.live()["metadata"]["managedFields"][0];
    let text = |field: &str| entry[field].as_str().unwrap().to_owned();
    assert_eq!(
        [text("operation"), text("apiVersion"), text("time"), text("fieldsType")],
        ["Update", "apps/v1", "2024-01-01T00:00:01Z", "FieldsV1"]
    );
}

#[test]
fn update_of_field_makes_manager_its_only_owner() {
    let mut history = ObjectHistory::new();
    history.put("a", deployment(json!({"spec": {"replicas": 1, "paused": false}})));
    history.edit("b", |object| object["spec"]["replicas"] = json!(2));
    assert_eq!(history.owned("a", Update), r#"{"f:spec":{".":{},"f:paused":{}}}"#);
    assert_eq!(history.owned("b", Update), r#"{"f:spec":{"f:replicas":{}}}"#);
    history.edit("b", |object| {
        object["spec"].as_object_mut().unwrap().remove("replicas");
    });
    assert_eq!(history.entries(), ["a Update"], "a manager without fields has no entry");
}

#[test]
fn equal_values_are_co_owned_and_different_values_conflict() {
    let mut history = ObjectHistory::new();
    history.apply("a", json!({"spec": {"replicas": 1}})).unwrap();
    history.apply("b", json!({"spec": {"replicas": 1}})).unwrap();
    assert_eq!(history.owned("a", Apply), history.owned("b", Apply));
    assert_eq!(
        conflict_message(history.apply("b", json!({"spec": {"replicas": 2}}))),
        "Apply failed with 1 conflict: conflict with \"a\": .spec.replicas"
    );
    history.force("b", json!({"spec": {"replicas": 2}}));
    assert_eq!(history.entries(), ["b Apply"]);
    assert_eq!(history.live()["spec"]["replicas"], 2);
}

#[test]
fn conflicts_are_listed_by_manager() {
    let mut history = ObjectHistory::new();
    history.put(
        "edit",
        deployment(
            json!({"spec": {"replicas": 1, "template": {"containers": [{"name": "c", "image": "1"}]}}}),
        ),
    );
    history.apply("other", json!({"spec": {"paused": true}})).unwrap();
    let config = json!({"spec": {"replicas": 3, "paused": false, "template": {"containers": [{"name": "c", "image": "2"}]}}});
    assert_eq!(
        conflict_message(history.apply("me", config)),
        concat!(
            "Apply failed with 3 conflicts: conflicts with \"edit\" using apps/v1:\n- .spec.replicas\n",
            "- .spec.template.containers[name=\"c\"].image\nconflicts with \"other\":\n- .spec.paused"
        )
    );
    assert_eq!(history.live()["spec"]["replicas"], 1, "a conflict changes nothing");
}

#[test]
fn field_no_longer_applied_is_removed_unless_co_owned() {
    let mut history = ObjectHistory::new();
    let both = json!({"spec": {"replicas": 1, "nodeSelector": {"a": "1", "b": "2"}, "tags": ["x", "y"]}});
    history.apply("me", both).unwrap();
    history
        .apply("other", json!({"spec": {"replicas": 1, "nodeSelector": {"b": "2"}, "tags": ["y"]}}))
        .unwrap();
    history.apply("me", json!({"spec": {"paused": true}})).unwrap();
    assert_eq!(
        history.live()["spec"],
        json!({"replicas": 1, "paused": true, "nodeSelector": {"b": "2"}, "tags": ["y"]})
    );
    history.apply("other", json!({})).unwrap();
    assert_eq!(history.live()["spec"], json!({"paused": true}));
    assert_eq!(history.entries(), ["me Apply"]);
}

#[test]
fn unowned_siblings_of_removed_fields_remain() {
    let mut history = ObjectHistory::new();
    let container = json!({"spec": {"template": {"containers": [{"name": "c", "image": "1"}]}}});
    history.apply("me", container).unwrap();
    // Fields that the server set by default have no owner.
    history.live.as_mut().unwrap()["spec"]["template"]["containers"][0]["args"] = json!(["default"]);
    history.live.as_mut().unwrap()["spec"]["paused"] = json!(false);
    history.apply("me", json!({"spec": {"template": {"containers": [{"name": "c"}]}}})).unwrap();
    assert_eq!(
        history.live()["spec"],
        json!({"paused": false, "template": {"containers": [{"name": "c", "args": ["default"]}]}})
    );
    history.apply("me", json!({})).unwrap();
    assert_eq!(history.live().get("spec"), None, "a field without owned descendants is removed");
}

#[test]
fn updates_share_an_entry_except_across_subresources() {
    let mut history = ObjectHistory::new();
    history.put("m", deployment(json!({"spec": {"replicas": 1}})));
    history.edit("m", |object| object["spec"]["paused"] = json!(true));
    let mut with_status = history.live().clone();
    with_status["status"] = json!({"readyReplicas": 1});
    history.put_to("status", "m", with_status);
    history.apply("m", json!({"spec": {"paused": true}})).unwrap();
    assert_eq!(history.entries(), ["m Apply", "m Update", "m Update status"]);
    assert_eq!(history.owned("m", Apply), r#"{"f:spec":{"f:paused":{}}}"#);
}

#[test]
fn eleventh_update_manager_merges_oldest_entries() {
    let mut history = ObjectHistory::new();
    history.put("first", deployment(json!({"spec": {"nodeSelector": {"first": "1"}}})));
    for manager in ["b", "c", "d", "e", "f", "g", "h", "i", "j"] {
        history.edit(manager, |object| object["spec"]["nodeSelector"][manager] = json!("1"));
    }
    assert_eq!(history.entries().len(), 10);
    for manager in ["k", "l"] {
        history.edit(manager, |object| object["spec"]["nodeSelector"][manager] = json!("1"));
    }
    let updates = ["ancient-changes", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    assert_eq!(history.entries(), updates.map(|manager| format!("{manager} Update")));
    assert_eq!(
        history.owned("ancient-changes", Update),
        r#"{"f:spec":{".":{},"f:nodeSelector":{".":{},"f:b":{},"f:c":{},"f:first":{}}}}"#
    );
    let time = &history.live()["metadata"]["managedFields"][0]["time"];
    assert_eq!(time, "2024-01-01T00:00:03Z", "the time of the newest merged entry");
}

#[test]
fn untracked_fields_belong_to_before_first_apply() {
    let mut history = ObjectHistory::new();
    history.live = Some(deployment(json!({"metadata": {"uid": "1"}, "spec": {"replicas": 1}})));
    history.edit("ignored", |object| object["spec"]["paused"] = json!(true));
    assert!(history.entries().is_empty(), "tracking starts on create or apply");
    assert_eq!(
        conflict_message(history.apply("me", json!({"spec": {"replicas": 2}}))),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using apps/v1: .spec.replicas"
    );
    history.apply("me", json!({"spec": {"replicas": 1}})).unwrap();
    assert_eq!(
        history.owned("before-first-apply", Update),
        r#"{"f:spec":{".":{},"f:paused":{},"f:replicas":{}}}"#
    );
    assert_eq!(history.owned("me", Apply), r#"{"f:spec":{"f:replicas":{}}}"#);
}

#[test]
fn managed_fields_are_reset_only_by_empty_entry() {
    for reset in [json!([{}]), json!([{"manager": "", "fieldsV1": null}])] {
        let mut history = ObjectHistory::new();
        history.put("m", deployment(json!({"spec": {"replicas": 1}})));
        history.edit("m", |object| object["metadata"]["managedFields"] = reset.clone());
        assert!(history.entries().is_empty(), "{reset}");
    }
    for kept in [
        None,
        Some(json!([])),
        Some(Value::Null),
        Some(json!([{"operation": "Huh"}])),
        Some(json!([3])),
        Some(json!("x")),
    ] {
        let mut history = ObjectHistory::new();
        history.put("m", deployment(json!({"spec": {"replicas": 1}})));
        history.edit("m", |object| {
            let metadata = object["metadata"].as_object_mut().unwrap();
            match &kept {
                Some(sent) => metadata.insert("managedFields".to_owned(), sent.clone()),
                None => metadata.remove("managedFields"),
            };
        });
        assert_eq!(history.entries(), ["m Update"], "{kept:?}");
    }
}

#[test]
fn entries_are_editable_except_through_subresource() {
    let mut history = ObjectHistory::new();
    history.put("m", deployment(json!({"spec": {"replicas": 1, "paused": true}})));
    let edit = |object: &mut Value| {
        object["metadata"]["managedFields"][0]["fieldsV1"] = json!({"f:spec": {"f:replicas": {}}});
    };
    let mut edited = history.live().clone();
    edit(&mut edited);
    history.put_to("status", "m", edited);
    assert_eq!(history.owned("m", Update), r#"{"f:spec":{".":{},"f:paused":{},"f:replicas":{}}}"#);
    history.edit("m", edit);
    assert_eq!(history.owned("m", Update), r#"{"f:spec":{"f:replicas":{}}}"#);
}

#[test]
fn reset_fields_are_not_owned() {
    let mut history = ObjectHistory::new();
    history.reset(&[&["status"]]);
    history.apply("me", json!({"spec": {"replicas": 1}, "status": {"readyReplicas": 1}})).unwrap();
    assert_eq!(history.owned("me", Apply), r#"{"f:spec":{"f:replicas":{}}}"#);
    history.reset(&[&["spec"], &["metadata", "labels"]]);
    let mut written = history.live().clone();
    written["metadata"]["labels"] = json!({"a": "b"});
    written["spec"]["replicas"] = json!(9);
    written["status"]["readyReplicas"] = json!(2);
    history.put_to("status", "controller", written);
    assert_eq!(history.owned("controller", Update), r#"{"f:status":{"f:readyReplicas":{}}}"#);
    assert_eq!(
        history.owned("me", Apply),
        r#"{"f:spec":{"f:replicas":{}}}"#,
        "reset fields do not change their owner"
    );
}

#[test]
fn repeated_apply_changes_nothing() {
    let mut history = ObjectHistory::new();
    let config = json!({"spec": {"replicas": 1, "template": {"containers": [{"name": "c"}]}}});
    assert!(history.apply("me", config.clone()).unwrap(), "creation is a change");
    let before = history.live().clone();
    assert!(!history.apply("me", config).unwrap());
    assert_eq!(*history.live(), before, "including timestamps");
}

#[test]
fn new_co_owner_changes_object() {
    let mut history = ObjectHistory::new();
    history.apply("a", json!({"spec": {"replicas": 1}})).unwrap();
    let before = history.live().clone();
    assert!(history.apply("b", json!({"spec": {"replicas": 1}})).unwrap());
    assert!(!unchanged_but_for_times(&before, history.live()));
    assert!(
        history.managed().entries.iter().any(|entry| entry.time.is_none()),
        "a new owner without a change has no time"
    );
}

#[test]
fn invalid_configuration_is_rejected() {
    let mut history = ObjectHistory::new();
    let object = "(/web; apps/v1, Kind=Deployment)";
    let typed = |problem: &str| format!("failed to create typed patch object {object}: {problem}");
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
        let error = history.apply("me", parts.clone()).unwrap_err();
        assert_eq!(error.to_string(), message, "{parts}");
    }
}

#[test]
fn write_of_item_without_keys_is_not_tracked() {
    let containers = |item: Value| deployment(json!({"spec": {"template": {"containers": [item]}}}));
    let mut history = ObjectHistory::new();
    let rejected = history.try_put(containers(json!({"image": "x"})));
    assert!(matches!(rejected, Err(ApplyError::NotTyped { .. })), "on creation: {rejected:?}");
    history.put("a", containers(json!({"name": "a"})));
    let rejected = history.try_put(containers(json!({"image": "x"})));
    assert!(matches!(rejected, Err(ApplyError::NotTyped { .. })), "on update: {rejected:?}");
}
