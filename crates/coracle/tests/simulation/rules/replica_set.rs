//! A ReplicaSet never has more pods than desired.

use std::collections::BTreeMap;

use super::{Lately, Rule, active_of};
use crate::history::Moment;
use crate::state::{PODS, REPLICA_SETS, State, controller, namespace, number, shown, uid};

#[derive(Default)]
pub(super) struct Replicas {
    /// By the UID of the set.
    wanted: BTreeMap<String, Lately<u64>>,
}

impl Rule for Replicas {
    fn see(&mut self, moment: &Moment, state: &State) -> Result<(), String> {
        if let Some(set) = moment.now().filter(|_| moment.resource == REPLICA_SETS) {
            let known = self.wanted.entry(uid(set).to_owned()).or_default();
            known.note(moment.at, number(set, "/spec/replicas"));
        }
        let Some(pod) = moment.made().filter(|_| moment.resource == PODS) else { return Ok(()) };
        let Some(("ReplicaSet", set)) = controller(pod) else { return Ok(()) };
        let wanted = self.wanted.entry(set.to_owned()).or_default().values(moment.at).max().copied();
        let pods: Vec<_> = active_of(state, namespace(pod), set).collect();
        if wanted.is_some_and(|wanted| pods.len() as u64 > wanted) {
            return Err(format!("{} has more than {wanted:?} pods: {}", namespace(pod), shown(pods)));
        }
        Ok(())
    }
}
