//! How large values can be, as their declaration says.

use coracle_cel::{Decl, Shape, SizeEstimate, Sizes};

/// The sizes of what `self` and `oldSelf` hold, which are alike.
pub(super) struct DeclSizes<'a>(pub(super) &'a Decl);

impl Sizes for DeclSizes<'_> {
    fn size(&self, path: &[&str]) -> Option<SizeEstimate> {
        let mut decl = self.0;
        for step in path.get(1..)? {
            decl = match (*step, decl.shape()) {
                ("@items" | "@values", Shape::List(element, _) | Shape::Map(element)) => element,
                // Nothing bounds the length of a key, and upstream's estimate of it is none.
                ("@keys", Shape::Map(_)) => return Some(SizeEstimate { min: 0, max: 0 }),
                (name, Shape::Object(object)) => &object.field(name)?.decl,
                _ => return None,
            };
        }
        Some(SizeEstimate { min: 0, max: decl.max_elements() })
    }
}
