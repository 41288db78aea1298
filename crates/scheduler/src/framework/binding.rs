//! Work of the binding cycle, which runs while other pods are scheduled.

use std::fmt;
use std::pin::Pin;

/// Why a pod cannot be bound to its node.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct BindError(pub(crate) String);

impl BindError {
    /// An error with this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// The future that binds a pod to its node.
pub type Binding = Pin<Box<dyn Future<Output = Result<(), BindError>> + Send>>;

/// Work to do before a pod can be bound. The future is dropped before completion if the pod is preempted.
pub struct PreBind {
    pub(crate) work: Binding,
    pub(crate) is_parallel: bool,
}

impl PreBind {
    /// Work that runs after that of earlier plugins and before that of later ones.
    pub fn new(work: impl Future<Output = Result<(), BindError>> + Send + 'static) -> Self {
        Self { work: Box::pin(work), is_parallel: false }
    }

    /// Lets the work run concurrently with adjacent work that is also parallel: kube-scheduler's
    /// `AllowParallel`.
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
