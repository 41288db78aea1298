//! Tasks that always have an owner.
//!
//! `tokio::spawn` is banned in this workspace: a task that is never awaited hides its panics and
//! outlives the component it works for. A [`Task`] is awaited, or aborted when its owner drops it.
//! Tasks run on the deep stack, and their state and results are dropped there, because they may
//! contain deeply nested values.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::task::{AbortHandle, JoinHandle};

use crate::deep_stack::{self, OnDeepStack};

/// A running task, aborted when this handle is dropped.
#[derive(Debug)]
pub struct Task<T> {
    name: &'static str,
    handle: JoinHandle<OnDeepStack<T>>,
    abort: AbortHandle,
}

/// The reason why a task returned no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The task panicked; the panic hook has printed the panic.
    #[error("task {name} panicked: {message}")]
    Panicked {
        /// The name passed to [`Task::spawn`].
        name: &'static str,
        /// The panic's message, or `no message`.
        message: String,
    },
    /// The task was aborted before it finished.
    #[error("task {name} was cancelled")]
    Cancelled {
        /// The name passed to [`Task::spawn`].
        name: &'static str,
    },
}

impl<T: Send + 'static> Task<T> {
    /// Starts `future` on the current tokio runtime.
    #[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
    pub fn spawn(name: &'static str, future: impl Future<Output = T> + Send + 'static) -> Self {
        let future: Pin<Box<dyn Future<Output = OnDeepStack<T>> + Send>> =
            Box::pin(async { OnDeepStack::new(future.await) });
        Self::own(name, tokio::spawn(OnDeepStack::new(future)))
    }

    /// Runs blocking work on a thread of tokio's blocking pool.
    pub fn spawn_blocking(name: &'static str, work: impl FnOnce() -> T + Send + 'static) -> Self {
        let work = OnDeepStack::new(work);
        let run = || deep_stack::run(|| OnDeepStack::new(work.into_inner()()));
        Self::own(name, tokio::task::spawn_blocking(run))
    }

    fn own(name: &'static str, handle: JoinHandle<OnDeepStack<T>>) -> Self {
        let abort = handle.abort_handle();
        Self { name, handle, abort }
    }
}

impl<T> Task<T> {
    /// Returns the name passed to [`Task::spawn`].
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Aborts the task at its next await point.
    pub fn abort(&self) {
        self.abort.abort();
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let name = self.name;
        let result = ready!(Pin::new(&mut self.handle).poll(cx));
        Poll::Ready(result.map(OnDeepStack::into_inner).map_err(|error| match error.try_into_panic() {
            Ok(panic) => TaskError::Panicked { name, message: panic_message(&*panic) },
            Err(_) => TaskError::Cancelled { name },
        }))
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    text.or(owned).unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_in_task_returns_its_message_to_owner() {
        let task: Task<()> = Task::spawn("faulty", async { panic!("at once") });
        let error = task.await.expect_err("it panicked");
        assert_eq!(error.to_string(), "task faulty panicked: at once");
    }

    #[tokio::test]
    async fn dropping_task_aborts_it() {
        let (alive, mut ended) = tokio::sync::mpsc::channel::<()>(1);
        let task = Task::spawn("endless", async move {
            let _alive = alive;
            std::future::pending::<()>().await;
        });
        drop(task);
        assert!(ended.recv().await.is_none());
    }
}
