//! What follows from an attempt to schedule a pod, and from one to bind it.

use std::sync::Arc;

use coracle_base::{Task, Timestamp};

use super::NO_NODES;
use super::cluster::Cluster;
use super::effects::{Effects, Finished, Reason};
use crate::cycle::{self, Outcome};
use crate::framework::status::Diagnosis;
use crate::framework::{ClusterEvent, Nomination, PluginSet, PostFilter, Profile, Rejection};
use crate::queue::Popped;
use crate::view::Pod;

/// What is being done about a pod.
type Begun = Vec<Task<Finished>>;

/// Decides about a pod, and begins what follows.
pub(super) fn schedule(
    cluster: &mut Cluster,
    profiles: &[Profile],
    effects: &Effects,
    popped: Popped,
    now: Timestamp,
) -> Begun {
    let Popped { pod, profile } = popped;
    if cluster.world.cache.pod(&pod.metadata.uid).is_some() {
        // Somebody else has decided meanwhile.
        cluster.queue.remove(&pod.metadata.uid);
        return Vec::new();
    }
    if pod.is_terminating() {
        effects.skipped(&cluster.world.cluster, &pod);
        cluster.queue.remove(&pod.metadata.uid);
        return Vec::new();
    }
    let mut attempt = Attempted { cluster, profiles, effects, profile, pod, now };
    let outcome = {
        let Cluster { world, turns, .. } = &mut *attempt.cluster;
        cycle::schedule(&profiles[profile], world, &attempt.pod, turns)
    };
    match outcome {
        Outcome::Fits(node) => attempt.place(&node),
        Outcome::Refused(diagnosis, made_room) => attempt.refuse(&diagnosis, made_room),
        Outcome::NoNodes => attempt.park(PluginSet::default(), NO_NODES, &Nomination::Clear),
    }
}

struct Attempted<'a> {
    cluster: &'a mut Cluster,
    profiles: &'a [Profile],
    effects: &'a Effects,
    profile: usize,
    pod: Arc<Pod>,
    now: Timestamp,
}

impl Attempted<'_> {
    /// Puts the pod on a node and has it brought there.
    fn place(&mut self, node: &str) -> Begun {
        let placed = Arc::new(self.pod.on_node(node));
        self.cluster.world.cache.assume(Arc::clone(&placed));
        self.cluster.world.nominated.remove(&placed.metadata.uid);
        let profile = &self.profiles[self.profile];
        if let Err((by, rejection)) = reserve(self.cluster, profile, &placed, node) {
            unreserve(self.cluster, profile, &placed);
            self.cluster.world.cache.forget(&placed.metadata.uid);
            let mut diagnosis = Diagnosis { nodes: 1, ..Diagnosis::default() };
            diagnosis.plugins.insert(by);
            diagnosis.reasons.add(&rejection);
            return self.park(diagnosis.plugins, &diagnosis.to_string(), &Nomination::Clear);
        }
        vec![self.effects.bind(&self.cluster.world, &placed, self.profile, profile)]
    }

    fn refuse(&mut self, diagnosis: &Diagnosis, made_room: PostFilter) -> Begun {
        let PostFilter { nomination, victims, .. } = made_room;
        let world = &mut self.cluster.world;
        match &nomination {
            Nomination::Keep => {}
            Nomination::Clear => world.nominated.remove(&self.pod.metadata.uid),
            Nomination::Node(node) => world.nominated.set(&self.pod, node),
        }
        let message = diagnosis.to_string();
        let Nomination::Node(node) = &nomination else {
            return self.park(diagnosis.plugins, &message, &nomination);
        };
        let mut outdone = world.nominated.on(node).to_vec();
        outdone.retain(|other| other.priority < self.pod.priority);
        for other in &outdone {
            world.nominated.remove(&other.metadata.uid);
        }
        let id = world.cluster.clone();
        // The condition first: who sees a victim go can see why.
        let told = self.effects.refused(&id, &self.pod, Reason::Unschedulable, &message, &nomination);
        let preempted = self.effects.preempt(&id, &self.pod, diagnosis.plugins, victims, node, outdone);
        told.into_iter().chain([preempted]).collect()
    }

    fn park(&mut self, plugins: PluginSet, message: &str, nomination: &Nomination) -> Begun {
        self.cluster.queue.refused(&self.pod.metadata.uid, plugins, self.now);
        let id = &self.cluster.world.cluster;
        self.effects.refused(id, &self.pod, Reason::Unschedulable, message, nomination).into_iter().collect()
    }
}

/// Asks everyone who has something to note, or the last word.
fn reserve(
    cluster: &mut Cluster,
    profile: &Profile,
    pod: &Arc<Pod>,
    node: &str,
) -> Result<(), (usize, Rejection)> {
    for (place, enabled) in profile.plugins.iter().enumerate() {
        enabled.plugin.reserve(&mut cluster.world, pod, node).map_err(|rejection| (place, rejection))?;
    }
    for (place, enabled) in profile.plugins.iter().enumerate() {
        enabled.plugin.permit(pod, node).map_err(|rejection| (place, rejection))?;
    }
    Ok(())
}

fn unreserve(cluster: &mut Cluster, profile: &Profile, pod: &Pod) {
    for enabled in profile.plugins.iter().rev() {
        enabled.plugin.unreserve(&mut cluster.world, pod, &pod.node_name);
    }
}

/// A pod has been bound.
pub(super) fn bound(
    cluster: &mut Cluster,
    profiles: &[Profile],
    effects: &Effects,
    pod: &Arc<Pod>,
    profile: usize,
) -> Begun {
    cluster.queue.remove(&pod.metadata.uid);
    for enabled in &profiles[profile].plugins {
        enabled.plugin.post_bind(&mut cluster.world, pod, &pod.node_name);
    }
    effects.bound(&cluster.world.cluster, pod);
    Vec::new()
}

/// Victims have been sent away for a pod, which is tried again.
pub(super) fn made_room(cluster: &mut Cluster, pod: &Pod, plugins: PluginSet, now: Timestamp) {
    let uid = &pod.metadata.uid;
    if cluster.world.cache.pod(uid).is_some() {
        // Somebody else has decided meanwhile.
        cluster.queue.remove(uid);
    } else {
        cluster.queue.retry(uid, plugins, now);
    }
}

/// A pod could not be bound. It is scheduled anew, if it is still there.
pub(super) fn unbound(
    cluster: &mut Cluster,
    profiles: &[Profile],
    effects: &Effects,
    pod: &Arc<Pod>,
    profile: usize,
    error: &str,
    now: Timestamp,
) -> Begun {
    unreserve(cluster, &profiles[profile], pod);
    let uid = &pod.metadata.uid;
    if let Some(forgotten) = cluster.world.cache.forget(uid) {
        cluster.wake(&ClusterEvent::PodGone(forgotten), profiles, now);
    }
    let is_placed = cluster.world.cache.pod(uid).is_some();
    let Some(pending) = cluster.queue.get(uid).filter(|_| !is_placed).cloned() else {
        cluster.queue.remove(uid);
        return Vec::new();
    };
    cluster.queue.failed(uid, now);
    let id = &cluster.world.cluster;
    effects.refused(id, &pending, Reason::SchedulerError, error, &Nomination::Clear).into_iter().collect()
}
