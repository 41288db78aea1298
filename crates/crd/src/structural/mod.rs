//! A structural schema in a compact form.
//!
//! Hundreds of large schemas are held at the same time, so descriptions are dropped, nodes are
//! numbers in one table, names of properties stand once in one text, and the many things a schema
//! may say but seldom does are facets in a second table.

mod facet;
mod node;
mod parse;

pub(crate) use facet::{Facet, Rule};
pub(crate) use node::{Additional, ListType, NodeIndex, Schema, Type};
pub use parse::ParseError;

use std::sync::OnceLock;

use crate::rules::Rules;
use node::{Node, Property};

/// The schema of one version of a custom kind.
#[derive(Debug)]
pub struct Structural {
    nodes: Box<[Node]>,
    properties: Box<[Property]>,
    facets: Box<[Facet]>,
    /// The names of all properties, each once.
    names: Box<str>,
    /// Compiled when they are first needed.
    rules: OnceLock<Rules>,
}

impl Structural {
    /// Parses a schema as it stands in a definition (`openAPIV3Schema`).
    ///
    /// # Errors
    /// If it is not structural in a way that makes its meaning unclear. Definitions are checked
    /// before they are stored, so that this does not happen later.
    pub fn parse(schema: &serde_json::Value) -> Result<Self, ParseError> {
        parse::parse(schema)
    }

    /// The schema of whole objects.
    pub(crate) fn root(&self) -> Schema<'_> {
        Schema::new(self, 0)
    }

    /// The rules, compiled; nothing if there are none.
    pub(crate) fn rules(&self) -> Option<&Rules> {
        self.rules_within(self.root())
    }

    /// The rules, compiled; nothing if there are none in this part of the schema.
    pub(crate) fn rules_within(&self, part: Schema<'_>) -> Option<&Rules> {
        part.has_rules_within().then(|| self.rules.get_or_init(|| Rules::compile(self.root())))
    }

    /// How many bytes it takes, near enough, without compiled rules.
    pub fn size(&self) -> usize {
        size_of_val(&*self.nodes)
            + size_of_val(&*self.properties)
            + self.names.len()
            + self.facets.iter().map(|facet| size_of::<Facet>() + facet.heap_size()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    /// As large as they come: some 2 000 lines of YAML.
    fn large_schema() -> Value {
        let mut properties = Map::new();
        for group in 0..20 {
            let mut fields = Map::new();
            for field in 0..25 {
                let described = "Explains at length what nobody needs to know in order to check an object.";
                let field_schema = match field % 5 {
                    0 => {
                        json!({"type": "string", "description": described, "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"})
                    }
                    1 => json!({"type": "integer", "description": described, "minimum": 1, "default": 1}),
                    2 => json!({"type": "array", "description": described, "items": {"type": "string"}}),
                    _ => json!({"type": "string", "description": described}),
                };
                fields.insert(format!("someField{field}"), field_schema);
            }
            properties.insert(format!("group{group}"), json!({"type": "object", "properties": fields}));
        }
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})
    }

    #[test]
    fn hundreds_of_large_schemas_fit_into_little_memory() {
        let size = Structural::parse(&large_schema()).unwrap().size();
        assert!(size * 500 < 30 << 20, "{size} bytes each");
    }

    #[test]
    fn what_is_not_structural_is_refused() {
        for (schema, expected) in [
            (json!({"$ref": "x"}), "OpenAPIV3Schema '$ref' is not supported"),
            (json!({"items": [{}]}), "OpenAPIV3Schema 'items' must be a schema, but is an array"),
            (
                json!({"x-kubernetes-preserve-unknown-fields": false}),
                "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined",
            ),
        ] {
            assert_eq!(Structural::parse(&schema).unwrap_err().to_string(), expected);
        }
    }
}
