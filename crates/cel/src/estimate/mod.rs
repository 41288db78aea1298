//! What an expression can cost, told before it runs: upstream's estimate, by which the API server refuses
//! rules that could become too dear.

mod calls;
mod coster;
mod kubernetes;
mod lists;
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

/// As rules of custom resources are estimated: the one variable there is holds an object of the declaration.
/// The name of the variable is not looked at, not even if the path begins with none, as it does for
/// elements of lists that the expression itself made; upstream does not either, and what rules may cost
/// depends on it.
impl Sizes for Decl {
    fn size(&self, path: &[&str]) -> Option<SizeEstimate> {
        let (_, steps) = path.split_first()?;
        let mut decl = self;
        for (index, step) in steps.iter().enumerate() {
            decl = match (*step, decl.shape()) {
                ("@items" | "@values", Shape::List(element, _) | Shape::Map(element)) => element,
                // The keys of maps have no limit of their own, which upstream takes for zero.
                ("@keys", Shape::Map(_)) if index + 1 == steps.len() => {
                    return Some(SizeEstimate { min: 0, max: 0 });
                }
                (field, Shape::Object(object)) => &object.field(field)?.decl,
                _ => return None,
            };
        }
        Some(SizeEstimate { min: 0, max: decl.max_elements() })
    }
}

/// No size is known.
#[derive(Clone, Copy, Debug)]
pub struct UnknownSizes;

impl Sizes for UnknownSizes {
    fn size(&self, _: &[&str]) -> Option<SizeEstimate> {
        None
    }
}

pub(crate) fn estimate(typed: &Typed, sizes: &dyn Sizes) -> CostEstimate {
    coster::Coster::new(typed, sizes).cost(typed.root)
}
