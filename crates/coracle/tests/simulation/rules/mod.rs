//! Invariants. Each rule sees every change, in order, with the state after it.
//!
//! Controllers act on caches that lag. So a rule about desired state is satisfied if it was for any desired
//! state within the last [`STALENESS_LIMIT`].

mod address;
mod budget;
mod cron_job;
mod daemon_set;
mod job;
mod namespace;
mod node;
mod quota;
mod replica_set;
mod rollout;
mod stateful_set;
mod volume;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use serde_json::Value;

use crate::history::Change;
use crate::run::MAX_SCENARIOS;
use crate::state::{PODS, State, controller, has_condition, is_active, is_ready, uid};

/// How long a controller may act on outdated state: longer than any component is away, and than a watch
/// that was cut needs to recover after several failures.
const STALENESS_LIMIT: Duration = Duration::from_secs(60);

pub(crate) trait Rule {
    /// Checks a change.
    ///
    /// # Errors
    /// The violation of the rule.
    fn check(&mut self, change: &Change, state: &State) -> Result<(), String>;
}

/// All rules, for a run in which users deleted these objects.
pub(crate) fn all(deleted: &BTreeSet<String>) -> Vec<Box<dyn Rule>> {
    vec![
        Box::new(address::Addresses::new(MAX_SCENARIOS)),
        Box::new(replica_set::Replicas::default()),
        Box::new(rollout::Rollout::new(deleted.clone())),
        Box::new(stateful_set::OrderedPods::new(deleted.clone())),
        Box::new(job::Indexes::default()),
        Box::new(job::Counts),
        Box::new(daemon_set::OnePerNode),
        Box::new(namespace::NamespaceContent),
        Box::new(node::Nodes),
        Box::new(quota::Quota),
        Box::new(cron_job::Concurrency::default()),
        Box::new(budget::Budget::new(deleted.clone())),
        Box::new(volume::Volumes),
    ]
}

/// The values of a field within [`STALENESS_LIMIT`].
struct Recent<T> {
    /// With the time since when; each is valid until the next.
    known: VecDeque<(Duration, T)>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { known: VecDeque::new() }
    }
}

impl<T> Recent<T> {
    fn record(&mut self, at: Duration, value: T) {
        self.prune(at);
        self.known.push_back((at, value));
    }

    /// The values at any time within [`STALENESS_LIMIT`].
    fn values(&mut self, now: Duration) -> impl Iterator<Item = &T> {
        self.prune(now);
        self.known.iter().map(|(_, value)| value)
    }

    /// Drops values that were replaced before [`STALENESS_LIMIT`].
    fn prune(&mut self, now: Duration) {
        while self.known.get(1).is_some_and(|(since, _)| *since + STALENESS_LIMIT < now) {
            self.known.pop_front();
        }
    }
}

/// Pods that were lost by other causes than their controller: users or nodes.
#[derive(Default)]
struct Losses {
    deleted: BTreeSet<String>,
    /// Times of the losses, by the controller of the pods.
    lost: BTreeMap<String, Vec<Duration>>,
}

impl Losses {
    fn new(deleted: BTreeSet<String>) -> Self {
        Self { deleted, lost: BTreeMap::new() }
    }

    /// Records the change if it is a loss. True if it is.
    fn record(&mut self, change: &Change) -> bool {
        let Some(old) = change.old.as_deref().filter(|_| change.resource == PODS) else { return false };
        let was_well = is_active(old) && is_ready(old);
        let is_well = change.now().is_some_and(|new| is_active(new) && is_ready(new));
        let only_unready = change.now().is_some_and(is_active);
        let is_disrupted = has_condition(&change.object, "DisruptionTarget");
        let by_others = self.deleted.contains(uid(old)) || only_unready || is_disrupted;
        let is_loss = was_well && !is_well && by_others;
        if is_loss && let Some((_, owner)) = controller(old) {
            self.lost.entry(owner.to_owned()).or_default().push(change.at);
        }
        is_loss
    }

    /// The number of pods a controller lost within [`STALENESS_LIMIT`].
    fn of(&self, owner: &str, now: Duration) -> u64 {
        let lost = self.lost.get(owner).into_iter().flatten();
        lost.filter(|at| **at + STALENESS_LIMIT >= now).count() as u64
    }
}

/// The active pods of a controller.
fn active_of<'a>(state: &'a State, namespace: &str, owner: &'a str) -> impl Iterator<Item = &'a Value> {
    let of_it = move |pod: &&Value| controller(pod).is_some_and(|(_, uid)| uid == owner);
    state.list(PODS, namespace).filter(of_it).filter(|pod| is_active(pod))
}
