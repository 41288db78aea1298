//! No eviction leaves fewer healthy pods than a budget requires, unless the desired number of pods
//! decreased.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Losses, Recent, Rule};
use crate::history::Change;
use crate::state::{
    DEPLOYMENTS, DISRUPTION_BUDGETS, PODS, State, app, controller, format_pods, is_active, is_going,
    is_ready, namespace, number,
};

pub(super) struct Budget {
    losses: Losses,
    /// By the namespace, which has one budget.
    wanted: BTreeMap<String, Recent<u64>>,
    /// The desired number of pods of the deployment, by namespace.
    sizes: BTreeMap<String, Recent<u64>>,
}

impl Budget {
    pub(super) fn new(deleted: BTreeSet<String>) -> Self {
        Self { losses: Losses::new(deleted), wanted: BTreeMap::new(), sizes: BTreeMap::new() }
    }
}

impl Rule for Budget {
    fn see(&mut self, change: &Change, state: &State) -> Result<(), String> {
        let noted = match change.resource {
            DISRUPTION_BUDGETS => Some((&mut self.wanted, "/spec/minAvailable")),
            DEPLOYMENTS => Some((&mut self.sizes, "/spec/replicas")),
            _ => None,
        };
        if let Some((now, (known, field))) = change.now().zip(noted) {
            let known = known.entry(namespace(now).to_owned()).or_default();
            known.note(change.at, number(now, field));
        }
        // An eviction is not a loss by other causes.
        let evicted = was_evicted(change);
        if evicted.is_none() {
            self.losses.see(change);
        }
        let Some(pod) = evicted else { return Ok(()) };
        let Some(known) = self.wanted.get_mut(namespace(pod)) else { return Ok(()) };
        let wanted = known.values(change.at).min().copied().unwrap_or_default();
        let lost = controller(pod).map_or(0, |(_, owner)| self.losses.of(owner, change.at));
        let fewer = self.sizes.get_mut(namespace(pod)).map_or(0, |sizes| spread(sizes.values(change.at)));
        let healthy = |other: &&Value| app(other) == app(pod) && is_active(other) && is_ready(other);
        let pods: Vec<_> = state.list(PODS, namespace(pod)).filter(healthy).collect();
        if pods.len() as u64 + lost + fewer < wanted {
            return Err(format!("{} is left {} of {wanted} pods", namespace(pod), format_pods(pods)));
        }
        Ok(())
    }
}

/// The difference between the largest and the smallest.
fn spread<'a>(sizes: impl Iterator<Item = &'a u64>) -> u64 {
    let (least, most) = sizes.fold((u64::MAX, 0), |(least, most), &size| (least.min(size), most.max(size)));
    most.saturating_sub(least)
}

/// The pod, if it was healthy and this is its eviction.
fn was_evicted(change: &Change) -> Option<&Value> {
    let old = change.old.as_deref().filter(|_| change.resource == PODS)?;
    let conditions = change.object["status"]["conditions"].as_array()?;
    let by_eviction =
        |told: &Value| told["type"] == "DisruptionTarget" && told["reason"] == "EvictionByEvictionAPI";
    let is_so =
        is_active(old) && is_ready(old) && is_going(&change.object) && conditions.iter().any(by_eviction);
    is_so.then_some(&*change.object)
}
