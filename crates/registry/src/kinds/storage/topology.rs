//! Topologies in which volumes may be provisioned.

use std::collections::{BTreeMap, BTreeSet};

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use crate::kinds::rules;
use crate::view;

type Term<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Validates the terms, which must be unique.
pub(super) fn check_allowed_topologies(object: &Value, errors: &mut ErrorList) {
    let path = Path::root("allowedTopologies");
    let mut seen = Vec::new();
    for (index, term) in view::items(object, &["allowedTopologies"]).iter().enumerate() {
        let path = path.index(index);
        let expressions = path.child("matchLabelExpressions");
        let term = check_term(term, &expressions, errors);
        // kube-apiserver compares also with terms that it has not read yet, which are empty.
        if term.is_empty() || seen.contains(&term) {
            errors.push(FieldError::duplicate(&expressions, ""));
        }
        seen.push(term);
    }
}

/// Returns warnings about deprecated node labels in these topologies.
pub(super) fn warnings(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (term_index, term) in view::items(object, &["allowedTopologies"]).iter().enumerate() {
        for (index, expression) in view::items(term, &["matchLabelExpressions"]).iter().enumerate() {
            if let Some(message) = rules::deprecated_node_label(view::text(expression, &["key"])) {
                let at = format!("allowedTopologies[{term_index}].matchLabelExpressions[{index}].key");
                warnings.push(format!("{at}: {message}"));
            }
        }
    }
    warnings
}

fn check_term<'a>(term: &'a Value, path: &Path<'_>, errors: &mut ErrorList) -> Term<'a> {
    let mut keys = Term::new();
    for (index, expression) in view::items(term, &["matchLabelExpressions"]).iter().enumerate() {
        let path = path.index(index);
        let values = check_values(expression, &path.child("values"), errors);
        let key = view::text(expression, &["key"]);
        let key_path = path.child("key");
        rules::each_message(&key_path, key, name::qualified_name(key), errors);
        if keys.insert(key, values).is_some() {
            errors.push(FieldError::duplicate(&key_path, key));
        }
    }
    keys
}

fn check_values<'a>(expression: &'a Value, path: &Path<'_>, errors: &mut ErrorList) -> BTreeSet<&'a str> {
    let values = view::items(expression, &["values"]);
    if values.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let mut seen = BTreeSet::new();
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        if !seen.insert(value) {
            errors.push(FieldError::duplicate(&path.index(index), value));
        }
    }
    seen
}
