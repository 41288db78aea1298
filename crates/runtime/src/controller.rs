//! A controller: its watches, its queue, and the workers that reconcile its keys.

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

/// Number of keys that a controller reconciles concurrently by default.
const DEFAULT_WORKERS: usize = 1;

/// When to reconcile a key again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Only after the next change.
    AwaitChange,
    /// After this time, or earlier if something changes.
    RequeueAfter(Duration),
}

/// Brings the cluster's state closer to the desired state, for one key.
///
/// A reconcile depends on the current state only, not on the event that triggered it, and may be called at any time.
/// A failure or a panic is logged and retried with exponential backoff.
pub trait Reconcile: Send + Sync + 'static {
    /// Error of a reconcile.
    type Error: Error + Send + Sync;

    /// Reconciles `key`.
    fn reconcile(&self, key: &ObjectKey) -> impl Future<Output = Result<Action, Self::Error>> + Send;
}

type Reconciled<'a> = Pin<Box<dyn Future<Output = Result<Action, String>> + Send + 'a>>;

/// [`Reconcile`] with its types erased.
trait AnyReconcile: Send + Sync {
    fn reconcile<'a>(&'a self, key: &'a ObjectKey) -> Reconciled<'a>;
}

impl<R: Reconcile> AnyReconcile for R {
    fn reconcile<'a>(&'a self, key: &'a ObjectKey) -> Reconciled<'a> {
        Box::pin(async move { Reconcile::reconcile(self, key).await.map_err(|error| chain(&error)) })
    }
}

/// A task of a controller that runs until it is stopped.
type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A controller, to be added to a [`Manager`](crate::Manager).
pub struct Controller {
    name: &'static str,
    queue_name: &'static str,
    workers: usize,
    queue: Queue<ObjectKey>,
    watched: Vec<watched::Receiver<Progress>>,
    start_conditions: Vec<watched::Receiver<bool>>,
    value_watches: Vec<Box<dyn Fn() -> Work + Send + Sync>>,
    reconcile: Arc<dyn AnyReconcile>,
}

impl Controller {
    /// Creates a controller without watches. The name appears in logs and metrics.
    pub fn new(name: &'static str, reconcile: impl Reconcile) -> Self {
        Self {
            name,
            queue_name: name,
            workers: DEFAULT_WORKERS,
            // [`Manager::add`](crate::Manager::add) replaces this seed.
            queue: Queue::new(Rng::seeded(0)),
            watched: Vec::new(),
            start_conditions: Vec::new(),
            value_watches: Vec::new(),
            reconcile: Arc::new(reconcile),
        }
    }

    /// Enqueues `keys_of` every change of the informer. Reconciling starts only after the informer has synced.
    #[must_use]
    pub fn watches<V: View, Keys: IntoIterator<Item = ObjectKey>>(
        mut self,
        informer: &Informer<V>,
        keys_of: impl Fn(&Change<V>) -> Keys + Send + Sync + 'static,
    ) -> Self {
        let keys_of = Box::new(move |change: &Change<V>| keys_of(change).into_iter().collect());
        informer.add_listener(self.queue.clone(), keys_of);
        self.watched.push(informer.as_any().progress());
        self
    }

    /// Enqueues `keys` whenever a value outside the API changes, such as a setting.
    #[must_use]
    pub fn watches_value<T: Send + Sync + 'static, Keys: IntoIterator<Item = ObjectKey>>(
        mut self,
        setting: &watch::Receiver<T>,
        keys: impl Fn() -> Keys + Send + Sync + 'static,
    ) -> Self {
        let (queue, setting) = (self.queue.clone(), setting.clone());
        let keys = Arc::new(move || keys().into_iter().collect::<Vec<_>>());
        self.value_watches.push(Box::new(move || {
            let (queue, mut setting, keys) = (queue.clone(), setting.clone(), Arc::clone(&keys));
            Box::pin(async move {
                while setting.changed().await.is_ok() {
                    for key in keys() {
                        queue.add(key).await;
                    }
                }
                // The sender is gone: the value never changes again.
                std::future::pending().await
            })
        }));
        self
    }

    /// Starts reconciling only once this value is true.
    #[must_use]
    pub fn starts_after(mut self, ready: watched::Receiver<bool>) -> Self {
        self.start_conditions.push(ready);
        self
    }

    /// Sets the `name` label of the queue in metrics, if it differs from the controller's name.
    #[must_use]
    pub fn queue_name(self, queue_name: &'static str) -> Self {
        Self { queue_name, ..self }
    }

    /// Caps the backoff of failed keys, for reconciles that must not be late.
    #[must_use]
    pub fn retry_within(self, longest: Duration) -> Self {
        self.queue.retry_within(longest);
        self
    }

    /// Sets the number of keys reconciled concurrently. The same key is never reconciled concurrently.
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

    /// The controller's queue, for sources of keys other than informers.
    pub fn queue(&self) -> &Queue<ObjectKey> {
        &self.queue
    }

    /// Reconciles one key without the queue.
    pub(crate) async fn reconcile_once(&self, key: &ObjectKey) -> Result<Action, String> {
        self.reconcile.reconcile(key).await
    }

    /// The tasks of the controller, which run until `stop` and then finish the reconciles in flight.
    pub(crate) fn work(&self, client: &Client, stop: &CancellationToken) -> Vec<Work> {
        let value_watches = self.value_watches.iter().map(|watch| {
            let (watching, stop) = (watch(), stop.clone());
            Box::pin(async move { stop.run_until_cancelled(watching).await.unwrap_or_default() }) as Work
        });
        value_watches.chain((0..self.workers).map(|_| self.worker(client, stop))).collect()
    }

    fn worker(&self, client: &Client, stop: &CancellationToken) -> Work {
        let (name, queue, stop) = (self.name, self.queue.clone(), stop.clone());
        let client = client.clone();
        let (watched, start_conditions) = (self.watched.clone(), self.start_conditions.clone());
        let reconcile = Arc::clone(&self.reconcile);
        Box::pin(async move {
            if stop.run_until_cancelled(all_ready(watched, start_conditions)).await.is_none() {
                return;
            }
            while let Some(Some(taken)) = stop.run_until_cancelled(queue.take()).await {
                let mut outcome = attempt(name, &*reconcile, taken.key()).await;
                if outcome == Outcome::Failed && is_deleted(&client, taken.key().cluster()).await {
                    tracing::debug!(controller = name, key = %taken.key(), "not retrying: the cluster is deleted");
                    outcome = Outcome::Done;
                }
                taken.finish(outcome);
            }
        })
    }
}

async fn all_ready(
    watched: Vec<watched::Receiver<Progress>>,
    start_conditions: Vec<watched::Receiver<bool>>,
) {
    for mut progress in watched {
        // Fails only if the informer is dropped, after which it adds no keys either.
        drop(progress.wait_for(|progress| progress.synced).await);
    }
    for mut ready in start_conditions {
        // Fails only if the sender is dropped.
        drop(ready.wait_for(|ready| *ready).await);
    }
}

/// Reconciles one key and maps errors and panics to [`Outcome::Failed`].
async fn attempt(controller: &'static str, reconcile: &dyn AnyReconcile, key: &ObjectKey) -> Outcome {
    // A panic may leave the controller's own state half updated. It must tolerate that anyway, because the process
    // may end at any point.
    match AssertUnwindSafe(reconcile.reconcile(key)).catch_unwind().await {
        Ok(Ok(Action::AwaitChange)) => Outcome::Done,
        Ok(Ok(Action::RequeueAfter(delay))) => Outcome::After(delay),
        Ok(Err(error)) => {
            tracing::warn!(controller, %key, error, "reconcile failed, retrying");
            Outcome::Failed
        }
        // The panic hook has logged the location.
        Err(_panic) => {
            tracing::error!(controller, %key, "reconcile panicked, retrying");
            Outcome::Failed
        }
    }
}

/// Formats an error with its sources.
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
