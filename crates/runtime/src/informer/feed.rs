//! Delivery of changes to components that need the old and the new object, not only keys, in order.

use std::pin::Pin;

use coracle_base::watched;
use tokio::sync::mpsc;

use super::Progress;
use super::store::Change;

/// A receiver of changes.
pub(super) trait Feed<V>: Send + Sync {
    /// Returns when the receiver has taken the change, or is gone.
    fn send(&self, change: Change<V>) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Sends changes as messages of a channel.
pub(super) struct Channel<T, Wrap> {
    pub(super) sender: mpsc::Sender<T>,
    pub(super) wrap: Wrap,
}

impl<V, T: Send, Wrap: Fn(Change<V>) -> T + Send + Sync> Feed<V> for Channel<T, Wrap> {
    fn send(&self, change: Change<V>) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let message = (self.wrap)(change);
        // Sending fails only if the receiver is gone.
        Box::pin(async move { drop(self.sender.send(message).await) })
    }
}

/// Waits for progress of an informer; see [`Informer::changes`](super::Informer::changes).
#[derive(Clone, Debug)]
pub struct Changes(pub(super) watched::Receiver<Progress>);

impl Changes {
    /// Returns when the informer has made progress since the last call. Safe to drop.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The informer is gone: there will be no more changes.
            std::future::pending::<()>().await;
        }
    }

    /// Returns when the initial list has been delivered. Safe to drop.
    pub async fn synced(&mut self) {
        if self.0.wait_for(|progress| progress.synced).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
