//! The pods of a StatefulSet are created one after the other, each once those before it are ready, and
//! deleted one at a time, the last first.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Losses, Recent, Rule};
use crate::history::Change;
use crate::state::{
    PODS, STATEFUL_SETS, State, controller, format_pods, is_active, is_ready, is_terminating, name,
    namespace, number, text, uid,
};

pub(super) struct OrderedPods {
    losses: Losses,
    /// Desired number of pods, by the UID of the set.
    replicas: BTreeMap<String, Recent<u64>>,
    /// UIDs of sets with `podManagementPolicy: Parallel`.
    parallel: BTreeSet<String>,
}

impl OrderedPods {
    pub(super) fn new(deleted: BTreeSet<String>) -> Self {
        Self { losses: Losses::new(deleted), replicas: BTreeMap::new(), parallel: BTreeSet::new() }
    }
}

impl Rule for OrderedPods {
    fn check(&mut self, change: &Change, state: &State) -> Result<(), String> {
        let is_loss = self.losses.record(change);
        if let Some(set) = change.now().filter(|_| change.resource == STATEFUL_SETS) {
            let known = self.replicas.entry(uid(set).to_owned()).or_default();
            known.record(change.at, number(set, "/spec/replicas"));
            if text(set, "/spec/podManagementPolicy") == "Parallel" {
                self.parallel.insert(uid(set).to_owned());
            }
        }
        let Some(("StatefulSet", set)) = controller(&change.object) else { return Ok(()) };
        let has_order = change.resource == PODS && !self.parallel.contains(set);
        if !has_order || is_loss || self.losses.of(set, change.at) > 0 {
            return Ok(());
        }
        let pods: Vec<_> = of_set(state, namespace(&change.object), set);
        let this = ordinal(&change.object);
        let there = |number: u64| {
            pods.iter().find(|pod| ordinal(pod) == number).is_some_and(|pod| is_active(pod) && is_ready(pod))
        };
        // A deleted set has no order; delayed requests for it may still arrive.
        let mut sets = state.list(STATEFUL_SETS, namespace(&change.object));
        if !sets.any(|known| uid(known) == set && !is_terminating(known)) {
            return Ok(());
        }
        if change.created().is_some() && !(0..this).all(there) {
            return violation(change, "was created before its predecessors were ready", &pods);
        }
        let starts_terminating =
            change.now().is_some_and(is_terminating) && change.old.as_deref().is_some_and(is_active);
        let replicas = self.replicas.entry(set.to_owned()).or_default().values(change.at).min().copied();
        // A pod beyond the desired number waits only for those after it.
        let is_wanted = replicas.is_some_and(|replicas| this < replicas);
        let waits_for = |other: u64| other > this || (is_wanted && other < this);
        let others_terminating = pods.iter().any(|pod| is_terminating(pod) && waits_for(ordinal(pod)));
        if starts_terminating && others_terminating {
            return violation(change, "was deleted while another was terminating", &pods);
        }
        Ok(())
    }
}

fn violation(change: &Change, what: &str, pods: &[&Value]) -> Result<(), String> {
    let (namespace, name) = (namespace(&change.object), name(&change.object));
    Err(format!("{namespace}/{name} {what}: {}", format_pods(pods.iter().copied())))
}

fn of_set<'a>(state: &'a State, namespace: &str, set: &str) -> Vec<&'a Value> {
    let of_it = |pod: &&Value| controller(pod).is_some_and(|(_, uid)| uid == set);
    state.list(PODS, namespace).filter(of_it).collect()
}

fn ordinal(pod: &Value) -> u64 {
    name(pod).rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}
