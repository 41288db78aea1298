//! The task that owns everything: it takes in what informers tell, decides about one pod after the other,
//! and has others do what follows from it.

mod attempt;
mod bind_steps;
mod binding;
mod cluster;
mod clusters;
mod effects;
mod message;
#[cfg(test)]
mod permit_tests;
mod start;
#[cfg(test)]
mod tests;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use coracle_base::{Clock, Rng, Task, TaskError};
use coracle_runtime::{ClusterId, Quiescence, Runnable, informer};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::cycle::Trace;
use crate::framework::{Signal, Signals};
use crate::metrics::SAMPLED_PERCENT;
use binding::Unbound;
use cluster::Rules;
use clusters::Clusters;
use effects::{Effects, Finished};
pub(crate) use message::Message;
use message::Surroundings;
pub use start::register;

/// What has been told and not been taken in. Informers wait when it is full.
const MAX_MESSAGES: usize = 4096;

/// After how many messages a pod has its turn again.
const MESSAGES_AT_A_TIME: usize = 512;

/// After which time a parked pod is tried again whatever happened: upstream's safety net.
const PARKED_AT_MOST: Duration = Duration::from_secs(300);

/// What is told of pods where there is no node at all.
pub(crate) const NO_NODES: &str = "no nodes available to schedule pods";

/// How much has been done, for who asks.
#[derive(Default)]
struct Counts {
    begun: AtomicU64,
    delayed: AtomicUsize,
}

struct Scheduler {
    rules: Arc<Rules>,
    clusters: Clusters,
    effects: Effects,
    clock: Clock,
    trace: Trace,
    /// Chooses the attempts in which plugins are looked at one by one.
    sampling: Rng,
    /// What plugins wish for.
    signals: Signals,
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

impl Runnable for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn quiescence(&self) -> Box<dyn Quiescence> {
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

impl Quiescence for Watched {
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
            let deadline = self.clusters.deadline().into_iter().chain(self.rules.waiting.deadline()).min();
            let (clock, rules, signals) = (self.clock.clone(), Arc::clone(&self.rules), self.signals.clone());
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
                () = rules.waiting.decided() => self.settle(),
                () = signals.news() => self.activate(),
                () = time => self.look_at_the_time(),
            }
        }
        // What was begun is finished: a pod that was decided on is bound. Who still waits to be allowed is found
        // without a node when the scheduler is started anew.
        self.settle();
        self.rules.waiting.clear();
        while let Some(finished) = self.in_flight.next().await {
            self.finish(finished);
        }
    }

    fn look_at_the_time(&mut self) {
        let now = self.clock.now();
        self.clusters.flush(now);
        self.rules.waiting.expire(now);
        self.settle();
    }

    /// Acts on what was decided of pods that waited to be allowed.
    fn settle(&mut self) {
        let now = self.clock.now();
        for (id, verdict) in self.rules.waiting.take_decided() {
            let effects = &self.effects;
            let begun = self
                .clusters
                .with(&id.cluster, |cluster| binding::settle(cluster, effects, &id.uid, verdict, now));
            self.in_flight.extend(begun);
        }
    }

    /// Has pods tried as plugins wish.
    fn activate(&mut self) {
        let now = self.clock.now();
        for signal in self.signals.take() {
            match signal {
                Signal::Activate(id) if self.clusters.knows(&id.cluster) => {
                    self.clusters.with(&id.cluster, |cluster| cluster.activate(&id.uid, now));
                }
                Signal::Activate(_) => {}
                Signal::ActivateAll => {
                    for id in self.clusters.ids() {
                        self.clusters.with(&id, |cluster| {
                            for uid in cluster.queue.waiting_pods() {
                                cluster.activate(&uid, now);
                            }
                        });
                    }
                }
            }
        }
    }

    /// Everything has been told once.
    fn begin(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            self.take_in(Some(message));
        }
        let now = self.clock.now();
        for id in self.clusters.ids() {
            let surroundings = self.surroundings.of(&id);
            self.clusters.with(&id, |cluster| {
                surroundings.for_each(|message| cluster.take_in(message, now));
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
        self.settle();
        self.activate();
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
        let now = self.clock.now();
        let (label, began) = (message.label(), self.clock.uptime());
        self.clusters.with(id, |cluster| {
            let surroundings = surroundings.into_iter().flatten();
            surroundings.chain([message]).for_each(|message| cluster.take_in(message, now));
        });
        if let Some(label) = label {
            self.rules.metrics.handled(label, self.clock.uptime().saturating_sub(began));
        }
    }

    /// Tells those who wait that nothing is left to do, if so.
    fn answer(&mut self) {
        if self.knows_all && self.in_flight.is_empty() && !self.clusters.is_ready() {
            let delayed = self.clusters.delayed() + self.rules.waiting.len();
            self.counts.delayed.store(delayed, Ordering::Relaxed);
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
            let (effects, trace) = (&self.effects, &mut self.trace);
            trace.restart(self.sampling.below(100) < SAMPLED_PERCENT);
            let begun =
                self.clusters.with(&id, |cluster| attempt::schedule(cluster, effects, trace, popped, now));
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
        let effects = &self.effects;
        match finished {
            Ok(Finished::Bound { cluster: id, pod, profile, was_announced, started, result }) => {
                let told = self.clusters.with(&id, |cluster| match result {
                    Ok(()) => binding::bound(cluster, effects, &pod, profile, started, now),
                    Err(error) => {
                        let error = &error.to_string();
                        let unbound = Unbound { pod: &pod, profile, was_announced, error, started };
                        binding::unbound(cluster, effects, &unbound, now)
                    }
                });
                self.in_flight.extend(told);
            }
            Ok(Finished::Preempted { cluster, pod, plugins, succeeded, took }) => {
                self.rules.metrics.sent_away(succeeded, took);
                self.clusters.with(&cluster, |cluster| attempt::made_room(cluster, &pod, plugins, now));
            }
            Ok(Finished::Told) => {}
            // The panic hook has said where. A pod it was about stays in flight, and is found again when the
            // scheduler is started anew.
            Err(error) => tracing::error!(%error, "cannot finish what was decided"),
        }
    }
}
