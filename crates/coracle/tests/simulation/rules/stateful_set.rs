//! The pods of a StatefulSet are created one after the other, each once those before it are ready, and
//! deleted one at a time, the last first.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Losses, Recent, Rule};
use crate::history::Change;
use crate::state::{
    PODS, STATEFUL_SETS, State, controller, format_pods, is_active, is_going, is_ready, name, namespace,
    number, text, uid,
};

pub(super) struct Ordered {
    losses: Losses,
    /// Desired number of pods, by the UID of the set.
    replicas: BTreeMap<String, Recent<u64>>,
    /// UIDs of sets with `podManagementPolicy: Parallel`.
    parallel: BTreeSet<String>,
}

impl Ordered {
    pub(super) fn new(deleted: BTreeSet<String>) -> Self {
        Self { losses: Losses::new(deleted), replicas: BTreeMap::new(), parallel: BTreeSet::new() }
    }
}

impl Rule for Ordered {
    fn see(&mut self, change: &Change, state: &State) -> Result<(), String> {
        let is_loss = self.losses.see(change);
        if let Some(set) = change.now().filter(|_| change.resource == STATEFUL_SETS) {
            let known = self.replicas.entry(uid(set).to_owned()).or_default();
            known.note(change.at, number(set, "/spec/replicas"));
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
        if !sets.any(|known| uid(known) == set && !is_going(known)) {
            return Ok(());
        }
        if change.created().is_some() && !(0..this).all(there) {
            return violation(change, "was made before those before it were ready", &pods);
        }
        let begins_to_go = change.now().is_some_and(is_going) && change.old.as_deref().is_some_and(is_active);
        let replicas = self.replicas.entry(set.to_owned()).or_default().values(change.at).min().copied();
        // A pod beyond the desired number waits only for those after it.
        let is_wanted = replicas.is_some_and(|replicas| this < replicas);
        let waits_for = |other: u64| other > this || (is_wanted && other < this);
        let others_going = pods.iter().any(|pod| is_going(pod) && waits_for(ordinal(pod)));
        if begins_to_go && others_going {
            return violation(change, "was deleted while another was going", &pods);
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
