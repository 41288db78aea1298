//! Knowing what is there: one list, then a watch that is renewed for ever.
//!
//! Controllers share an informer; each is told through its queue which keys to look at. An informer that
//! lost track, because the server forgot the history it asked for, lists again and works out itself what
//! changed meanwhile: nobody misses a deletion.

mod event;
mod feed;
mod labels;
mod metadata;
mod page;
mod selection;
mod store;
#[cfg(test)]
mod tests;
mod view;

use std::any::Any;
use std::pin::{Pin, pin};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use coracle_base::{Backoff, Rng};
use futures_util::TryStreamExt;
use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

pub use feed::Changes;
pub use labels::Labels;
pub use metadata::{ObjectMetadata, OwnerReference, PartialObject, timestamp};
pub use selection::Selection;
pub use store::{Change, IndexFn, Store};
pub use view::{Metadata, MetadataOnly, View};

use crate::key::{ClusterId, ObjectKey};
use crate::queue::{Priority, Queue};
use event::Event;
use feed::{Channel, Feed};
use page::{Listed, Page};

/// How long to wait before a server that failed is asked again, at first and at most: as client-go's
/// reflector does (`NewBackoffManager` in `tools/cache/reflector.go`).
const FIRST_RETRY: Duration = Duration::from_millis(800);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// A watch that ends sooner without having told anything is a failure, or a server that ends all watches
/// at once would be asked without pause.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// The code of history that is gone.
const GONE: u16 = 410;

/// How far an informer has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Whether everything has been listed once.
    pub(crate) synced: bool,
    /// Everything up to here has been told to every queue.
    pub(crate) revision: u64,
}

/// Which keys a change makes worth a look.
pub(crate) type KeysOf<V> = Box<dyn Fn(&Change<V>) -> Vec<ObjectKey> + Send + Sync>;

/// An informer. Clones are the same one.
pub struct Informer<V> {
    shared: Arc<Shared<V>>,
}

impl<V> Clone for Informer<V> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

pub(crate) struct Shared<V> {
    cluster: ClusterId,
    selection: Selection,
    store: Store<V>,
    listeners: RwLock<Vec<(Queue<ObjectKey>, KeysOf<V>)>>,
    feeds: RwLock<Vec<Arc<dyn Feed<V>>>>,
    progress: watch::Sender<Progress>,
    /// A revision somebody waits for; see [`Followed::want`].
    wanted: watch::Sender<u64>,
}

impl<V: View> Informer<V> {
    pub(crate) fn new(cluster: ClusterId, selection: Selection) -> Self {
        let shared = Shared {
            cluster,
            selection,
            store: Store::new(),
            listeners: RwLock::default(),
            feeds: RwLock::default(),
            progress: watch::Sender::default(),
            wanted: watch::Sender::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// What is known. It lags behind the server by as much as the watch does.
    pub fn store(&self) -> &Store<V> {
        &self.shared.store
    }

    /// Whether everything has been listed once, so that what is not in the store was not there.
    pub fn has_synced(&self) -> bool {
        self.shared.progress.borrow().synced
    }

    /// How far it has come, as it goes.
    pub(crate) fn progress(&self) -> watch::Receiver<Progress> {
        self.shared.progress.subscribe()
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
        let mut feeds = self.shared.feeds.write().unwrap_or_else(PoisonError::into_inner);
        feeds.push(Arc::new(Channel { sender, wrap }));
    }

    /// Tells `queue` from now on. Only before it runs, or what is known already would not be told.
    pub(crate) fn tell(&self, queue: Queue<ObjectKey>, keys_of: KeysOf<V>) {
        let mut listeners = self.shared.listeners.write().unwrap_or_else(PoisonError::into_inner);
        listeners.push((queue, keys_of));
    }

    pub(crate) fn followed(&self) -> Arc<dyn Followed> {
        Arc::clone(&self.shared) as Arc<dyn Followed>
    }

    /// The same informer under its own type again; none if it is of another one.
    pub(crate) fn from_followed(followed: &Arc<dyn Followed>) -> Option<Self> {
        let any: Arc<dyn Any + Send + Sync> = Arc::clone(followed) as _;
        any.downcast().ok().map(|shared| Self { shared })
    }
}

/// An informer of any kind, as the manager sees it.
pub(crate) trait Followed: Any + Send + Sync {
    fn selection(&self) -> &Selection;
    fn progress(&self) -> watch::Receiver<Progress>;
    /// Makes sure that `progress` reaches a revision, even if nothing of this kind changes any more.
    fn want(&self, revision: u64);
    /// Knows what is there now, and tells nobody.
    fn list_once(self: Arc<Self>, client: Client) -> Pin<Box<dyn Future<Output = kube::Result<()>> + Send>>;
    /// Follows the server, for ever. Safe to drop; started again it lists again.
    fn follow(self: Arc<Self>, client: Client, rng: Rng) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

impl<V: View> Followed for Shared<V> {
    fn selection(&self) -> &Selection {
        &self.selection
    }

    fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    fn want(&self, revision: u64) {
        self.wanted.send_if_modified(|wanted| {
            let more = revision > *wanted;
            *wanted = revision.max(*wanted);
            more
        });
    }

    fn list_once(self: Arc<Self>, client: Client) -> Pin<Box<dyn Future<Output = kube::Result<()>> + Send>> {
        Box::pin(async move {
            let (listed, revision) = self.read_all(&client).await?;
            self.store.replace(listed);
            self.come_to(&revision);
            Ok(())
        })
    }

    fn follow(self: Arc<Self>, client: Client, rng: Rng) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { self.run(&client, rng).await })
    }
}

/// Why a watch is over, and what to do next.
enum Ended {
    /// Its time was up, or somebody ended it.
    Resume { told_anything: bool },
    /// The server does not know what happened since, or somebody wants to know at once.
    ListAgain,
}

impl<V: View> Shared<V> {
    async fn run(&self, client: &Client, rng: Rng) {
        let mut backoff = Backoff::new(FIRST_RETRY, LAST_RETRY, rng);
        let mut position = None;
        loop {
            match self.step(client, &mut position).await {
                Ok(true) => backoff.reset(),
                Ok(false) => tokio::time::sleep(backoff.next_delay()).await,
                Err(error) => {
                    if is_gone(&error) {
                        position = None;
                    }
                    tracing::warn!(path = self.selection.path(), %error, "cannot follow the API; trying again");
                    tokio::time::sleep(backoff.next_delay()).await;
                }
            }
        }
    }

    /// One list, or one watch from `position` to its end. Whether it went well.
    async fn step(&self, client: &Client, position: &mut Option<String>) -> kube::Result<bool> {
        let Some(revision) = position else {
            *position = Some(self.list(client).await?);
            return Ok(true);
        };
        let began = Instant::now();
        match self.watch(client, revision).await? {
            Ended::Resume { told_anything } => Ok(told_anything || began.elapsed() >= SHORT_WATCH),
            Ended::ListAgain => {
                *position = None;
                Ok(true)
            }
        }
    }

    async fn list(&self, client: &Client) -> kube::Result<String> {
        let (listed, revision) = self.read_all(client).await?;
        for change in self.store.replace(listed) {
            self.announce(&change, Priority::Low).await;
        }
        self.come_to(&revision);
        Ok(revision)
    }

    /// Everything there is, and the revision of that.
    async fn read_all(&self, client: &Client) -> kube::Result<(Listed<V>, String)> {
        let mut listed = Listed::default();
        let mut token = None;
        loop {
            let request = self.selection.list(&self.cluster, token.as_deref());
            let request = request.map_err(kube::Error::BuildRequest)?;
            let page = Page::<V>::request(client, &self.cluster, request).await?;
            listed.add(page.listed);
            if page.continue_token.is_empty() {
                return Ok((listed, page.resource_version));
            }
            token = Some(page.continue_token);
        }
    }

    async fn watch(&self, client: &Client, revision: &mut String) -> kube::Result<Ended> {
        let request = self.selection.watch(&self.cluster, revision).map_err(kube::Error::BuildRequest)?;
        let mut events = pin!(event::stream::<V>(client, &self.cluster, request).await?);
        let mut wanted = self.wanted.subscribe();
        let mut told_anything = false;
        loop {
            let seen = self.progress.borrow().revision;
            // Both may be dropped: the list that follows tells what the stream would have told.
            let event = tokio::select! {
                biased;
                event = events.try_next() => event?,
                _ = wanted.wait_for(|wanted| *wanted > seen) => return Ok(Ended::ListAgain),
            };
            let Some(event) = event else { return Ok(Ended::Resume { told_anything }) };
            told_anything = true;
            if self.take_in(event, revision).await?.is_none() {
                return Ok(Ended::ListAgain);
            }
        }
    }

    /// Notes one event and tells everyone; none if the watch is of no use any more.
    async fn take_in(&self, event: Event<V>, revision: &mut String) -> kube::Result<Option<()>> {
        let change = match event {
            Event::There(key, object) => {
                *revision = object.metadata().resource_version.to_string();
                self.store.put(key, object)
            }
            Event::Gone(key, object) => {
                *revision = object.metadata().resource_version.to_string();
                self.store.remove(&key)
            }
            Event::Bookmark(reached) => {
                *revision = reached;
                None
            }
            Event::Error(status) if status.code == GONE => return Ok(None),
            Event::Error(status) => return Err(kube::Error::Api(status)),
        };
        if let Some(change) = change {
            self.announce(&change, Priority::Normal).await;
        }
        self.come_to(revision);
        Ok(Some(()))
    }

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

    /// Revisions are numbers that grow in every Kubernetes there is; one that is none only means that
    /// nobody can wait for it.
    fn come_to(&self, revision: &str) {
        let revision = revision.parse().unwrap_or_default();
        self.progress.send_replace(Progress { synced: true, revision });
    }
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == GONE)
}
