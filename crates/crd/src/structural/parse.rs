//! Parser for structural schemas.

use std::collections::HashMap;
use std::sync::OnceLock;

use coracle_meta::prefix::Prefix;
use serde_json::{Map, Value};

use super::node::{Flags, NONE, Node, NodeIndex, Property, Type};
use super::{Facet, Rule, Structural};

/// Maximum depth of a schema, far above that of any real one. A schema is compiled, published and
/// priced level by level, and an object of a few megabytes that violates it everywhere has a field
/// path of this length for each error.
const MAX_DEPTH: usize = 200;

/// Reason why a schema is not structural.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The schema contains a field that structural schemas must not use.
    #[error("OpenAPIV3Schema '{0}' is not supported")]
    Unsupported(&'static str),
    /// `items` is a list of schemas.
    #[error("OpenAPIV3Schema 'items' must be a schema, but is an array")]
    ItemsArray,
    /// `x-kubernetes-preserve-unknown-fields` is false, which must be expressed by omitting it.
    #[error("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined")]
    PreserveFalse,
    /// The schema is nested too deeply.
    #[error("OpenAPIV3Schema is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// The schema has too many nodes for the index type.
    #[error("OpenAPIV3Schema is too large")]
    TooLarge,
}

const UNSUPPORTED: [(&str, &str); 7] = [
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
];

pub(super) fn parse(schema: &Value) -> Result<Structural, ParseError> {
    let mut parser = Parser::default();
    let root = parser.reserve()?;
    parser.schema(root, schema, MAX_DEPTH)?;
    Ok(Structural {
        nodes: parser.nodes.into(),
        properties: parser.properties.into(),
        facets: parser.facets.into(),
        names: parser.names.into(),
        rules: OnceLock::new(),
    })
}

#[derive(Default)]
struct Parser {
    nodes: Vec<Node>,
    properties: Vec<Property>,
    facets: Vec<Facet>,
    names: String,
    interned_names: HashMap<Box<str>, u32>,
}

impl Parser {
    fn reserve(&mut self) -> Result<NodeIndex, ParseError> {
        let index = NodeIndex::try_from(self.nodes.len()).ok().filter(|index| *index != NONE);
        self.nodes.push(Node {
            first_property: 0,
            property_count: 0,
            items: NONE,
            additional: NONE,
            first_facet: 0,
            flags: Flags::default(),
            facet_count: 0,
            ty: Type::Unspecified,
        });
        index.ok_or(ParseError::TooLarge)
    }

    fn child(&mut self, schema: &Value, depth: usize) -> Result<NodeIndex, ParseError> {
        let index = self.reserve()?;
        self.schema(index, schema, depth)?;
        Ok(index)
    }

    fn schema(&mut self, index: NodeIndex, schema: &Value, depth: usize) -> Result<(), ParseError> {
        let below = depth.checked_sub(1).ok_or(ParseError::TooDeep)?;
        let empty = Map::new();
        let keywords = schema.as_object().unwrap_or(&empty);
        check_supported(keywords)?;
        let mut flags = own_flags(keywords)?;
        let facets = self.own_facets(keywords, below)?;
        let items = match keywords.get("items") {
            Some(Value::Array(_)) => return Err(ParseError::ItemsArray),
            Some(items @ Value::Object(_)) => self.child(items, below)?,
            _ => NONE,
        };
        let additional = match keywords.get("additionalProperties") {
            Some(additional @ Value::Object(_)) => self.child(additional, below)?,
            Some(Value::Bool(allowed)) => {
                flags |= if *allowed { Flags::ADDITIONAL_ALLOWED } else { Flags::ADDITIONAL_FORBIDDEN };
                NONE
            }
            _ => NONE,
        };
        let properties = self.children(keywords, below)?;
        let children = properties.iter().map(|property| property.node).chain([items, additional]);
        flags |= self.inherited_flags(children);
        if flags & (Flags::LIST_SET | Flags::LIST_MAP) != 0 {
            flags |= Flags::KEYED_LISTS;
        }
        if flags & Flags::EMBEDDED != 0 {
            flags |= Flags::EMBEDDED_WITHIN;
        }
        if facets.iter().any(|facet| matches!(facet, Facet::Rules(_))) {
            flags |= Flags::RULES_WITHIN;
        }
        let node = Node {
            first_property: number(self.properties.len())?,
            property_count: number(properties.len())?,
            items,
            additional,
            first_facet: number(self.facets.len())?,
            flags: Flags(flags),
            facet_count: u8::try_from(facets.len()).map_err(|_| ParseError::TooLarge)?,
            ty: type_of(keywords),
        };
        self.properties.extend(properties);
        self.facets.extend(facets);
        self.nodes[index as usize] = node;
        Ok(())
    }

    fn children(&mut self, keywords: &Map<String, Value>, depth: usize) -> Result<Vec<Property>, ParseError> {
        let Some(Value::Object(children)) = keywords.get("properties") else { return Ok(Vec::new()) };
        let mut properties = Vec::with_capacity(children.len());
        for (name, child) in children {
            let node = self.child(child, depth)?;
            let name_offset = self.intern(name)?;
            let (prefix, name_length) = (Prefix::of(name), number(name.len())?);
            properties.push(Property { prefix, name_offset, name_length, node });
        }
        Ok(properties)
    }

    fn intern(&mut self, name: &str) -> Result<u32, ParseError> {
        if let Some(offset) = self.interned_names.get(name) {
            return Ok(*offset);
        }
        let offset = number(self.names.len())?;
        self.names.push_str(name);
        self.interned_names.insert(name.into(), offset);
        Ok(offset)
    }

    /// Returns the flags that a node inherits from its children.
    fn inherited_flags(&self, children: impl Iterator<Item = NodeIndex>) -> u32 {
        const INHERITED: u32 =
            Flags::DEFAULT_BELOW | Flags::KEYED_LISTS | Flags::EMBEDDED_WITHIN | Flags::RULES_WITHIN;
        let mut flags = 0;
        for child in children.filter(|child| *child != NONE) {
            let node = &self.nodes[child as usize];
            flags |= node.flags.0 & INHERITED;
            let first = node.first_facet as usize;
            let facets = &self.facets[first..first + usize::from(node.facet_count)];
            if facets.iter().any(|facet| matches!(facet, Facet::Default(_))) {
                flags |= Flags::DEFAULT_BELOW;
            }
        }
        flags
    }

    fn own_facets(&mut self, keywords: &Map<String, Value>, depth: usize) -> Result<Vec<Facet>, ParseError> {
        let mut facets = Vec::new();
        // A null default counts as absent, as in kube-apiserver.
        if let Some(default) = keywords.get("default").filter(|default| !default.is_null()) {
            facets.push(Facet::Default(Box::new(default.clone())));
        }
        facets.extend(text(keywords, "format").map(Facet::Format));
        facets.extend(text(keywords, "pattern").map(Facet::Pattern));
        let float = |field: &str| keywords.get(field).and_then(Value::as_f64);
        facets.extend(float("maximum").map(Facet::Maximum));
        facets.extend(float("minimum").map(Facet::Minimum));
        facets.extend(float("multipleOf").map(Facet::MultipleOf));
        let whole = |field: &str| keywords.get(field).and_then(Value::as_i64);
        facets.extend(whole("maxLength").map(Facet::MaxLength));
        facets.extend(whole("minLength").map(Facet::MinLength));
        facets.extend(whole("maxItems").map(Facet::MaxItems));
        facets.extend(whole("minItems").map(Facet::MinItems));
        facets.extend(whole("maxProperties").map(Facet::MaxProperties));
        facets.extend(whole("minProperties").map(Facet::MinProperties));
        facets.extend(list(keywords, "enum").map(|values| Facet::Enum(values.into())));
        facets.extend(texts(keywords, "required").map(Facet::Required));
        facets.extend(texts(keywords, "x-kubernetes-list-map-keys").map(Facet::ListMapKeys));
        facets.extend(self.junctor(keywords, "allOf", depth)?.map(Facet::AllOf));
        facets.extend(self.junctor(keywords, "anyOf", depth)?.map(Facet::AnyOf));
        facets.extend(self.junctor(keywords, "oneOf", depth)?.map(Facet::OneOf));
        if let Some(not) = keywords.get("not").filter(|not| not.is_object()) {
            facets.push(Facet::Not(self.child(not, depth)?));
        }
        let rules = list(keywords, "x-kubernetes-validations");
        facets.extend(rules.map(|rules| Facet::Rules(rules.iter().map(rule).collect())));
        Ok(facets)
    }

    fn junctor(
        &mut self,
        keywords: &Map<String, Value>,
        name: &str,
        depth: usize,
    ) -> Result<Option<Box<[NodeIndex]>>, ParseError> {
        let Some(parts) = list(keywords, name) else { return Ok(None) };
        let nodes: Result<Vec<_>, _> = parts.iter().map(|part| self.child(part, depth)).collect();
        Ok(Some(nodes?.into()))
    }
}

fn check_supported(keywords: &Map<String, Value>) -> Result<(), ParseError> {
    for (field, name) in UNSUPPORTED {
        let is_empty = match keywords.get(field) {
            None | Some(Value::Null) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Object(fields)) => fields.is_empty() && field != "additionalItems",
            Some(_) => false,
        };
        if !is_empty {
            return Err(ParseError::Unsupported(name));
        }
    }
    Ok(())
}

fn own_flags(keywords: &Map<String, Value>) -> Result<u32, ParseError> {
    let mut flags = 0;
    if keywords.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        return Err(ParseError::PreserveFalse);
    }
    for (field, flag) in [
        ("nullable", Flags::NULLABLE),
        ("x-kubernetes-preserve-unknown-fields", Flags::PRESERVE),
        ("x-kubernetes-embedded-resource", Flags::EMBEDDED),
        ("x-kubernetes-int-or-string", Flags::INT_OR_STRING),
        ("exclusiveMaximum", Flags::EXCLUSIVE_MAXIMUM),
        ("exclusiveMinimum", Flags::EXCLUSIVE_MINIMUM),
        ("uniqueItems", Flags::UNIQUE_ITEMS),
    ] {
        if keywords.get(field) == Some(&Value::Bool(true)) {
            flags |= flag;
        }
    }
    for (field, word, flag) in [
        ("x-kubernetes-list-type", "atomic", Flags::LIST_ATOMIC),
        ("x-kubernetes-list-type", "set", Flags::LIST_SET),
        ("x-kubernetes-list-type", "map", Flags::LIST_MAP),
        ("x-kubernetes-map-type", "atomic", Flags::MAP_ATOMIC),
    ] {
        if keywords.get(field).is_some_and(|value| value == word) {
            flags |= flag;
        }
    }
    Ok(flags)
}

fn type_of(keywords: &Map<String, Value>) -> Type {
    match keywords.get("type").and_then(Value::as_str).unwrap_or("") {
        "" => Type::Unspecified,
        "object" => Type::Object,
        "array" => Type::Array,
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        _ => Type::Other,
    }
}

fn rule(keywords: &Value) -> Rule {
    let text = |field: &str| keywords.get(field).and_then(Value::as_str).unwrap_or("").into();
    Rule {
        rule: text("rule"),
        message: text("message"),
        message_expression: text("messageExpression"),
        reason: keywords.get("reason").and_then(Value::as_str).map(Into::into),
        field_path: text("fieldPath"),
        optional_old_self: keywords.get("optionalOldSelf").and_then(Value::as_bool),
    }
}

fn text(keywords: &Map<String, Value>, field: &str) -> Option<Box<str>> {
    keywords.get(field).and_then(Value::as_str).filter(|text| !text.is_empty()).map(Into::into)
}

fn list<'a>(keywords: &'a Map<String, Value>, field: &str) -> Option<&'a [Value]> {
    keywords.get(field).and_then(Value::as_array).map(Vec::as_slice).filter(|items| !items.is_empty())
}

fn texts(keywords: &Map<String, Value>, field: &str) -> Option<Box<[Box<str>]>> {
    Some(list(keywords, field)?.iter().filter_map(Value::as_str).map(Into::into).collect())
}

fn number(length: usize) -> Result<u32, ParseError> {
    u32::try_from(length).map_err(|_| ParseError::TooLarge)
}
