//! The reflector: a watch that begins with the initial events (`sendInitialEvents`) and is renewed forever, or a list
//! followed by a watch if the server does not support that. Objects and changes go to a [`Consumer`].

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_base::{Backoff, Rng, watched};
use futures_util::TryStreamExt;
use kube::Client;
use tokio::time::Instant;

use super::event::{self, Event};
use super::page::{Listed, Page};
use super::selection::Selection;
use super::view::View;
use super::{AnyReflector, Progress};
use crate::key::{ClusterId, ObjectKey};

/// First and longest delay before retrying a failed request: those of client-go's reflector (`NewBackoffManager` in
/// `tools/cache/reflector.go`).
pub(super) const FIRST_RETRY: Duration = Duration::from_millis(800);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// A watch that ends sooner than this and without events counts as a failure. Otherwise a server that closes all
/// watches at once would be polled without pause.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// How long a watch must be silent before the reflector relists to reach a required revision. A busy watch reaches it
/// by itself, and relisting many objects costs more.
const RELIST_DELAY: Duration = Duration::from_millis(5);

/// How long a watch may be silent within the initial events before the reflector assumes that the server ignored
/// `sendInitialEvents`, in which case the end of the initial events would never come.
const INITIAL_EVENTS_TIMEOUT: Duration = Duration::from_secs(10);

/// Status codes for compacted history, and for a kind that is not served.
const GONE: u16 = 410;
const NOT_FOUND: u16 = 404;

/// Status codes of servers without `sendInitialEvents`.
const UNSUPPORTED: [u16; 2] = [400, 422];

/// Receives the objects of one kind from a reflector: first all existing objects, in pages or one by one, then each
/// change. The full list may come again at any time, and objects missing in it are deleted.
///
/// When a method returns, the change has been processed: all affected keys have been enqueued.
pub trait Consumer: Send + Sync + 'static {
    /// Cached representation of an object.
    type Object: View;
    /// Accumulates the pages of a list.
    type Listing: Default + Send;

    /// Some of the existing objects. Not called if there are none.
    fn page(
        &self,
        listing: &mut Self::Listing,
        page: Listed<Self::Object>,
    ) -> impl Future<Output = ()> + Send;

    /// The pages so far were the complete list.
    fn complete(&self, listing: Self::Listing) -> impl Future<Output = ()> + Send;

    /// Like [`Consumer::complete`], without enqueuing keys.
    fn complete_quietly(&self, listing: Self::Listing) -> impl Future<Output = ()> + Send {
        self.complete(listing)
    }

    /// An object was added or modified.
    fn put(&self, key: ObjectKey, object: Self::Object) -> impl Future<Output = ()> + Send;

    /// An object was deleted; this is its last state.
    fn remove(&self, key: ObjectKey, object: Self::Object) -> impl Future<Output = ()> + Send;

    /// A bootstrap object was deleted with its cluster. A cluster created later under the same id has it again.
    fn remove_with_cluster(&self, key: ObjectKey, object: Self::Object) -> impl Future<Output = ()> + Send {
        self.remove(key, object)
    }
}

/// Lists and watches the objects of a selection for one consumer.
pub(crate) struct Reflector<C> {
    cluster: ClusterId,
    selection: Selection,
    pub(super) consumer: C,
    pub(super) progress: watched::Sender<Progress>,
    /// Revision to reach; see [`AnyReflector::require`].
    required: watched::Sender<u64>,
    /// True if the server needs a list before a watch.
    lists: AtomicBool,
    connection: Mutex<Connection>,
}

/// State of the connection: with or without an established watch.
struct Connection {
    /// Since when there is no watch, if there is none.
    disconnected_since: Option<Instant>,
    /// Total time without a watch before that.
    disconnected_for: Duration,
}

/// Progress of the list and watch loop.
struct Session {
    /// Resource version up to which everything is delivered; `None` before the initial list is complete.
    position: Option<String>,
    backoff: Backoff,
}

/// Why a watch ended, and how to continue.
enum WatchEnd {
    /// Its timeout expired, or the server closed it.
    Resume { received_events: bool },
    /// The server has compacted the history, or a revision is required at once.
    Relist,
}

impl<C: Consumer> AnyReflector for Reflector<C> {
    fn selection(&self) -> &Selection {
        &self.selection
    }

    fn progress(&self) -> watched::Receiver<Progress> {
        self.progress.subscribe()
    }

    fn require(&self, revision: u64) {
        self.required.send_if_modified(|required| {
            let more = revision > *required;
            *required = revision.max(*required);
            more
        });
    }

    fn retire(&self) {
        self.progress.send_replace(Progress { attempted: true, synced: true, revision: u64::MAX });
    }

    fn list_once(self: Arc<Self>, client: Client) -> Pin<Box<dyn Future<Output = kube::Result<()>> + Send>> {
        Box::pin(async move {
            let (listing, revision) = self.read_all(&client).await?;
            self.consumer.complete_quietly(listing).await;
            self.advance_to(&revision);
            Ok(())
        })
    }

    fn follow(self: Arc<Self>, client: Client, rng: Rng) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { self.run(&client, rng).await })
    }
}

impl<C: Consumer> Reflector<C> {
    pub(crate) fn new(cluster: ClusterId, selection: Selection, consumer: C) -> Self {
        let (progress, required) = (watched::Sender::default(), watched::Sender::default());
        // Only lists report the bootstrap objects that single clusters have deleted.
        let lists = AtomicBool::new(cluster == *ClusterId::all_clusters());
        let connection = Mutex::new(Connection {
            disconnected_since: Some(Instant::now()),
            disconnected_for: Duration::ZERO,
        });
        Self { cluster, selection, consumer, progress, required, lists, connection }
    }

    /// Total time without an established watch.
    pub(super) fn disconnected_for(&self) -> Duration {
        let connection = self.connection();
        connection.disconnected_for
            + connection.disconnected_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn set_connected(&self) {
        let mut connection = self.connection();
        if let Some(since) = connection.disconnected_since.take() {
            connection.disconnected_for += since.elapsed();
        }
    }

    fn set_disconnected(&self) {
        self.connection().disconnected_since.get_or_insert_with(Instant::now);
        self.progress.send_if_modified(|progress| !std::mem::replace(&mut progress.attempted, true));
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self, client: &Client, rng: Rng) {
        let mut session = Session { position: None, backoff: Backoff::new(FIRST_RETRY, LAST_RETRY, rng) };
        loop {
            match self.step(client, &mut session).await {
                Ok(true) => session.backoff.reset(),
                Ok(false) => {
                    self.set_disconnected();
                    tokio::time::sleep(session.backoff.next_delay()).await;
                }
                Err(error) => {
                    if is_gone(&error) {
                        session.position = None;
                    }
                    self.failed(&error);
                    tokio::time::sleep(session.backoff.next_delay()).await;
                }
            }
        }
    }

    fn failed(&self, error: &kube::Error) {
        let path = self.selection.path();
        match error {
            // Kinds may be removed, and the owner of this reflector stops it a moment later.
            kube::Error::Api(status) if status.code == NOT_FOUND => {
                tracing::debug!(path, %error, "the watched kind is not served");
            }
            _ => tracing::warn!(path, %error, "cannot list or watch; retrying"),
        }
        self.set_disconnected();
    }

    /// One list, or one watch from `position` to its end. True if it succeeded.
    async fn step(&self, client: &Client, session: &mut Session) -> kube::Result<bool> {
        if session.position.is_none() && self.lists.load(Ordering::Relaxed) {
            session.position = Some(self.list(client).await?);
            return Ok(true);
        }
        let began = Instant::now();
        match self.watch(client, session).await? {
            WatchEnd::Resume { received_events } => Ok(received_events || began.elapsed() >= SHORT_WATCH),
            WatchEnd::Relist => {
                session.position = None;
                Ok(true)
            }
        }
    }

    async fn list(&self, client: &Client) -> kube::Result<String> {
        let (listing, revision) = self.read_all(client).await?;
        self.consumer.complete(listing).await;
        self.advance_to(&revision);
        Ok(revision)
    }

    /// Lists all pages and returns the revision of the list.
    async fn read_all(&self, client: &Client) -> kube::Result<(C::Listing, String)> {
        let (mut listing, mut token) = (C::Listing::default(), None);
        loop {
            let request = self.selection.list(&self.cluster, token.as_deref());
            let request = request.map_err(kube::Error::BuildRequest)?;
            let page = Page::request(client, &self.cluster, request).await?;
            self.consumer.page(&mut listing, page.listed).await;
            if page.continue_token.is_empty() {
                return Ok((listing, page.resource_version));
            }
            token = Some(page.continue_token);
        }
    }

    async fn watch(&self, client: &Client, session: &mut Session) -> kube::Result<WatchEnd> {
        let request = self.selection.watch(&self.cluster, session.position.as_deref());
        let request = request.map_err(kube::Error::BuildRequest)?;
        let events = match event::stream::<C::Object>(client, &self.cluster, request).await {
            Err(kube::Error::Api(status))
                if session.position.is_none() && UNSUPPORTED.contains(&status.code) =>
            {
                return self.switch_to_lists();
            }
            events => events?,
        };
        self.set_connected();
        let mut events = pin!(events);
        let mut required = self.required.subscribe();
        let mut received_events = false;
        let mut listing = C::Listing::default();
        loop {
            let seen = self.progress.borrow().revision;
            // All branches are safe to drop: the next watch or list delivers what the stream would have delivered.
            let event = tokio::select! {
                biased;
                event = events.try_next() => event?,
                () = relist_due(&mut required, seen), if session.position.is_some() => return Ok(WatchEnd::Relist),
                () = tokio::time::sleep(INITIAL_EVENTS_TIMEOUT), if session.position.is_none() => {
                    return self.switch_to_lists();
                }
            };
            let Some(event) = event else { return Ok(WatchEnd::Resume { received_events }) };
            let Some(revision) = &mut session.position else {
                if self.apply_initial(event, &mut listing, session).await?.is_none() {
                    session.position = Some(self.list(client).await?);
                    return Ok(WatchEnd::Resume { received_events: true });
                }
                continue;
            };
            if self.apply(event, revision).await?.is_none() {
                return Ok(WatchEnd::Relist);
            }
            received_events = true;
            session.backoff.reset();
        }
    }

    /// The server does not support `sendInitialEvents`, so it is not tried again.
    fn switch_to_lists(&self) -> kube::Result<WatchEnd> {
        self.lists.store(true, Ordering::Relaxed);
        Ok(WatchEnd::Relist)
    }

    /// Delivers one of the initial events. Returns `None` if only a list can deliver a consistent state.
    async fn apply_initial(
        &self,
        event: Event<C::Object>,
        listing: &mut C::Listing,
        session: &mut Session,
    ) -> kube::Result<Option<()>> {
        match event {
            Event::Applied(key, object) => self.consumer.page(listing, Listed::one(key, object)).await,
            Event::InitialEventsEnd(revision) => {
                self.consumer.complete(std::mem::take(listing)).await;
                self.advance_to(&revision);
                session.position = Some(revision);
                session.backoff.reset();
            }
            Event::Bookmark(_) => {}
            // The object may have been delivered already.
            Event::Deleted(..) | Event::DeletedWithCluster(..) => return Ok(None),
            Event::Error(status) => return Err(kube::Error::Api(status)),
        }
        Ok(Some(()))
    }

    /// Delivers one change. Returns `None` if the watch cannot continue.
    async fn apply(&self, event: Event<C::Object>, revision: &mut String) -> kube::Result<Option<()>> {
        match event {
            Event::Applied(key, object) => {
                *revision = object.metadata().resource_version.to_string();
                self.consumer.put(key, object).await;
            }
            Event::Deleted(key, object) => {
                *revision = object.metadata().resource_version.to_string();
                self.consumer.remove(key, object).await;
            }
            Event::DeletedWithCluster(key, object) => {
                *revision = object.metadata().resource_version.to_string();
                self.consumer.remove_with_cluster(key, object).await;
            }
            Event::Bookmark(reached) | Event::InitialEventsEnd(reached) => *revision = reached,
            Event::Error(status) if status.code == GONE => return Ok(None),
            Event::Error(status) => return Err(kube::Error::Api(status)),
        }
        self.advance_to(revision);
        Ok(Some(()))
    }

    /// All Kubernetes servers use growing numbers as resource versions. A version that is not a number only means
    /// that no one can wait for it.
    fn advance_to(&self, revision: &str) {
        let revision = revision.parse().unwrap_or_default();
        self.progress.send_if_modified(|progress| {
            // A retired reflector stays retired.
            let is_retired = progress.revision == u64::MAX;
            if !is_retired {
                *progress = Progress { attempted: true, synced: true, revision };
            }
            !is_retired
        });
    }
}

/// Returns when a revision beyond `seen` has been required for [`RELIST_DELAY`].
async fn relist_due(required: &mut watched::Receiver<u64>, seen: u64) {
    if required.wait_for(|required| *required > seen).await.is_err() {
        // The sender is gone: no revision will be required any more.
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(RELIST_DELAY).await;
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == GONE)
}
