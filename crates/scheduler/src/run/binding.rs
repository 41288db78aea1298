//! Reserve, Permit and the binding cycle of a pod whose node is chosen. The pod may have to wait for Permit
//! plugins, is then bound by a task of its own, and is scheduled again if either fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use coracle_base::{Task, Timestamp};
use tokio_util::sync::CancellationToken;

use super::attempt::Tasks;
use super::cluster::Cluster;
use super::effects::{Effects, Reason, Refused};
use crate::cycle::{Point, Status, Trace};
use crate::framework::{
    ClusterEvent, Code, Diagnosis, Hint, Nomination, Permit, PluginSet, PodId, Profile, Rejection, Verdict,
};
use crate::metrics::AttemptResult;
use crate::queue::Refusal;
use crate::view::Pod;

/// The start of an attempt, and whether single plugins are measured in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Started {
    pub(super) at: Duration,
    pub(super) is_sampled: bool,
}

/// A pod with a chosen node that waits for Permit plugins.
pub(super) struct WaitingBinding {
    pub(super) pod: Arc<Pod>,
    /// The plugins it waits for, as if they had rejected it.
    pub(super) refusal: Refusal,
    /// The strongest hint of the events since then, which counts if they do reject it.
    pub(super) hint: Hint,
    /// Writes the nominated node to the pod's status.
    pub(super) announced: Task<()>,
    pub(super) started: Started,
    /// Start of the wait.
    pub(super) since: Duration,
}

/// Combined result of the Permit plugins.
pub(super) enum Permitted {
    Now,
    /// The pod waits for these plugins, with the timeout of each.
    Later(Vec<(usize, Duration)>),
}

/// Runs the Reserve plugins until one rejects the pod.
pub(super) fn reserve(
    cluster: &mut Cluster,
    profile: &Profile,
    pod: &Arc<Pod>,
    trace: &mut Trace,
) -> Result<(), (usize, Rejection)> {
    for (index, enabled) in profile.plugins.iter().enumerate() {
        let began = trace.begin_plugin();
        let answer = enabled.plugin.reserve(&mut cluster.state, pod, &pod.node_name);
        let status = answer.as_ref().map_or_else(|rejection| rejection.code.into(), |()| Status::Success);
        trace.end_plugin(Point::Reserve, index, status, began);
        answer.map_err(|rejection| (index, rejection))?;
    }
    Ok(())
}

/// Runs the unreserve step of all plugins in reverse order.
pub(super) fn unreserve(cluster: &mut Cluster, profile: usize, pod: &Pod) {
    let shared = Arc::clone(&cluster.shared);
    let began = shared.clock.uptime();
    for enabled in shared.profiles[profile].plugins.iter().rev() {
        enabled.plugin.unreserve(&mut cluster.state, pod, &pod.node_name);
    }
    let took = shared.clock.uptime().saturating_sub(began);
    shared.metrics.passed(profile, Point::Unreserve, Status::Success, took);
}

/// Runs the Permit plugins until one rejects the pod.
pub(super) fn permit(
    cluster: &Cluster,
    profile: &Profile,
    pod: &Arc<Pod>,
    trace: &mut Trace,
) -> Result<Permitted, (usize, Rejection)> {
    let mut waits = Vec::new();
    for (index, enabled) in profile.plugins.iter().enumerate() {
        let began = trace.begin_plugin();
        let answer = enabled.plugin.permit(&cluster.state, pod, &pod.node_name);
        let status = match &answer {
            Permit::Allow => Status::Success,
            Permit::Wait(_) => Status::Wait,
            Permit::Reject(rejection) => rejection.code.into(),
        };
        trace.end_plugin(Point::Permit, index, status, began);
        match answer {
            Permit::Allow => {}
            Permit::Wait(time) => waits.push((index, time)),
            Permit::Reject(rejection) => return Err((index, rejection)),
        }
    }
    Ok(if waits.is_empty() { Permitted::Now } else { Permitted::Later(waits) })
}

/// Adds a pod to the waiting pods.
pub(super) fn hold(
    cluster: &mut Cluster,
    effects: &Effects,
    pod: Arc<Pod>,
    profile: usize,
    waits: &[(usize, Duration)],
    started: Started,
    now: Timestamp,
) {
    let shared = Arc::clone(&cluster.shared);
    let names =
        |(index, time): &(usize, Duration)| (shared.profiles[profile].plugins[*index].plugin.name(), *time);
    let named: Vec<_> = waits.iter().map(names).collect();
    let plugins: PluginSet = waits.iter().map(|(index, _)| *index).collect();
    let held = WaitingBinding {
        pod: Arc::clone(&pod),
        refusal: Refusal { profile, plugins, pending: PluginSet::default() },
        hint: Hint::Skip,
        announced: Task::spawn("pod status", effects.announce(&cluster.state, &pod)),
        started,
        since: shared.clock.uptime(),
    };
    let uid = pod.metadata.uid.clone();
    cluster.held.insert(uid.clone(), held);
    shared.waiting.add(PodId::new(&cluster.state.cluster, &uid), &pod, &named, now);
}

/// Acts on the verdict about a waiting pod.
pub(super) fn settle(
    cluster: &mut Cluster,
    effects: &Effects,
    uid: &str,
    verdict: Verdict,
    now: Timestamp,
) -> Tasks {
    let Some(held) = cluster.held.remove(uid) else { return Vec::new() };
    let shared = Arc::clone(&cluster.shared);
    let status = match &verdict {
        Verdict::Allowed => Status::Success,
        Verdict::Rejected { .. } => Status::Unschedulable,
        Verdict::Preempted { .. } => Status::Error,
    };
    shared.metrics.waited(status, shared.clock.uptime().saturating_sub(held.since));
    match verdict {
        Verdict::Allowed => {
            bind(cluster, effects, &held.pod, held.refusal.profile, Some(held.announced), held.started)
        }
        Verdict::Rejected { plugin, message } => {
            let by = shared.profiles[held.refusal.profile].index_of(&plugin);
            let diagnosis = Diagnosis::of_one_node(by, &Rejection::resolvable(message));
            reject_waiting(
                cluster,
                effects,
                held,
                Reason::Unschedulable,
                &diagnosis.to_string(),
                diagnosis.plugins,
                now,
            )
        }
        Verdict::Preempted { message } => {
            let message = format!("waiting on permit for pod: {message}");
            reject_waiting(
                cluster,
                effects,
                held,
                Reason::SchedulerError,
                &message,
                PluginSet::default(),
                now,
            )
        }
    }
}

/// Undoes the assumption of a waiting pod that was rejected or preempted.
fn reject_waiting(
    cluster: &mut Cluster,
    effects: &Effects,
    held: WaitingBinding,
    reason: Reason,
    message: &str,
    plugins: PluginSet,
    now: Timestamp,
) -> Tasks {
    let WaitingBinding { pod, refusal, hint, announced, started, .. } = held;
    release_node(cluster, refusal.profile, &pod, now);
    count_failure(cluster, refusal.profile, reason, started);
    let uid = &pod.metadata.uid;
    let pending = cluster.queue.get(uid).filter(|_| cluster.state.cache.pod(uid).is_none()).cloned();
    let is_gone = pending.is_none();
    match reason {
        _ if is_gone => drop(cluster.queue.remove(uid)),
        Reason::SchedulerError => cluster.queue.failed(uid, now),
        Reason::Unschedulable if hint == Hint::Skip => {
            cluster.queue.refused(uid, plugins, PluginSet::default(), now);
        }
        Reason::Unschedulable => cluster.queue.retry(uid, plugins, PluginSet::default(), now),
    }
    let pod_to_report = pending.unwrap_or_else(|| Arc::clone(&pod));
    let refused = Refused { pod: &pod_to_report, reason, message, nomination: &Nomination::Clear };
    effects
        .refused_after(&cluster.state.cluster, refused, is_gone, announced, &pod.node_name)
        .into_iter()
        .collect()
}

/// Removes an assumed pod from its node, which may make other pods schedulable.
fn release_node(cluster: &mut Cluster, profile: usize, pod: &Arc<Pod>, now: Timestamp) {
    unreserve(cluster, profile, pod);
    if let Some(forgotten) = cluster.state.cache.forget(&pod.metadata.uid) {
        cluster.wake(&ClusterEvent::PodGone(forgotten), now);
    }
}

fn count_failure(cluster: &Cluster, profile: usize, reason: Reason, started: Started) {
    let result = match reason {
        Reason::Unschedulable => AttemptResult::Unschedulable,
        Reason::SchedulerError => AttemptResult::Error,
    };
    let took = cluster.shared.clock.uptime().saturating_sub(started.at);
    cluster.shared.metrics.attempted(profile, result, took);
}

/// Starts the binding cycle of a pod.
pub(super) fn bind(
    cluster: &mut Cluster,
    effects: &Effects,
    pod: &Arc<Pod>,
    profile: usize,
    announced: Option<Task<()>>,
    started: Started,
) -> Tasks {
    cluster.shared.metrics.binding(1.0);
    let (task, pre_binding) = effects.bind(cluster, pod, profile, announced, started);
    if let Some(pre_binding) = pre_binding {
        cluster.pre_binding.insert(pod.metadata.uid.clone(), pre_binding);
    }
    vec![task]
}

/// Cancellation state of the PreBind steps. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct PreBinding {
    state: Arc<AtomicU8>,
    cancelled: CancellationToken,
}

const RUNNING: u8 = 0;
const CANCELLED: u8 = 1;
const FINISHED: u8 = 2;

impl PreBinding {
    /// Cancels the PreBind steps. False if they are finished.
    pub(super) fn cancel(&self) -> bool {
        let order = Ordering::SeqCst;
        let is_cancelled = match self.state.compare_exchange(RUNNING, CANCELLED, order, order) {
            Ok(_) => true,
            Err(state) => state == CANCELLED,
        };
        if is_cancelled {
            self.cancelled.cancel();
        }
        is_cancelled
    }

    /// Prevents cancellation from now on. False if the steps were cancelled.
    pub(super) fn finish(&self) -> bool {
        let order = Ordering::SeqCst;
        self.state.compare_exchange(RUNNING, FINISHED, order, order).is_ok()
    }

    /// Waits for the cancellation. Cancel-safe.
    pub(super) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }
}

/// Records that a pod was bound.
pub(super) fn bound(
    cluster: &mut Cluster,
    effects: &Effects,
    pod: &Arc<Pod>,
    profile: usize,
    started: Started,
    now: Timestamp,
) -> Tasks {
    let shared = Arc::clone(&cluster.shared);
    let uid = &pod.metadata.uid;
    let history = cluster.queue.history(uid);
    cluster.queue.remove(uid);
    cluster.pre_binding.remove(uid);
    shared.metrics.binding(-1.0);
    shared.metrics.attempted(
        profile,
        AttemptResult::Scheduled,
        shared.clock.uptime().saturating_sub(started.at),
    );
    if let Some(first) = history.first_active {
        shared.metrics.scheduled(history.attempts, now.since(first), history.was_flushed);
    }
    let began = shared.clock.uptime();
    let mut last = began;
    for enabled in &shared.profiles[profile].plugins {
        enabled.plugin.post_bind(&mut cluster.state, pod, &pod.node_name);
        if started.is_sampled {
            let now = shared.clock.uptime();
            let took = now.saturating_sub(std::mem::replace(&mut last, now));
            shared.metrics.plugin_called(enabled.plugin.name(), Point::PostBind, Status::Success, took);
        }
    }
    let took = shared.clock.uptime().saturating_sub(began);
    shared.metrics.passed(profile, Point::PostBind, Status::Success, took);
    effects.bound(&cluster.state.cluster, pod);
    Vec::new()
}

/// A pod whose binding failed.
pub(super) struct Unbound<'a> {
    pub(super) pod: &'a Arc<Pod>,
    pub(super) profile: usize,
    /// True if the nominated node was written to the pod's status.
    pub(super) was_announced: bool,
    pub(super) error: &'a str,
    pub(super) started: Started,
}

/// Handles a failed binding: the pod is scheduled again, if it still exists.
pub(super) fn unbound(
    cluster: &mut Cluster,
    effects: &Effects,
    unbound: &Unbound<'_>,
    now: Timestamp,
) -> Tasks {
    let Unbound { pod, profile, was_announced, error, started } = *unbound;
    let uid = &pod.metadata.uid;
    cluster.pre_binding.remove(uid);
    cluster.shared.metrics.binding(-1.0);
    count_failure(cluster, profile, Reason::SchedulerError, started);
    release_node(cluster, profile, pod, now);
    let is_placed = cluster.state.cache.pod(uid).is_some();
    let Some(pending) = cluster.queue.get(uid).filter(|_| !is_placed).cloned() else {
        cluster.queue.remove(uid);
        return Vec::new();
    };
    cluster.queue.failed(uid, now);
    let pod_to_report = if was_announced { Arc::new(pending.nominated_to(&pod.node_name)) } else { pending };
    let reason = Reason::SchedulerError;
    let refused = Refused { pod: &pod_to_report, reason, message: error, nomination: &Nomination::Clear };
    effects.refused(&cluster.state.cluster, refused).into_iter().collect()
}

/// True if the pod was rejected, false if the plugin failed.
pub(super) fn is_refusal(rejection: &Rejection) -> bool {
    rejection.code != Code::Error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_pre_binding_cannot_be_cancelled_and_the_reverse() {
        let first = PreBinding::default();
        assert!(first.finish() && !first.cancel());
        let second = PreBinding::default();
        assert!(second.cancel() && second.cancel() && !second.finish());
    }
}
