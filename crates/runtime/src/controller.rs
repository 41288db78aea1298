//! One controller: what it watches, and the workers that reconcile its keys.

use std::error::Error;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::{Rng, watched};
use futures_util::FutureExt;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::deleted_cluster::is_deleted;
use crate::informer::{Change, Informer, Progress, View};
use crate::key::ObjectKey;
use crate::queue::{Outcome, Queue};

/// How many keys of one controller are worked on at a time, unless it says otherwise.
const DEFAULT_WORKERS: usize = 1;

/// What is to happen to a key after it was reconciled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing, until something changes.
    AwaitChange,
    /// It is looked at again after this time, should nothing change before.
    RequeueAfter(Duration),
}

/// Makes the world as it should be, as far as one key is concerned.
///
/// It looks at what is there now, never at what happened, and may be called again at any time. A failure
/// is logged and tried again with growing delays, and so is a panic.
pub trait Reconcile: Send + Sync + 'static {
    /// What can go wrong.
    type Error: Error + Send + Sync;

    /// Does what is to be done about `key`.
    fn reconcile(&self, key: &ObjectKey) -> impl Future<Output = Result<Action, Self::Error>> + Send;
}

type Reconciled<'a> = Pin<Box<dyn Future<Output = Result<Action, String>> + Send + 'a>>;

/// [`Reconcile`] without its types.
trait AnyReconcile: Send + Sync {
    fn reconcile<'a>(&'a self, key: &'a ObjectKey) -> Reconciled<'a>;
}

impl<R: Reconcile> AnyReconcile for R {
    fn reconcile<'a>(&'a self, key: &'a ObjectKey) -> Reconciled<'a> {
        Box::pin(async move { Reconcile::reconcile(self, key).await.map_err(|error| chain(&error)) })
    }
}

/// Something a controller does beside its work until it is stopped.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A controller, to be handed to a [`Manager`](crate::Manager).
pub struct Controller {
    name: &'static str,
    queue_name: &'static str,
    workers: usize,
    queue: Queue<ObjectKey>,
    watched: Vec<watched::Receiver<Progress>>,
    awaited: Vec<watched::Receiver<bool>>,
    followed: Vec<Box<dyn Fn() -> Work + Send + Sync>>,
    reconcile: Arc<dyn AnyReconcile>,
}

impl Controller {
    /// A controller that watches nothing yet. The name is for logs and metrics.
    pub fn new(name: &'static str, reconcile: impl Reconcile) -> Self {
        Self {
            name,
            queue_name: name,
            workers: DEFAULT_WORKERS,
            // Its manager says what it draws from.
            queue: Queue::new(Rng::seeded(0)),
            watched: Vec::new(),
            awaited: Vec::new(),
            followed: Vec::new(),
            reconcile: Arc::new(reconcile),
        }
    }

    /// Looks at `keys_of` every change of what the informer follows. Nothing is reconciled before the
    /// informer knows everything.
    #[must_use]
    pub fn watches<V: View, Keys: IntoIterator<Item = ObjectKey>>(
        mut self,
        informer: &Informer<V>,
        keys_of: impl Fn(&Change<V>) -> Keys + Send + Sync + 'static,
    ) -> Self {
        let keys_of = Box::new(move |change: &Change<V>| keys_of(change).into_iter().collect());
        informer.tell(self.queue.clone(), keys_of);
        self.watched.push(informer.followed().progress());
        self
    }

    /// Looks at `keys` whenever something changes that is no object of the API, such as a setting.
    #[must_use]
    pub fn follows<T: Send + Sync + 'static, Keys: IntoIterator<Item = ObjectKey>>(
        mut self,
        setting: &watch::Receiver<T>,
        keys: impl Fn() -> Keys + Send + Sync + 'static,
    ) -> Self {
        let (queue, setting) = (self.queue.clone(), setting.clone());
        let keys = Arc::new(move || keys().into_iter().collect::<Vec<_>>());
        self.followed.push(Box::new(move || {
            let (queue, mut setting, keys) = (queue.clone(), setting.clone(), Arc::clone(&keys));
            Box::pin(async move {
                while setting.changed().await.is_ok() {
                    for key in keys() {
                        queue.add(key).await;
                    }
                }
                // It will never change again.
                std::future::pending().await
            })
        }));
        self
    }

    /// Reconciles nothing before this is so.
    #[must_use]
    pub fn awaits(mut self, ready: watched::Receiver<bool>) -> Self {
        self.awaited.push(ready);
        self
    }

    /// What its queue is called in metrics, if not as the controller.
    #[must_use]
    pub fn queue_name(self, queue_name: &'static str) -> Self {
        Self { queue_name, ..self }
    }

    /// Tries again what fails after this time at the latest, for what must not be late.
    #[must_use]
    pub fn retry_within(self, longest: Duration) -> Self {
        self.queue.retry_within(longest);
        self
    }

    /// Works on up to so many keys at a time, never on one key twice.
    #[must_use]
    pub fn workers(self, workers: usize) -> Self {
        Self { workers: workers.max(1), ..self }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn name_of_queue(&self) -> &'static str {
        self.queue_name
    }

    /// What it has to look at, for those who know more than its informers tell.
    pub fn queue(&self) -> &Queue<ObjectKey> {
        &self.queue
    }

    /// Looks at one key, outside of the queue.
    pub(crate) async fn reconcile_once(&self, key: &ObjectKey) -> Result<Action, String> {
        self.reconcile.reconcile(key).await
    }

    /// What each of its workers does until `stop`, when it finishes what it is at.
    pub(crate) fn work(&self, client: &Client, stop: &CancellationToken) -> Vec<Work> {
        let followed = self.followed.iter().map(|follow| {
            let (following, stop) = (follow(), stop.clone());
            Box::pin(async move { stop.run_until_cancelled(following).await.unwrap_or_default() }) as Work
        });
        followed.chain((0..self.workers).map(|_| self.worker(client, stop))).collect()
    }

    fn worker(&self, client: &Client, stop: &CancellationToken) -> Work {
        let (name, queue, stop) = (self.name, self.queue.clone(), stop.clone());
        let client = client.clone();
        let (watched, awaited) = (self.watched.clone(), self.awaited.clone());
        let reconcile = Arc::clone(&self.reconcile);
        Box::pin(async move {
            if stop.run_until_cancelled(all_ready(watched, awaited)).await.is_none() {
                return;
            }
            while let Some(Some(taken)) = stop.run_until_cancelled(queue.take()).await {
                let mut outcome = attempt(name, &*reconcile, taken.key()).await;
                if outcome == Outcome::Failed && is_deleted(&client, taken.key().cluster()).await {
                    tracing::debug!(controller = name, key = %taken.key(), "given up: the cluster is deleted");
                    outcome = Outcome::Done;
                }
                taken.finish(outcome);
            }
        })
    }
}

async fn all_ready(watched: Vec<watched::Receiver<Progress>>, awaited: Vec<watched::Receiver<bool>>) {
    for mut progress in watched {
        // It fails only with its informer, and then nothing will be added either.
        drop(progress.wait_for(|progress| progress.synced).await);
    }
    for mut ready in awaited {
        // It fails only with what would have become ready.
        drop(ready.wait_for(|ready| *ready).await);
    }
}

/// Reconciles one key, whatever may happen.
async fn attempt(controller: &'static str, reconcile: &dyn AnyReconcile, key: &ObjectKey) -> Outcome {
    // Whatever the panic left half done is the controller's own, and it must bear that anyway: the
    // process may end at any point.
    match AssertUnwindSafe(reconcile.reconcile(key)).catch_unwind().await {
        Ok(Ok(Action::AwaitChange)) => Outcome::Done,
        Ok(Ok(Action::RequeueAfter(delay))) => Outcome::After(delay),
        Ok(Err(error)) => {
            tracing::warn!(controller, %key, error, "reconcile failed, retrying");
            Outcome::Failed
        }
        // The panic hook has printed where.
        Err(_panic) => {
            tracing::error!(controller, %key, "reconcile panicked, retrying");
            Outcome::Failed
        }
    }
}

/// An error with everything that caused it.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
