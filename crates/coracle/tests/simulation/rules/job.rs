//! No index of a Job runs twice at the same time or again after success, and counters do not decrease.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Rule, active_of};
use crate::history::Change;
use crate::state::{
    JOBS, PODS, State, controller, format_pods, has_condition, is_terminating, name, namespace, number, text,
};

/// The annotation with the index of a pod.
const INDEX: &str = "/metadata/annotations/batch.kubernetes.io~1job-completion-index";

#[derive(Default)]
pub(super) struct Indexes {
    /// UID of the Job, and the index.
    succeeded: BTreeSet<(String, String)>,
}

impl Rule for Indexes {
    fn check(&mut self, change: &Change, state: &State) -> Result<(), String> {
        let (pod, index) = (&change.object, text(&change.object, INDEX));
        let Some(("Job", job)) = controller(pod).filter(|_| change.resource == PODS && !index.is_empty())
        else {
            return Ok(());
        };
        let key = (job.to_owned(), index.to_owned());
        if change.created().is_some() {
            let running: Vec<_> =
                active_of(state, namespace(pod), job).filter(|other| text(other, INDEX) == index).collect();
            if running.len() > 1 {
                return Err(format!("{} runs index {index} twice: {}", namespace(pod), format_pods(running)));
            }
            if self.succeeded.contains(&key) {
                return Err(format!("{}/{} runs an index that has succeeded", namespace(pod), name(pod)));
            }
        }
        // A terminating pod counts as failed for its Job already.
        if text(pod, "/status/phase") == "Succeeded" && !is_terminating(pod) {
            self.succeeded.insert(key);
        }
        Ok(())
    }
}

pub(super) struct Counts;

impl Rule for Counts {
    fn check(&mut self, change: &Change, _state: &State) -> Result<(), String> {
        let (Some(old), Some(new)) = (change.old.as_deref(), change.now()) else { return Ok(()) };
        if change.resource != JOBS || old["metadata"]["uid"] != new["metadata"]["uid"] {
            return Ok(());
        }
        let fewer = |count: &str| number(new, count) < number(old, count);
        let undone = |condition: &str| has_condition(old, condition) && !has_condition(new, condition);
        let completions = number(new, "/spec/completions");
        let too_many = number(new, "/status/succeeded") > completions;
        if fewer("/status/succeeded") || fewer("/status/failed") || too_many {
            return violation(new, "has wrong counts", old);
        }
        if undone("Complete") || undone("Failed") {
            return violation(new, "is no longer finished", old);
        }
        Ok(())
    }
}

fn violation(new: &Value, what: &str, old: &Value) -> Result<(), String> {
    Err(format!("{}/{} {what}: {} after {}", namespace(new), name(new), new["status"], old["status"]))
}
