//! Plans the next step of a deployment. Pure.
//!
//! Each reconcile makes one step: it creates a set, scales sets, or deletes old ones. The next step follows when the
//! informer has seen the result.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;
use coracle_runtime::informer::{Labels, Metadata, ObjectMetadata};

use super::annotations::{self, Changes, REVISION};
use super::conditions::{
    self, NEW_SET_CREATED, NEW_SET_FOUND, PAUSED, PROGRESSING, RESUMED, TIMED_OUT, has_reason,
};
use super::limits::{is_rolling, max_replicas};
use super::rolling::{self, Size};
use super::scaling;
use super::sets::Sets;
use super::status::{self, deadline, is_complete};
use crate::pod_control::template_hash;
use crate::view::{Condition, Deployment, DeploymentStatus, ReplicaSet, condition};

/// Maximum length of an object name.
const MAX_NAME: usize = 253;

/// Steps to take.
#[derive(Debug)]
pub(super) struct Plan {
    /// Set to create.
    pub(super) create: Option<NewSet>,
    /// Sets to update.
    pub(super) updates: Vec<SetUpdate>,
    /// Old sets beyond the history limit.
    pub(super) delete: Vec<Arc<ReplicaSet>>,
    /// Status after these steps.
    pub(super) status: DeploymentStatus,
    /// Revision to set on the deployment, if it has another one.
    pub(super) revision: Option<String>,
    /// When to reconcile again if nothing changes.
    pub(super) requeue_after: Option<Duration>,
}

/// A set to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NewSet {
    pub(super) name: String,
    /// Value of the pod-template-hash label.
    pub(super) hash: String,
    pub(super) replicas: i32,
    pub(super) annotations: Changes,
}

/// Update of a set.
#[derive(Clone, Debug)]
pub(super) struct SetUpdate {
    pub(super) set: Arc<ReplicaSet>,
    pub(super) replicas: Option<i32>,
    pub(super) min_ready_seconds: Option<i32>,
    pub(super) annotations: Changes,
}

/// A step of a rollout or scaling.
#[derive(Default)]
struct Step {
    create: Option<i32>,
    sizes: Vec<Size>,
    delete: Vec<Arc<ReplicaSet>>,
    /// True for rollouts, whose progress is reported.
    is_rollout: bool,
}

/// Plans one step. `old_pods_run` is called only if it matters.
pub(super) fn plan(
    deployment: &Deployment,
    sets: &Sets,
    old_pods_run: impl FnOnce() -> bool,
    now: Timestamp,
) -> Plan {
    let mut conditions = deployment.status.conditions.clone();
    if !deployment.metadata.is_terminating() {
        set_paused_condition(deployment, &mut conditions, now);
    }
    set_found_condition(deployment, sets, &mut conditions, now);
    let step = step(deployment, sets, old_pods_run);
    let revision = sets.max_old_revision() + 1;
    let mut changes = sets.new.as_ref().map(|new| {
        let annotations = annotations::for_new_set(deployment, &new.metadata.annotations, revision);
        let seconds = deployment.spec.min_ready_seconds;
        let min_ready_seconds = (new.spec.min_ready_seconds != seconds).then_some(seconds);
        SetUpdate { set: Arc::clone(new), replicas: None, min_ready_seconds, annotations }
    });
    let create = step.create.map(|replicas| new_set(deployment, replicas, revision));
    let mut revision = changes.as_ref().map(|new| annotations::revision_after(&new.set, &new.annotations));
    let mut sets = sets.clone();
    if let Some(create) = &create {
        revision = create.annotations.get(REVISION).cloned();
        set_created_condition(deployment, create, &mut conditions, now);
        sets.new = Some(Arc::new(create.as_replica_set()));
    }
    let status = if step.is_rollout {
        status::of_rollout(deployment, &sets, conditions, now)
    } else {
        status::counted(deployment, &sets, conditions, now)
    };
    let requeue_after =
        step.is_rollout.then(|| status::next_deadline_check(deployment, &status, now)).flatten();
    let current = deployment.metadata.annotations.get(REVISION);
    let revision = revision.filter(|revision| current != Some(revision));
    let updates = updates(deployment, step.sizes, &mut changes);
    Plan { create, updates, delete: step.delete, status, revision, requeue_after }
}

fn step(deployment: &Deployment, sets: &Sets, old_pods_run: impl FnOnce() -> bool) -> Step {
    if deployment.metadata.is_terminating() {
        return Step::default();
    }
    if deployment.spec.paused {
        let delete = beyond_history_limit(deployment, sets);
        return Step { sizes: scaling::scale(deployment, sets), delete, ..Step::default() };
    }
    if scaling::is_scaled(deployment, sets) {
        let sizes = scaling::scale(deployment, sets);
        // Without rolling updates there are no proportions to keep between several sets: the rollout continues, where
        // kube-controller-manager would be stuck.
        if !sizes.is_empty() {
            return Step { sizes, ..Step::default() };
        }
    }
    let step = if is_rolling(deployment) {
        rolling_step(deployment, sets)
    } else {
        recreate_step(deployment, sets, old_pods_run)
    };
    Step { is_rollout: true, ..step }
}

fn rolling_step(deployment: &Deployment, sets: &Sets) -> Step {
    if sets.new.is_none() {
        let replicas = rolling::new_replicas(deployment, sets, 0);
        return Step { create: Some(replicas), ..Step::default() };
    }
    let sizes = rolling::step(deployment, sets);
    let is_done = sizes.is_empty() && is_complete(deployment, &deployment.status);
    let delete = if is_done { beyond_history_limit(deployment, sets) } else { Vec::new() };
    Step { sizes, delete, ..Step::default() }
}

/// No new pod may run beside an old one.
fn recreate_step(deployment: &Deployment, sets: &Sets, old_pods_run: impl FnOnce() -> bool) -> Step {
    let active = sets.old.iter().filter(|set| set.replicas() > 0);
    let sizes: Vec<Size> = active.map(|set| (Arc::clone(set), 0)).collect();
    if !sizes.is_empty() {
        return Step { sizes, ..Step::default() };
    }
    if sets.old.iter().any(|set| set.status.replicas > 0) || old_pods_run() {
        return Step::default();
    }
    let Some(new) = &sets.new else {
        return Step { create: Some(deployment.replicas()), ..Step::default() };
    };
    let sizes = if new.replicas() == deployment.replicas() {
        Vec::new()
    } else {
        vec![(Arc::clone(new), deployment.replicas())]
    };
    let is_done = is_complete(deployment, &deployment.status);
    let delete = if is_done { beyond_history_limit(deployment, sets) } else { Vec::new() };
    Step { sizes, delete, ..Step::default() }
}

/// The oldest of the old sets beyond the revision history limit, if they have no pods.
fn beyond_history_limit(deployment: &Deployment, sets: &Sets) -> Vec<Arc<ReplicaSet>> {
    let Some(limit) = deployment.spec.revision_history_limit.filter(|limit| *limit != i32::MAX) else {
        return Vec::new();
    };
    let mut old: Vec<_> = sets.old.iter().filter(|set| !set.metadata.is_terminating()).cloned().collect();
    // By age if they have no revision.
    old.sort_by_key(|set| annotations::revision(&set.metadata).unwrap_or_default());
    old.truncate(old.len().saturating_sub(usize::try_from(limit).unwrap_or_default()));
    let is_empty = |set: &ReplicaSet| {
        set.status.replicas == 0
            && set.replicas() == 0
            && set.metadata.generation <= set.status.observed_generation
    };
    old.retain(|set| is_empty(set));
    old
}

/// Updates of the sets that are scaled, and of the new one.
fn updates(deployment: &Deployment, sizes: Vec<Size>, new: &mut Option<SetUpdate>) -> Vec<SetUpdate> {
    let max = max_replicas(deployment);
    let mut updates = Vec::new();
    for (set, size) in sizes {
        let mut annotations = annotations::sizes(&set.metadata.annotations, deployment.replicas(), max);
        let replicas = (set.replicas() != size).then_some(size);
        let is_new = new.as_ref().is_some_and(|new| new.set.metadata.uid() == set.metadata.uid());
        let of_new = if is_new { new.take() } else { None };
        let min_ready_seconds = of_new.as_ref().and_then(|new| new.min_ready_seconds);
        annotations.extend(of_new.into_iter().flat_map(|new| new.annotations));
        updates.push(SetUpdate { set, replicas, min_ready_seconds, annotations });
    }
    updates.extend(new.take());
    updates.retain(|update| {
        update.replicas.is_some() || update.min_ready_seconds.is_some() || !update.annotations.is_empty()
    });
    updates
}

fn new_set(deployment: &Deployment, replicas: i32, revision: i64) -> NewSet {
    let hash = template_hash(&deployment.spec.template, deployment.status.collision_count);
    let mut name = deployment.metadata.name().to_owned();
    name.truncate(MAX_NAME - 1 - hash.len());
    let name = format!("{name}-{hash}");
    let mut annotations = annotations::for_new_set(deployment, &Labels::default(), revision);
    let max = max_replicas(deployment);
    annotations.extend(annotations::sizes(&Labels::default(), deployment.replicas(), max));
    NewSet { name, hash, replicas, annotations }
}

impl NewSet {
    /// The set as the informer will report it.
    fn as_replica_set(&self) -> ReplicaSet {
        let plain = Metadata { name: self.name.as_str().into(), ..Metadata::default() };
        let mut set = ReplicaSet {
            metadata: ObjectMetadata { plain, ..ObjectMetadata::default() },
            ..ReplicaSet::default()
        };
        set.spec.replicas = Some(self.replicas);
        set
    }
}

/// Pausing and resuming restart the progress deadline. A deployment that exceeded it keeps that condition.
fn set_paused_condition(deployment: &Deployment, conditions: &mut Vec<Condition>, now: Timestamp) {
    if deadline(deployment).is_none() || has_reason(conditions, PROGRESSING, TIMED_OUT) {
        return;
    }
    let (reason, message) = match (deployment.spec.paused, has_reason(conditions, PROGRESSING, PAUSED)) {
        (true, false) => (PAUSED, "Deployment is paused"),
        (false, true) => (RESUMED, "Deployment is resumed"),
        _ => return,
    };
    conditions::set(conditions, conditions::new(PROGRESSING, "Unknown", reason, message, now));
}

/// A set that existed before progress was tracked starts the progress deadline.
fn set_found_condition(
    deployment: &Deployment,
    sets: &Sets,
    conditions: &mut Vec<Condition>,
    now: Timestamp,
) {
    if let Some(new) = &sets.new
        && deadline(deployment).is_some()
        && condition(conditions, PROGRESSING).is_none()
    {
        let message = format!("Found new replica set \"{}\"", new.metadata.name());
        conditions::set(conditions, conditions::new(PROGRESSING, "True", NEW_SET_FOUND, &message, now));
    }
}

fn set_created_condition(
    deployment: &Deployment,
    create: &NewSet,
    conditions: &mut Vec<Condition>,
    now: Timestamp,
) {
    if deadline(deployment).is_some() {
        let message = format!("Created new replica set \"{}\"", create.name);
        conditions::set(conditions, conditions::new(PROGRESSING, "True", NEW_SET_CREATED, &message, now));
    }
}
