//! Long-running components beside the controllers that share their informers but do not reconcile keys one by one,
//! such as the scheduler, where all pods compete.

use std::pin::Pin;

use tokio_util::sync::CancellationToken;

/// A long-running component of a [`Manager`](crate::Manager), as in controller-runtime.
pub trait Runnable: Send + 'static {
    /// Name for logs.
    fn name(&self) -> &'static str;

    /// Returns the handle through which [`Idle`](crate::Idle) checks that this component is at rest.
    fn quiescence(&self) -> Box<dyn Quiescence>;

    /// Runs until `stop` is cancelled, then finishes the work in flight.
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Reports how busy a [`Runnable`] is.
pub trait Quiescence: Send + Sync {
    /// Number of work items started since the component started.
    fn begun(&self) -> u64;

    /// Number of work items that are delayed until a later time.
    fn delayed(&self) -> usize;

    /// Returns when all changes delivered by its informers are processed and no work is left, or at once if the
    /// component does not run.
    fn quiet(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
