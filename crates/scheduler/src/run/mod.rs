//! The scheduling task, which owns all state: it applies events of informers, schedules one pod at a time,
//! and delegates writes to other tasks.

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
use cluster::SchedulerShared;
use clusters::Clusters;
use effects::{Effects, Finished};
use message::ClusterListers;
pub(crate) use message::Message;
pub use start::register;

/// Capacity of the event channel. Informers wait while it is full.
const MAX_MESSAGES: usize = 4096;

/// Number of messages handled before the next pod is scheduled.
const MESSAGES_AT_A_TIME: usize = 512;

/// Time after which a parked pod is retried without an event: kube-scheduler's safety net.
const PARKED_AT_MOST: Duration = Duration::from_secs(300);

/// The diagnosis of a cluster without nodes.
pub(crate) const NO_NODES: &str = "no nodes available to schedule pods";

/// Progress counters for the quiescence check.
#[derive(Default)]
struct Counts {
    begun: AtomicU64,
    delayed: AtomicUsize,
}

struct Scheduler {
    shared: Arc<SchedulerShared>,
    clusters: Clusters,
    effects: Effects,
    clock: Clock,
    trace: Trace,
    /// Selects the cycles in which single plugins are measured.
    sampling: Rng,
    /// Activation requests of plugins.
    signals: Signals,
    /// Kept to create the quiescence probe.
    sender: mpsc::Sender<Message>,
    messages: mpsc::Receiver<Message>,
    following: Vec<informer::Changes>,
    cluster_listers: ClusterListers,
    /// True once all informers are synced.
    is_synced: bool,
    max_binding: usize,
    in_flight: FuturesUnordered<Task<Finished>>,
    /// Callers that wait for the scheduler to become idle.
    waiting: Vec<oneshot::Sender<()>>,
    counts: Arc<Counts>,
}

impl Runnable for Scheduler {
    fn name(&self) -> &'static str {
        "scheduler"
    }

    fn quiescence(&self) -> Box<dyn Quiescence> {
        Box::new(IdleProbe { sender: self.sender.clone(), counts: Arc::clone(&self.counts) })
    }

    fn run(self: Box<Self>, stop: CancellationToken) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.work(stop))
    }
}

/// Reports whether the scheduler is idle.
struct IdleProbe {
    sender: mpsc::Sender<Message>,
    counts: Arc<Counts>,
}

impl Quiescence for IdleProbe {
    fn begun(&self) -> u64 {
        self.counts.begun.load(Ordering::Relaxed)
    }

    fn delayed(&self) -> usize {
        self.counts.delayed.load(Ordering::Relaxed)
    }

    fn quiet(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let (sender, quiet) = oneshot::channel();
            if self.sender.send(Message::Quiet(sender)).await.is_ok() {
                // It fails only if the scheduler has stopped, and then it is idle.
                drop(quiet.await);
            }
        })
    }
}

/// Waits until all informers are synced.
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
            self.handle_pending();
            if self.is_synced && self.schedule_some() {
                // Let other tasks run.
                tokio::task::yield_now().await;
                continue;
            }
            self.notify_idle();
            let deadline = self.clusters.deadline().into_iter().chain(self.shared.waiting.deadline()).min();
            let (clock, shared, signals) =
                (self.clock.clone(), Arc::clone(&self.shared), self.signals.clone());
            let time = async move {
                match deadline {
                    Some(deadline) => clock.sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // All are cancel-safe: they only wait, and messages are received only when they are
                // handled. None can starve despite the fixed order: pending messages are handled at the top
                // of the loop.
                biased;
                () = stop.cancelled() => {}
                message = self.messages.recv() => self.handle_message(message),
                Some(finished) = self.in_flight.next() => self.finish(finished),
                () = &mut synced, if !self.is_synced => self.start_scheduling(),
                () = shared.waiting.decided() => self.settle(),
                () = signals.news() => self.activate(),
                () = time => self.handle_deadlines(),
            }
        }
        // Binding cycles in progress are finished: a pod with a chosen node is bound. Pods that still wait
        // for a Permit plugin have no node yet; the next scheduler schedules them again.
        self.settle();
        self.shared.waiting.clear();
        while let Some(finished) = self.in_flight.next().await {
            self.finish(finished);
        }
    }

    fn handle_deadlines(&mut self) {
        let now = self.clock.now();
        self.clusters.flush(now);
        self.shared.waiting.expire(now);
        self.settle();
    }

    /// Acts on the verdicts about waiting pods.
    fn settle(&mut self) {
        let now = self.clock.now();
        for (id, verdict) in self.shared.waiting.take_decided() {
            let effects = &self.effects;
            let tasks = self
                .clusters
                .with(&id.cluster, |cluster| binding::settle(cluster, effects, &id.uid, verdict, now));
            self.in_flight.extend(tasks);
        }
    }

    /// Activates pods on behalf of plugins.
    fn activate(&mut self) {
        let now = self.clock.now();
        for signal in self.signals.take() {
            match signal {
                Signal::Activate(id) if self.clusters.contains(&id.cluster) => {
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

    /// Starts scheduling once all informers are synced.
    fn start_scheduling(&mut self) {
        while let Ok(message) = self.messages.try_recv() {
            self.handle_message(Some(message));
        }
        let now = self.clock.now();
        for id in self.clusters.ids() {
            let cluster_listers = self.cluster_listers.of(&id);
            self.clusters.with(&id, |cluster| {
                cluster_listers.for_each(|message| cluster.handle(message, now));
            });
        }
        self.is_synced = true;
    }

    /// Handles pending messages and finished tasks without waiting.
    fn handle_pending(&mut self) {
        for _ in 0..MESSAGES_AT_A_TIME {
            match self.messages.try_recv() {
                Ok(message) => self.handle_message(Some(message)),
                Err(_) => break,
            }
        }
        while let Some(Some(finished)) = self.in_flight.next().now_or_never() {
            self.finish(finished);
        }
        self.settle();
        self.activate();
    }

    fn handle_message(&mut self, message: Option<Message>) {
        // The channel never closes: `self` holds a sender.
        let Some(message) = message else { return };
        match message {
            Message::Quiet(sender) => self.waiting.push(sender),
            message => {
                if let Some(id) = message.cluster().cloned() {
                    self.handle_cluster_message(&id, message);
                }
            }
        }
    }

    /// Applies an event to its cluster. Events of a cluster without nodes and pods are ignored.
    fn handle_cluster_message(&mut self, id: &ClusterId, message: Message) {
        let is_new = !self.clusters.contains(id);
        if is_new && !message.begins_cluster() {
            return;
        }
        let cluster_listers = (is_new && self.is_synced).then(|| self.cluster_listers.of(id));
        let now = self.clock.now();
        let (label, began) = (message.label(), self.clock.uptime());
        self.clusters.with(id, |cluster| {
            let cluster_listers = cluster_listers.into_iter().flatten();
            cluster_listers.chain([message]).for_each(|message| cluster.handle(message, now));
        });
        if let Some(label) = label {
            self.shared.metrics.handled(label, self.clock.uptime().saturating_sub(began));
        }
    }

    /// Answers the callers that wait for the scheduler to become idle, if it is.
    fn notify_idle(&mut self) {
        if self.is_synced && self.in_flight.is_empty() && !self.clusters.is_ready() {
            let delayed = self.clusters.delayed() + self.shared.waiting.len();
            self.counts.delayed.store(delayed, Ordering::Relaxed);
            for waiting in self.waiting.drain(..) {
                // The caller may have stopped waiting.
                let _ = waiting.send(());
            }
        }
    }

    /// Schedules pods for about a millisecond. True if there was one.
    fn schedule_some(&mut self) -> bool {
        let began = self.clock.now();
        let mut any = false;
        while self.in_flight.len() < self.max_binding {
            let now = self.clock.now();
            let Some((id, popped)) = self.clusters.pop(now) else { break };
            self.counts.begun.fetch_add(1, Ordering::Relaxed);
            let (effects, trace) = (&self.effects, &mut self.trace);
            trace.restart(self.sampling.below(100) < SAMPLED_PERCENT);
            let tasks =
                self.clusters.with(&id, |cluster| attempt::schedule(cluster, effects, trace, popped, now));
            self.in_flight.extend(tasks);
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
                let tasks = self.clusters.with(&id, |cluster| match result {
                    Ok(()) => binding::bound(cluster, effects, &pod, profile, started, now),
                    Err(error) => {
                        let error = &error.to_string();
                        let unbound = Unbound { pod: &pod, profile, was_announced, error, started };
                        binding::unbound(cluster, effects, &unbound, now)
                    }
                });
                self.in_flight.extend(tasks);
            }
            Ok(Finished::Preempted { cluster, pod, plugins, succeeded, took }) => {
                self.shared.metrics.evicted(succeeded, took);
                self.clusters.with(&cluster, |cluster| attempt::victims_evicted(cluster, &pod, plugins, now));
            }
            Ok(Finished::Published) => {}
            // The panic hook has logged the location. The pod stays in flight until the scheduler is
            // restarted.
            Err(error) => tracing::error!(%error, "bind, status or preemption task panicked"),
        }
    }
}
