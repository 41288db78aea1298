//! Traversal of schemas within a schema.

use serde_json::{Map, Value};

use crate::kinds::rules;
use crate::view;

/// Fields that contain schemas by name.
const BY_NAME: [&str; 4] = ["properties", "patternProperties", "definitions", "dependencies"];

/// Fields that contain a single schema, or something else.
const SINGLE: [&str; 4] = ["not", "items", "additionalProperties", "additionalItems"];

/// Fields that contain a list of schemas.
const LISTS: [&str; 4] = ["items", "allOf", "anyOf", "oneOf"];

/// Calls `visit` for a schema and all schemas within it.
pub(super) fn each<'a>(schema: &'a Value, visit: &mut impl FnMut(&'a Value)) {
    visit(schema);
    for nested in LISTS.into_iter().flat_map(|field| view::items(schema, &[field])) {
        each(nested, visit);
    }
    let single = SINGLE.into_iter().filter_map(|field| schema.get(field));
    let named = BY_NAME.into_iter().filter_map(|field| schema.get(field)?.as_object()).flat_map(Map::values);
    for nested in single.chain(named).filter(|nested| nested.is_object()) {
        each(nested, visit);
    }
}

/// Whether a predicate holds for a schema or one within it.
pub(super) fn any<'a>(schema: &'a Value, mut holds: impl FnMut(&'a Value) -> bool) -> bool {
    let mut found = false;
    each(schema, &mut |schema| found = found || holds(schema));
    found
}

/// The schemas of all versions of a definition.
pub(super) fn roots(definition: &Value) -> impl Iterator<Item = &Value> {
    let versions = view::items(definition, &["spec", "versions"]).iter();
    versions.filter_map(|version| view::at(version, &["schema", "openAPIV3Schema"]))
}

/// The same, but only one if it is equal in all versions.
pub(super) fn shown_roots(definition: &Value) -> impl Iterator<Item = &Value> {
    let versions = view::items(definition, &["spec", "versions"]);
    let first = versions.first().and_then(|version| version.get("schema"));
    let is_shared = versions.iter().all(|version| rules::same(version.get("schema"), first));
    roots(definition).take(if is_shared { 1 } else { usize::MAX })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_schemas_are_visited() {
        let schema = json!({
            "items": {"format": "b"},
            "allOf": [{"format": "c", "not": {"format": "d"}}],
            "properties": {"allOf": {"format": "e"}},
            "additionalProperties": true,
            "dependencies": {"x": ["y"], "z": {"format": "f"}},
            "format": "a",
        });
        let mut found = Vec::new();
        each(&schema, &mut |schema| found.push(view::text(schema, &["format"])));
        found.sort_unstable();
        assert_eq!(found, ["a", "b", "c", "d", "e", "f"]);
        assert!(any(&schema, |schema| view::text(schema, &["format"]) == "d"));
    }
}
