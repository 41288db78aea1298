//! An expression whose types are sound.

use std::sync::Arc;

use crate::ast::Expr;
use crate::check::{Reference, Typed};
use crate::estimate::{CostEstimate, Sizes, estimate};
use crate::plan::plan;
use crate::program::Program;
use crate::provider::TypeProvider;
use crate::source::CompileError;
use crate::types::Type;

/// An expression whose types are sound: its type is known, its cost can be estimated, and a program can be
/// made of it. It holds the whole tree; programs are what to keep.
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

    /// The type of its value.
    pub fn output_type(&self) -> &Type {
        self.typed.type_of(self.typed.root)
    }

    /// Whether it refers to a variable of the environment.
    pub fn uses(&self, variable: &str) -> bool {
        let mut found = false;
        self.typed.tree.walk(self.typed.root, &mut |id, expr| {
            let refers = matches!(expr, Expr::Ident(name) if &**name == variable)
                && matches!(self.typed.reference(id), Some(Reference::Variable));
            found = found || refers;
        });
        found
    }

    /// What it can cost, at least and at most, given how large values can be.
    pub fn estimate(&self, sizes: &dyn Sizes) -> CostEstimate {
        estimate(&self.typed, sizes)
    }

    /// Makes a program of it.
    ///
    /// # Errors
    /// If a constant in it has no value.
    pub fn program(&self) -> Result<Program, CompileError> {
        Ok(Program::new(plan(&self.typed)?, self.output_type().clone(), self.provider.clone()))
    }
}
