//! A ReplicaSet never has more pods than desired.

use std::collections::BTreeMap;

use super::{Recent, Rule, active_of};
use crate::history::Change;
use crate::state::{PODS, REPLICA_SETS, State, controller, format_pods, namespace, number, uid};

#[derive(Default)]
pub(super) struct Replicas {
    /// By the UID of the set.
    desired: BTreeMap<String, Recent<u64>>,
}

impl Rule for Replicas {
    fn check(&mut self, change: &Change, state: &State) -> Result<(), String> {
        if let Some(set) = change.now().filter(|_| change.resource == REPLICA_SETS) {
            let known = self.desired.entry(uid(set).to_owned()).or_default();
            known.record(change.at, number(set, "/spec/replicas"));
        }
        let Some(pod) = change.created().filter(|_| change.resource == PODS) else { return Ok(()) };
        let Some(("ReplicaSet", set)) = controller(pod) else { return Ok(()) };
        let desired = self.desired.entry(set.to_owned()).or_default().values(change.at).max().copied();
        let pods: Vec<_> = active_of(state, namespace(pod), set).collect();
        if desired.is_some_and(|desired| pods.len() as u64 > desired) {
            return Err(format!("{} has more than {desired:?} pods: {}", namespace(pod), format_pods(pods)));
        }
        Ok(())
    }
}
