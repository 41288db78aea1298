//! The pods of a StatefulSet are created one after the other, each once those before it are ready, and
//! deleted one at a time, the last first.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Lately, Losses, Rule};
use crate::history::Moment;
use crate::state::{
    PODS, STATEFUL_SETS, State, controller, is_active, is_going, is_ready, name, namespace, number, shown,
    text, uid,
};

pub(super) struct Ordered {
    losses: Losses,
    /// Desired number of pods, by the UID of the set.
    replicas: BTreeMap<String, Lately<u64>>,
    /// UIDs of sets with `podManagementPolicy: Parallel`.
    parallel: BTreeSet<String>,
}

impl Ordered {
    pub(super) fn new(deleted: BTreeSet<String>) -> Self {
        Self { losses: Losses::new(deleted), replicas: BTreeMap::new(), parallel: BTreeSet::new() }
    }
}

impl Rule for Ordered {
    fn see(&mut self, moment: &Moment, state: &State) -> Result<(), String> {
        let is_loss = self.losses.see(moment);
        if let Some(set) = moment.now().filter(|_| moment.resource == STATEFUL_SETS) {
            let known = self.replicas.entry(uid(set).to_owned()).or_default();
            known.note(moment.at, number(set, "/spec/replicas"));
            if text(set, "/spec/podManagementPolicy") == "Parallel" {
                self.parallel.insert(uid(set).to_owned());
            }
        }
        let Some(("StatefulSet", set)) = controller(&moment.object) else { return Ok(()) };
        let has_order = moment.resource == PODS && !self.parallel.contains(set);
        if !has_order || is_loss || self.losses.of(set, moment.at) > 0 {
            return Ok(());
        }
        let pods: Vec<_> = of_set(state, namespace(&moment.object), set);
        let this = ordinal(&moment.object);
        let there = |number: u64| {
            pods.iter().find(|pod| ordinal(pod) == number).is_some_and(|pod| is_active(pod) && is_ready(pod))
        };
        // A deleted set has no order; delayed requests for it may still arrive.
        let mut sets = state.list(STATEFUL_SETS, namespace(&moment.object));
        if !sets.any(|known| uid(known) == set && !is_going(known)) {
            return Ok(());
        }
        if moment.made().is_some() && !(0..this).all(there) {
            return wrong(moment, "was made before those before it were ready", &pods);
        }
        let begins_to_go = moment.now().is_some_and(is_going) && moment.old.as_deref().is_some_and(is_active);
        let replicas = self.replicas.entry(set.to_owned()).or_default().values(moment.at).min().copied();
        // A pod beyond the desired number waits only for those after it.
        let is_wanted = replicas.is_some_and(|replicas| this < replicas);
        let waits_for = |other: u64| other > this || (is_wanted && other < this);
        let others_going = pods.iter().any(|pod| is_going(pod) && waits_for(ordinal(pod)));
        if begins_to_go && others_going {
            return wrong(moment, "was deleted while another was going", &pods);
        }
        Ok(())
    }
}

fn wrong(moment: &Moment, what: &str, pods: &[&Value]) -> Result<(), String> {
    let (namespace, name) = (namespace(&moment.object), name(&moment.object));
    Err(format!("{namespace}/{name} {what}: {}", shown(pods.iter().copied())))
}

fn of_set<'a>(state: &'a State, namespace: &str, set: &str) -> Vec<&'a Value> {
    let of_it = |pod: &&Value| controller(pod).is_some_and(|(_, uid)| uid == set);
    state.list(PODS, namespace).filter(of_it).collect()
}

fn ordinal(pod: &Value) -> u64 {
    name(pod).rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}
