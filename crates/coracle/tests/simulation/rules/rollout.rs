//! A rollout never wants more pods than `maxSurge` allows, and takes none away that `maxUnavailable` keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;

use super::{Lately, Losses, Rule, active_of};
use crate::history::Moment;
use crate::state::{
    DEPLOYMENTS, NAMESPACES, PODS, REPLICA_SETS, State, controller, is_active, is_going, is_ready, name,
    namespace, number, shown, uid,
};

pub(super) struct Rollout {
    losses: Losses,
    /// By the identity of the deployment.
    bounds: BTreeMap<String, Lately<Bounds>>,
    /// Since when pods are ready, by their identity.
    ready_since: BTreeMap<String, Duration>,
}

/// Who has been ready for no longer may be taken for one that is not, and goes first then: news take their time.
const NEWS: Duration = Duration::from_secs(3);

/// How many pods there may be, and how many there must be.
struct Bounds {
    replicas: u64,
    most: u64,
    least: u64,
}

impl Rollout {
    pub(super) fn new(deleted: BTreeSet<String>) -> Self {
        Self { losses: Losses::new(deleted), bounds: BTreeMap::new(), ready_since: BTreeMap::new() }
    }
}

impl Rule for Rollout {
    fn see(&mut self, moment: &Moment, state: &State) -> Result<(), String> {
        let is_loss = self.losses.see(moment);
        match moment.resource {
            DEPLOYMENTS => {
                self.note(moment);
                Ok(())
            }
            REPLICA_SETS => self.check_surge(moment, state),
            PODS => {
                self.note_readiness(moment);
                if is_loss || !self.takes_ready_pod(moment) {
                    return Ok(());
                }
                self.check_availability(moment, state)
            }
            _ => Ok(()),
        }
    }
}

impl Rollout {
    /// ReplicaSets are counted by what they are told to have: those that are told to have fewer may be slow.
    fn check_surge(&mut self, moment: &Moment, state: &State) -> Result<(), String> {
        let wanted = |set: &Value| number(set, "/spec/replicas");
        let before = moment.old.as_deref().map_or(0, wanted);
        let Some(set) = moment.now().filter(|set| wanted(set) > before) else { return Ok(()) };
        let Some((deployment, sets)) = deployment_of(state, set) else { return Ok(()) };
        let told: u64 = sets.iter().map(|set| wanted(set)).sum();
        let most = self.lately(deployment, moment).map(|bounds| bounds.most).max();
        if most.is_some_and(|most| told > most) {
            return Err(format!("{} is to have {told} pods, and not {most:?}", place(deployment)));
        }
        Ok(())
    }

    fn check_availability(&mut self, moment: &Moment, state: &State) -> Result<(), String> {
        let sets = || state.list(REPLICA_SETS, namespace(&moment.object));
        let Some((_, owner)) = controller(&moment.object) else { return Ok(()) };
        let Some(set) = sets().find(|set| uid(set) == owner && !is_going(set)) else { return Ok(()) };
        if state.get(NAMESPACES, "", namespace(set)).is_none_or(is_going) {
            return Ok(());
        }
        let Some((deployment, sets)) = deployment_of(state, set) else { return Ok(()) };
        let all = sets.iter().copied();
        let pods: Vec<_> = all.flat_map(|set| active_of(state, namespace(set), uid(set))).collect();
        let ready = pods.iter().filter(|pod| is_ready(pod)).count() as u64;
        let lost: u64 = sets.iter().map(|set| self.losses.of(uid(set), moment.at)).sum();
        let sizes: BTreeSet<_> = self.lately(deployment, moment).map(|bounds| bounds.replicas).collect();
        if sizes.len() > 1 {
            // All ReplicaSets get smaller in proportion, whether their pods are ready or not.
            return Ok(());
        }
        let least = self.lately(deployment, moment).map(|bounds| bounds.least).min();
        if least.is_some_and(|least| ready + lost < least) {
            return Err(format!("{} has fewer ready than {least:?}: {}", place(deployment), shown(pods)));
        }
        Ok(())
    }

    fn note_readiness(&mut self, moment: &Moment) {
        let was_ready = moment.old.as_deref().is_some_and(is_ready);
        if !was_ready && moment.now().is_some_and(is_ready) {
            self.ready_since.insert(uid(&moment.object).to_owned(), moment.at);
        }
    }

    /// Whether the change took away a pod that was known to be of use, and nobody but its controller can have
    /// wanted that.
    fn takes_ready_pod(&self, moment: &Moment) -> bool {
        let was_well = moment.old.as_deref().is_some_and(|old| is_active(old) && is_ready(old));
        let is_known = self.ready_since.get(uid(&moment.object)).is_some_and(|at| *at + NEWS < moment.at);
        was_well && is_known && moment.now().is_none_or(|new| !is_active(new))
    }

    fn lately(&mut self, deployment: &Value, moment: &Moment) -> impl Iterator<Item = &Bounds> {
        self.bounds.entry(uid(deployment).to_owned()).or_default().values(moment.at)
    }

    fn note(&mut self, moment: &Moment) {
        let Some(deployment) = moment.now() else { return };
        let known = self.bounds.entry(uid(deployment).to_owned()).or_default();
        let replicas = number(deployment, "/spec/replicas");
        let (surge, unavailable) = match deployment.pointer("/spec/strategy/rollingUpdate") {
            Some(update) => (number(update, "/maxSurge"), number(update, "/maxUnavailable")),
            None => (0, replicas),
        };
        let least = if is_going(deployment) { 0 } else { replicas.saturating_sub(unavailable) };
        known.note(moment.at, Bounds { replicas, most: replicas + surge, least });
    }
}

fn place(deployment: &Value) -> String {
    format!("{}/{}", namespace(deployment), name(deployment))
}

/// The deployment of a ReplicaSet, and all it has.
fn deployment_of<'a>(state: &'a State, set: &Value) -> Option<(&'a Value, Vec<&'a Value>)> {
    let (_, owner) = controller(set)?;
    let mut deployments = state.list(DEPLOYMENTS, namespace(set));
    let deployment = deployments.find(|deployment| uid(deployment) == owner)?;
    let of_it = |set: &&Value| controller(set).is_some_and(|(_, uid)| uid == owner);
    Some((deployment, state.list(REPLICA_SETS, namespace(set)).filter(of_it).collect()))
}
