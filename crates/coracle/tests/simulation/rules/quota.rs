//! No namespace ever has more pods than its quota allows, once the quota controller has processed it.

use super::Rule;
use crate::history::Moment;
use crate::state::{PODS, RESOURCE_QUOTAS, State, is_active, namespace, shown, text};

pub(super) struct Quota;

impl Rule for Quota {
    fn see(&mut self, moment: &Moment, state: &State) -> Result<(), String> {
        if moment.resource != PODS || moment.made().is_none() {
            return Ok(());
        }
        let namespace = namespace(&moment.object);
        for quota in state.list(RESOURCE_QUOTAS, namespace) {
            let hard: u64 = text(quota, "/status/hard/pods").parse().unwrap_or(u64::MAX);
            let pods: Vec<_> = state.list(PODS, namespace).filter(|pod| is_active(pod)).collect();
            if pods.len() as u64 > hard {
                return Err(format!("{namespace} has more than {hard} pods: {}", shown(pods)));
            }
        }
        Ok(())
    }
}
