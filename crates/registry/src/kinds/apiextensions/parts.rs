//! Validation of the parts of a version that may be equal in all versions: schema, subresources, columns and
//! selectable fields.

use std::collections::BTreeSet;

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::options::ValidationOptions;
use super::{root, schema};
use crate::kinds::rules;
use crate::view;

/// Maximum number of selectable fields, as in Kubernetes.
const MAX_SELECTABLE_FIELDS: usize = 8;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];

const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Validates the schema of a version; `has_status` is whether it has a status subresource.
pub(super) fn check_schema(
    version: &Value,
    has_status: bool,
    options: &ValidationOptions<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let Some(found) = view::at(version, &["schema", "openAPIV3Schema"]) else { return };
    let path = path.child("openAPIV3Schema");
    let mut at_root = ErrorList::new();
    if has_status {
        root::check(found, &path, &mut at_root);
    }
    schema::check(found, options.of_version(version), &path, &mut at_root);
    errors.extend(at_root);
}

/// Validates the paths of the scale subresource.
pub(super) fn check_subresources(version: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(scale) = view::at(version, &["subresources", "scale"]) else { return };
    let scale_path = path.child("scale");
    for (field, root) in [("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")] {
        let (found, path) = (view::text(scale, &[field]), scale_path.child(field));
        if rules::required(&path, found, errors) && check_json_path(found, &path, errors) {
            let detail = format!("should be a json path under {root}");
            if !found.starts_with(&format!("{root}.")) {
                errors.push(FieldError::invalid(&path, found, detail));
            }
        }
    }
    let (found, path) = (view::text(scale, &["labelSelectorPath"]), scale_path.child("labelSelectorPath"));
    if !found.is_empty()
        && check_json_path(found, &path, errors)
        && !found.starts_with(".spec.")
        && !found.starts_with(".status.")
    {
        let detail = "should be a json path under either .spec or .status";
        errors.push(FieldError::invalid(&path, found, detail));
    }
}

/// Requires a path that begins at the object. Returns whether it does.
fn check_json_path(json_path: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let simple = json_path.starts_with('.');
    if !simple {
        errors.push(FieldError::invalid(path, json_path, "must be a simple json path starting with ."));
    }
    simple
}

/// Validates the printer columns.
pub(super) fn check_columns(version: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (index, column) in view::items(version, &["additionalPrinterColumns"]).iter().enumerate() {
        let path = path.index(index);
        rules::required(&path.child("name"), view::text(column, &["name"]), errors);
        let column_type = view::text(column, &["type"]);
        let must = format!("must be one of {}", COLUMN_TYPES.join(","));
        if column_type.is_empty() {
            errors.push(FieldError::required(&path.child("type"), must));
        } else if !COLUMN_TYPES.contains(&column_type) {
            errors.push(FieldError::invalid(&path.child("type"), column_type, must));
        }
        let format = view::text(column, &["format"]);
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(FieldError::invalid(&path.child("format"), format, detail));
        }
        let (json_path, path) = (view::text(column, &["jsonPath"]), path.child("JSONPath"));
        if rules::required(&path, json_path, errors) {
            check_json_path(json_path, &path, errors);
        }
    }
}

/// Validates the selectable fields. kube-apiserver has another message for a missing schema if the fields are equal
/// in all versions (`shared`).
pub(super) fn check_selectable_fields(
    version: &Value,
    schema_beside: bool,
    shared: bool,
    options: &ValidationOptions<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mut seen = BTreeSet::new();
    let has_any = !view::items(version, &["selectableFields"]).is_empty();
    if has_any && !(schema_beside && view::at(version, &["schema", "openAPIV3Schema"]).is_some()) {
        let detail = match shared {
            true => "may only be set when validations.schema is included",
            false => "may only be set when `version.schema.openAPIV3Schema` is not included",
        };
        errors.push(FieldError::invalid(path, "", detail));
        return;
    }
    for (index, field) in view::items(version, &["selectableFields"]).iter().enumerate() {
        let path = path.index(index);
        let (json_path, path) = (view::text(field, &["jsonPath"]), path.child("jsonPath"));
        if !rules::required(&path, json_path, errors) {
            continue;
        }
        let found = match schema_at(version, json_path) {
            Ok(found) => found,
            Err(reason) => {
                let detail = format!("is an invalid path: {reason}");
                errors.push(FieldError::invalid(&path, json_path, detail));
                continue;
            }
        };
        if json_path.starts_with(".metadata") {
            errors.push(FieldError::invalid(&path, json_path, "must not point to fields in metadata"));
        }
        if !matches!(view::text(found, &["type"]), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and \
                          strings with formats are allowed.";
            errors.push(FieldError::invalid(&path, json_path, detail));
        }
        if !seen.insert(json_path) {
            errors.push(FieldError::duplicate(&path, json_path));
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS && !options.had_selectable_fields(version) {
        errors.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE_FIELDS));
    }
}

/// The schema of the field at a path such as `.spec.size`, or the problem of the path.
fn schema_at<'a>(version: &'a Value, json_path: &str) -> Result<&'a Value, String> {
    let invalid = || "does not refer to a valid field".to_owned();
    let mut schema = view::at(version, &["schema", "openAPIV3Schema"]).ok_or_else(invalid)?;
    let mut rest = json_path;
    while !rest.is_empty() {
        rest = match rest.strip_prefix('.') {
            Some(rest) => rest,
            None if rest.starts_with('[') => return Err("array notation is not allowed".to_owned()),
            None => return Err(format!("expected [ or . but got: {}", path_token(rest))),
        };
        let name = path_token(rest);
        if name.is_empty() {
            return Err("unexpected end of JSON path".to_owned());
        }
        rest = &rest[name.len()..];
        schema = match schema.get("properties") {
            Some(properties) => properties.get(name),
            None => schema.get("additionalProperties").filter(|schema| schema.is_object()),
        }
        .ok_or_else(invalid)?;
    }
    Ok(schema)
}

/// The text up to the next delimiter, or the delimiter if it comes first.
fn path_token(path: &str) -> &str {
    let end = path.find(['.', '[', ']']).unwrap_or(path.len());
    &path[..end.max(1).min(path.len())]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectable_path_errors_have_the_messages_of_kube_apiserver() {
        let properties = json!({"spec": {"type": "object", "properties": {"a": {"type": "string"}}}});
        let version = json!({"schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}});
        for (path, fault) in [
            ("x", "expected [ or . but got: x"),
            (".spec]", "expected [ or . but got: ]"),
            (".spec['a']", "array notation is not allowed"),
            (".spec.", "unexpected end of JSON path"),
            (".spec.b", "does not refer to a valid field"),
        ] {
            assert_eq!(schema_at(&version, path).unwrap_err(), fault, "{path}");
        }
        assert_eq!(schema_at(&version, ".spec.a").unwrap()["type"], "string");
    }
}
