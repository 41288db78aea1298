//! A handle to a built-in or custom kind.

use std::ops::Deref;
use std::sync::Arc;

use crate::kind::Kind;

/// A built-in kind, or a kind of a CustomResourceDefinition, which is dropped with its last handle. Cheap to clone.
#[derive(Clone)]
pub enum KindRef {
    /// A built-in kind.
    Static(&'static dyn Kind),
    /// A reference-counted kind of a CustomResourceDefinition.
    Shared(Arc<dyn Kind>),
}

impl Deref for KindRef {
    type Target = dyn Kind;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Static(kind) => *kind,
            Self::Shared(kind) => &**kind,
        }
    }
}

impl From<&'static dyn Kind> for KindRef {
    fn from(kind: &'static dyn Kind) -> Self {
        Self::Static(kind)
    }
}

impl<K: Kind + 'static> From<&'static K> for KindRef {
    fn from(kind: &'static K) -> Self {
        Self::Static(kind)
    }
}

impl From<Arc<dyn Kind>> for KindRef {
    fn from(kind: Arc<dyn Kind>) -> Self {
        Self::Shared(kind)
    }
}
