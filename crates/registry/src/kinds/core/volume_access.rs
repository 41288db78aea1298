//! Fields that volumes and claims share: access modes, volume modes, classes.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::rules;
use crate::view;

/// Annotation with the storage class, which preceded the field.
pub(crate) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Warning about that annotation.
pub(crate) const CLASS_ANNOTATION_DEPRECATED: &str =
    r#"deprecated since v1.8; use "storageClassName" attribute instead"#;

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Access mode that excludes all others.
const EXCLUSIVE: &str = "ReadWriteOncePod";

/// Validates access modes, of which at least one is required.
pub(crate) fn check_modes(spec: &Value, required: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("accessModes");
    let modes: Vec<&str> = modes(spec, &["accessModes"]).collect();
    if modes.is_empty() {
        errors.push(FieldError::required(&path, required));
    }
    for mode in &modes {
        rules::one_of(mode, ACCESS_MODES, &path, errors);
    }
    let shared = |mode: &&str| *mode != EXCLUSIVE && ACCESS_MODES.contains(mode);
    if modes.contains(&EXCLUSIVE) && modes.iter().any(shared) {
        errors.push(FieldError::forbidden(&path, "may not use ReadWriteOncePod with other access modes"));
    }
}

fn modes<'a>(object: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a str> {
    view::items(object, path).iter().filter_map(Value::as_str)
}

/// Validates the volume mode, if there is one.
pub(crate) fn check_volume_mode(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(mode) = spec.get("volumeMode").and_then(Value::as_str) {
        rules::one_of(mode, &["Block", "Filesystem"], &path.child("volumeMode"), errors);
    }
}

/// Validates the name of a class, unless it is empty.
pub(crate) fn check_class(spec: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let class = view::text(spec, &[field]);
    if !class.is_empty() {
        rules::text(class, name::dns1123_subdomain, &path.child(field), errors);
    }
}

/// Formats the access modes at a path for a table cell.
pub(crate) fn modes_cell(object: &Value, path: &[&str]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let found = short.iter().filter(|(mode, _)| modes(object, path).any(|found| found == *mode));
    found.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

/// The class for a table cell; the annotation takes precedence.
pub(crate) fn class_cell(object: &Value) -> &str {
    let annotation = view::at(object, &["metadata", "annotations", CLASS_ANNOTATION]);
    annotation.and_then(Value::as_str).unwrap_or_else(|| view::text(object, &["spec", "storageClassName"]))
}

/// The phase for a table cell.
pub(crate) fn phase_cell(object: &Value) -> &str {
    if view::at(object, &["metadata", "deletionTimestamp"]).is_some() {
        return "Terminating";
    }
    view::text(object, &["status", "phase"])
}

/// A text of the `spec` for a table cell, where absent differs from empty.
pub(crate) fn text_cell_or_unset<'a>(object: &'a Value, field: &str) -> &'a str {
    view::at(object, &["spec", field]).and_then(Value::as_str).unwrap_or("<unset>")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn access_modes_are_formatted_in_fixed_order() {
        let spec = json!({"m": ["ReadWriteOncePod", "ReadWriteMany", "ReadWriteOnce", "ReadWriteMany"]});
        assert_eq!(modes_cell(&spec, &["m"]), "RWO,RWX,RWOP");
    }

    #[test]
    fn class_annotation_takes_precedence() {
        let volume =
            json!({"metadata": {"annotations": {CLASS_ANNOTATION: "a"}}, "spec": {"storageClassName": "b"}});
        assert_eq!(class_cell(&volume), "a");
    }
}
