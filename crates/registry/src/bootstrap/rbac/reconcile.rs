//! Reconciliation of a default role or binding that a user has changed: missing rules and subjects are added, and
//! nothing is removed (`computeReconciledRole` and `computeReconciledRoleBinding` in
//! component-helpers/auth/rbac/reconciliation).

use serde_json::{Value, json};

use super::AUTOUPDATE;
use crate::kinds::rbac::permission::missing;
use crate::view;

/// Result of the reconciliation of an object.
#[derive(Debug, PartialEq)]
pub(in crate::bootstrap) enum Reconciled {
    /// The object needs no change.
    Keep,
    /// The object is updated to this.
    Change(Value),
    /// The object binds another role, which is immutable, so it is deleted and created again.
    MakeAgain,
}

/// Reconciles an object, which should grant at least what `expected` grants.
pub(in crate::bootstrap) fn reconciled(existing: &Value, expected: &Value) -> Reconciled {
    if view::text(existing, &["metadata", "annotations", AUTOUPDATE]) == "false" {
        return Reconciled::Keep;
    }
    if existing.get("roleRef") != expected.get("roleRef") {
        return Reconciled::MakeAgain;
    }
    let mut new = existing.clone();
    for map in ["annotations", "labels"] {
        add_entries(&mut new["metadata"], map, &expected["metadata"][map]);
    }
    match expected.get("roleRef") {
        Some(_) => add_absent(&mut new, "subjects", view::items(expected, &["subjects"])),
        None => add_rules(&mut new, expected),
    }
    if new == *existing { Reconciled::Keep } else { Reconciled::Change(new) }
}

/// Adds missing keys. Existing values stay.
fn add_entries(metadata: &mut Value, map: &str, expected: &Value) {
    for (key, value) in expected.as_object().into_iter().flatten() {
        if metadata[map].get(key).is_none() {
            metadata[map][key] = value.clone();
        }
    }
}

fn add_rules(role: &mut Value, expected: &Value) {
    let selectors = ["aggregationRule", "clusterRoleSelectors"];
    if expected.get("aggregationRule").is_some() {
        // The rules follow from the selected roles.
        let mut aggregation = role.get("aggregationRule").cloned().unwrap_or_else(|| json!({}));
        add_absent(&mut aggregation, "clusterRoleSelectors", view::items(expected, &selectors));
        role["aggregationRule"] = aggregation;
        return;
    }
    let rules = missing(view::items(role, &["rules"]), view::items(expected, &["rules"]));
    append(role, "rules", rules);
    if let Value::Object(fields) = role {
        fields.remove("aggregationRule");
    }
}

fn add_absent(object: &mut Value, field: &str, expected: &[Value]) {
    let known = view::items(object, &[field]);
    let absent = expected.iter().filter(|item| !known.contains(item)).cloned().collect();
    append(object, field, absent);
}

fn append(object: &mut Value, field: &str, items: Vec<Value>) {
    if items.is_empty() {
        return;
    }
    match object.get_mut(field) {
        Some(Value::Array(known)) => known.extend(items),
        _ => object[field] = items.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(rules: Value) -> Value {
        let annotations = json!({AUTOUPDATE: "true"});
        json!({"metadata": {"name": "r", "annotations": annotations, "labels": {"a": "b"}}, "rules": rules})
    }

    fn rule(verbs: Value, resources: Value) -> Value {
        json!({"verbs": verbs, "apiGroups": [""], "resources": resources})
    }

    fn changed(existing: &Value, expected: &Value) -> Value {
        match reconciled(existing, expected) {
            Reconciled::Change(new) => new,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn missing_rules_are_added() {
        let expected = role(json!([rule(json!(["get", "list"]), json!(["pods"]))]));
        let own = rule(json!(["get"]), json!(["pods", "nodes"]));
        let new = changed(&role(json!([own])), &expected);
        assert_eq!(new["rules"], json!([own, rule(json!(["list"]), json!(["pods"]))]));
        assert_eq!(reconciled(&new, &expected), Reconciled::Keep);
        let nothing = changed(&role(Value::Null), &expected);
        assert_eq!(nothing["rules"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn user_labels_and_annotations_stay() {
        let expected = role(json!([]));
        let mut existing = expected.clone();
        existing["metadata"]["labels"] = json!({"a": "mine", "more": "x"});
        assert_eq!(reconciled(&existing, &expected), Reconciled::Keep);
        existing["metadata"]["annotations"] = Value::Null;
        let new = changed(&existing, &expected);
        assert_eq!(new["metadata"]["annotations"], json!({AUTOUPDATE: "true"}));
        assert_eq!(new["metadata"]["labels"], existing["metadata"]["labels"]);
    }

    #[test]
    fn objects_with_autoupdate_false_are_not_changed() {
        let expected = role(json!([rule(json!(["get"]), json!(["pods"]))]));
        let mut existing = role(json!([]));
        existing["metadata"]["annotations"][AUTOUPDATE] = "false".into();
        assert_eq!(reconciled(&existing, &expected), Reconciled::Keep);
        existing["roleRef"] = json!({"name": "x"});
        assert_eq!(reconciled(&existing, &expected), Reconciled::Keep);
    }

    #[test]
    fn aggregation_selectors_follow_the_expected_role() {
        let selector = |label: &str| json!({"matchLabels": {label: "true"}});
        let aggregated = |selectors: Value| {
            let mut role = role(json!([]));
            role["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
            role
        };
        let mut expected = aggregated(json!([selector("a")]));
        expected["rules"] = json!([rule(json!(["get"]), json!(["pods"]))]);
        let new = changed(&aggregated(json!([selector("b")])), &expected);
        assert_eq!(new["aggregationRule"]["clusterRoleSelectors"], json!([selector("b"), selector("a")]));
        assert_eq!(new["rules"], json!([]), "they follow");
        assert_eq!(changed(&role(json!([])), &expected)["aggregationRule"], expected["aggregationRule"]);
        let plain = changed(&aggregated(json!([selector("a")])), &role(json!([])));
        assert_eq!(plain.get("aggregationRule"), None);
    }

    #[test]
    fn missing_subjects_are_added_and_other_role_ref_is_replaced() {
        let binding = |role: &str, subjects: Value| json!({"metadata": {"name": "b"}, "roleRef": {"name": role}, "subjects": subjects});
        let (one, other) = (json!({"kind": "User", "name": "a"}), json!({"kind": "User", "name": "b"}));
        let expected = binding("r", json!([one]));
        let new = changed(&binding("r", json!([other])), &expected);
        assert_eq!(new["subjects"], json!([other, one]));
        assert_eq!(reconciled(&new, &expected), Reconciled::Keep);
        assert_eq!(reconciled(&binding("q", json!([one])), &expected), Reconciled::MakeAgain);
    }
}
