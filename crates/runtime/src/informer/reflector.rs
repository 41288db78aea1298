//! A watch that begins with what there is and is renewed for ever, or a list before it where the server knows no
//! such watch; what is told is handed to a [`Consumer`].

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
use super::{Followed, Progress};
use crate::key::{ClusterId, ObjectKey};

/// How long to wait before a server that failed is asked again, at first and at most: as client-go's
/// reflector does (`NewBackoffManager` in `tools/cache/reflector.go`).
pub(super) const FIRST_RETRY: Duration = Duration::from_millis(800);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// A watch that ends sooner without having told anything is a failure, or a server that ends all watches
/// at once would be asked without pause.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// How long nothing may be told before a revision that somebody waits for is asked for by beginning again. A watch
/// that is busy comes to it by itself, and telling all of many objects costs more.
const QUIET: Duration = Duration::from_millis(5);

/// How long nothing may be told within what there is, before the server is taken for one that takes such a watch for
/// another: it would never say that that was all.
const STATE_PAUSE: Duration = Duration::from_secs(10);

/// The code of history that is gone, and of what is not served.
const GONE: u16 = 410;
const NOT_FOUND: u16 = 404;

/// The codes of servers that do not know watches that begin with what there is.
const UNKNOWN: [u16; 2] = [400, 422];

/// Takes in what the server tells of the objects of one kind: first all there are, page by page or one by one, then
/// each that changes. All may come again at any time, and whatever is lacking then is gone.
///
/// What returns has been taken in: whoever is to look at something has been told by then.
pub trait Consumer: Send + Sync + 'static {
    /// What is kept of an object.
    type Object: View;
    /// What a list gathers from page to page.
    type Listing: Default + Send;

    /// Some of the objects there are. If there are none, this may never be called.
    fn page(
        &self,
        listing: &mut Self::Listing,
        page: Listed<Self::Object>,
    ) -> impl Future<Output = ()> + Send;

    /// The pages so far were all there is.
    fn complete(&self, listing: Self::Listing) -> impl Future<Output = ()> + Send;

    /// As [`Consumer::complete`], but nobody is to be told of it.
    fn complete_quietly(&self, listing: Self::Listing) -> impl Future<Output = ()> + Send {
        self.complete(listing)
    }

    /// An object is new or has changed.
    fn put(&self, key: ObjectKey, object: Self::Object) -> impl Future<Output = ()> + Send;

    /// An object is gone; this is what it was.
    fn remove(&self, key: ObjectKey, object: Self::Object) -> impl Future<Output = ()> + Send;

    /// An object that every cluster begins with is gone because its cluster was deleted. A cluster that is created
    /// later under the same id has it again.
    fn remove_with_cluster(&self, key: ObjectKey, object: Self::Object) -> impl Future<Output = ()> + Send {
        self.remove(key, object)
    }
}

/// Follows what a selection selects, for one consumer.
pub(crate) struct Reflector<C> {
    cluster: ClusterId,
    selection: Selection,
    pub(super) consumer: C,
    pub(super) progress: watched::Sender<Progress>,
    /// A revision somebody waits for; see [`Followed::want`].
    wanted: watched::Sender<u64>,
    /// Whether what there is is listed, and not told by a watch.
    lists: AtomicBool,
    hearing: Mutex<Hearing>,
}

/// Whether changes are heard of.
struct Hearing {
    /// Since when they are not, if that is so.
    deaf_since: Option<Instant>,
    /// For how long that was so before.
    deaf_for: Duration,
}

/// How far it has come with the server.
struct Course {
    /// Everything up to here has been told; none before all there is has been.
    position: Option<String>,
    backoff: Backoff,
}

/// Why a watch is over, and what to do next.
enum Ended {
    /// Its time was up, or somebody ended it.
    Resume { told_anything: bool },
    /// The server does not know what happened since, or somebody wants to know at once.
    BeginAgain,
}

impl<C: Consumer> Followed for Reflector<C> {
    fn selection(&self) -> &Selection {
        &self.selection
    }

    fn progress(&self) -> watched::Receiver<Progress> {
        self.progress.subscribe()
    }

    fn want(&self, revision: u64) {
        self.wanted.send_if_modified(|wanted| {
            let more = revision > *wanted;
            *wanted = revision.max(*wanted);
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
            self.come_to(&revision);
            Ok(())
        })
    }

    fn follow(self: Arc<Self>, client: Client, rng: Rng) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move { self.run(&client, rng).await })
    }
}

impl<C: Consumer> Reflector<C> {
    pub(crate) fn new(cluster: ClusterId, selection: Selection, consumer: C) -> Self {
        let (progress, wanted) = (watched::Sender::default(), watched::Sender::default());
        // What clusters lack of what all begin with is told by lists only.
        let lists = AtomicBool::new(cluster == *ClusterId::all_clusters());
        let hearing = Mutex::new(Hearing { deaf_since: Some(Instant::now()), deaf_for: Duration::ZERO });
        Self { cluster, selection, consumer, progress, wanted, lists, hearing }
    }

    /// For how long altogether it has not been able to hear of changes.
    pub(super) fn deaf_for(&self) -> Duration {
        let hearing = self.hearing();
        hearing.deaf_for + hearing.deaf_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn hears(&self) {
        let mut hearing = self.hearing();
        if let Some(since) = hearing.deaf_since.take() {
            hearing.deaf_for += since.elapsed();
        }
    }

    fn hears_nothing(&self) {
        self.hearing().deaf_since.get_or_insert_with(Instant::now);
        self.progress.send_if_modified(|progress| !std::mem::replace(&mut progress.attempted, true));
    }

    fn hearing(&self) -> MutexGuard<'_, Hearing> {
        self.hearing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self, client: &Client, rng: Rng) {
        let mut course = Course { position: None, backoff: Backoff::new(FIRST_RETRY, LAST_RETRY, rng) };
        loop {
            match self.step(client, &mut course).await {
                Ok(true) => course.backoff.reset(),
                Ok(false) => {
                    self.hears_nothing();
                    tokio::time::sleep(course.backoff.next_delay()).await;
                }
                Err(error) => {
                    if is_gone(&error) {
                        course.position = None;
                    }
                    self.failed(&error);
                    tokio::time::sleep(course.backoff.next_delay()).await;
                }
            }
        }
    }

    fn failed(&self, error: &kube::Error) {
        let path = self.selection.path();
        match error {
            // Kinds go, and whoever follows them hears of it a moment later.
            kube::Error::Api(status) if status.code == NOT_FOUND => {
                tracing::debug!(path, %error, "what is followed is not served");
            }
            _ => tracing::warn!(path, %error, "cannot follow the API; trying again"),
        }
        self.hears_nothing();
    }

    /// One list, or one watch from `position` to its end. Whether it went well.
    async fn step(&self, client: &Client, course: &mut Course) -> kube::Result<bool> {
        if course.position.is_none() && self.lists.load(Ordering::Relaxed) {
            course.position = Some(self.list(client).await?);
            return Ok(true);
        }
        let began = Instant::now();
        match self.watch(client, course).await? {
            Ended::Resume { told_anything } => Ok(told_anything || began.elapsed() >= SHORT_WATCH),
            Ended::BeginAgain => {
                course.position = None;
                Ok(true)
            }
        }
    }

    async fn list(&self, client: &Client) -> kube::Result<String> {
        let (listing, revision) = self.read_all(client).await?;
        self.consumer.complete(listing).await;
        self.come_to(&revision);
        Ok(revision)
    }

    /// Everything there is, and the revision of that.
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

    async fn watch(&self, client: &Client, course: &mut Course) -> kube::Result<Ended> {
        let request = self.selection.watch(&self.cluster, course.position.as_deref());
        let request = request.map_err(kube::Error::BuildRequest)?;
        let events = match event::stream::<C::Object>(client, &self.cluster, request).await {
            Err(kube::Error::Api(status)) if course.position.is_none() && UNKNOWN.contains(&status.code) => {
                return self.list_from_now_on();
            }
            events => events?,
        };
        self.hears();
        let mut events = pin!(events);
        let mut wanted = self.wanted.subscribe();
        let mut told_anything = false;
        let mut listing = C::Listing::default();
        loop {
            let seen = self.progress.borrow().revision;
            // All may be dropped: whatever begins again tells what the stream would have told.
            let event = tokio::select! {
                biased;
                event = events.try_next() => event?,
                () = overdue(&mut wanted, seen), if course.position.is_some() => return Ok(Ended::BeginAgain),
                () = tokio::time::sleep(STATE_PAUSE), if course.position.is_none() => return self.list_from_now_on(),
            };
            let Some(event) = event else { return Ok(Ended::Resume { told_anything }) };
            let Some(revision) = &mut course.position else {
                if self.begin(event, &mut listing, course).await?.is_none() {
                    course.position = Some(self.list(client).await?);
                    return Ok(Ended::Resume { told_anything: true });
                }
                continue;
            };
            if self.take_in(event, revision).await?.is_none() {
                return Ok(Ended::BeginAgain);
            }
            told_anything = true;
            course.backoff.reset();
        }
    }

    /// What the server does not know is not asked for again.
    fn list_from_now_on(&self) -> kube::Result<Ended> {
        self.lists.store(true, Ordering::Relaxed);
        Ok(Ended::BeginAgain)
    }

    /// Hands on some of what there is, until that is all; none if that can only be told by a list.
    async fn begin(
        &self,
        event: Event<C::Object>,
        listing: &mut C::Listing,
        course: &mut Course,
    ) -> kube::Result<Option<()>> {
        match event {
            Event::There(key, object) => self.consumer.page(listing, Listed::one(key, object)).await,
            Event::Complete(revision) => {
                self.consumer.complete(std::mem::take(listing)).await;
                self.come_to(&revision);
                course.position = Some(revision);
                course.backoff.reset();
            }
            Event::Bookmark(_) => {}
            // What was told of it may have been handed on.
            Event::Gone(..) | Event::GoneWithCluster(..) => return Ok(None),
            Event::Error(status) => return Err(kube::Error::Api(status)),
        }
        Ok(Some(()))
    }

    /// Hands on one change; none if the watch is of no use any more.
    async fn take_in(&self, event: Event<C::Object>, revision: &mut String) -> kube::Result<Option<()>> {
        match event {
            Event::There(key, object) => {
                *revision = object.metadata().resource_version.to_string();
                self.consumer.put(key, object).await;
            }
            Event::Gone(key, object) => {
                *revision = object.metadata().resource_version.to_string();
                self.consumer.remove(key, object).await;
            }
            Event::GoneWithCluster(key, object) => {
                *revision = object.metadata().resource_version.to_string();
                self.consumer.remove_with_cluster(key, object).await;
            }
            Event::Bookmark(reached) | Event::Complete(reached) => *revision = reached,
            Event::Error(status) if status.code == GONE => return Ok(None),
            Event::Error(status) => return Err(kube::Error::Api(status)),
        }
        self.come_to(revision);
        Ok(Some(()))
    }

    /// Revisions are numbers that grow in every Kubernetes there is; one that is none only means that
    /// nobody can wait for it.
    fn come_to(&self, revision: &str) {
        let revision = revision.parse().unwrap_or_default();
        self.progress.send_if_modified(|progress| {
            // Whoever was retired stays so.
            let is_retired = progress.revision == u64::MAX;
            if !is_retired {
                *progress = Progress { attempted: true, synced: true, revision };
            }
            !is_retired
        });
    }
}

/// Returns when somebody has waited for a while for more than what was seen.
async fn overdue(wanted: &mut watched::Receiver<u64>, seen: u64) {
    if wanted.wait_for(|wanted| *wanted > seen).await.is_err() {
        // Who could want something is gone, and with it who asks here.
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(QUIET).await;
}

fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == GONE)
}
