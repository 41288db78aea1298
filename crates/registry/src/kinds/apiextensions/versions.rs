//! The versions of a custom kind, and what may differ from one to the other.

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::Value;

use super::{names, schema};
use crate::kinds::rules;
use crate::view;

/// The longest warning, as upstream has it.
const MAX_WARNING_BYTES: usize = 256;

/// The most fields that can be selected by, as upstream has it.
const MAX_SELECTABLE_FIELDS: usize = 8;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];

const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Versions in order, each once, one of them stored.
pub(super) fn check(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let versions = view::items(object, &["spec", "versions"]);
    let path = path.child("versions");
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        if view::at(version, &["schema", "openAPIV3Schema"]).is_none() {
            errors.push(FieldError::required(&path.child("schema.openAPIV3Schema"), ""));
        }
    }
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        names::check_label(view::text(version, &["name"]), &path.child("name"), errors);
        check_deprecation(version, &path.child("deprecationWarning"), errors);
    }
    let names: BTreeSet<_> = versions.iter().map(|version| view::text(version, &["name"])).collect();
    let mut invalid = |detail: &str| {
        let found = BadValue::json(&Value::Array(versions.to_vec()));
        errors.push(FieldError::invalid(&path, found, detail));
    };
    if names.len() != versions.len() {
        invalid("must contain unique version names");
    }
    if versions.iter().filter(|version| view::is_true(version, &["storage"])).count() != 1 {
        invalid("must have exactly one version marked as storage version");
    }
    // Upstream keeps the first one in a field of its own, too.
    if let Some(first) = versions.first().map(|version| view::text(version, &["name"]))
        && !first.is_empty()
    {
        names::check_label(first, &Path::root("spec.version"), errors);
    }
}

/// Schemas, subresources, columns and fields to select by. Upstream moves what is the same in
/// all versions up, and its paths show it.
pub(super) fn check_parts(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let versions = view::items(object, &["spec", "versions"]);
    let parts: [(&str, &str, PartCheck); 4] = [
        ("schema", "validation", check_schema),
        ("subresources", "subresources", |version, path, errors| check_subresources(version, path, errors)),
        ("additionalPrinterColumns", "additionalPrinterColumns", check_columns),
        ("selectableFields", "selectableFields", check_selectable_fields),
    ];
    let Some(first) = versions.first() else { return };
    let is_moved =
        |field: &str| versions.iter().all(|version| rules::same(version.get(field), first.get(field)));
    for (field, moved, check) in parts {
        // Fields that are elsewhere than their schema are not found in it.
        if field == "selectableFields" && is_moved(field) != is_moved("schema") {
            check_parted(versions, is_moved(field), path, errors);
            continue;
        }
        if is_moved(field) {
            check(first, &path.child(moved), errors);
            continue;
        }
        let path = path.child("versions");
        for (index, version) in versions.iter().enumerate() {
            let path = path.index(index);
            check(version, &path.child(field), errors);
        }
    }
}

/// Refuses fields to select by that upstream has moved up without their schemas, or the other way
/// round.
fn check_parted(versions: &[Value], moved: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let has_any = |version: &Value| !view::items(version, &["selectableFields"]).is_empty();
    if moved {
        if versions.first().is_some_and(has_any) {
            let detail = "may only be set when validations.schema is included";
            errors.push(FieldError::invalid(&path.child("selectableFields"), "", detail));
        }
        return;
    }
    let path = path.child("versions");
    for (index, _) in versions.iter().enumerate().filter(|(_, version)| has_any(version)) {
        let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
        errors.push(FieldError::invalid(&path.index(index).child("selectableFields"), "", detail));
    }
}

/// Checks a part of a version, which stands at a path.
type PartCheck = fn(&Value, &Path<'_>, &mut ErrorList);

fn check_deprecation(version: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let mut invalid = |detail: String| errors.push(FieldError::invalid(path, warning, detail));
    if !view::is_true(version, &["deprecated"]) {
        return invalid("can only be set for deprecated versions".to_owned());
    }
    if warning.len() > MAX_WARNING_BYTES {
        invalid(format!("must be <= {MAX_WARNING_BYTES} characters long"));
    }
    if warning.is_empty() {
        invalid("must not be an empty string".to_owned());
    }
    if let Some((index, _)) = warning.char_indices().find(|(_, character)| character.is_control()) {
        invalid(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

fn check_schema(version: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(root) = view::at(version, &["schema", "openAPIV3Schema"]) else { return };
    schema::check(root, &path.child("openAPIV3Schema"), errors);
}

fn check_subresources(version: &Value, path: &Path<'_>, errors: &mut ErrorList) {
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

/// Whether a path begins at the object.
fn check_json_path(json_path: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let simple = json_path.starts_with('.');
    if !simple {
        errors.push(FieldError::invalid(path, json_path, "must be a simple json path starting with ."));
    }
    simple
}

fn check_columns(version: &Value, path: &Path<'_>, errors: &mut ErrorList) {
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

fn check_selectable_fields(version: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut seen = BTreeSet::new();
    if !view::items(version, &["selectableFields"]).is_empty() && version.get("schema").is_none() {
        let detail = "may only be set when validations.schema is included";
        errors.push(FieldError::invalid(path, "", detail));
        return;
    }
    for (index, field) in view::items(version, &["selectableFields"]).iter().enumerate() {
        let path = path.index(index);
        let (json_path, path) = (view::text(field, &["jsonPath"]), path.child("jsonPath"));
        if !rules::required(&path, json_path, errors) {
            continue;
        }
        let Some(found) = schema_at(version, json_path) else {
            let detail = "is an invalid path: does not refer to a valid field";
            errors.push(FieldError::invalid(&path, json_path, detail));
            continue;
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
    if seen.len() > MAX_SELECTABLE_FIELDS {
        errors.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE_FIELDS));
    }
}

/// The schema of the field that a path in dot notation names.
fn schema_at<'a>(version: &'a Value, json_path: &str) -> Option<&'a Value> {
    let root = view::at(version, &["schema", "openAPIV3Schema"])?;
    let mut steps = json_path.strip_prefix('.')?.split('.');
    steps.try_fold(root, |schema, step| view::at(schema, &["properties", step]))
}
