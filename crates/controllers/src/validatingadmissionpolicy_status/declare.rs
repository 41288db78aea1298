//! Converts OpenAPI schemas to CEL declarations.

use coracle_cel::{Decl, FieldDecl, ListKind, Shape};
use kube::core::GroupVersionKind;
use serde_json::Value;

const REFERENCE: &str = "#/components/schemas/";

/// Name of a kind's schema.
pub(super) fn find<'a>(schemas: &'a Value, kind: &GroupVersionKind) -> Option<&'a str> {
    let is_it = |gvk: &Value| {
        gvk["group"] == kind.group && gvk["version"] == kind.version && gvk["kind"] == kind.kind
    };
    let declares = |schema: &Value| {
        schema["x-kubernetes-group-version-kind"].as_array().is_some_and(|all| all.iter().any(is_it))
    };
    schemas.as_object()?.iter().find(|(_, schema)| declares(schema)).map(|(name, _)| &**name)
}

/// Declaration of the schema with this name; `None` if expressions cannot access it.
pub(super) fn declaration(schemas: &Value, name: &str) -> Option<Decl> {
    let mut declaring = Declarer { schemas, enclosing: vec![name] };
    declaring.decl(schemas.get(name)?, true)
}

struct Declarer<'a> {
    schemas: &'a Value,
    /// Names of the enclosing schemas, to detect recursion.
    enclosing: Vec<&'a str>,
}

impl<'a> Declarer<'a> {
    fn decl(&mut self, schema: &'a Value, is_whole: bool) -> Option<Decl> {
        let Some(name) = reference(schema) else { return self.direct(schema, is_whole) };
        if self.enclosing.contains(&name) {
            // A recursive type has no fields within itself, as in Kubernetes.
            return Some(Decl::object([]));
        }
        self.enclosing.push(name);
        let decl = self.schemas.get(name).and_then(|schema| self.direct(schema, is_whole));
        self.enclosing.pop();
        decl
    }

    fn direct(&mut self, schema: &'a Value, is_whole: bool) -> Option<Decl> {
        if is_true(schema, "x-kubernetes-int-or-string") || schema["format"] == "int-or-string" {
            return Some(Decl::scalar(Shape::IntOrString));
        }
        let is_whole = is_whole || is_true(schema, "x-kubernetes-embedded-resource");
        match schema["type"].as_str()? {
            "array" => Some(Decl::list(self.decl(schema.get("items")?, false)?, ListKind::Atomic, None)),
            "object" => self.object(schema, is_whole),
            "string" => Some(Decl::scalar(match schema["format"].as_str() {
                Some("byte") => Shape::Bytes,
                Some("duration") => Shape::Duration,
                Some("date") => Shape::Date,
                Some("date-time") => Shape::DateTime,
                _ => Shape::String,
            })),
            "boolean" => Some(Decl::scalar(Shape::Bool)),
            "number" => Some(Decl::scalar(Shape::Double)),
            "integer" => Some(Decl::scalar(Shape::Int)),
            _ => None,
        }
    }

    fn object(&mut self, schema: &'a Value, is_whole: bool) -> Option<Decl> {
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            return Some(Decl::map(self.decl(values, false)?, None));
        }
        let properties = schema["properties"].as_object().into_iter().flatten();
        let overrides = is_whole && !self.declares_metadata(schema);
        let mut declared = Vec::new();
        for (name, property) in properties {
            if !(overrides && matches!(&**name, "apiVersion" | "kind" | "metadata")) {
                declared
                    .extend(self.decl(property, false).and_then(|decl| FieldDecl::new(name, decl, false)));
            }
        }
        if overrides {
            let text = |name| FieldDecl::new(name, Decl::scalar(Shape::String), false);
            let names = Decl::object(["name", "generateName"].into_iter().filter_map(text));
            declared.extend(FieldDecl::new("metadata", names, false));
            declared.extend(["apiVersion", "kind"].into_iter().filter_map(text));
        }
        Some(Decl::object(declared))
    }

    /// True if the schema of a whole object declares type and metadata itself.
    fn declares_metadata(&self, schema: &'a Value) -> bool {
        let property = |schema: &'a Value, name: &str| {
            let found = &schema["properties"][name];
            reference(found).and_then(|name| self.schemas.get(name)).unwrap_or(found)
        };
        let metadata = property(schema, "metadata");
        let is_text = |schema: &'a Value, name: &str| property(schema, name)["type"] == "string";
        ["kind", "apiVersion"].into_iter().all(|name| is_text(schema, name))
            && metadata["type"] == "object"
            && ["name", "generateName"].into_iter().all(|name| is_text(metadata, name))
    }
}

/// Name of the schema that another references, directly or within `allOf`, which allows a description.
fn reference(schema: &Value) -> Option<&str> {
    match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => reference.strip_prefix(REFERENCE),
        None => schema.get("allOf")?.as_array()?.iter().find_map(reference),
    }
}

fn is_true(schema: &Value, field: &str) -> bool {
    schema[field] == Value::Bool(true)
}
