//! The manager: owns the shared informers, controllers and runnables of one client, and their tasks.

use std::any::Any;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use coracle_base::{Clock, Metrics, Rng, Task, TaskError};
use futures_util::future::join_all;
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::controller::{Action, Controller};
use crate::dynamic::DynamicReflectors;
use crate::idle::Idle;
use crate::informer::{AnyReflector, Informer, Selection, View};
use crate::key::{ClusterId, ObjectKey};
use crate::metrics::Workqueues;
use crate::recorder::{Events, EventsRecorder, Recorder};
use crate::runnable::Runnable;

/// How long reconciles in flight may take when the manager stops. After that they are aborted, as they would be by a
/// crash.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Error of [`Manager::reconcile_once`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReconcileError {
    /// No controller has this name.
    #[error("no controller is named {0:?}")]
    Unknown(String),
    /// Listing the objects of an informer failed.
    #[error("cannot list objects")]
    List(#[from] kube::Error),
    /// The reconcile failed.
    #[error("{0}")]
    Failed(String),
}

/// Runs controllers against one cluster, or against all clusters of a server.
pub struct Manager {
    client: Client,
    cluster: ClusterId,
    clock: Clock,
    host_name: Arc<str>,
    rng: Rng,
    informers: Vec<Arc<dyn AnyReflector>>,
    controllers: Vec<Controller>,
    runnables: Vec<Box<dyn Runnable>>,
    dynamic: DynamicReflectors,
    shared: Vec<Arc<dyn Any + Send + Sync>>,
    events: Events,
    metrics: Metrics,
    workqueues: Workqueues,
}

impl Manager {
    /// Creates a manager without controllers.
    pub fn new(client: Client, cluster: ClusterId) -> Self {
        let metrics = Metrics::default();
        Self {
            client,
            cluster,
            clock: Clock::system(),
            host_name: "localhost".into(),
            rng: Rng::from_entropy(),
            informers: Vec::new(),
            controllers: Vec::new(),
            runnables: Vec::new(),
            dynamic: DynamicReflectors::default(),
            shared: Vec::new(),
            events: Events::new(),
            workqueues: Workqueues::new(&metrics),
            metrics,
        }
    }

    /// Creates a manager for all clusters of a server, with one watch per kind for all of them. Only Coracle's API
    /// supports this, and only for its operator.
    pub fn all_clusters(client: Client) -> Self {
        Self::new(client, ClusterId::all_clusters().clone())
    }

    /// Takes the timestamps of events from this clock instead of the system's.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Sets the host name that events of `events.k8s.io` report. Call this before adding anything.
    #[must_use]
    pub fn with_host_name(self, host_name: impl Into<Arc<str>>) -> Self {
        Self { host_name: host_name.into(), ..self }
    }

    /// Draws delays and all other random numbers from `rng` instead of the system's randomness, so that a test can
    /// reproduce them. Call this before adding anything.
    #[must_use]
    pub fn with_rng(self, rng: Rng) -> Self {
        Self { rng, ..self }
    }

    /// Forks the manager's randomness for a component that is added.
    pub fn rng(&mut self) -> Rng {
        self.rng.fork()
    }

    /// The cluster whose objects are watched.
    pub fn cluster(&self) -> &ClusterId {
        &self.cluster
    }

    /// The client that controllers use.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the informer of these objects. Calls with the same selection and view share one informer.
    pub fn informer<V: View>(&mut self, selection: Selection) -> Informer<V> {
        let same = |known: &&Arc<dyn AnyReflector>| *known.selection() == selection;
        if let Some(known) = self.informers.iter().filter(same).find_map(Informer::from_any) {
            return known;
        }
        let informer = Informer::new(self.cluster.clone(), selection);
        self.informers.push(informer.as_any());
        informer
    }

    /// Returns the set of reflectors for kinds that come and go while the manager runs.
    pub fn dynamic(&self) -> DynamicReflectors {
        self.dynamic.clone()
    }

    /// Returns a component that several controllers share and that is not an informer. The first call creates it.
    pub fn shared<T: Send + Sync + 'static>(&mut self, make: impl FnOnce(&mut Self) -> Arc<T>) -> Arc<T> {
        self.existing().unwrap_or_else(|| {
            let created = make(self);
            self.shared.push(Arc::clone(&created) as Arc<dyn Any + Send + Sync>);
            created
        })
    }

    /// Returns the value that [`Manager::shared`] has created for another controller, if there is one.
    pub fn existing<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.shared.iter().find_map(|shared| Arc::clone(shared).downcast().ok())
    }

    /// Returns a recorder of core-group events for a controller of this name.
    pub fn recorder(&self, component: impl Into<Arc<str>>) -> Recorder {
        self.events.recorder(component)
    }

    /// Like [`Manager::recorder`], for `events.k8s.io`, which only a few components of Kubernetes use.
    pub fn events_recorder(&self, controller: impl Into<Arc<str>>) -> EventsRecorder {
        self.events.events_recorder(controller, &self.host_name)
    }

    /// Adds a controller.
    pub fn add(&mut self, controller: Controller) {
        controller.queue().set_rng(self.rng.fork());
        self.workqueues.add(controller.name_of_queue(), controller.queue().clone());
        self.controllers.push(controller);
    }

    /// Adds a component that runs beside the controllers.
    pub fn add_runnable(&mut self, runnable: impl Runnable) {
        self.runnables.push(Box::new(runnable));
    }

    /// Returns the idle detector for everything added so far.
    pub fn idle(&self) -> Idle {
        let quiescence = self.runnables.iter().map(|runnable| runnable.quiescence()).collect();
        let queues = self.controllers.iter().map(|controller| controller.queue().clone()).collect();
        let (informers, dynamic) = (self.informers.clone(), self.dynamic.clone());
        Idle::new(self.client.clone(), informers, dynamic, queues, quiescence, self.events.waiting())
    }

    /// Registry in which everything that is added declares its metrics. The work queues declare theirs in it, too.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Lists all informers, then reconciles one key once with one controller. For tests of a controller: nothing else
    /// runs, and nothing is retried.
    ///
    /// # Errors
    /// If the server does not answer, no controller has this name, or the reconcile fails.
    pub async fn reconcile_once(&self, controller: &str, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let known = self.controllers.iter().find(|known| known.name() == controller);
        let known = known.ok_or_else(|| ReconcileError::Unknown(controller.to_owned()))?;
        for informer in &self.informers {
            informer.clone().list_once(self.client.clone()).await?;
        }
        known.reconcile_once(key).await.map_err(ReconcileError::Failed)
    }

    /// Runs until `stop` is cancelled, then lets reconciles in flight finish. Returns earlier only if one of its own
    /// tasks ended, which is logged. Dropping the future ends everything at once.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut informers: Vec<Task<()>> =
            self.informers.iter().map(|followed| follow(followed, &self.client, self.rng.fork())).collect();
        informers.push(Task::spawn("events", self.events.write(self.client.clone(), self.clock)));
        informers
            .push(Task::spawn("dynamic informers", self.dynamic.run(self.client.clone(), self.rng.fork())));
        let stopping = stop.child_token();
        let start = |controller| start_workers(controller, &self.client, &stopping);
        let mut workers: Vec<Task<()>> = self.controllers.iter().flat_map(start).collect();
        workers.extend(self.runnables.into_iter().map(|runnable| start_runnable(runnable, &stopping)));
        tokio::select! {
            // Both branches are safe to drop: they only wait. `stop` comes first, because it makes the workers end.
            biased;
            () = stop.cancelled() => {}
            (name, error) = first_ended(&mut informers, &mut workers) => {
                tracing::error!(task = name, error, "a task of the manager ended");
            }
        }
        // Workers that are stopping need no more changes.
        drop(informers);
        stopping.cancel();
        for controller in &self.controllers {
            controller.queue().close();
        }
        if tokio::time::timeout(STOP_GRACE, join_all(workers)).await.is_err() {
            tracing::warn!("controllers did not stop within 10 s; aborting them");
        }
    }
}

fn follow(followed: &Arc<dyn AnyReflector>, client: &Client, rng: Rng) -> Task<()> {
    Task::spawn("informer", Arc::clone(followed).follow(client.clone(), rng))
}

fn start_workers(controller: &Controller, client: &Client, stop: &CancellationToken) -> Vec<Task<()>> {
    controller.work(client, stop).into_iter().map(|work| Task::spawn(controller.name(), work)).collect()
}

fn start_runnable(runnable: Box<dyn Runnable>, stop: &CancellationToken) -> Task<()> {
    Task::spawn(runnable.name(), runnable.run(stop.clone()))
}

/// Waits until one of the tasks ends, which none does while the manager runs, and removes it.
async fn first_ended(informers: &mut Vec<Task<()>>, workers: &mut Vec<Task<()>>) -> (&'static str, String) {
    poll_fn(|cx| {
        for tasks in [&mut *informers, &mut *workers] {
            for index in 0..tasks.len() {
                let name = tasks[index].name();
                if let Poll::Ready(ended) = Pin::new(&mut tasks[index]).poll(cx) {
                    // A task that returned its result must not be polled again.
                    drop(tasks.swap_remove(index));
                    return Poll::Ready((name, reason(ended)));
                }
            }
        }
        Poll::Pending
    })
    .await
}

fn reason(ended: Result<(), TaskError>) -> String {
    ended.map_or_else(|error| error.to_string(), |()| "the task returned early".to_owned())
}
