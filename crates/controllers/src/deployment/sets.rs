//! The replica sets of a deployment: the one that has its template now, and all others.

use std::sync::Arc;

use coracle_base::Timestamp;

use super::annotations;
use crate::view::{Deployment, ReplicaSet};

/// The label by which the pods of one template are told from those of another.
pub(super) const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// All sets of a deployment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sets {
    /// The one with the template of the deployment.
    pub(super) new: Option<Arc<ReplicaSet>>,
    /// All others, the oldest first.
    pub(super) old: Vec<Arc<ReplicaSet>>,
}

impl Sets {
    /// Tells new from old. If several have the template, the oldest is the new one.
    pub(super) fn of(deployment: &Deployment, mut all: Vec<Arc<ReplicaSet>>) -> Self {
        all.sort_by(|one, other| age(one).cmp(&age(other)));
        let template = &deployment.spec.template;
        let new = all.iter().position(|set| set.spec.template.equals_but_for(template, POD_TEMPLATE_HASH));
        let new = new.map(|index| all.remove(index));
        Self { new, old: all }
    }

    /// All of them, the new one last.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().chain(&self.new)
    }

    /// Those that are to have pods.
    pub(super) fn active(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.all().filter(|set| set.replicas() > 0)
    }

    /// How many pods all of them are to have.
    pub(super) fn wanted(&self) -> i32 {
        self.all().map(|set| set.replicas()).sum()
    }

    /// How many pods of all of them are available.
    pub(super) fn available(&self) -> i32 {
        self.all().map(|set| set.status.available_replicas).sum()
    }

    /// How many pods of all of them are available for certain.
    pub(super) fn surely_available(&self) -> i32 {
        self.all().map(|set| surely_available(set)).sum()
    }

    /// The only one that has pods, or the newest if none has; none if several have.
    pub(super) fn active_or_latest(&self) -> Option<&Arc<ReplicaSet>> {
        let mut active = self.active();
        match (active.next(), active.next()) {
            (None, _) => self.new.as_ref().or_else(|| self.old.last()),
            (only, None) => only,
            _ => None,
        }
    }

    /// The largest revision among the old ones.
    pub(super) fn max_old_revision(&self) -> i64 {
        self.old
            .iter()
            .map(|set| annotations::revision(&set.metadata).unwrap_or_default())
            .max()
            .unwrap_or_default()
            .max(0)
    }
}

/// How many pods of a set are available for certain. One that has just been made smaller still counts those
/// that it is about to delete; and one that was changed more than once since it counted may have been smaller
/// in between, so that nothing is certain until it has counted again.
pub(super) fn surely_available(set: &ReplicaSet) -> i32 {
    let changes = set.metadata.generation - set.status.observed_generation;
    if changes > 1 { 0 } else { set.status.available_replicas.min(set.replicas()) }
}

/// What sorts sets by age.
pub(super) fn age(set: &ReplicaSet) -> (Timestamp, &str) {
    (set.metadata.creation_timestamp, set.metadata.name())
}
