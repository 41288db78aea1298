//! The replica sets of a deployment: the new one with the current template, and the old ones.

use std::sync::Arc;

use coracle_base::Timestamp;

use super::annotations;
use crate::view::{Deployment, ReplicaSet};

/// Label that distinguishes the pods of different templates.
pub(super) const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// All replica sets of a deployment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sets {
    /// The set with the deployment's template.
    pub(super) new: Option<Arc<ReplicaSet>>,
    /// All other sets, the oldest first.
    pub(super) old: Vec<Arc<ReplicaSet>>,
}

impl Sets {
    /// Separates the new set from the old ones. If several sets have the template, the oldest is the new one.
    pub(super) fn of(deployment: &Deployment, mut all: Vec<Arc<ReplicaSet>>) -> Self {
        all.sort_by(|one, other| age(one).cmp(&age(other)));
        let template = &deployment.spec.template;
        let new = all.iter().position(|set| set.spec.template.equals_except(template, POD_TEMPLATE_HASH));
        let new = new.map(|index| all.remove(index));
        Self { new, old: all }
    }

    /// All sets, the new one last.
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.old.iter().chain(&self.new)
    }

    /// Sets with desired replicas.
    pub(super) fn active(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.all().filter(|set| set.replicas() > 0)
    }

    /// Sum of desired replicas.
    pub(super) fn wanted(&self) -> i32 {
        self.all().map(|set| set.replicas()).sum()
    }

    /// Sum of available replicas.
    pub(super) fn available(&self) -> i32 {
        self.all().map(|set| set.status.available_replicas).sum()
    }

    /// Sum of certainly available replicas.
    pub(super) fn certainly_available(&self) -> i32 {
        self.all().map(|set| certainly_available(set)).sum()
    }

    /// The only active set, or the newest if none is active; `None` if several are.
    pub(super) fn active_or_latest(&self) -> Option<&Arc<ReplicaSet>> {
        let mut active = self.active();
        match (active.next(), active.next()) {
            (None, _) => self.new.as_ref().or_else(|| self.old.last()),
            (only, None) => only,
            _ => None,
        }
    }

    /// The highest revision of the old sets.
    pub(super) fn max_old_revision(&self) -> i64 {
        self.old
            .iter()
            .map(|set| annotations::revision(&set.metadata).unwrap_or_default())
            .max()
            .unwrap_or_default()
            .max(0)
    }
}

/// Number of pods of a set that are certainly available. A set that was just scaled down still counts the pods that
/// it is about to delete. If the spec changed more than once since the status was written, the set may have been
/// smaller in between, so nothing is certain until the status is updated.
pub(super) fn certainly_available(set: &ReplicaSet) -> i32 {
    let changes = set.metadata.generation - set.status.observed_generation;
    if changes > 1 { 0 } else { set.status.available_replicas.min(set.replicas()) }
}

/// Sort key by age.
pub(super) fn age(set: &ReplicaSet) -> (Timestamp, &str) {
    (set.metadata.creation_timestamp, set.metadata.name())
}
