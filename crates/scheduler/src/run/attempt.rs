//! Handling of the result of a scheduling cycle.

use std::sync::Arc;

use coracle_base::{Task, Timestamp};

use super::NO_NODES;
use super::binding::{self, Permitted, Started, is_refusal};
use super::cluster::{Cluster, SchedulerShared};
use super::effects::{Effects, Finished, Preemption, Reason, Refused};
use crate::cycle::{self, Outcome, Point, Status, Trace};
use crate::framework::{Diagnosis, Nomination, PluginSet, PostFilter, Rejection};
use crate::metrics::AttemptResult;
use crate::queue::Popped;
use crate::view::Pod;

/// Tasks started for a pod.
pub(super) type Tasks = Vec<Task<Finished>>;

/// Suffix of the event for a victim that was not bound yet, in kube-scheduler's wording.
const IN_MEMORY: &str = " (in kube-scheduler memory).";

/// Verdict message of a waiting pod that was preempted.
const PREEMPTED: &str = "preempted";

/// Runs a scheduling cycle for a pod and starts the tasks that follow from its result.
pub(super) fn schedule(
    cluster: &mut Cluster,
    effects: &Effects,
    trace: &mut Trace,
    popped: Popped,
    now: Timestamp,
) -> Tasks {
    let Popped { pod, profile } = popped;
    if cluster.state.cache.pod(&pod.metadata.uid).is_some() {
        // Another scheduler has assigned the pod meanwhile.
        cluster.queue.remove(&pod.metadata.uid);
        return Vec::new();
    }
    if pod.is_terminating() {
        effects.skipped(&cluster.state.cluster, &pod);
        cluster.queue.remove(&pod.metadata.uid);
        return Vec::new();
    }
    let shared = Arc::clone(&cluster.shared);
    let began = shared.clock.uptime();
    let outcome = {
        let Cluster { state, cycle_state, .. } = &mut *cluster;
        cycle::schedule(&shared.profiles[profile], state, &pod, cycle_state, trace)
    };
    shared.metrics.algorithm(shared.clock.uptime().saturating_sub(began));
    let started = Started { at: began, is_sampled: trace.is_sampled() };
    let mut attempt = Attempted { cluster, shared: &shared, effects, trace, profile, pod, started, now };
    let tasks = match outcome {
        Outcome::Fits(node) => attempt.assume_and_bind(&node),
        Outcome::Refused(diagnosis, post_filter_result) => attempt.refuse(&diagnosis, post_filter_result),
        Outcome::NoNodes => attempt.park(&Diagnosis::default(), NO_NODES, &Nomination::Clear),
        Outcome::Failed(message) => attempt.fail(&message),
    };
    shared.metrics.traced(profile, trace);
    tasks
}

struct Attempted<'a> {
    cluster: &'a mut Cluster,
    shared: &'a SchedulerShared,
    effects: &'a Effects,
    trace: &'a mut Trace,
    profile: usize,
    pod: Arc<Pod>,
    started: Started,
    now: Timestamp,
}

impl Attempted<'_> {
    /// Assumes the pod on its node, and binds it unless Reserve or Permit plugins object.
    fn assume_and_bind(&mut self, node: &str) -> Tasks {
        let placed = Arc::new(self.pod.on_node(node));
        self.cluster.state.cache.assume(Arc::clone(&placed));
        self.cluster.state.nominated.remove(&placed.metadata.uid);
        let profile = &self.shared.profiles[self.profile];
        let point_began = self.trace.begin();
        let reserved = binding::reserve(self.cluster, profile, &placed, self.trace);
        let status =
            reserved.as_ref().map_or_else(|(_, rejection)| rejection.code.into(), |()| Status::Success);
        self.trace.end(Point::Reserve, status, point_began);
        if let Err((by, rejection)) = reserved {
            return self.undo_assumption(&placed, "Reserve", by, &rejection);
        }
        let point_began = self.trace.begin();
        let permitted = binding::permit(self.cluster, profile, &placed, self.trace);
        let status = match &permitted {
            Ok(Permitted::Now) => Status::Success,
            Ok(Permitted::Later(_)) => Status::Wait,
            Err((_, rejection)) => rejection.code.into(),
        };
        self.trace.end(Point::Permit, status, point_began);
        match permitted {
            Err((by, rejection)) => self.undo_assumption(&placed, "Permit", by, &rejection),
            Ok(Permitted::Now) => {
                binding::bind(self.cluster, self.effects, &placed, self.profile, None, self.started)
            }
            Ok(Permitted::Later(waits)) => {
                let (effects, profile) = (self.effects, self.profile);
                binding::hold(self.cluster, effects, placed, profile, &waits, self.started, self.now);
                Vec::new()
            }
        }
    }

    /// Undoes the assumption after a Reserve or Permit plugin rejected the pod.
    fn undo_assumption(&mut self, placed: &Pod, point: &str, by: usize, rejection: &Rejection) -> Tasks {
        binding::unreserve(self.cluster, self.profile, placed);
        self.cluster.state.cache.forget(&placed.metadata.uid);
        if is_refusal(rejection) {
            let diagnosis = Diagnosis::of_one_node(Some(by), rejection);
            return self.park(&diagnosis, &diagnosis.to_string(), &Nomination::Clear);
        }
        let name = self.shared.profiles[self.profile].plugins[by].plugin.name();
        self.fail(&format!("running {point} plugin \"{name}\": {rejection}"))
    }

    fn refuse(&mut self, diagnosis: &Diagnosis, post_filter_result: PostFilter) -> Tasks {
        let PostFilter { nomination, victims, .. } = post_filter_result;
        if self.shared.profiles[self.profile].index_of("DefaultPreemption").is_some() {
            self.shared.metrics.preempted();
        }
        let state = &mut self.cluster.state;
        match &nomination {
            Nomination::Keep => {}
            Nomination::Clear => state.nominated.remove(&self.pod.metadata.uid),
            Nomination::Node(node) => state.nominated.set(&self.pod, node),
        }
        let message = diagnosis.to_string();
        let Nomination::Node(node) = &nomination else { return self.park(diagnosis, &message, &nomination) };
        let mut displaced = state.nominated.on(node).to_vec();
        displaced.retain(|other| other.priority < self.pod.priority);
        for other in &displaced {
            state.nominated.remove(&other.metadata.uid);
        }
        self.shared.metrics.victims(victims.len());
        self.count(AttemptResult::Unschedulable);
        let id = self.cluster.state.cluster.clone();
        // The condition is written first, so that the reason for a deleted victim can be looked up.
        let status_task = self.publish(Reason::Unschedulable, &message, &nomination);
        let victims = victims.into_iter().filter(|victim| !victim.is_terminating());
        let victims: Vec<_> = victims.filter(|victim| !self.preempt_in_memory(victim, node)).collect();
        let (pod, plugins, node) = (Arc::clone(&self.pod), diagnosis.plugins, node.clone());
        let preempted = self.effects.preempt(&id, Preemption { pod, plugins, victims, node, displaced });
        status_task.into_iter().chain([preempted]).collect()
    }

    /// Preempts a victim that is not bound yet, without deleting it. False if the victim is bound already.
    fn preempt_in_memory(&self, victim: &Pod, node: &str) -> bool {
        let (id, uid) = (&self.cluster.state.cluster, &victim.metadata.uid);
        let is_going = match self.shared.waiting.get(id, uid) {
            Some(waiting) => waiting.preempt(PREEMPTED),
            None => self.cluster.pre_binding.get(uid).is_some_and(|pre_binding| pre_binding.cancel()),
        };
        if is_going {
            self.effects.preempted(id, &self.pod, victim, node, IN_MEMORY);
        }
        is_going
    }

    fn park(&mut self, diagnosis: &Diagnosis, message: &str, nomination: &Nomination) -> Tasks {
        self.count(AttemptResult::Unschedulable);
        let (plugins, pending) = (diagnosis.plugins, diagnosis.pending);
        self.cluster.queue.refused(&self.pod.metadata.uid, plugins, pending, self.now);
        self.publish(Reason::Unschedulable, message, nomination).into_iter().collect()
    }

    /// Retries the pod after a backoff because of an error.
    fn fail(&mut self, message: &str) -> Tasks {
        self.count(AttemptResult::Error);
        self.cluster.queue.failed(&self.pod.metadata.uid, self.now);
        self.cluster.state.nominated.remove(&self.pod.metadata.uid);
        self.publish(Reason::SchedulerError, message, &Nomination::Clear).into_iter().collect()
    }

    fn publish(&self, reason: Reason, message: &str, nomination: &Nomination) -> Option<Task<Finished>> {
        let refused = Refused { pod: &self.pod, reason, message, nomination };
        self.effects.refused(&self.cluster.state.cluster, refused)
    }

    fn count(&self, result: AttemptResult) {
        let took = self.shared.clock.uptime().saturating_sub(self.started.at);
        self.shared.metrics.attempted(self.profile, result, took);
    }
}

/// Retries a pod after its victims were evicted.
pub(super) fn victims_evicted(cluster: &mut Cluster, pod: &Pod, plugins: PluginSet, now: Timestamp) {
    let uid = &pod.metadata.uid;
    if cluster.state.cache.pod(uid).is_some() {
        // Another scheduler has assigned the pod meanwhile.
        cluster.queue.remove(uid);
    } else {
        cluster.queue.retry(uid, plugins, PluginSet::default(), now);
    }
}
