//! OpenAPI component schemas of types.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::descriptions::Descriptions;
use super::operation::META;
use super::{GroupVersion, object, reference};
use crate::schema::{Attributes, Entry, Field, Item, Shape, Single, Slot, Type, types};

/// Scalar types with a definition of their own, by full name.
const DEFINED: [(Single, &str); 11] = [
    (Single::Quantity, "io.k8s.apimachinery.pkg.api.resource.Quantity"),
    (Single::FieldsV1, "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"),
    (Single::MicroTime, "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"),
    (Single::Patch, "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"),
    (Single::Time, "io.k8s.apimachinery.pkg.apis.meta.v1.Time"),
    (Single::RawExtension, "io.k8s.apimachinery.pkg.runtime.RawExtension"),
    (Single::IntOrString, "io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
    (Single::Json, "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"),
    (
        Single::SchemaOrArray,
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
    ),
    (Single::SchemaOrBool, "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool"),
    (
        Single::SchemaOrStringArray,
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
    ),
];

/// The schemas that paths refer to, directly or indirectly.
pub(super) fn reachable(
    paths: &Value,
    group_version: GroupVersion<'_>,
    descriptions: &Descriptions,
    brought: Map<String, Value>,
) -> Map<String, Value> {
    let mut open = BTreeSet::new();
    collect(paths, &mut open);
    let mut found = brought;
    found.values().for_each(|schema| collect(schema, &mut open));
    while let Some(name) = open.pop_first() {
        if found.contains_key(&name) {
            continue;
        }
        if let Some(schema) = definition(&name, group_version, descriptions) {
            collect(&schema, &mut open);
            found.insert(name, schema);
        }
    }
    found
}

/// Collects the full names of all referenced definitions.
fn collect(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            let target = fields.get("$ref").and_then(Value::as_str);
            names.extend(
                target.and_then(|target| Some(target.strip_prefix("#/components/schemas/")?.to_owned())),
            );
            fields.values().for_each(|value| collect(value, names));
        }
        Value::Array(items) => items.iter().for_each(|value| collect(value, names)),
        _ => {}
    }
}

fn definition(name: &str, group_version: GroupVersion<'_>, descriptions: &Descriptions) -> Option<Value> {
    let mut schema = match DEFINED.iter().find(|(_, defined)| *defined == name) {
        Some((single, _)) => single_definition(*single),
        None => struct_definition(types().get(types().named(name)?), group_version, descriptions),
    };
    schema.extend(descriptions.of_type(name).map(|text| ("description".to_owned(), text.into())));
    Some(Value::Object(schema))
}

/// Whether a type is a list of a kind.
fn is_list(name: &str) -> bool {
    let is_of_kind = name.strip_suffix("List").is_some_and(|kind| types().named(kind).is_some());
    is_of_kind && types().named(name).is_some_and(|list| types().get(list).field("items").is_some())
}

fn single_definition(single: Single) -> Map<String, Value> {
    let schema = match single {
        Single::Quantity => json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }),
        Single::IntOrString => {
            json!({ "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] })
        }
        Single::Time | Single::MicroTime => json!({ "type": "string", "format": "date-time" }),
        Single::RawExtension | Single::FieldsV1 | Single::Patch => json!({ "type": "object" }),
        // A JSON schema without constraints allows any value.
        _ => json!({}),
    };
    schema.as_object().cloned().unwrap_or_default()
}

fn struct_definition(
    one: &Type,
    group_version: GroupVersion<'_>,
    descriptions: &Descriptions,
) -> Map<String, Value> {
    let name = format!("{}.{}", one.package, one.name);
    let is_list = is_list(&name);
    let properties: Map<String, Value> = one
        .fields
        .iter()
        .map(|field| {
            let text = match is_list {
                true => descriptions.of_list_field(&name, field.name),
                false => descriptions.of_field(&name, field.name),
            };
            (field.name.to_owned(), property(field, text))
        })
        .collect();
    let required = required(one);
    let unions = one.attributes.unions_json().and_then(|text| serde_json::from_str(text).ok());
    object([
        ("type", Some("object".into())),
        ("properties", (!properties.is_empty()).then_some(Value::Object(properties))),
        ("required", (!required.is_empty()).then(|| required.into())),
        ("x-kubernetes-group-version-kind", kinds(one, group_version)),
        ("x-kubernetes-map-type", one.attributes.map_type().map(Value::from)),
        ("x-kubernetes-unions", unions),
    ])
}

/// The required fields in the order of the Go struct, which is mostly that of their numbers.
fn required(one: &Type) -> Vec<&'static str> {
    if let Some(explicit) = one.attributes.required_order() {
        return explicit.collect();
    }
    fn walk(entries: &[Entry], order: &mut Vec<usize>) {
        for entry in entries {
            match &entry.slot {
                Slot::Field(index) => order.push(usize::from(*index)),
                Slot::Embedded(inner) => walk(inner, order),
            }
        }
    }
    let mut order = Vec::new();
    walk(&one.message, &mut order);
    let unnumbered: Vec<usize> = (0..one.fields.len()).filter(|index| !order.contains(index)).collect();
    let all = order.into_iter().chain(unnumbered).map(|index| &one.fields[index]);
    all.filter(|field| field.required).map(|field| field.name).collect()
}

/// The `x-kubernetes-group-version-kind` of a type. Kinds that are part of every version are listed for the core
/// group and for the described group and version.
fn kinds(one: &Type, group_version: GroupVersion<'_>) -> Option<Value> {
    let kind = |group: &str, version: &str| json!({ "group": group, "version": version, "kind": one.name });
    if one.package == META && matches!(one.name, "DeleteOptions" | "WatchEvent") {
        let GroupVersion { group, version } = group_version;
        let own = (group, version) != ("", "v1");
        return Some(std::iter::once(kind("", "v1")).chain(own.then(|| kind(group, version))).collect());
    }
    let kinds: Vec<Value> = one.attributes.kinds().map(|(group, version, _)| kind(group, version)).collect();
    (!kinds.is_empty()).then(|| kinds.into())
}

fn property(field: &Field, text: Option<&str>) -> Value {
    let default = field.attributes.default_json().and_then(|text| serde_json::from_str(text).ok());
    let values: Option<Vec<String>> = field.attributes.enum_values().map(Iterator::collect);
    let description = match field.shape {
        Shape::One(_) => description(text, values.as_deref()),
        _ => text.map(str::to_owned),
    };
    let mut schema = match field.shape {
        Shape::One(item) => {
            let default = default.or_else(|| field.zero_default.then(|| zero(item)));
            with_values(value(item, default, description.is_some()), values)
        }
        Shape::List(item) => {
            let items = with_values(element(item), values).into();
            object([("type", Some("array".into())), ("items", Some(items))])
        }
        Shape::Map(item) => {
            let values = with_values(element(item), values).into();
            object([("type", Some("object".into())), ("additionalProperties", Some(values))])
        }
    };
    schema.extend(description.map(|text| ("description".to_owned(), text.into())));
    schema.extend(merge_facts(field.attributes));
    Value::Object(schema)
}

fn with_values(mut schema: Map<String, Value>, values: Option<Vec<String>>) -> Map<String, Value> {
    schema.extend(values.map(|values| ("enum".to_owned(), values.into())));
    schema
}

/// The description, followed by the enumerated values.
fn description(text: Option<&str>, values: Option<&[String]>) -> Option<String> {
    let Some(values) = values else { return text.map(str::to_owned) };
    let values: String = values.iter().map(|value| format!("\n - `{value:?}`")).collect();
    let gap = if text.is_some() { "\n\n" } else { "" };
    Some(format!("{}{gap}Possible enum values:{values}", text.unwrap_or_default()))
}

fn merge_facts(attributes: Attributes) -> Map<String, Value> {
    let keys: Vec<&str> = attributes.list_map_keys().collect();
    object([
        ("x-kubernetes-list-type", attributes.list_type().map(Value::from)),
        ("x-kubernetes-list-map-keys", (!keys.is_empty()).then(|| keys.into())),
        ("x-kubernetes-map-type", attributes.map_type().map(Value::from)),
        ("x-kubernetes-patch-strategy", attributes.patch_strategy().map(Value::from)),
        ("x-kubernetes-patch-merge-key", attributes.patch_merge_key().map(Value::from)),
    ])
}

/// Schema of an item of a list or map. It has the empty value as its default wherever JSON can express one.
fn element(item: Item) -> Map<String, Value> {
    let has_default = match item {
        Item::Struct(_) => true,
        Item::Single(single) => {
            matches!(
                single,
                Single::String
                    | Single::Int32
                    | Single::Int64
                    | Single::Boolean
                    | Single::Double
                    | Single::RawExtension
            )
        }
    };
    let default = has_default.then(|| zero(item));
    value(item, default, false)
}

/// Schema of a value. A reference cannot have siblings, so it is wrapped if there are any.
fn value(item: Item, default: Option<Value>, is_described: bool) -> Map<String, Value> {
    let mut schema = match definition_name(item) {
        Some(name) if default.is_some() || is_described => {
            object([("allOf", Some(json!([reference(&name)])))])
        }
        Some(name) => reference(&name).as_object().cloned().unwrap_or_default(),
        None => plain(item),
    };
    schema.extend(default.map(|default| ("default".to_owned(), default)));
    schema
}

/// The full name of an item's definition, if it has one.
fn definition_name(item: Item) -> Option<String> {
    match item {
        Item::Struct(id) => Some(format!("{}.{}", types().get(id).package, types().get(id).name)),
        Item::Single(single) => {
            DEFINED.iter().find(|(defined, _)| *defined == single).map(|(_, name)| (*name).to_owned())
        }
    }
}

fn plain(item: Item) -> Map<String, Value> {
    let (kind, format) = match item {
        Item::Single(Single::Int32) => ("integer", Some("int32")),
        Item::Single(Single::Int64) => ("integer", Some("int64")),
        Item::Single(Single::Double) => ("number", Some("double")),
        Item::Single(Single::Boolean) => ("boolean", None),
        Item::Single(Single::Bytes) => ("string", Some("byte")),
        Item::Single(Single::Strings) => ("array", None),
        _ => ("string", None),
    };
    let items = (kind == "array").then(|| element(Item::Single(Single::String)).into());
    object([("type", Some(kind.into())), ("format", format.map(Value::from)), ("items", items)])
}

fn zero(item: Item) -> Value {
    match item {
        Item::Single(Single::String) => "".into(),
        Item::Single(Single::Int32 | Single::Int64 | Single::Double) => 0.into(),
        Item::Single(Single::Boolean) => false.into(),
        _ => json!({}),
    }
}
