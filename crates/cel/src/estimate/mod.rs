//! Static cost estimates, like cel-go's: kube-apiserver rejects expressions whose maximum cost is
//! too high.

mod calls;
mod coster;
mod kubernetes;
mod lists;
mod range;

use crate::check::Typed;
use crate::decl::{Decl, Shape};

pub use range::{CostEstimate, SizeEstimate};

/// Provides the maximum sizes of values.
pub trait Sizes {
    /// Returns the size of the value at a path: a variable, followed by names of fields, `@items`,
    /// `@values` or `@keys`. `None` if it is unknown.
    fn size(&self, path: &[&str]) -> Option<SizeEstimate>;
}

/// Sizes for rules of custom resources: the only variable holds an object of the declaration. The
/// name of the variable is ignored, even if the path begins with another value, as it does for
/// elements of lists that the expression creates. kube-apiserver ignores it too, and the accepted
/// cost of rules depends on it.
impl Sizes for Decl {
    fn size(&self, path: &[&str]) -> Option<SizeEstimate> {
        let (_, steps) = path.split_first()?;
        let mut decl = self;
        for (index, step) in steps.iter().enumerate() {
            decl = match (*step, decl.shape()) {
                ("@items" | "@values", Shape::List(element, _) | Shape::Map(element)) => element,
                // Keys of maps have no declared limit, which kube-apiserver treats as zero.
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

/// Sizes for which every size is unknown.
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
