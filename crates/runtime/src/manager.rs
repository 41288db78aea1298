//! Everything that runs for one client: informers, each shared by whoever asks for the same objects, and
//! controllers.

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
use crate::dynamic::Dynamic;
use crate::idle::Idle;
use crate::informer::{Followed, Informer, Selection, View};
use crate::key::{ClusterId, ObjectKey};
use crate::metrics::Workqueues;
use crate::program::Program;
use crate::recorder::{Events, EventsRecorder, Recorder};

/// How long reconciles in flight may take to end when the manager stops. Longer ones are cut off, as they
/// would be by a crash.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Why one key could not be reconciled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReconcileError {
    /// No controller has this name.
    #[error("there is no controller {0:?}")]
    Unknown(String),
    /// It is not known what is there.
    #[error("cannot list what is there")]
    List(#[from] kube::Error),
    /// The controller failed.
    #[error("{0}")]
    Failed(String),
}

/// Runs controllers against one cluster, or against all of a server.
pub struct Manager {
    client: Client,
    cluster: ClusterId,
    clock: Clock,
    host_name: Arc<str>,
    rng: Rng,
    informers: Vec<Arc<dyn Followed>>,
    controllers: Vec<Controller>,
    programs: Vec<Box<dyn Program>>,
    dynamic: Dynamic,
    shared: Vec<Arc<dyn Any + Send + Sync>>,
    events: Events,
    metrics: Metrics,
    workqueues: Workqueues,
}

impl Manager {
    /// A manager that has nothing to do yet.
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
            programs: Vec::new(),
            dynamic: Dynamic::default(),
            shared: Vec::new(),
            events: Events::new(),
            workqueues: Workqueues::new(&metrics),
            metrics,
        }
    }

    /// A manager for all clusters of a server at once, with one watch of a kind for all of them. Only
    /// Coracle's API offers that, and only to its administrators.
    pub fn everywhere(client: Client) -> Self {
        Self::new(client, ClusterId::everywhere().clone())
    }

    /// Reads times in events from another clock than the system's.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Says which machine this is. Events in the form of `events.k8s.io` tell. To be said before anything is
    /// added.
    #[must_use]
    pub fn with_host_name(self, host_name: impl Into<Arc<str>>) -> Self {
        Self { host_name: host_name.into(), ..self }
    }

    /// Draws delays, and whatever else is left to chance, from `rng` instead of the system's randomness, so that
    /// a test can repeat them. To be said before anything is added.
    #[must_use]
    pub fn with_rng(self, rng: Rng) -> Self {
        Self { rng, ..self }
    }

    /// Chance for something that is added.
    pub fn rng(&mut self) -> Rng {
        self.rng.fork()
    }

    /// The cluster whose objects are followed.
    pub fn cluster(&self) -> &ClusterId {
        &self.cluster
    }

    /// The client through which controllers act.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The informer of these objects, one for all who ask with the same view.
    pub fn informer<V: View>(&mut self, selection: Selection) -> Informer<V> {
        let same = |known: &&Arc<dyn Followed>| *known.selection() == selection;
        if let Some(known) = self.informers.iter().filter(same).find_map(Informer::from_followed) {
            return known;
        }
        let informer = Informer::new(self.cluster.clone(), selection);
        self.informers.push(informer.followed());
        informer
    }

    /// What follows kinds that come and go while the manager runs.
    pub fn dynamic(&self) -> Dynamic {
        self.dynamic.clone()
    }

    /// What several controllers use together and is no informer: the first who asks makes it.
    pub fn shared<T: Send + Sync + 'static>(&mut self, make: impl FnOnce(&mut Self) -> Arc<T>) -> Arc<T> {
        self.existing().unwrap_or_else(|| {
            let made = make(self);
            self.shared.push(Arc::clone(&made) as Arc<dyn Any + Send + Sync>);
            made
        })
    }

    /// The value that [`Manager::shared`] has made for another controller, if there is one.
    pub fn existing<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.shared.iter().find_map(|known| Arc::clone(known).downcast().ok())
    }

    /// What tells people of the doings of a controller, under its name.
    pub fn recorder(&self, component: impl Into<Arc<str>>) -> Recorder {
        self.events.recorder(component)
    }

    /// As [`Manager::recorder`], in the form of `events.k8s.io`: for those few components of upstream that use
    /// it.
    pub fn events_recorder(&self, controller: impl Into<Arc<str>>) -> EventsRecorder {
        self.events.events_recorder(controller, &self.host_name)
    }

    /// Adds a controller.
    pub fn add(&mut self, controller: Controller) {
        controller.queue().draw_from(self.rng.fork());
        self.workqueues.add(controller.name_of_queue(), controller.queue().clone());
        self.controllers.push(controller);
    }

    /// Adds something that runs beside the controllers.
    pub fn add_program(&mut self, program: impl Program) {
        self.programs.push(Box::new(program));
    }

    /// What tells whether everything added so far is at rest.
    pub fn idle(&self) -> Idle {
        let activities = self.programs.iter().map(|program| program.activity()).collect();
        let queues = self.controllers.iter().map(|controller| controller.queue().clone()).collect();
        let (informers, dynamic) = (self.informers.clone(), self.dynamic.clone());
        Idle::new(self.client.clone(), informers, dynamic, queues, activities, self.events.waiting())
    }

    /// Where everything that is added declares what it counts. What the queues have to do is told there, too.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Looks at what is there, and lets one controller look at one key, once. For tests of a controller:
    /// nothing else runs, and nothing is tried again.
    ///
    /// # Errors
    /// If the server does not answer, there is no such controller, or it fails.
    pub async fn reconcile_once(&self, controller: &str, key: &ObjectKey) -> Result<Action, ReconcileError> {
        let known = self.controllers.iter().find(|known| known.name() == controller);
        let known = known.ok_or_else(|| ReconcileError::Unknown(controller.to_owned()))?;
        for informer in &self.informers {
            informer.clone().list_once(self.client.clone()).await?;
        }
        known.reconcile_once(key).await.map_err(ReconcileError::Failed)
    }

    /// Runs until `stop`, then lets reconciles in flight end. Returns before only if one of its own tasks
    /// failed, which is logged. Dropped, everything ends at once.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut informers: Vec<Task<()>> =
            self.informers.iter().map(|followed| follow(followed, &self.client, self.rng.fork())).collect();
        informers.push(Task::spawn("events", self.events.write(self.client.clone(), self.clock)));
        informers
            .push(Task::spawn("dynamic informers", self.dynamic.run(self.client.clone(), self.rng.fork())));
        let stopping = stop.child_token();
        let start = |controller| start_workers(controller, &self.client, &stopping);
        let mut workers: Vec<Task<()>> = self.controllers.iter().flat_map(start).collect();
        workers.extend(self.programs.into_iter().map(|program| start_program(program, &stopping)));
        tokio::select! {
            // Both may be dropped: they only wait. Stopping is looked at first, because workers end by it.
            biased;
            () = stop.cancelled() => {}
            (name, error) = first_ended(&mut informers, &mut workers) => {
                tracing::error!(task = name, error, "a task of the manager ended");
            }
        }
        // Nobody needs news any more.
        drop(informers);
        stopping.cancel();
        for controller in &self.controllers {
            controller.queue().close();
        }
        if tokio::time::timeout(STOP_GRACE, join_all(workers)).await.is_err() {
            tracing::warn!("controllers did not stop in time; they are cut off");
        }
    }
}

fn follow(followed: &Arc<dyn Followed>, client: &Client, rng: Rng) -> Task<()> {
    Task::spawn("informer", Arc::clone(followed).follow(client.clone(), rng))
}

fn start_workers(controller: &Controller, client: &Client, stop: &CancellationToken) -> Vec<Task<()>> {
    controller.work(client, stop).into_iter().map(|work| Task::spawn(controller.name(), work)).collect()
}

fn start_program(program: Box<dyn Program>, stop: &CancellationToken) -> Task<()> {
    Task::spawn(program.name(), program.run(stop.clone()))
}

/// Waits until one of the tasks ends, which none does while the manager runs, and forgets it.
async fn first_ended(informers: &mut Vec<Task<()>>, workers: &mut Vec<Task<()>>) -> (&'static str, String) {
    poll_fn(|cx| {
        for tasks in [&mut *informers, &mut *workers] {
            for index in 0..tasks.len() {
                let name = tasks[index].name();
                if let Poll::Ready(ended) = Pin::new(&mut tasks[index]).poll(cx) {
                    // A task that has given its result must not be asked again.
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
    ended.map_or_else(|error| error.to_string(), |()| "it had nothing more to do".to_owned())
}
