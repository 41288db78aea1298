//! The scale subresource of custom objects.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use crate::scale::{FieldPath, ScalePaths, ScaleSelector};
use crate::view;

/// Paths of the counts, for validation; kube-apiserver validates them with every write.
pub(super) struct Limits {
    spec_replicas: String,
    status_replicas: String,
    selector: String,
}

/// Paths of the counts, for the Scale.
pub(super) fn paths(scale: &Value) -> ScalePaths {
    let path = |field: &str| -> FieldPath { split(view::text(scale, &[field])).map(Into::into).collect() };
    let selector = view::text(scale, &["labelSelectorPath"]);
    ScalePaths {
        spec_replicas: path("specReplicasPath"),
        status_replicas: path("statusReplicasPath"),
        selector: (!selector.is_empty()).then(|| ScaleSelector::Text(path("labelSelectorPath"))),
        is_said: Some(view::text(scale, &["specReplicasPath"]).to_owned()),
    }
}

fn split(path: &str) -> impl Iterator<Item = String> {
    path.strip_prefix('.').unwrap_or(path).split('.').map(str::to_owned)
}

impl Limits {
    pub(super) fn of(scale: &Value) -> Self {
        let text = |field: &str| view::text(scale, &[field]).to_owned();
        Self {
            spec_replicas: text("specReplicasPath"),
            status_replicas: text("statusReplicasPath"),
            selector: text("labelSelectorPath"),
        }
    }

    /// Validates the desired number of replicas.
    pub(super) fn check_spec(&self, object: &Value, errors: &mut ErrorList) {
        check_number(object, &self.spec_replicas, errors);
    }

    /// Validates the current number of replicas and the selector.
    pub(super) fn check_status(&self, object: &Value, errors: &mut ErrorList) {
        check_number(object, &self.status_replicas, errors);
        if self.selector.is_empty() {
            return;
        }
        if let Err(reason) = at(object, &self.selector, Value::is_string, "string") {
            errors.push(FieldError::invalid(&Path::root(&self.selector), "", reason));
        }
    }
}

fn check_number(object: &Value, path: &str, errors: &mut ErrorList) {
    let place = Path::root(path);
    match at(object, path, Value::is_i64, "int64") {
        Err(reason) => errors.push(FieldError::invalid(&place, 0, reason)),
        Ok(found) => {
            let number = found.and_then(Value::as_i64).unwrap_or(0);
            if number < 0 {
                errors.push(FieldError::invalid(&place, number, "should be a non-negative integer"));
            } else if number > i64::from(i32::MAX) {
                let detail = format!("should be less than or equal to {}", i32::MAX);
                errors.push(FieldError::invalid(&place, number, detail));
            }
        }
    }
}

/// The value at a path, which must have the given type.
fn at<'a>(
    object: &'a Value,
    path: &str,
    is_right: fn(&Value) -> bool,
    expected: &str,
) -> Result<Option<&'a Value>, String> {
    let mut found = object;
    for name in split(path) {
        match found {
            Value::Object(fields) => match fields.get(&name) {
                Some(field) => found = field,
                None => return Ok(None),
            },
            other => return Err(misfit(path, other, "map[string]interface{}")),
        }
    }
    if is_right(found) { Ok(Some(found)) } else { Err(misfit(path, found, expected)) }
}

fn misfit(path: &str, found: &Value, expected: &str) -> String {
    let kind = match found {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    let printed = coracle_meta::json_path::text(found);
    format!("{path} accessor error: {printed} is of the type {kind}, expected {expected}")
}
