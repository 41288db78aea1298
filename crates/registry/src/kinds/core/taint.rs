//! Taints of nodes.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::rules;
use crate::{internal_types, view};

/// Effects, in the order in which messages list them.
const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Validates a list of taints.
pub(crate) fn validate(taints: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    for (index, taint) in taints.iter().enumerate() {
        let path = path.index(index);
        let key = view::text(taint, &["key"]);
        rules::text(key, name::qualified_name, &path.child("key"), errors);
        let value = view::text(taint, &["value"]);
        let messages = name::label_value(value);
        if !messages.is_empty() {
            errors.push(FieldError::invalid(&path.child("value"), value, messages.join(";")));
        }
        let effect = view::text(taint, &["effect"]);
        rules::required_one_of(effect, EFFECTS, &path.child("effect"), errors);
        let same =
            |other: &Value| view::text(other, &["key"]) == key && view::text(other, &["effect"]) == effect;
        if taints[..index].iter().any(same) {
            let mut error = FieldError::duplicate(&path, internal_types::printed("@core.Taint", Some(taint)));
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_match_kube_apiserver() {
        let taint = json!({"key": "a", "effect": "NoSchedule"});
        let mut errors = ErrorList::new();
        validate(
            &[taint.clone(), taint, json!({"key": "b", "effect": "No"})],
            &Path::root("taints"),
            &mut errors,
        );
        assert_eq!(
            errors.to_string(),
            r#"[taints[1]: Duplicate value: {"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and effect pair, taints[2].effect: Unsupported value: "No": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"]"#
        );
    }
}
