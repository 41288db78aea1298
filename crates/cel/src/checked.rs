//! Type-checked expressions.

use std::sync::Arc;

use crate::ast::Expr;
use crate::check::{Reference, Typed};
use crate::estimate::{CostEstimate, Sizes, estimate};
use crate::plan::plan;
use crate::program::Program;
use crate::provider::TypeProvider;
use crate::source::CompileError;
use crate::types::Type;

/// A type-checked expression, from which its type, a cost estimate and a program can be obtained.
/// It holds the whole syntax tree; cache programs instead.
#[derive(Clone)]
pub struct Checked {
    typed: Typed,
    provider: Option<Arc<dyn TypeProvider>>,
}

impl std::fmt::Debug for Checked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checked").field("output_type", self.output_type()).finish_non_exhaustive()
    }
}

impl Checked {
    pub(crate) fn new(typed: Typed, provider: Option<Arc<dyn TypeProvider>>) -> Self {
        Self { typed, provider }
    }

    /// Returns the type of the expression.
    pub fn output_type(&self) -> &Type {
        self.typed.type_of(self.typed.root)
    }

    /// Returns true if the expression refers to this variable of the environment.
    pub fn uses(&self, variable: &str) -> bool {
        let mut found = false;
        self.typed.tree.walk(self.typed.root, &mut |id, expr| {
            let refers = matches!(expr, Expr::Ident(name) if &**name == variable)
                && matches!(self.typed.reference(id), Some(Reference::Variable));
            found = found || refers;
        });
        found
    }

    /// Estimates the minimum and maximum cost, given the sizes of values.
    pub fn estimate(&self, sizes: &dyn Sizes) -> CostEstimate {
        estimate(&self.typed, sizes)
    }

    /// Creates a program.
    ///
    /// # Errors
    /// If a constant in the expression is invalid.
    pub fn program(&self) -> Result<Program, CompileError> {
        Ok(Program::new(plan(&self.typed)?, self.output_type().clone(), self.provider.clone()))
    }
}
