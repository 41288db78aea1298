//! Structural schemas: the type of every value of an object is specified at exactly one place of the schema, and
//! junctors (`allOf`, `anyOf`, `oneOf`, `not`) only restrict values further.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::{Value, json};

use crate::view;

/// Position of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Fields that are allowed in the structural part only, and the error messages for them elsewhere.
const STRUCTURAL_ONLY: [(&str, &str); 12] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
];

/// Reports all violations, in the order of kube-apiserver's messages.
pub(super) fn check(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut found = ErrorList::new();
    check_schema(schema, Level::Root, path, &mut found);
    check_complete(schema, Some(schema), path, path, &mut found);
    let mut found: Vec<FieldError> = found.into_iter().collect();
    found.sort_by_cached_key(ToString::to_string);
    errors.extend(found);
}

fn check_schema(schema: &Value, level: Level, path: &Path<'_>, errors: &mut ErrorList) {
    let schema_type = view::text(schema, &["type"]);
    match schema.get("items") {
        Some(items) => check_schema(items, Level::Item, &path.child("items"), errors),
        None if schema_type == "array" => {
            errors.push(FieldError::required(&path.child("items"), "must be specified"));
        }
        None => {}
    }
    let properties = path.child("properties");
    for (key, property) in view::fields(schema, &["properties"]) {
        check_schema(property, Level::Field, &properties.key(key), errors);
    }
    check_additional_properties(schema, level, path, errors);
    check_int_or_string(schema, path, errors);
    let skip_any_of = is_int_or_string(schema.get("anyOf"));
    check_junctors(schema, skip_any_of, path, errors);
    check_type(schema, level, path, errors);
    check_metadata(schema, level, path, errors);
    if embedded(schema) && !preserving(schema) && view::fields(schema, &["properties"]).next().is_none() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&properties, detail));
    }
}

fn embedded(schema: &Value) -> bool {
    view::is_true(schema, &["x-kubernetes-embedded-resource"])
}

fn preserving(schema: &Value) -> bool {
    view::is_true(schema, &["x-kubernetes-preserve-unknown-fields"])
}

fn check_additional_properties(schema: &Value, level: Level, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(additional) = schema.get("additionalProperties") else { return };
    let path = path.child("additionalProperties");
    if level == Level::Root {
        errors.push(FieldError::forbidden(&path, "must not be used at the root"));
    }
    if additional.is_object() {
        check_schema(additional, Level::Field, &path, errors);
    }
    if embedded(schema) {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(&path, detail));
    }
}

fn check_int_or_string(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if !view::is_true(schema, &["x-kubernetes-int-or-string"]) {
        return;
    }
    for field in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if view::is_true(schema, &[field]) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(&path.child(field), true, detail));
        }
    }
}

fn check_type(schema: &Value, level: Level, path: &Path<'_>, errors: &mut ErrorList) {
    let (schema_type, path) = (view::text(schema, &["type"]), path.child("type"));
    if embedded(schema) && schema_type != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if schema_type.is_empty() {
            FieldError::required(&path, detail)
        } else {
            FieldError::invalid(&path, schema_type, detail)
        });
    } else if schema_type.is_empty()
        && !view::is_true(schema, &["x-kubernetes-int-or-string"])
        && !preserving(schema)
    {
        let where_it_is = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field => "for specified object fields",
        };
        errors.push(FieldError::required(&path, format!("must not be empty {where_it_is}")));
    }
    if level == Level::Root && !schema_type.is_empty() && schema_type != "object" {
        errors.push(FieldError::invalid(&path, schema_type, "must be object at the root"));
    }
}

/// `metadata` has the same type in all kinds; only its names can be restricted, and only at the root.
fn check_metadata(schema: &Value, level: Level, path: &Path<'_>, errors: &mut ErrorList) {
    let resource = level == Level::Root || embedded(schema);
    let properties = path.child("properties");
    for (field, expected) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(property) = view::at(schema, &["properties", field]).filter(|_| resource) else { continue };
        let found = view::text(property, &["type"]);
        if found != expected {
            let path = properties.key(field);
            errors.push(FieldError::invalid(&path.child("type"), found, format!("must be {expected}")));
        }
    }
    let metadata = view::at(schema, &["properties", "metadata"]).filter(|_| level == Level::Root);
    if metadata.is_some_and(|metadata| !only_names(metadata)) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly \
                      specified";
        errors.push(FieldError::forbidden(&properties.key("metadata"), detail));
    }
}

fn only_names(metadata: &Value) -> bool {
    view::fields(metadata, &[]).all(|(field, value)| match field.as_str() {
        "type" | "default" => true,
        "properties" => view::fields(value, &[]).all(|(name, _)| name == "name" || name == "generateName"),
        _ => false,
    })
}

/// The only pattern in which a junctor may specify types.
fn is_int_or_string(any_of: Option<&Value>) -> bool {
    any_of == Some(&json!([{"type": "integer"}, {"type": "string"}]))
}

fn check_junctors(schema: &Value, skip_any_of: bool, path: &Path<'_>, errors: &mut ErrorList) {
    for junctor in ["anyOf", "allOf", "oneOf"] {
        if junctor == "anyOf" && skip_any_of {
            continue;
        }
        let path = path.child(junctor);
        for (index, nested) in view::items(schema, &[junctor]).iter().enumerate() {
            let skip = junctor == "allOf" && index == 0 && is_int_or_string(nested.get("anyOf"));
            check_nested(nested, skip, &path.index(index), errors);
        }
    }
    if let Some(nested) = schema.get("not") {
        check_nested(nested, false, &path.child("not"), errors);
    }
    check_pattern(view::text(schema, &["pattern"]), &path.child("pattern"), errors);
}

fn check_pattern(pattern: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if let Err(error) = coracle_crd::check_pattern(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(path, pattern, detail));
    }
}

fn check_nested(nested: &Value, skip_any_of: bool, path: &Path<'_>, errors: &mut ErrorList) {
    check_junctors(nested, skip_any_of, path, errors);
    if let Some(items) = nested.get("items") {
        check_nested(items, false, &path.child("items"), errors);
    }
    let properties = path.child("properties");
    for (key, property) in view::fields(nested, &["properties"]) {
        check_nested(property, false, &properties.key(key), errors);
    }
    for (field, detail) in STRUCTURAL_ONLY {
        let is_set = nested.get(field).is_some_and(|value| *value != json!(false) && *value != json!(""));
        if is_set {
            errors.push(FieldError::forbidden(&path.child(field), detail));
        }
    }
    if !view::items(nested, &["x-kubernetes-validations"]).is_empty() {
        let path = path.child("x-kubernetes-validations");
        errors.push(FieldError::forbidden(&path, "must be empty to be structural"));
    }
    if view::at(nested, &["properties", "metadata"]).is_some() {
        let detail = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(&properties.key("metadata"), detail));
    }
}

/// Fields in a junctor must be specified in the structural part.
fn check_complete(
    restriction: &Value,
    schema: Option<&Value>,
    schema_path: &Path<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    for junctor in ["allOf", "anyOf", "oneOf"] {
        let path = path.child(junctor);
        for (index, nested) in view::items(restriction, &[junctor]).iter().enumerate() {
            check_nested_complete(nested, schema, schema_path, &path.index(index), errors);
        }
    }
    if let Some(nested) = restriction.get("not") {
        check_nested_complete(nested, schema, schema_path, &path.child("not"), errors);
    }
}

fn check_nested_complete(
    nested: &Value,
    schema: Option<&Value>,
    schema_path: &Path<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let Some(schema) = schema else {
        errors.push(FieldError::required(schema_path, format!("because it is defined in {path}")));
        return;
    };
    check_complete(nested, Some(schema), schema_path, path, errors);
    if let Some(items) = nested.get("items") {
        let paths = (schema_path.child("items"), path.child("items"));
        check_nested_complete(items, schema.get("items"), &paths.0, &paths.1, errors);
    }
    let (schema_properties, properties) = (schema_path.child("properties"), path.child("properties"));
    for (key, property) in view::fields(nested, &["properties"]) {
        let paths = (schema_properties.key(key), properties.key(key));
        let counterpart = view::at(schema, &["properties", key]);
        check_nested_complete(property, counterpart, &paths.0, &paths.1, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(schema: Value) -> Vec<String> {
        let mut errors = ErrorList::default();
        check(&schema, &Path::root("s"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn types_in_junctors_are_rejected() {
        let int_or_string = json!([{"type": "integer"}, {"type": "string"}]);
        let port = json!({"x-kubernetes-int-or-string": true, "anyOf": int_or_string});
        let list = json!({"type": "array", "items": {"type": "string"}});
        let spec = json!({"type": "object", "properties": {"port": port, "list": list}, "oneOf": [{"required": ["port"]}]});
        assert!(faults(json!({"type": "object", "properties": {"spec": spec}})).is_empty());
        let typed = json!({"type": "object", "properties": {"a": {}}, "anyOf": [{"type": "object"}]});
        let expected = [
            "s.anyOf[0].type: Forbidden: must be empty to be structural",
            "s.properties[a].type: Required value: must not be empty for specified object fields",
        ];
        assert_eq!(faults(typed), expected);
    }

    #[test]
    fn invalid_pattern_is_rejected_at_any_depth() {
        let bad = json!({"type": "string", "pattern": "["});
        let detail = "Invalid value: \"[\": must be a valid regular expression, but isn't: error parsing \
                      regexp: missing closing ]: `[`";
        for (schema, place) in [
            (json!({"type": "object", "properties": {"a": bad}}), "s.properties[a]"),
            (
                json!({"type": "object", "properties": {"a": {"type": "array", "items": bad}}}),
                "s.properties[a].items",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"pattern": "["}]}}}),
                "s.properties[a].anyOf[0]",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "not": {"properties": {"a": {"pattern": "["}}}}),
                "s.not.properties[a]",
            ),
        ] {
            assert_eq!(faults(schema), [format!("{place}.pattern: {detail}")]);
        }
    }

    #[test]
    fn unspecified_fields_in_junctors_are_rejected() {
        let schema = json!({"type": "object", "allOf": [{"properties": {"a": {"minimum": 1}}}]});
        let expected = "s.properties[a]: Required value: because it is defined in s.allOf[0].properties[a]";
        assert_eq!(faults(schema), [expected]);
    }

    #[test]
    fn schema_of_metadata_is_restricted() {
        let named = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}}});
        assert!(faults(json!({"type": "object", "properties": {"metadata": named}})).is_empty());
        let labelled = json!({"type": "object", "properties": {"labels": {"type": "object"}}});
        assert_eq!(faults(json!({"type": "object", "properties": {"metadata": labelled}})).len(), 1);
        assert_eq!(
            faults(json!({"type": "string"})),
            ["s.type: Invalid value: \"string\": must be object at the root"]
        );
    }
}
