//! CEL validation rules (`x-kubernetes-validations`).
//!
//! They are compiled when the first object is validated, and cached with the schema: a schema
//! without rules, or without objects, has nothing compiled.

mod compile;
mod cost;
mod declare;
mod definition;
mod evaluate;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use coracle_cel::{Decl, Program};

use crate::structural::{NodeIndex, Schema};
use compile::Environments;
use declare::Declarations;
pub use definition::ExpressionCosts;
pub(crate) use evaluate::{Evaluation, Ratchet};

/// The compiled rules of a schema.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    by_node: HashMap<NodeIndex, NodeRules>,
}

/// The compiled rules of one schema node.
#[derive(Debug)]
struct NodeRules {
    /// Declaration of the values; `None` if expressions cannot access them.
    decl: Option<Arc<Decl>>,
    /// One per rule, in order; empty if expressions cannot access the value.
    rules: Box<[CompiledRule]>,
}

#[derive(Debug)]
struct CompiledRule {
    /// `None` if the rule is empty.
    program: Option<Result<Program, String>>,
    uses_old_self: bool,
    message: Option<Program>,
    /// Path of the error, relative to the value.
    field_path: Option<Box<str>>,
}

impl Rules {
    pub(crate) fn compile(root: Schema<'_>) -> Self {
        let mut rules = Self::default();
        rules.add(root, true, &mut Declarations::default());
        rules
    }

    fn add(&mut self, schema: Schema<'_>, is_root: bool, declarations: &mut Declarations) {
        if !schema.has_rules_within() {
            return;
        }
        if !schema.rules().is_empty() {
            let decl = declarations.decl(schema, is_root);
            let rules = match &decl {
                Some(decl) => {
                    let environments = Environments::new(decl);
                    schema.rules().iter().map(|rule| environments.compile(rule, schema)).collect()
                }
                None => Box::default(),
            };
            self.by_node.insert(schema.index(), NodeRules { decl, rules });
        }
        let children = schema.properties().map(|(_, property)| property);
        let others = [schema.items(), schema.additional().schema()].into_iter().flatten();
        children.chain(others).for_each(|child| self.add(child, false, declarations));
    }
}
