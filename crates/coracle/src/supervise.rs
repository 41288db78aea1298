//! The tasks of a server, and the policy if one ends unexpectedly: the server is reported as failed, and
//! the embedding program decides. Restarting a listener would only hide the cause.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use coracle_base::{Task, TaskError};

/// Why a running server can no longer be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A component ended without having been stopped.
    #[error("component {name} ended unexpectedly")]
    Ended {
        /// The name of the component.
        name: &'static str,
    },
    /// A component panicked.
    #[error("a component failed")]
    Crashed(#[from] TaskError),
}

#[derive(Debug)]
pub(crate) struct Components {
    running: Vec<Task<()>>,
}

impl Components {
    pub(crate) fn new(running: Vec<Task<()>>) -> Self {
        Self { running }
    }

    /// Waits until the first of them ends. Cancel-safe.
    pub(crate) async fn first_failure(&mut self) -> Failure {
        poll_fn(|cx| self.poll_ended(cx)).await
    }

    /// Waits until all have ended. They are stopped elsewhere.
    pub(crate) async fn ended(self) {
        for component in self.running {
            let name = component.name();
            if let Err(error) = component.await {
                tracing::error!(component = name, %error, "failed during shutdown");
            }
        }
    }

    fn poll_ended(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        for index in 0..self.running.len() {
            let component = &mut self.running[index];
            let name = component.name();
            if let Poll::Ready(ended) = Pin::new(component).poll(cx) {
                // A completed task must not be polled again.
                drop(self.running.swap_remove(index));
                return Poll::Ready(ended.map_or_else(Failure::Crashed, |()| Failure::Ended { name }));
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endless() -> Task<()> {
        Task::spawn("endless", std::future::pending())
    }

    #[tokio::test]
    async fn ended_component_is_named() {
        let mut components = Components::new(vec![endless(), Task::spawn("short", async {}), endless()]);
        assert_eq!(components.first_failure().await.to_string(), "component short ended unexpectedly");
        assert_eq!(components.running.len(), 2);
    }

    #[tokio::test]
    async fn crash_includes_the_panic_message() {
        let mut components =
            Components::new(vec![endless(), Task::spawn("faulty", async { panic!("at once") })]);
        let Failure::Crashed(error) = components.first_failure().await else { panic!("it crashed") };
        assert_eq!(error.to_string(), "task faulty panicked: at once");
    }

    #[tokio::test]
    async fn ended_waits_for_all_components() {
        Components::new(vec![Task::spawn("one", async {}), Task::spawn("two", async {})]).ended().await;
    }
}
