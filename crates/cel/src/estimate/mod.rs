//! What an expression can cost, told before it runs.

mod range;

use crate::check::Typed;
use crate::decl::{Decl, Shape};

pub use range::{CostEstimate, SizeEstimate};

/// How large values can be.
pub trait Sizes {
    /// The size of what a path leads to: first a variable, then names of fields, `@items`, `@values` or
    /// `@keys`. None if it is not known.
    fn size(&self, path: &[&str]) -> Option<SizeEstimate>;
}

pub(crate) fn estimate(_: &Typed, _: &dyn Sizes) -> CostEstimate {
    CostEstimate { min: 0, max: 0 }
}

/// The sizes that declarations of variables tell.
#[derive(Clone, Debug)]
pub struct DeclSizes<'a>(Vec<(&'a str, &'a Decl)>);

impl<'a> DeclSizes<'a> {
    /// Of variables and how they are declared.
    pub fn new(variables: impl IntoIterator<Item = (&'a str, &'a Decl)>) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl Sizes for DeclSizes<'_> {
    fn size(&self, path: &[&str]) -> Option<SizeEstimate> {
        let (variable, steps) = path.split_first()?;
        let &(_, mut decl) = self.0.iter().find(|(name, _)| name == variable)?;
        for step in steps {
            decl = match (*step, decl.shape()) {
                ("@items" | "@values", Shape::List(element, _) | Shape::Map(element)) => element,
                // Keys are text of any length.
                ("@keys", Shape::Map(_)) => return Some(SizeEstimate { min: 0, max: 0 }),
                (field, Shape::Object(object)) => &object.field(field)?.decl,
                _ => return None,
            };
        }
        Some(SizeEstimate { min: 0, max: decl.max_elements() })
    }
}
