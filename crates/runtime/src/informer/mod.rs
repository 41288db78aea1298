//! Knowing what is there: all of it once, then a watch that is renewed for ever.
//!
//! Controllers share an informer; each is told through its queue which keys to look at. An informer that
//! lost track, because the server forgot the history it asked for, lists again and works out itself what
//! changed meanwhile: nobody misses a deletion.

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

/// How far an informer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Whether it has been tried once to learn of everything.
    pub(crate) attempted: bool,
    /// Whether everything has been told once.
    pub(crate) synced: bool,
    /// Everything up to here has been told to every queue.
    pub(crate) revision: u64,
}

/// Which keys a change makes worth a look.
pub(crate) type KeysOf<V> = Box<dyn Fn(&Change<V>) -> Vec<ObjectKey> + Send + Sync>;

/// An informer. Clones are the same one.
pub struct Informer<V> {
    reflector: Arc<Reflector<Known<V>>>,
}

impl<V> Clone for Informer<V> {
    fn clone(&self) -> Self {
        Self { reflector: Arc::clone(&self.reflector) }
    }
}

/// What an informer knows, and whom it tells.
pub(crate) struct Known<V> {
    store: Store<V>,
    listeners: RwLock<Vec<(Queue<ObjectKey>, KeysOf<V>)>>,
    feeds: RwLock<Vec<Arc<dyn Feed<V>>>>,
}

impl<V: View> Informer<V> {
    pub(crate) fn new(cluster: ClusterId, selection: Selection) -> Self {
        let known = Known { store: Store::new(), listeners: RwLock::default(), feeds: RwLock::default() };
        Self { reflector: Arc::new(Reflector::new(cluster, selection, known)) }
    }

    /// What is known. It lags behind the server by as much as the watch does.
    pub fn store(&self) -> &Store<V> {
        &self.reflector.consumer.store
    }

    /// Whether everything has been listed once, so that what is not in the store was not there.
    pub fn has_synced(&self) -> bool {
        self.reflector.progress.borrow().synced
    }

    /// For how long altogether it has not been able to hear of changes, because it could not reach the server.
    /// Whoever takes silence for a sign must know whose it is.
    pub fn deaf_for(&self) -> Duration {
        self.reflector.deaf_for()
    }

    /// How far it has come, as it goes.
    pub(crate) fn progress(&self) -> watched::Receiver<Progress> {
        self.reflector.progress.subscribe()
    }

    /// Waits for news.
    pub fn changes(&self) -> Changes {
        Changes(self.progress())
    }

    /// Hands every change on to a channel, in order, before queues are told. A full channel makes it wait.
    /// Only before it runs, or what is known already would not be handed on.
    pub fn feed<T: Send + 'static>(
        &self,
        sender: mpsc::Sender<T>,
        wrap: impl Fn(Change<V>) -> T + Send + Sync + 'static,
    ) {
        let feeds = &self.reflector.consumer.feeds;
        feeds.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(Channel { sender, wrap }));
    }

    /// Tells `queue` from now on. Only before it runs, or what is known already would not be told.
    pub(crate) fn tell(&self, queue: Queue<ObjectKey>, keys_of: KeysOf<V>) {
        let listeners = &self.reflector.consumer.listeners;
        listeners.write().unwrap_or_else(PoisonError::into_inner).push((queue, keys_of));
    }

    pub(crate) fn followed(&self) -> Arc<dyn Followed> {
        Arc::clone(&self.reflector) as Arc<dyn Followed>
    }

    /// The same informer under its own type again; none if it is of another one.
    pub(crate) fn from_followed(followed: &Arc<dyn Followed>) -> Option<Self> {
        let any: Arc<dyn Any + Send + Sync> = Arc::clone(followed) as _;
        any.downcast().ok().map(|reflector| Self { reflector })
    }
}

/// What follows a kind, as the manager sees it.
pub(crate) trait Followed: Any + Send + Sync {
    fn selection(&self) -> &Selection;
    fn progress(&self) -> watched::Receiver<Progress>;
    /// Makes sure that `progress` reaches a revision, even if nothing of this kind changes any more.
    fn want(&self, revision: u64);
    /// Says that nothing more will be told, to whoever waits for it.
    fn retire(&self);
    /// Knows what is there now, and tells nobody.
    fn list_once(self: Arc<Self>, client: Client) -> Pin<Box<dyn Future<Output = kube::Result<()>> + Send>>;
    /// Follows the server, for ever. Safe to drop; started again it begins anew.
    fn follow(self: Arc<Self>, client: Client, rng: Rng) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

impl<V: View> Consumer for Known<V> {
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

impl<V: View> Known<V> {
    async fn announce(&self, change: &Change<V>, priority: Priority) {
        for feed in self.all_feeds() {
            feed.hand_on(change.clone()).await;
        }
        for (queue, keys) in self.keys_for_queues(change) {
            for key in keys {
                queue.add_with(key, priority).await;
            }
        }
    }

    /// Collected first: no lock is held while a full channel is waited for.
    fn all_feeds(&self) -> Vec<Arc<dyn Feed<V>>> {
        self.feeds.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Collected first: no lock is held while a full queue is waited for.
    fn keys_for_queues(&self, change: &Change<V>) -> Vec<(Queue<ObjectKey>, Vec<ObjectKey>)> {
        let listeners = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        listeners.iter().map(|(queue, keys_of)| (queue.clone(), keys_of(change))).collect()
    }
}
