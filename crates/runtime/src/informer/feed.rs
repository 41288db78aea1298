//! Handing changes on to whoever keeps more than keys, in order and with what was known before.

use std::pin::Pin;

use coracle_base::watched;
use tokio::sync::mpsc;

use super::Progress;
use super::store::Change;

/// Somebody who takes changes.
pub(super) trait Feed<V>: Send + Sync {
    /// Returns when the change is taken. Nobody who is gone is waited for.
    fn hand_on(&self, change: Change<V>) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// Changes become messages of a channel.
pub(super) struct Channel<T, Wrap> {
    pub(super) sender: mpsc::Sender<T>,
    pub(super) wrap: Wrap,
}

impl<V, T: Send, Wrap: Fn(Change<V>) -> T + Send + Sync> Feed<V> for Channel<T, Wrap> {
    fn hand_on(&self, change: Change<V>) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let message = (self.wrap)(change);
        // It fails only if nobody listens any more.
        Box::pin(async move { drop(self.sender.send(message).await) })
    }
}

/// Waits for news of an informer; see [`Informer::changes`](super::Informer::changes).
#[derive(Clone, Debug)]
pub struct Changes(pub(super) watched::Receiver<Progress>);

impl Changes {
    /// Returns when the informer has come further than when this was last asked. Safe to drop.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // The informer is gone, and with it all news.
            std::future::pending::<()>().await;
        }
    }

    /// Returns when everything has been listed once, and handed on. Safe to drop.
    pub async fn synced(&mut self) {
        if self.0.wait_for(|progress| progress.synced).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
