//! CEL declarations of schemas.

use std::collections::HashMap;
use std::sync::Arc;

use coracle_cel::{Decl, FieldDecl, ListKind, Shape};

use crate::structural::{Facet, ListType, NodeIndex, Schema, Type};

/// Creates CEL declarations of schemas. Rules at nested nodes share the declarations.
#[derive(Default)]
pub(super) struct Declarations {
    cache: HashMap<NodeIndex, Option<Arc<Decl>>>,
}

impl Declarations {
    /// Returns the declaration of a schema node; `None` if its type is unspecified, so that
    /// expressions cannot access it. For complete objects, `apiVersion`, `kind` and the names in
    /// `metadata` are always accessible.
    pub(super) fn decl(&mut self, schema: Schema<'_>, is_root: bool) -> Option<Arc<Decl>> {
        if let Some(cache) = self.cache.get(&schema.index()) {
            return cache.clone();
        }
        let decl = self.declare(schema, is_root || schema.is_embedded_resource()).map(Arc::new);
        self.cache.insert(schema.index(), decl.clone());
        decl
    }

    fn declare(&mut self, schema: Schema<'_>, is_whole: bool) -> Option<Decl> {
        let decl = if schema.is_int_or_string() {
            with_max_length(Decl::scalar(Shape::IntOrString), schema)
        } else {
            match schema.ty() {
                Type::Array => self.list(schema)?,
                Type::Object => self.object(schema, is_whole)?,
                Type::String => string(schema),
                Type::Boolean => Decl::scalar(Shape::Bool),
                Type::Number => Decl::scalar(Shape::Double),
                Type::Integer => Decl::scalar(Shape::Int),
                Type::Unspecified | Type::Other => return None,
            }
        };
        Some(if schema.is_nullable() { decl.nullable() } else { decl })
    }

    fn list(&mut self, schema: Schema<'_>) -> Option<Decl> {
        let kind = match schema.list_type() {
            Some(ListType::Set) => ListKind::Set,
            Some(ListType::Map) => {
                ListKind::Map(schema.list_map_keys().iter().map(|key| (**key).into()).collect())
            }
            Some(ListType::Atomic) | None => ListKind::Atomic,
        };
        Some(Decl::list(self.decl(schema.items()?, false)?, kind, max_items(schema)))
    }

    fn object(&mut self, schema: Schema<'_>, is_whole: bool) -> Option<Decl> {
        if let Some(values) = schema.additional().schema() {
            return Some(Decl::map(self.decl(values, false)?, max_properties(schema)));
        }
        let overrides = is_whole && !declares_names(schema);
        let mut fields = Vec::new();
        for (name, property) in schema.properties() {
            if overrides && crate::prune::is_object_field(name) {
                continue;
            }
            // A field with a default is always present, but a client need not send it.
            let is_required = is_required(schema, name) && property.default().is_none();
            fields
                .extend(self.decl(property, false).and_then(|decl| FieldDecl::new(name, decl, is_required)));
        }
        if overrides {
            let text = || Decl::scalar(Shape::String);
            let field = |name, decl: Decl| FieldDecl::new(name, decl, is_required(schema, name));
            let names =
                ["name", "generateName"].into_iter().filter_map(|name| FieldDecl::new(name, text(), false));
            fields.extend(field("metadata", Decl::object(names)));
            fields.extend(["apiVersion", "kind"].into_iter().filter_map(|name| field(name, text())));
        }
        Some(Decl::object(fields))
    }
}

/// Returns true if the schema of a complete object declares all fields that are always accessible.
fn declares_names(schema: Schema<'_>) -> bool {
    let has = |schema: Schema<'_>, name: &str, ty: Type| {
        schema.property(name).is_some_and(|property| property.ty() == ty)
    };
    has(schema, "kind", Type::String)
        && has(schema, "apiVersion", Type::String)
        && schema.property("metadata").is_some_and(|metadata| {
            metadata.ty() == Type::Object
                && has(metadata, "name", Type::String)
                && has(metadata, "generateName", Type::String)
        })
}

fn string(schema: Schema<'_>) -> Decl {
    let shape = match schema.format() {
        "byte" => Shape::Bytes,
        "duration" => Shape::Duration,
        "date" => Shape::Date,
        "date-time" => Shape::DateTime,
        _ => Shape::String,
    };
    let is_plain = matches!(shape, Shape::String);
    let decl = Decl::scalar(shape);
    let limit = schema.facets().iter().any(|facet| matches!(facet, Facet::MaxLength(_)));
    if limit {
        return with_max_length(decl, schema);
    }
    for facet in schema.facets() {
        if let Facet::Enum(values) = facet
            && is_plain
        {
            return decl.with_enum(values.iter().map(|value| value.as_str().unwrap_or_default()));
        }
    }
    decl
}

fn with_max_length(decl: Decl, schema: Schema<'_>) -> Decl {
    let limit = schema.facets().iter().find_map(|facet| match facet {
        Facet::MaxLength(max) => Some(limit(*max)),
        _ => None,
    });
    match limit {
        Some(limit) => decl.with_max_length(limit),
        None => decl,
    }
}

fn is_required(schema: Schema<'_>, name: &str) -> bool {
    schema.facets().iter().any(|facet| match facet {
        Facet::Required(names) => names.iter().any(|required| **required == *name),
        _ => false,
    })
}

/// A negative limit allows no items, like zero.
fn limit(max: i64) -> u64 {
    u64::try_from(max).unwrap_or(0)
}

pub(super) fn max_items(schema: Schema<'_>) -> Option<u64> {
    schema.facets().iter().find_map(|facet| match facet {
        Facet::MaxItems(max) => Some(limit(*max)),
        _ => None,
    })
}

pub(super) fn max_properties(schema: Schema<'_>) -> Option<u64> {
    schema.facets().iter().find_map(|facet| match facet {
        Facet::MaxProperties(max) => Some(limit(*max)),
        _ => None,
    })
}
