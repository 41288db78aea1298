//! Structural schemas in a compact form.
//!
//! Hundreds of large schemas are in memory at the same time, so descriptions are dropped, nodes are
//! indices into one table, property names are interned in one string, and the many optional
//! attributes are facets in a second table.

mod facet;
mod node;
mod parse;

pub(crate) use facet::{Facet, Rule};
pub(crate) use node::{Additional, ListType, NodeIndex, Schema, Type};
pub use parse::ParseError;

use std::sync::OnceLock;

use crate::rules::Rules;
use node::{Node, Property};

/// The structural schema of one version of a custom kind.
#[derive(Debug)]
pub struct Structural {
    nodes: Box<[Node]>,
    properties: Box<[Property]>,
    facets: Box<[Facet]>,
    /// All property names, each once.
    names: Box<str>,
    /// Compiled on first use.
    rules: OnceLock<Rules>,
}

impl Structural {
    /// Parses the schema of a definition (`openAPIV3Schema`).
    ///
    /// # Errors
    /// If the schema is not structural in a way that makes its meaning ambiguous. Definitions are
    /// validated before they are stored, so this does not happen later.
    pub fn parse(schema: &serde_json::Value) -> Result<Self, ParseError> {
        parse::parse(schema)
    }

    /// Returns the schema of complete objects.
    pub(crate) fn root(&self) -> Schema<'_> {
        Schema::new(self, 0)
    }

    /// Returns the compiled rules; `None` if there are none.
    pub(crate) fn rules(&self) -> Option<&Rules> {
        self.rules_within(self.root())
    }

    /// Returns the compiled rules; `None` if this part of the schema has none.
    pub(crate) fn rules_within(&self, part: Schema<'_>) -> Option<&Rules> {
        part.has_rules_within().then(|| self.rules.get_or_init(|| Rules::compile(self.root())))
    }

    /// Returns the approximate memory in bytes, without compiled rules.
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

    /// A schema as large as the largest in use: about 2 000 lines of YAML.
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
    fn large_schema_takes_little_memory() {
        let size = Structural::parse(&large_schema()).unwrap().size();
        assert!(size * 500 < 30 << 20, "{size} bytes each");
    }

    #[test]
    fn non_structural_schema_is_rejected() {
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
