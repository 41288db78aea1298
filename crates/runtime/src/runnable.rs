//! What runs beside controllers on the same informers, and does not reconcile keys one by one: a scheduler,
//! for which all pods compete.

use std::pin::Pin;

use tokio_util::sync::CancellationToken;

/// A long-running part of a [`Manager`](crate::Manager).
pub trait Runnable: Send + 'static {
    /// For logs.
    fn name(&self) -> &'static str;

    /// What tells whether it is at rest.
    fn quiescence(&self) -> Box<dyn Quiescence>;

    /// Runs until `stop`, then finishes what it is at.
    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// How busy a [`Runnable`] is.
pub trait Quiescence: Send + Sync {
    /// How many things it has begun since it started.
    fn begun(&self) -> u64;

    /// How many things come back later.
    fn delayed(&self) -> usize;

    /// Returns when it has taken in everything its informers have told, and has nothing to do. Returns at
    /// once if it does not run.
    fn quiet(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
