//! Writes `schema.txt`. `src/schema/data.rs`, which parses it, documents its format.

use std::error::Error;
use std::fmt::Write as _;

use serde_json::Value;

use crate::enums::Enums;
use crate::go::{GoField, Packages};
use crate::openapi::{Definitions, reference, split};

/// Definitions that are not structs, and their letters.
const SINGLE_VALUES: &[(&str, &str)] = &[
    ("io.k8s.apimachinery.pkg.api.resource.Quantity", "q"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1", "F"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime", "U"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Patch", "P"),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.Time", "T"),
    ("io.k8s.apimachinery.pkg.runtime.RawExtension", "r"),
    ("io.k8s.apimachinery.pkg.util.intstr.IntOrString", "x"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON", "j"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray", "A"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool", "B"),
    ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray", "S"),
];

/// Kinds that are part of every group and version.
const IN_EVERY_VERSION: &[&str] = &["DeleteOptions", "WatchEvent"];

/// Types that Kubernetes stores as JSON, where an empty list stays empty; all others pass through protobuf, which
/// cannot distinguish an empty list from an absent one.
const STORED_AS_JSON: &[&str] = &["io.k8s.apiextensions-apiserver.", "io.k8s.kube-aggregator."];

pub(crate) fn write(
    definitions: &Definitions,
    packages: &mut Packages,
    enums: &Enums,
) -> Result<String, Box<dyn Error>> {
    let mut out = String::from(
        "# The types of the Kubernetes API. Written by examples/generate-schema; see src/schema/data.rs.\n",
    );
    let mut package = "";
    for (name, definition) in &definitions.by_name {
        let (its_package, short) = split(name);
        if its_package != package {
            package = its_package;
            writeln!(out, "package {package}")?;
        }
        if let Some((_, letter)) = SINGLE_VALUES.iter().find(|(full, _)| full == name) {
            writeln!(out, "single {short} {letter}")?;
            continue;
        }
        let go = packages.fields(package, short)?;
        let order = required_order(definition, &go);
        writeln!(out, "type {short}{}{order}", type_attributes(short, definition))?;
        let values = |field: &str| enums.of(name, field);
        write_fields(&mut out, package, definition, &go, &values).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(out)
}

fn type_attributes(short: &str, definition: &Value) -> String {
    let mut out = String::new();
    if IN_EVERY_VERSION.contains(&short) {
        out.push_str(" everywhere");
    } else {
        let kinds = definition.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        for kind in kinds.into_iter().flatten() {
            let part = |name: &str| kind[name].as_str().unwrap_or_default();
            out.push_str(&format!(" kind={}/{}/{}", part("group"), part("version"), part("kind")));
        }
    }
    if let Some(map_type) = definition.get("x-kubernetes-map-type").and_then(Value::as_str) {
        out.push_str(&format!(" map={map_type}"));
    }
    if let Some(unions) = definition.get("x-kubernetes-unions") {
        out.push_str(&format!(" unions={unions}"));
    }
    out
}

/// The required fields in order, if it is not that of their protobuf numbers.
fn required_order(definition: &Value, go: &[GoField]) -> String {
    let required = definition["required"].as_array().into_iter().flatten();
    let names: Vec<&str> = required.filter_map(Value::as_str).collect();
    let numbers = |name: &str| {
        let field = go.iter().find(|field| field.json_name == name);
        field.map(|field| field.numbers.clone()).unwrap_or_default()
    };
    let by_number = |name: &&str| (numbers(name).is_empty(), numbers(name), (*name).to_owned());
    if names.is_sorted_by_key(by_number) { String::new() } else { format!(" required={}", names.join(",")) }
}

fn write_fields<'a>(
    out: &mut String,
    package: &str,
    definition: &Value,
    go: &[GoField],
    values: &dyn Fn(&str) -> Option<&'a [String]>,
) -> Result<(), Box<dyn Error>> {
    let Some(properties) = definition.get("properties").and_then(Value::as_object) else { return Ok(()) };
    for (name, property) in properties {
        let facts = go
            .iter()
            .find(|field| field.json_name == *name)
            .ok_or_else(|| format!("no field {name} in Go"))?;
        let type_text = type_expression(package, property, &facts.go_type)?;
        let required = definition["required"].as_array().is_some_and(|all| all.iter().any(|r| r == name));
        let numbers: Vec<String> = facts.numbers.iter().map(u32::to_string).collect();
        let numbers = if numbers.is_empty() { "-".to_owned() } else { numbers.join(".") };
        let flags = flags(package, &type_text, facts, property, required);
        write!(out, "{name} {type_text} {numbers} {flags}")?;
        write!(out, "{}", field_attributes(package, &type_text, facts, property))?;
        if let Some(values) = values(name) {
            // Words end at spaces.
            write!(out, " enum={}", values.join(",").replace(' ', "~"))?;
        }
        writeln!(out)?;
    }
    if let Some(lost) = go.iter().find(|field| !properties.contains_key(&field.json_name)) {
        return Err(format!("field {} of Go is not in OpenAPI", lost.json_name).into());
    }
    Ok(())
}

/// Lists whose defaults apply only if the list is absent, while validation rejects an empty list, so that an empty
/// one is never stored.
const TELL_EMPTY_FROM_ABSENT: [&str; 1] = ["[@HPAScalingPolicy"];

fn flags(package: &str, type_text: &str, facts: &GoField, property: &Value, required: bool) -> String {
    let mut flags = String::new();
    // Go's definition of empty: structs never are, and some scalars are structs in Go.
    let can_be_empty =
        facts.pointer || !type_text.starts_with(['@', 'T', 'U', 'q', 'x', 'r', 'j', 'F', 'A', 'B', 'S']);
    let omitted = (facts.omit_empty && can_be_empty) || facts.omit_zero;
    let keeps_empty = STORED_AS_JSON.iter().any(|prefix| package.starts_with(prefix));
    let zero_default = property.get("default").is_some_and(is_zero);
    for (flag, set) in [
        ('!', required),
        ('o', omitted),
        ('*', facts.pointer || TELL_EMPTY_FROM_ABSENT.contains(&type_text)),
        ('e', keeps_empty && !omitted),
        ('z', zero_default),
    ] {
        if set {
            flags.push(flag);
        }
    }
    if flags.is_empty() { "-".into() } else { flags }
}

fn is_zero(default: &Value) -> bool {
    match default {
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(yes) => !yes,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(_) | Value::Null => false,
    }
}

fn field_attributes(package: &str, type_text: &str, facts: &GoField, property: &Value) -> String {
    let mut out = String::new();
    if let Some(default) = property.get("default").filter(|default| !is_zero(default)) {
        out.push_str(&format!(" default={default}"));
    }
    let text = |name: &str| property.get(name).and_then(Value::as_str);
    if let Some(list_type) = text("x-kubernetes-list-type") {
        out.push_str(&format!(" list={list_type}"));
    }
    if let Some(keys) = property.get("x-kubernetes-list-map-keys").and_then(Value::as_array) {
        let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
        out.push_str(&format!(" keys={}", keys.join(",")));
    }
    for (attribute, name) in [
        ("map", "x-kubernetes-map-type"),
        ("patch", "x-kubernetes-patch-strategy"),
        ("by", "x-kubernetes-patch-merge-key"),
    ] {
        if let Some(value) = text(name) {
            out.push_str(&format!(" {attribute}={value}"));
        }
    }
    if facts.go_type != usual_go_type(package, type_text) {
        out.push_str(&format!(" go={}", facts.go_type.replace(' ', "")));
    }
    if !facts.embedded.is_empty() {
        out.push_str(&format!(" in={}", facts.embedded.join(".")));
    }
    out
}

/// The default Go type of a shape, which is not written to the file.
fn usual_go_type(package: &str, type_text: &str) -> String {
    let (first, rest) = type_text.split_at(1);
    match first {
        "[" => format!("[]{}", usual_go_type(package, rest)),
        "{" => format!("map[string]{}", usual_go_type(package, rest)),
        "@" => {
            let (its_package, name) = if rest.contains('.') { split(rest) } else { (package, rest) };
            format!("{}.{name}", its_package.rsplit('.').next().unwrap_or_default())
        }
        "s" => "string".into(),
        "b" => "[]uint8".into(),
        "i" => "int32".into(),
        "l" => "int64".into(),
        "d" => "float64".into(),
        "t" => "bool".into(),
        "q" => "resource.Quantity".into(),
        "x" => "intstr.IntOrString".into(),
        "T" => "v1.Time".into(),
        "U" => "v1.MicroTime".into(),
        "r" => "runtime.RawExtension".into(),
        "F" => "v1.FieldsV1".into(),
        "v" => "v1.ExtraValue".into(),
        "j" => "v1.JSON".into(),
        "A" => "v1.JSONSchemaPropsOrArray".into(),
        "B" => "v1.JSONSchemaPropsOrBool".into(),
        "S" => "v1.JSONSchemaPropsOrStringArray".into(),
        _ => String::new(),
    }
}

fn type_expression(package: &str, schema: &Value, go_type: &str) -> Result<String, Box<dyn Error>> {
    if let Some(target) = reference(schema) {
        if let Some((_, letter)) = SINGLE_VALUES.iter().find(|(full, _)| *full == target) {
            return Ok((*letter).to_owned());
        }
        let (its_package, short) = split(target);
        return Ok(if its_package == package { format!("@{short}") } else { format!("@{target}") });
    }
    let format = schema.get("format").and_then(Value::as_str).unwrap_or_default();
    let element = |go: &str| match go.strip_prefix("[]").or_else(|| Some(go.split_once(']')?.1)) {
        Some(item) => item.to_owned(),
        None => String::new(),
    };
    Ok(match (schema.get("type").and_then(Value::as_str), format) {
        (Some("string"), "byte") => "b".into(),
        (Some("string"), "") => "s".into(),
        (Some("integer"), "int32") => "i".into(),
        (Some("integer"), "int64") => "l".into(),
        (Some("number"), "double") => "d".into(),
        (Some("boolean"), "") => "t".into(),
        // Named lists of strings, which protobuf wraps in a message of their own.
        (Some("array"), _) if go_type.ends_with(".ExtraValue") || go_type.ends_with(".Verbs") => "v".into(),
        (Some("array"), _) => format!("[{}", type_expression(package, &schema["items"], &element(go_type))?),
        (Some("object"), _) if schema.get("additionalProperties").is_some() => {
            let values = &schema["additionalProperties"];
            format!("{{{}", type_expression(package, values, &element(go_type))?)
        }
        _ => return Err(format!("a schema that has no letter: {schema}").into()),
    })
}
