//! Warnings about a CustomResourceDefinition.

use coracle_crd::is_known_format;
use serde_json::Value;

use super::walk;
use crate::view;

/// Warns of unknown formats that the old definition does not have. kube-apiserver warns once per occurrence; a schema
/// that all versions share counts once.
pub(super) fn of(new: &Value, old: Option<&Value>) -> Vec<String> {
    let known = old.map(unknown_formats).unwrap_or_default();
    let found = unknown_formats(new).into_iter().filter(|format| !known.contains(format));
    found.map(|format| format!("unrecognized format {format:?}")).collect()
}

fn unknown_formats(definition: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    for root in walk::shown_roots(definition) {
        walk::each(root, &mut |schema| {
            let format = view::text(schema, &["format"]);
            if !format.is_empty() && !is_known_format(view::text(schema, &["type"]), format) {
                found.push(format);
            }
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_new_unknown_formats_are_reported() {
        let definition = |formats: &[&str]| {
            let properties: serde_json::Map<_, _> = formats
                .iter()
                .map(|format| ((*format).to_owned(), json!({"type": "string", "format": format})))
                .collect();
            let version =
                |name: &str| json!({"name": name, "schema": {"openAPIV3Schema": {"properties": properties}}});
            json!({"spec": {"versions": [version("v1"), version("v2")]}})
        };
        let new = definition(&["date-time", "colour", "int32"]);
        assert_eq!(of(&new, None), ["unrecognized format \"colour\"", "unrecognized format \"int32\""]);
        assert_eq!(of(&new, Some(&definition(&["colour"]))), ["unrecognized format \"int32\""]);
    }
}
