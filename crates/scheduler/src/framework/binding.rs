//! What plugins do to bring a pod to its node, while others are scheduled.

use std::fmt;
use std::pin::Pin;

/// Why a pod that has a place cannot be brought there.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BindError(pub(crate) String);

impl BindError {
    /// For this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Brings a pod to its node.
pub type Binding = Pin<Box<dyn Future<Output = Result<(), BindError>> + Send>>;

/// What has to be done before a pod can be bound. It may be dropped halfway, when the pod has to go.
pub struct PreBind {
    pub(crate) work: Binding,
    pub(crate) is_parallel: bool,
}

impl PreBind {
    /// Something that waits for what other plugins do, and they for it.
    pub fn new(work: impl Future<Output = Result<(), BindError>> + Send + 'static) -> Self {
        Self { work: Box::pin(work), is_parallel: false }
    }

    /// May be done while neighbours that also may are at it: upstream's `AllowParallel`.
    #[must_use]
    pub fn parallel(self) -> Self {
        Self { is_parallel: true, ..self }
    }
}

impl fmt::Debug for PreBind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreBind").field("is_parallel", &self.is_parallel).finish_non_exhaustive()
    }
}
