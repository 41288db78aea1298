//! A CronJob with `concurrencyPolicy: Forbid` never has two running jobs.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Recent, Rule};
use crate::history::Change;
use crate::state::{
    CRON_JOBS, JOBS, State, controller, has_condition, is_terminating, name, namespace, text, uid,
};

#[derive(Default)]
pub(super) struct Concurrency {
    /// True if concurrency is forbidden, by the UID of the CronJob.
    is_forbidden: BTreeMap<String, Recent<bool>>,
}

impl Rule for Concurrency {
    fn check(&mut self, change: &Change, state: &State) -> Result<(), String> {
        if let Some(cron) = change.now().filter(|_| change.resource == CRON_JOBS) {
            let known = self.is_forbidden.entry(uid(cron).to_owned()).or_default();
            known.record(change.at, text(cron, "/spec/concurrencyPolicy") == "Forbid");
        }
        let Some(job) = change.created().filter(|_| change.resource == JOBS) else { return Ok(()) };
        let Some(("CronJob", cron)) = controller(job) else { return Ok(()) };
        let known = self.is_forbidden.entry(cron.to_owned()).or_default();
        if !known.values(change.at).all(|forbidden| *forbidden) {
            return Ok(());
        }
        let runs = |job: &&Value| {
            controller(job).is_some_and(|(_, owner)| owner == cron)
                && !is_terminating(job)
                && !["Complete", "Failed"].iter().any(|condition| has_condition(job, condition))
        };
        let running: Vec<_> = state.list(JOBS, namespace(job)).filter(runs).map(name).collect();
        if running.len() > 1 {
            return Err(format!("{} runs {running:?} at the same time", namespace(job)));
        }
        Ok(())
    }
}
