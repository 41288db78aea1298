//! Validation of the schema of a custom kind.

use coracle_crd::Structural;
use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::Value;

use super::options::SchemaOptions;
use super::{metadata, structural};
use crate::kinds::rules;
use crate::view;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Fields of JSON schema that are not supported.
const UNSUPPORTED: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];

const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Context of a schema within another.
#[derive(Clone, Copy)]
struct Context<'a> {
    is_root: bool,
    in_resource_meta: bool,
    /// Why defaults are forbidden, if they are.
    no_defaults: Option<&'a str>,
    options: SchemaOptions,
}

/// Validates the schema of a version. `errors` are those that were found in it already.
pub(super) fn check(schema: &Value, options: SchemaOptions, path: &Path<'_>, errors: &mut ErrorList) {
    if view::is_true(schema, &["nullable"]) {
        errors.push(FieldError::forbidden(&path.child("nullable"), "nullable cannot be true at the root"));
    }
    let mut found = ErrorList::new();
    let parsed = options.requires_structural.then(|| Structural::parse(schema));
    if let Some(Ok(parsed)) = &parsed {
        structural::check(schema, path, &mut found);
        if found.is_empty() {
            parsed.check_defaults(options.unknown_in_defaults, path, &metadata::read, &mut found);
        }
    }
    // CEL rules are validated only if there are no other errors.
    let with_rules = parsed.as_ref().and_then(|parsed| parsed.as_ref().ok()).filter(|_| found.is_empty());
    let context = Context { is_root: true, in_resource_meta: false, no_defaults: None, options };
    check_schema(schema, path, context, &mut found);
    let mut in_rules = ErrorList::new();
    if let Some(parsed) = with_rules {
        parsed.check_rules(options.expression_costs, path, &found, &mut in_rules);
    }
    found.extend(in_rules);
    if let (Some(Err(error)), true) = (&parsed, found.is_empty() && errors.is_empty()) {
        // An earlier error nearly always explains the problem better.
        found.push(FieldError::invalid(path, "", error.to_string()));
    }
    errors.extend(found);
}

/// Whether the type of a schema is one of OpenAPI, if it is set.
pub(super) fn has_known_type(schema: &Value) -> bool {
    let schema_type = view::text(schema, &["type"]);
    schema_type.is_empty() || TYPES.contains(&schema_type)
}

fn check_schema(schema: &Value, path: &Path<'_>, context: Context<'_>, errors: &mut ErrorList) {
    check_standard(schema, path, context, errors);
    check_additional(schema, path, context, errors);
    check_properties(schema, path, context, errors);
    let inner = Context { is_root: false, ..context };
    if let Some(nested) = schema.get("not") {
        check_schema(nested, &path.child("not"), inner, errors);
    }
    for junctor in ["allOf", "oneOf", "anyOf"] {
        let path = path.child(junctor);
        for (index, nested) in view::items(schema, &[junctor]).iter().enumerate() {
            check_schema(nested, &path.index(index), inner, errors);
        }
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        check_schema(items, &path.child("items"), inner, errors);
    }
    check_extensions(schema, path, errors);
    if context.options.requires_atomic_sets {
        check_set_items(schema, path, errors);
    }
    check_list_map(schema, path, errors);
    if context.options.requires_item_keys {
        check_list_items(schema, path, errors);
    }
    let rules_path = path.child("x-kubernetes-validations");
    for (index, rule) in view::items(schema, &["x-kubernetes-validations"]).iter().enumerate() {
        check_rule(rule, schema, &rules_path.index(index), errors);
    }
}

fn check_standard(schema: &Value, path: &Path<'_>, context: Context<'_>, errors: &mut ErrorList) {
    let schema_type = view::text(schema, &["type"]);
    if !schema_type.is_empty() {
        if context.options.requires_known_types && !has_known_type(schema) {
            errors.push(FieldError::not_supported(&path.child("type"), schema_type, &TYPES));
        }
        if schema_type == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            errors.push(FieldError::forbidden(&path.child("type"), detail));
        }
    }
    if let Some(reason) = context.no_defaults.filter(|_| schema.get("default").is_some()) {
        errors.push(FieldError::forbidden(&path.child("default"), format!("must not be set {reason}")));
    }
    for field in UNSUPPORTED.into_iter().filter(|field| schema.get(field).is_some()) {
        errors.push(FieldError::forbidden(&path.child(field), format!("{field} is not supported")));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        let detail = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(&path.child("items"), detail));
    }
    if context.in_resource_meta && view::is_true(schema, &["x-kubernetes-embedded-resource"]) {
        let path = path.child("x-kubernetes-embedded-resource");
        errors.push(FieldError::forbidden(&path, "must not be used inside of resource meta"));
    }
    if view::is_true(schema, &["uniqueItems"]) {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(&path.child("uniqueItems"), detail));
    }
}

/// Validates `additionalProperties`, which excludes `properties`.
fn check_additional(schema: &Value, path: &Path<'_>, context: Context<'_>, errors: &mut ErrorList) {
    let Some(additional) = schema.get("additionalProperties") else { return };
    let path = path.child("additionalProperties");
    let has_properties = view::fields(schema, &["properties"]).next().is_some();
    if has_properties && additional != &Value::Bool(true) {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(&path, detail));
    }
    if additional.is_object() {
        let reason = "inside additionalProperties applying to object metadata";
        let no_defaults = if context.in_resource_meta { Some(reason) } else { context.no_defaults };
        check_schema(additional, &path, Context { is_root: false, no_defaults, ..context }, errors);
    }
}

fn check_properties(schema: &Value, path: &Path<'_>, context: Context<'_>, errors: &mut ErrorList) {
    let path = path.child("properties");
    let is_resource = context.is_root || view::is_true(schema, &["x-kubernetes-embedded-resource"]);
    for (key, property) in view::fields(schema, &["properties"]) {
        let meta = is_resource && matches!(key.as_str(), "metadata" | "kind" | "apiVersion");
        let reason = format!("in top-level {key}");
        let inner = Context {
            is_root: false,
            in_resource_meta: context.in_resource_meta || meta,
            no_defaults: if meta && context.is_root { Some(&reason) } else { context.no_defaults },
            options: context.options,
        };
        check_schema(property, &path.key(key), inner, errors);
    }
}

fn check_extensions(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if schema.get(preserve) == Some(&Value::Bool(false)) {
        errors.push(FieldError::invalid(&path.child(preserve), false, "must be true or undefined"));
    }
    let schema_type = view::text(schema, &["type"]);
    for (extension, wanted, known) in [
        ("x-kubernetes-map-type", "object", &["atomic", "granular"][..]),
        ("x-kubernetes-list-type", "array", &["atomic", "set", "map"][..]),
    ] {
        let Some(found) = schema.get(extension).and_then(Value::as_str) else { continue };
        if schema_type != wanted {
            let (path, detail) =
                (path.child("type"), format!("must be {wanted} if {extension} is specified"));
            errors.push(if schema_type.is_empty() {
                FieldError::required(&path, detail)
            } else {
                FieldError::invalid(&path, schema_type, detail)
            });
        }
        if !known.contains(&found) {
            errors.push(FieldError::not_supported(&path.child(extension), found, known));
        }
    }
}

/// Validates a list of type `map`.
fn check_list_map(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    let keys = view::items(schema, &["x-kubernetes-list-map-keys"]);
    let type_path = path.child("x-kubernetes-list-type");
    let keys_path = path.child("x-kubernetes-list-map-keys");
    let must_be_map = "must be map if x-kubernetes-list-map-keys is non-empty";
    match list_type {
        None if !keys.is_empty() => errors.push(FieldError::required(&type_path, must_be_map)),
        Some(other) if other != "map" && !keys.is_empty() => {
            errors.push(FieldError::invalid(&type_path, other, must_be_map));
        }
        _ => {}
    }
    if list_type != Some("map") {
        return;
    }
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&keys_path, detail));
    }
    let items_path = path.child("items");
    let Some(items) = schema.get("items") else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&items_path, detail));
        return;
    };
    let item_type = view::text(items, &["type"]);
    if item_type == "object" {
        check_map_keys(items, keys, path, errors);
    } else {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(&items_path.child("type"), item_type, detail));
    }
}

fn check_map_keys(items: &Value, keys: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let keys_path = path.child("x-kubernetes-list-map-keys");
    let properties = path.child("items.properties");
    let all = || BadValue::json(&Value::Array(keys.to_vec()));
    for (index, key) in keys.iter().filter_map(Value::as_str).enumerate() {
        match view::at(items, &["properties", key]) {
            Some(property) if matches!(view::text(property, &["type"]), "array" | "object") => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let path = properties.key(key);
                errors.push(FieldError::invalid(&path.child("type"), view::text(items, &["type"]), detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&keys_path, all(), detail));
            }
        }
        if keys[..index].iter().any(|earlier| earlier == key) {
            errors.push(FieldError::invalid(&keys_path, all(), "must not contain duplicate entries"));
        }
    }
}

/// Items of sets and maps must not be nullable, and their keys must be required or have defaults.
pub(super) fn check_list_items(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let list_type = view::text(schema, &["x-kubernetes-list-type"]);
    let Some(items) = schema.get("items").filter(|_| matches!(list_type, "set" | "map")) else { return };
    let items_path = path.child("items");
    if view::is_true(items, &["nullable"]) {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&items_path.child("nullable"), detail));
    }
    let keys = view::items(schema, &["x-kubernetes-list-map-keys"]).iter().filter_map(Value::as_str);
    let properties = items_path.child("properties");
    for key in keys.filter(|_| list_type == "map") {
        let Some(property) = view::at(items, &["properties", key]) else { continue };
        let path = properties.key(key);
        let required = view::items(items, &["required"]).iter().any(|required| required == key);
        let listed = "this property is in x-kubernetes-list-map-keys, so it";
        if !required && property.get("default").is_none() {
            let detail = format!("{listed} must have a default or be a required property");
            errors.push(FieldError::required(&path.child("default"), detail));
        }
        if view::is_true(property, &["nullable"]) {
            let detail = format!("{listed} cannot be nullable");
            errors.push(FieldError::forbidden(&path.child("nullable"), detail));
        }
    }
}

/// Items of sets must be atomic.
pub(super) fn check_set_items(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let is_set =
        view::text(schema, &["x-kubernetes-list-type"]) == "set" && view::text(schema, &["type"]) == "array";
    let Some(items) = schema.get("items").filter(|_| is_set) else { return };
    let path = path.child("items");
    let (extension, otherwise) = match view::text(items, &["type"]) {
        "array" => ("x-kubernetes-list-type", "atomic"),
        "object" => ("x-kubernetes-map-type", "granular"),
        _ => return,
    };
    let found = items.get(extension).and_then(Value::as_str);
    if found.unwrap_or(otherwise) != "atomic" {
        let list_type = items.get("x-kubernetes-list-type").unwrap_or(&Value::Null);
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        errors.push(FieldError::invalid(&path.child(extension), list_type, detail));
    }
}

fn check_rule(rule: &Value, schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (expression, message) = (view::text(rule, &["rule"]).trim(), view::text(rule, &["message"]));
    let has_break = |text: &str| text.contains(['\n', '\r']);
    let message_path = path.child("message");
    if expression.is_empty() {
        errors.push(FieldError::required(&path.child("rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(&message_path, message, "must be non-empty if specified"));
    } else if has_break(message.trim()) {
        errors.push(FieldError::invalid(&message_path, message, "must not contain line breaks"));
    } else if has_break(expression) && message.trim().is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(&message_path, detail));
    }
    let message_expression = view::text(rule, &["messageExpression"]);
    if !message_expression.is_empty() && message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(&path.child("messageExpression"), detail));
    }
    if let Some(reason) = rule.get("reason").and_then(Value::as_str) {
        rules::one_of(&path.child("reason"), reason, &REASONS, errors);
    }
    let (field, field_path) = (view::text(rule, &["fieldPath"]), path.child("fieldPath"));
    if !field.is_empty() && field.trim().is_empty() {
        errors.push(FieldError::invalid(&field_path, field, "must be non-empty if specified"));
    }
    if has_break(field) {
        errors.push(FieldError::invalid(&field_path, field, "must not contain line breaks"));
    }
    let leads_nowhere = || Structural::parse(schema).is_ok_and(|schema| !schema.has_field_path(field));
    if !field.is_empty() && leads_nowhere() {
        errors.push(FieldError::invalid(&field_path, field, "must be a valid path"));
    }
}
