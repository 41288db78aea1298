//! No namespace ever has more pods than its quota allows, once the quota controller has processed it.

use super::Rule;
use crate::history::Change;
use crate::state::{PODS, RESOURCE_QUOTAS, State, format_pods, is_active, namespace, text};

pub(super) struct Quota;

impl Rule for Quota {
    fn check(&mut self, change: &Change, state: &State) -> Result<(), String> {
        if change.resource != PODS || change.created().is_none() {
            return Ok(());
        }
        let namespace = namespace(&change.object);
        for quota in state.list(RESOURCE_QUOTAS, namespace) {
            let hard: u64 = text(quota, "/status/hard/pods").parse().unwrap_or(u64::MAX);
            let pods: Vec<_> = state.list(PODS, namespace).filter(|pod| is_active(pod)).collect();
            if pods.len() as u64 > hard {
                return Err(format!("{namespace} has more than {hard} pods: {}", format_pods(pods)));
            }
        }
        Ok(())
    }
}
