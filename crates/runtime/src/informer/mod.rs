//! Informers: a complete initial list, then a watch that is renewed forever.
//!
//! Controllers share an informer, which adds keys to each controller's queue. After losing its position, because the
//! server has compacted the history, an informer relists and computes the changes itself, so no deletion is missed.

mod event;
mod feed;
mod labels;
mod metadata;
mod page;
mod reflector;
mod selection;
mod store;
#[cfg(test)]
mod tests;
mod view;

use std::any::Any;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use coracle_base::{Rng, watched};
use kube::Client;
use tokio::sync::mpsc;

pub use feed::Changes;
pub use labels::Labels;
pub use metadata::{ObjectMetadata, OwnerReference, PartialObject, rfc3339, timestamp};
pub use page::Listed;
pub use reflector::Consumer;
pub use selection::Selection;
pub use store::{Change, IndexFn, Store};
pub use view::{Metadata, MetadataOnly, View};

use crate::key::{ClusterId, ObjectKey};
use crate::queue::{Priority, Queue};
use feed::{Channel, Feed};
pub(crate) use reflector::Reflector;

/// Progress of an informer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The initial list has been attempted at least once.
    pub(crate) attempted: bool,
    /// The initial list has been delivered.
    pub(crate) synced: bool,
    /// All changes up to this revision have been delivered to every queue.
    pub(crate) revision: u64,
}

/// Maps a change to the keys to enqueue.
pub(crate) type KeysOf<V> = Box<dyn Fn(&Change<V>) -> Vec<ObjectKey> + Send + Sync>;

/// A shared informer. Clones are the same informer.
pub struct Informer<V> {
    reflector: Arc<Reflector<SharedState<V>>>,
}

impl<V> Clone for Informer<V> {
    fn clone(&self) -> Self {
        Self { reflector: Arc::clone(&self.reflector) }
    }
}

/// The cache of an informer, and the queues and channels to which it delivers changes.
pub(crate) struct SharedState<V> {
    store: Store<V>,
    listeners: RwLock<Vec<(Queue<ObjectKey>, KeysOf<V>)>>,
    feeds: RwLock<Vec<Arc<dyn Feed<V>>>>,
}

impl<V: View> Informer<V> {
    pub(crate) fn new(cluster: ClusterId, selection: Selection) -> Self {
        let state =
            SharedState { store: Store::new(), listeners: RwLock::default(), feeds: RwLock::default() };
        Self { reflector: Arc::new(Reflector::new(cluster, selection, state)) }
    }

    /// The cache. It lags behind the server by the delay of the watch.
    pub fn store(&self) -> &Store<V> {
        &self.reflector.consumer.store
    }

    /// True after the initial list, so that an object missing in the cache did not exist.
    pub fn has_synced(&self) -> bool {
        self.reflector.progress.borrow().synced
    }

    /// Total time without a watch, because the server was unreachable. A controller that interprets silence, such as
    /// missing heartbeats, must subtract it.
    pub fn disconnected_for(&self) -> Duration {
        self.reflector.disconnected_for()
    }

    /// Subscribes to the informer's progress.
    pub(crate) fn progress(&self) -> watched::Receiver<Progress> {
        self.reflector.progress.subscribe()
    }

    /// Returns a handle that waits for changes.
    pub fn changes(&self) -> Changes {
        Changes(self.progress())
    }

    /// Sends every change to a channel, in order, before adding keys to queues. A full channel blocks the informer.
    /// Call this before the informer runs, because objects already in the cache are not sent.
    pub fn feed<T: Send + 'static>(
        &self,
        sender: mpsc::Sender<T>,
        wrap: impl Fn(Change<V>) -> T + Send + Sync + 'static,
    ) {
        let feeds = &self.reflector.consumer.feeds;
        feeds.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(Channel { sender, wrap }));
    }

    /// Adds keys to `queue` from now on. Call this before the informer runs, because objects already in the cache are
    /// not enqueued.
    pub(crate) fn add_listener(&self, queue: Queue<ObjectKey>, keys_of: KeysOf<V>) {
        let listeners = &self.reflector.consumer.listeners;
        listeners.write().unwrap_or_else(PoisonError::into_inner).push((queue, keys_of));
    }

    pub(crate) fn as_any(&self) -> Arc<dyn AnyReflector> {
        Arc::clone(&self.reflector) as Arc<dyn AnyReflector>
    }

    /// Downcasts to this view's informer; `None` for another view.
    pub(crate) fn from_any(as_any: &Arc<dyn AnyReflector>) -> Option<Self> {
        let any: Arc<dyn Any + Send + Sync> = Arc::clone(as_any) as _;
        any.downcast().ok().map(|reflector| Self { reflector })
    }
}

/// A reflector with its types erased, as the manager holds it.
pub(crate) trait AnyReflector: Any + Send + Sync {
    fn selection(&self) -> &Selection;
    fn progress(&self) -> watched::Receiver<Progress>;
    /// Makes sure that `progress` reaches a revision, even if no object of this kind changes any more.
    fn require(&self, revision: u64);
    /// Marks the progress as complete, for those waiting for it, because nothing more will be delivered.
    fn retire(&self);
    /// Lists into the cache without delivering changes.
    fn list_once(self: Arc<Self>, client: Client) -> Pin<Box<dyn Future<Output = kube::Result<()>> + Send>>;
    /// Lists and watches forever. Safe to drop; a new call starts with a list.
    fn follow(self: Arc<Self>, client: Client, rng: Rng) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

impl<V: View> Consumer for SharedState<V> {
    type Object = V;
    type Listing = Listed<V>;

    async fn page(&self, listing: &mut Listed<V>, page: Listed<V>) {
        listing.add(page);
    }

    async fn complete(&self, listing: Listed<V>) {
        for change in self.store.replace(listing) {
            self.announce(&change, Priority::Low).await;
        }
    }

    async fn complete_quietly(&self, listing: Listed<V>) {
        self.store.replace(listing);
    }

    async fn put(&self, key: ObjectKey, object: V) {
        if let Some(change) = self.store.put(key, object) {
            self.announce(&change, Priority::Normal).await;
        }
    }

    async fn remove(&self, key: ObjectKey, _object: V) {
        if let Some(change) = self.store.remove(&key) {
            self.announce(&change, Priority::Normal).await;
        }
    }

    async fn remove_with_cluster(&self, key: ObjectKey, _object: V) {
        if let Some(change) = self.store.remove_with_cluster(&key) {
            self.announce(&change, Priority::Normal).await;
        }
    }
}

impl<V: View> SharedState<V> {
    async fn announce(&self, change: &Change<V>, priority: Priority) {
        for feed in self.all_feeds() {
            feed.send(change.clone()).await;
        }
        for (queue, keys) in self.keys_for_queues(change) {
            for key in keys {
                queue.add_with(key, priority).await;
            }
        }
    }

    /// Collected first, so that no lock is held while a full channel is waited for.
    fn all_feeds(&self) -> Vec<Arc<dyn Feed<V>>> {
        self.feeds.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Collected first, so that no lock is held while a full queue is waited for.
    fn keys_for_queues(&self, change: &Change<V>) -> Vec<(Queue<ObjectKey>, Vec<ObjectKey>)> {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        listeners.iter().map(|(queue, keys_of)| (queue.clone(), keys_of(change))).collect()
    }
}
