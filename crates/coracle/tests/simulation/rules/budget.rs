//! No eviction leaves fewer healthy pods than a budget requires, unless the desired number of pods
//! decreased.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Losses, Recent, Rule};
use crate::history::Change;
use crate::state::{
    DEPLOYMENTS, DISRUPTION_BUDGETS, PODS, State, app, controller, format_pods, is_active, is_ready,
    is_terminating, namespace, number,
};

pub(super) struct Budget {
    losses: Losses,
    /// By the namespace, which has one budget.
    desired: BTreeMap<String, Recent<u64>>,
    /// The desired number of pods of the deployment, by namespace.
    sizes: BTreeMap<String, Recent<u64>>,
}

impl Budget {
    pub(super) fn new(deleted: BTreeSet<String>) -> Self {
        Self { losses: Losses::new(deleted), desired: BTreeMap::new(), sizes: BTreeMap::new() }
    }
}

impl Rule for Budget {
    fn check(&mut self, change: &Change, state: &State) -> Result<(), String> {
        let bounds = match change.resource {
            DISRUPTION_BUDGETS => Some((&mut self.desired, "/spec/minAvailable")),
            DEPLOYMENTS => Some((&mut self.sizes, "/spec/replicas")),
            _ => None,
        };
        if let Some((now, (known, field))) = change.now().zip(bounds) {
            let known = known.entry(namespace(now).to_owned()).or_default();
            known.record(change.at, number(now, field));
        }
        // An eviction is not a loss by other causes.
        let evicted = was_evicted(change);
        if evicted.is_none() {
            self.losses.record(change);
        }
        let Some(pod) = evicted else { return Ok(()) };
        let Some(known) = self.desired.get_mut(namespace(pod)) else { return Ok(()) };
        let desired = known.values(change.at).min().copied().unwrap_or_default();
        let lost = controller(pod).map_or(0, |(_, owner)| self.losses.of(owner, change.at));
        let fewer = self.sizes.get_mut(namespace(pod)).map_or(0, |sizes| spread(sizes.values(change.at)));
        let healthy = |other: &&Value| app(other) == app(pod) && is_active(other) && is_ready(other);
        let pods: Vec<_> = state.list(PODS, namespace(pod)).filter(healthy).collect();
        if pods.len() as u64 + lost + fewer < desired {
            return Err(format!("{} leaves {} of {desired} pods", namespace(pod), format_pods(pods)));
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
    let by_eviction = |condition: &Value| {
        condition["type"] == "DisruptionTarget" && condition["reason"] == "EvictionByEvictionAPI"
    };
    let is_so = is_active(old)
        && is_ready(old)
        && is_terminating(&change.object)
        && conditions.iter().any(by_eviction);
    is_so.then_some(&*change.object)
}
