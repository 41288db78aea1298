//! No eviction leaves fewer healthy pods than a budget wants.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Lately, Losses, Rule};
use crate::history::Moment;
use crate::state::{
    DISRUPTION_BUDGETS, PODS, State, app, controller, is_active, is_going, is_ready, namespace, number, shown,
};

pub(super) struct Budget {
    losses: Losses,
    /// By the namespace, which has one.
    wanted: BTreeMap<String, Lately<u64>>,
}

impl Budget {
    pub(super) fn new(deleted: BTreeSet<String>) -> Self {
        Self { losses: Losses::new(deleted), wanted: BTreeMap::new() }
    }
}

impl Rule for Budget {
    fn see(&mut self, moment: &Moment, state: &State) -> Result<(), String> {
        if let Some(budget) = moment.now().filter(|_| moment.resource == DISRUPTION_BUDGETS) {
            let known = self.wanted.entry(namespace(budget).to_owned()).or_default();
            known.note(moment.at, number(budget, "/spec/minAvailable"));
        }
        // An eviction is no loss that others have caused.
        let evicted = was_evicted(moment);
        if evicted.is_none() {
            self.losses.see(moment);
        }
        let Some(pod) = evicted else { return Ok(()) };
        let Some(known) = self.wanted.get_mut(namespace(pod)) else { return Ok(()) };
        let wanted = known.values(moment.at).min().copied().unwrap_or_default();
        let lost = controller(pod).map_or(0, |(_, owner)| self.losses.of(owner, moment.at));
        let healthy = |other: &&Value| app(other) == app(pod) && is_active(other) && is_ready(other);
        let pods: Vec<_> = state.list(PODS, namespace(pod)).filter(healthy).collect();
        if pods.len() as u64 + lost < wanted {
            return Err(format!("{} is left {} of {wanted} pods", namespace(pod), shown(pods)));
        }
        Ok(())
    }
}

/// The pod, if it was healthy and this is its eviction.
fn was_evicted(moment: &Moment) -> Option<&Value> {
    let old = moment.old.as_deref().filter(|_| moment.resource == PODS)?;
    let conditions = moment.object["status"]["conditions"].as_array()?;
    let by_eviction =
        |told: &Value| told["type"] == "DisruptionTarget" && told["reason"] == "EvictionByEvictionAPI";
    let is_so =
        is_active(old) && is_ready(old) && is_going(&moment.object) && conditions.iter().any(by_eviction);
    is_so.then_some(&*moment.object)
}
