//! A handle to a kind, however long that kind lives.

use std::ops::Deref;
use std::sync::Arc;

use crate::kind::Kind;

/// A kind: one of those that are always there, or one that came with a definition and goes when
/// nobody holds it any more. Cheap to clone.
#[derive(Clone)]
pub enum KindRef {
    /// Always there.
    Static(&'static dyn Kind),
    /// As long as somebody holds it.
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
