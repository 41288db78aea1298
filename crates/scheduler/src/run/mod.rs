//! The task that owns everything: it takes in what informers tell, decides about one pod after the other,
//! and has others do what follows from it.

mod attempt;
mod cluster;
mod clusters;
mod effects;
mod message;
#[cfg(test)]
mod tests;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use coracle_base::{Clock, Task, TaskError};
use coracle_runtime::{Activity, ClusterId, Manager, Objects, Program, informer};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1 as core;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::framework::Profile;
use crate::plugins::{self, VolumeWriter, Writers};
use crate::queue::Backoff;
use clusters::Clusters;
use effects::{Effects, Finished};
use message::{Message, Surroundings};

/// What has been told and not been taken in. Informers wait when it is full.
const MAX_MESSAGES: usize = 4096;

/// After how many messages a pod has its turn again.
const MESSAGES_AT_A_TIME: usize = 512;

/// After which time a parked pod is tried again whatever happened: upstream's safety net.
const PARKED_AT_MOST: Duration = Duration::from_secs(300);

/// What is told of pods where there is no node at all.
pub(crate) const NO_NODES: &str = "no nodes available to schedule pods";

/// Hands the scheduler to a manager, whose identity must be allowed to bind pods.
pub fn register(manager: &mut Manager, config: &Config, clock: &Clock) {
    let (told, messages) = mpsc::channel(MAX_MESSAGES);
    let informers = message::follow(manager, &told);
    let client = manager.client().clone();
    let pods = Objects::of::<core::Pod>(&client);
    let volumes = VolumeWriter::new(&client, clock.clone(), informers.claims, informers.volumes);
    let writers = Writers { pods: Some(pods.clone()), volumes: Some(volumes) };
    let profiles = config.profiles.iter().map(|profile| plugins::profile(profile, &writers)).collect();
    let backoff = Backoff {
        initial: config.pod_initial_backoff,
        max: config.pod_max_backoff,
        parked_at_most: PARKED_AT_MOST,
    };
    let names = config.profiles.iter().map(|profile| profile.scheduler_name.as_str());
    let recorders = names.map(|name| (name.into(), manager.recorder(name))).collect();
    let rng = manager.rng();
    manager.add_program(Scheduler {
        profiles,
        clusters: Clusters::new(backoff, rng),
        effects: Effects { pods, recorders, clock: clock.clone() },
        clock: clock.clone(),
        told,
        messages,
        following: informers.all,
        surroundings: informers.surroundings,
        knows_all: false,
        max_binding: config.max_binding.max(1),
        in_flight: FuturesUnordered::new(),
        waiting: Vec::new(),
        counts: Arc::default(),
    });
}

/// How much has been done, for who asks.
#[derive(Default)]
struct Counts {
    begun: AtomicU64,
    delayed: AtomicUsize,
}

struct Scheduler {
    profiles: Vec<Profile>,
    clusters: Clusters,
    effects: Effects,
    clock: Clock,
    /// Kept for who asks whether it is at rest.
    told: mpsc::Sender<Message>,
    messages: mpsc::Receiver<Message>,
    following: Vec<informer::Changes>,
    surroundings: Surroundings,
    /// Whether everything has been told once.
    knows_all: bool,
    max_binding: usize,
    in_flight: FuturesUnordered<Task<Finished>>,
    /// Who waits until nothing is left to do.
    waiting: Vec<oneshot::Sender<()>>,
    counts: Arc<Counts>,
}

impl Program for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn activity(&self) -> Box<dyn Activity> {
        Box::new(Watched { told: self.told.clone(), counts: Arc::clone(&self.counts) })
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.work(stop))
    }
}

/// Tells whether the scheduler is at rest.
struct Watched {
    told: mpsc::Sender<Message>,
    counts: Arc<Counts>,
}

impl Activity for Watched {
    fn begun(&self) -> u64 {
        self.counts.begun.load(Ordering::Relaxed)
    }

    fn delayed(&self) -> usize {
        self.counts.delayed.load(Ordering::Relaxed)
    }

    fn quiet(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let (sender, quiet) = oneshot::channel();
            if self.told.send(Message::Quiet(sender)).await.is_ok() {
                // It fails only with the scheduler, and then nothing is done any more.
                drop(quiet.await);
            }
        })
    }
}

/// Returns when everything has been told once.
async fn all_synced(following: Vec<informer::Changes>) {
    for mut informer in following {
        informer.synced().await;
    }
}

impl Scheduler {
    async fn work(mut self: Box<Self>, stop: CancellationToken) {
        let following = std::mem::take(&mut self.following);
        let mut synced = pin!(all_synced(following).fuse());
        while !stop.is_cancelled() {
            self.take_in_waiting();
            if self.knows_all && self.schedule_some() {
                // Others have work to do too.
                tokio::task::yield_now().await;
                continue;
            }
            self.answer();
            let deadline = self.clusters.deadline();
            let clock = self.clock.clone();
            let time = async move {
                match deadline {
                    Some(deadline) => clock.sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // All may be dropped: they only wait, and messages are taken out only when they are handled.
                // In this order, for none can starve: whatever is there is taken in at the top.
                biased;
                () = stop.cancelled() => {}
                message = self.messages.recv() => self.take_in(message),
                Some(finished) = self.in_flight.next() => self.finish(finished),
                () = &mut synced, if !self.knows_all => self.begin(),
                () = time => self.clusters.flush(self.clock.now()),
            }
        }
        // What was begun is finished: a pod that was decided on is bound.
        while let Some(finished) = self.in_flight.next().await {
            self.finish(finished);
        }
    }

    /// Everything has been told once.
    fn begin(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            self.take_in(Some(message));
        }
        let (profiles, now) = (&self.profiles, self.clock.now());
        for id in self.clusters.ids() {
            let surroundings = self.surroundings.of(&id);
            self.clusters.with(&id, |cluster| {
                surroundings.for_each(|message| cluster.take_in(message, profiles, now));
            });
        }
        self.knows_all = true;
    }

    /// Takes in what was told and done, without waiting.
    fn take_in_waiting(&mut self) {
        for _ in 0..MESSAGES_AT_A_TIME {
            match self.messages.try_recv() {
                Ok(message) => self.take_in(Some(message)),
                Err(_) => break,
            }
        }
        while let Some(Some(finished)) = self.in_flight.next().now_or_never() {
            self.finish(finished);
        }
    }

    fn take_in(&mut self, message: Option<Message>) {
        // It never ends, for one sender is here.
        let Some(message) = message else { return };
        match message {
            Message::Quiet(sender) => self.waiting.push(sender),
            message => {
                if let Some(id) = message.cluster().cloned() {
                    self.take_in_at(&id, message);
                }
            }
        }
    }

    /// Takes in what was told of a cluster. One that was not known until now has been told of nothing else.
    fn take_in_at(&mut self, id: &ClusterId, message: Message) {
        let is_new = !self.clusters.knows(id);
        if is_new && !message.begins_cluster() {
            return;
        }
        let surroundings = (is_new && self.knows_all).then(|| self.surroundings.of(id));
        let (profiles, now) = (&self.profiles, self.clock.now());
        self.clusters.with(id, |cluster| {
            let surroundings = surroundings.into_iter().flatten();
            surroundings.chain([message]).for_each(|message| cluster.take_in(message, profiles, now));
        });
    }

    /// Tells those who wait that nothing is left to do, if so.
    fn answer(&mut self) {
        if self.knows_all && self.in_flight.is_empty() && !self.clusters.is_ready() {
            self.counts.delayed.store(self.clusters.delayed(), Ordering::Relaxed);
            for waiting in self.waiting.drain(..) {
                // Whoever has stopped waiting does not mind.
                let _ = waiting.send(());
            }
        }
    }

    /// Decides about pods for about a millisecond. Whether there was one.
    fn schedule_some(&mut self) -> bool {
        let began = self.clock.now();
        let mut any = false;
        while self.in_flight.len() < self.max_binding {
            let now = self.clock.now();
            let Some((id, popped)) = self.clusters.pop(now) else { break };
            self.counts.begun.fetch_add(1, Ordering::Relaxed);
            let (profiles, effects) = (&self.profiles, &self.effects);
            let begun =
                self.clusters.with(&id, |cluster| attempt::schedule(cluster, profiles, effects, popped, now));
            self.in_flight.extend(begun);
            any = true;
            if now != began {
                break;
            }
        }
        any
    }

    fn finish(&mut self, finished: Result<Finished, TaskError>) {
        let now = self.clock.now();
        let (profiles, effects) = (&self.profiles, &self.effects);
        match finished {
            Ok(Finished::Bound { cluster: id, pod, profile, result }) => {
                let told = self.clusters.with(&id, |cluster| match result {
                    Ok(()) => attempt::bound(cluster, profiles, effects, &pod, profile),
                    Err(error) => {
                        attempt::unbound(cluster, profiles, effects, &pod, profile, &error.to_string(), now)
                    }
                });
                self.in_flight.extend(told);
            }
            Ok(Finished::Preempted { cluster, pod, plugins }) => {
                self.clusters.with(&cluster, |cluster| attempt::made_room(cluster, &pod, plugins, now));
            }
            Ok(Finished::Told) => {}
            // The panic hook has said where. A pod it was about stays in flight, and is found again when the
            // scheduler is started anew.
            Err(error) => tracing::error!(%error, "cannot finish what was decided"),
        }
    }
}
