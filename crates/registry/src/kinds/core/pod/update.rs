//! Validation of updates of a pod.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::{Map, Value};

use super::{parts, sameness};
use crate::kinds::core::pod_spec::annotation::{APP_ARMOR, MIRROR};
use crate::kinds::core::pod_spec::{check, container, validate_tolerations};
use crate::kinds::core::unified_diff::unified_diff;
use crate::{internal_types, view};

/// Message of kube-apiserver, verbatim.
const IMMUTABLE_FIELDS: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Validates an update of a pod.
pub(super) fn validate(new: &Value, old: &Value, errors: &mut ErrorList) {
    validate_annotations(new, old, errors);
    let (new, old) = (parts(new).1, parts(old).1);
    let path = Path::root("spec");
    for list in ["containers", "initContainers"] {
        if !images(new, old, list, &path.child(list), errors) {
            return;
        }
    }
    if !deadline(new, old, &path.child("activeDeadlineSeconds"), errors) {
        return;
    }
    tolerations(new, old, &path.child("tolerations"), errors);
    scheduling_gates(new, old, &path.child("schedulingGates"), errors);
    let mut allowed = new.clone();
    restore(&mut allowed, old);
    if !view::items(old, &["schedulingGates"]).is_empty() {
        gated(&mut allowed, old, &path, errors);
    }
    if !sameness::is_same(Some(old), Some(&allowed)) {
        let difference = difference("@core.PodSpec", old, &allowed);
        errors.push(FieldError::forbidden(&path, format!("{IMMUTABLE_FIELDS}\n{difference}")));
    }
}

/// Returns the diff of two versioned objects as messages print it; `shape` is a type of [`internal_types`].
pub(super) fn difference(shape: &str, old: &Value, new: &Value) -> String {
    let [old, new] = [old, new].map(|value| internal_types::indented(shape, Some(value)));
    unified_diff(&old, &new)
}

/// Rejects changes of immutable annotations, whichever subresource is written.
pub(super) fn validate_annotations(new: &Value, old: &Value, errors: &mut ErrorList) {
    let path = Path::root("metadata.annotations");
    let of = |pod: &Value| -> Map<String, Value> {
        view::at(pod, &["metadata", "annotations"]).and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let (new, old) = (of(new), of(old));
    let mut report = |key: &str, act: &str, app_armor: &str| {
        if key.starts_with(APP_ARMOR) {
            let message = format!("may not {act} {app_armor}");
            errors.push(FieldError::forbidden(&path.key(key), message));
        }
        if key == MIRROR {
            errors
                .push(FieldError::forbidden(&path.key(key), format!("may not {act} mirror pod annotation")));
        }
    };
    for (key, value) in &old {
        if new.get(key) != Some(value) {
            report(key, "remove or update", "AppArmor annotations");
        }
    }
    for key in new.keys().filter(|key| !old.contains_key(*key)) {
        report(key, "add", "AppArmor annotations");
    }
}

/// Validates images, which may change. Returns false if containers were added or removed.
fn images(new: &Value, old: &Value, list: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let new = view::items(new, &[list]);
    if new.len() != view::items(old, &[list]).len() {
        errors.push(FieldError::forbidden(path, "pod updates may not add or remove containers"));
        return false;
    }
    for (index, found) in new.iter().enumerate() {
        let path = path.index(index);
        check::required(found, "image", &path, errors);
        container::untrimmed_image(found, &path, errors);
    }
    true
}

/// A deadline may be set or shortened. Returns true if the deadline is valid.
fn deadline(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let of = |spec: &Value| view::integer(spec, &["activeDeadlineSeconds"]);
    match (of(old), of(new)) {
        (_, Some(new)) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            check::in_range(new, 0, i64::from(i32::MAX), path, errors);
            false
        }
        (Some(old), Some(new)) if old < new => {
            errors.push(FieldError::invalid(path, new, "must be less than or equal to previous value"));
            false
        }
        (Some(_), None) => {
            let message = "must not update from a positive integer to nil value";
            errors.push(FieldError::invalid(path, BadValue::json(&Value::Null), message));
            true
        }
        _ => true,
    }
}

fn tolerations(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let new = view::items(new, &["tolerations"]);
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Value::Object(fields) = &mut toleration {
            fields.remove("tolerationSeconds");
        }
        toleration
    };
    let comparable: Vec<Value> = new.iter().map(without_seconds).collect();
    let mut old = view::items(old, &["tolerations"]).iter().map(without_seconds);
    if !old.all(|old| comparable.iter().any(|new| sameness::is_same(Some(&old), Some(new)))) {
        let message = "existing toleration can not be modified except its tolerationSeconds";
        return errors.push(FieldError::forbidden(path, message));
    }
    validate_tolerations(new, path, errors);
}

fn scheduling_gates(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let old: Vec<&str> = check::names(view::items(old, &["schedulingGates"])).collect();
    for (index, gate) in check::names(view::items(new, &["schedulingGates"])).enumerate() {
        if !old.contains(&gate) {
            let message = format!("only deletion is allowed, but found new scheduling gate '{gate}'");
            errors.push(FieldError::forbidden(&path.index(index).child("name"), message));
        }
    }
}

/// Reverts the changes that are allowed and already validated, so that the rest must be equal.
fn restore(new: &mut Value, old: &Value) {
    for list in ["containers", "initContainers"] {
        if let Some(new) = new.get_mut(list).and_then(Value::as_array_mut) {
            for (new, old) in new.iter_mut().zip(view::items(old, &[list])) {
                restore_field(new, old, "image");
            }
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore_field(new, old, field);
    }
    let of = |spec: &Value| view::integer(spec, &["terminationGracePeriodSeconds"]);
    if of(old).is_some_and(|seconds| seconds < 0) && of(new) == Some(1) {
        restore_field(new, old, "terminationGracePeriodSeconds");
    }
}

fn restore_field(new: &mut Value, old: &Value, field: &str) {
    let Value::Object(fields) = new else { return };
    match old.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}

/// Allows a pod with scheduling gates to add requirements on its node.
fn gated(new: &mut Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if !sameness::is_same(new.get("nodeSelector"), old.get("nodeSelector")) {
        node_selector(new, old, &path.child("nodeSelector"), errors);
        restore_field(new, old, "nodeSelector");
    }
    let of = |spec: &Value| view::at(spec, &["affinity", "nodeAffinity"]).cloned();
    let (new_affinity, old_affinity) = (of(new), of(old));
    if sameness::is_same(new_affinity.as_ref(), old_affinity.as_ref()) {
        return;
    }
    let affinity_path = path.child("affinity.nodeAffinity");
    node_affinity(new_affinity.as_ref(), old_affinity.as_ref(), &affinity_path, errors);
    let Value::Object(fields) = new else { return };
    let affinity = fields.entry("affinity").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(affinity) = affinity {
        match old_affinity {
            Some(old) => affinity.insert("nodeAffinity".to_owned(), old),
            None => affinity.remove("nodeAffinity"),
        };
        if affinity.is_empty() && old.get("affinity").is_none() {
            fields.remove("affinity");
        }
    }
}

fn node_selector(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut labels = view::fields(old, &["nodeSelector"]);
    if !labels.all(|(key, value)| view::at(new, &["nodeSelector", key]) == Some(value)) {
        let message = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        let found = internal_types::printed("{s", new.get("nodeSelector"));
        errors.push(FieldError::invalid(path, found, message));
    }
}

fn node_affinity(new: Option<&Value>, old: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    fn terms(affinity: Option<&Value>) -> Option<&Value> {
        view::at(affinity?, &[REQUIRED, "nodeSelectorTerms"])
    }
    let items = |terms: Option<&Value>| terms.and_then(Value::as_array).cloned().unwrap_or_default();
    let (new, old) = (terms(new), items(terms(old)));
    let path = path.child(REQUIRED);
    let path = path.child("nodeSelectorTerms");
    let new_items = items(new);
    if !old.is_empty() && old.len() != new_items.len() {
        let message = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.push(FieldError::invalid(
            &path,
            internal_types::printed("[@core.NodeSelectorTerm", new),
            message,
        ));
    }
    for (index, (new, old)) in new_items.iter().zip(&old).enumerate() {
        if !only_adds(new, old) {
            let message = "only additions are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(
                &path.index(index),
                internal_types::printed("@core.NodeSelectorTerm", Some(new)),
                message,
            ));
        }
    }
}

/// Returns true if a term only adds requirements. A term that matches nothing must stay that way.
fn only_adds(new: &Value, old: &Value) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    let is_empty = |term: &Value| lists.iter().all(|list| view::items(term, &[list]).is_empty());
    if is_empty(old) {
        return is_empty(new);
    }
    lists.iter().all(|list| view::items(new, &[list]).starts_with(view::items(old, &[list])))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(old: Value, new: Value, expected: &str) {
        let mut errors = ErrorList::new();
        validate(&json!({"spec": new}), &json!({"spec": old}), &mut errors);
        assert_eq!(errors.to_string(), expected);
    }

    #[test]
    fn mutable_fields_may_change() {
        let old = json!({
            "containers": [{"name": "a", "image": "1"}],
            "terminationGracePeriodSeconds": -1,
            "activeDeadlineSeconds": 10
        });
        let new = json!({
            "containers": [{"name": "a", "image": "2"}],
            "terminationGracePeriodSeconds": 1,
            "activeDeadlineSeconds": 5,
            "tolerations": [{"key": "a", "operator": "Exists"}]
        });
        check(old, new, "");
    }

    #[test]
    fn change_of_immutable_field_is_rejected_with_a_diff() {
        let difference = r#"@@ -10,7 +10,7 @@
  "NodeSelector": null,
  "ServiceAccountName": "",
  "AutomountServiceAccountToken": null,
- "NodeName": "a",
+ "NodeName": "b",
  "SecurityContext": {
   "HostNetwork": false,
   "HostPID": false,
"#;
        let expected = format!("spec: Forbidden: {IMMUTABLE_FIELDS}\n{difference}");
        check(json!({"nodeName": "a"}), json!({"nodeName": "b"}), &expected);
        check(
            json!({"schedulingGates": []}),
            json!({"schedulingGates": [{"name": "x"}]}),
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'x'",
        );
    }

    #[test]
    fn diff_matches_kube_apiserver() {
        let old = json!({
            "containers": [{"name": "a", "image": "b", "imagePullPolicy": "Always"}],
            "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
            "serviceAccountName": "default", "automountServiceAccountToken": false, "securityContext": {},
        });
        let mut new = old.clone();
        new["containers"][0]["command"] = json!(["x"]);
        new["nodeSelector"] = json!({"a": "b"});
        new["hostNetwork"] = true.into();
        let difference = r#"@@ -5,7 +5,9 @@
   {
    "Name": "a",
    "Image": "b",
-   "Command": null,
+   "Command": [
+    "x"
+   ],
    "Args": null,
    "WorkingDir": "",
    "Ports": null,
@@ -39,12 +41,14 @@
  "TerminationGracePeriodSeconds": 30,
  "ActiveDeadlineSeconds": null,
  "DNSPolicy": "ClusterFirst",
- "NodeSelector": null,
+ "NodeSelector": {
+  "a": "b"
+ },
  "ServiceAccountName": "default",
  "AutomountServiceAccountToken": false,
  "NodeName": "",
  "SecurityContext": {
-  "HostNetwork": false,
+  "HostNetwork": true,
   "HostPID": false,
   "HostIPC": false,
   "ShareProcessNamespace": null,
"#;
        check(old, new, &format!("spec: Forbidden: {IMMUTABLE_FIELDS}\n{difference}"));
    }

    #[test]
    fn gated_pod_may_add_node_requirements() {
        let gates = json!([{"name": "x"}]);
        let affinity = json!({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}});
        check(
            json!({"schedulingGates": gates, "nodeSelector": {"a": "b"}}),
            json!({"schedulingGates": gates, "nodeSelector": {"a": "b", "c": "d"}, "affinity": affinity}),
            "",
        );
        check(
            json!({"schedulingGates": gates, "nodeSelector": {"a": "b"}}),
            json!({"schedulingGates": gates, "nodeSelector": {"c": "d"}}),
            "spec.nodeSelector: Invalid value: {\"c\":\"d\"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)",
        );
    }
}
