//! A rollout never exceeds `maxSurge`, and never deletes ready pods below `maxUnavailable`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::{Losses, Recent, Rule, active_of};
use crate::history::Change;
use crate::state::{
    DEPLOYMENTS, NAMESPACES, PODS, REPLICA_SETS, State, controller, format_pods, is_active, is_ready,
    is_terminating, name, namespace, number, uid,
};

pub(super) struct Rollout {
    losses: Losses,
    /// By the UID of the deployment.
    bounds: BTreeMap<String, Recent<Bounds>>,
    /// Start of readiness, by the UID of the pod.
    ready_since: BTreeMap<String, Duration>,
}

/// A pod that became ready less than 3 s ago may still appear unready to the controller, whose watch lags,
/// and is then deleted first.
const READY_LAG: Duration = Duration::from_secs(3);

/// Upper and lower bound on the number of pods.
struct Bounds {
    replicas: u64,
    upper: u64,
    lower: u64,
}

impl Rollout {
    pub(super) fn new(deleted: BTreeSet<String>) -> Self {
        Self { losses: Losses::new(deleted), bounds: BTreeMap::new(), ready_since: BTreeMap::new() }
    }
}

impl Rule for Rollout {
    fn check(&mut self, change: &Change, state: &State) -> Result<(), String> {
        let is_loss = self.losses.record(change);
        match change.resource {
            DEPLOYMENTS => {
                self.record_bounds(change);
                Ok(())
            }
            REPLICA_SETS => self.check_surge(change, state),
            PODS => {
                self.record_readiness(change);
                if is_loss || !self.takes_ready_pod(change) {
                    return Ok(());
                }
                self.check_availability(change, state)
            }
            _ => Ok(()),
        }
    }
}

impl Rollout {
    /// ReplicaSets are counted by their desired replicas, because their pods may take a while to terminate.
    fn check_surge(&mut self, change: &Change, state: &State) -> Result<(), String> {
        let desired = |set: &Value| number(set, "/spec/replicas");
        let before = change.old.as_deref().map_or(0, desired);
        let Some(set) = change.now().filter(|set| desired(set) > before) else { return Ok(()) };
        let Some((deployment, sets)) = deployment_of(state, set) else { return Ok(()) };
        let total: u64 = sets.iter().map(|set| desired(set)).sum();
        let upper = self.recent(deployment, change).map(|bounds| bounds.upper).max();
        if upper.is_some_and(|upper| total > upper) {
            return Err(format!("{} has {total} desired pods, more than {upper:?}", place(deployment)));
        }
        Ok(())
    }

    fn check_availability(&mut self, change: &Change, state: &State) -> Result<(), String> {
        let sets = || state.list(REPLICA_SETS, namespace(&change.object));
        let Some((_, owner)) = controller(&change.object) else { return Ok(()) };
        let Some(set) = sets().find(|set| uid(set) == owner && !is_terminating(set)) else { return Ok(()) };
        if state.get(NAMESPACES, "", namespace(set)).is_none_or(is_terminating) {
            return Ok(());
        }
        let Some((deployment, sets)) = deployment_of(state, set) else { return Ok(()) };
        let all = sets.iter().copied();
        let pods: Vec<_> = all.flat_map(|set| active_of(state, namespace(set), uid(set))).collect();
        let ready = pods.iter().filter(|pod| is_ready(pod)).count() as u64;
        let lost: u64 = sets.iter().map(|set| self.losses.of(uid(set), change.at)).sum();
        let sizes: BTreeSet<_> = self.recent(deployment, change).map(|bounds| bounds.replicas).collect();
        if sizes.len() > 1 {
            // All ReplicaSets shrink in proportion, whether their pods are ready or not.
            return Ok(());
        }
        let lower = self.recent(deployment, change).map(|bounds| bounds.lower).min();
        if lower.is_some_and(|lower| ready + lost < lower) {
            return Err(format!(
                "{} has fewer ready than {lower:?}: {}",
                place(deployment),
                format_pods(pods)
            ));
        }
        Ok(())
    }

    fn record_readiness(&mut self, change: &Change) {
        let was_ready = change.old.as_deref().is_some_and(is_ready);
        if !was_ready && change.now().is_some_and(is_ready) {
            self.ready_since.insert(uid(&change.object).to_owned(), change.at);
        }
    }

    /// True if the change took away a pod that was known to be ready, and only its controller can have
    /// caused that.
    fn takes_ready_pod(&self, change: &Change) -> bool {
        let was_well = change.old.as_deref().is_some_and(|old| is_active(old) && is_ready(old));
        let is_known =
            self.ready_since.get(uid(&change.object)).is_some_and(|at| *at + READY_LAG < change.at);
        was_well && is_known && change.now().is_none_or(|new| !is_active(new))
    }

    fn recent(&mut self, deployment: &Value, change: &Change) -> impl Iterator<Item = &Bounds> {
        self.bounds.entry(uid(deployment).to_owned()).or_default().values(change.at)
    }

    fn record_bounds(&mut self, change: &Change) {
        let Some(deployment) = change.now() else { return };
        let known = self.bounds.entry(uid(deployment).to_owned()).or_default();
        let replicas = number(deployment, "/spec/replicas");
        let (surge, unavailable) = match deployment.pointer("/spec/strategy/rollingUpdate") {
            Some(update) => (number(update, "/maxSurge"), number(update, "/maxUnavailable")),
            None => (0, replicas),
        };
        let lower = if is_terminating(deployment) { 0 } else { replicas.saturating_sub(unavailable) };
        known.record(change.at, Bounds { replicas, upper: replicas + surge, lower });
    }
}

fn place(deployment: &Value) -> String {
    format!("{}/{}", namespace(deployment), name(deployment))
}

/// The deployment of a ReplicaSet, and all of its ReplicaSets.
fn deployment_of<'a>(state: &'a State, set: &Value) -> Option<(&'a Value, Vec<&'a Value>)> {
    let (_, owner) = controller(set)?;
    let mut deployments = state.list(DEPLOYMENTS, namespace(set));
    let deployment = deployments.find(|deployment| uid(deployment) == owner)?;
    let of_it = |set: &&Value| controller(set).is_some_and(|(_, uid)| uid == owner);
    Some((deployment, state.list(REPLICA_SETS, namespace(set)).filter(of_it).collect()))
}
