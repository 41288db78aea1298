//! Reinvocation: mutating policies may run again after later plugins have changed the object.
//!
//! All plugins run once, in order. If a policy has changed the object, all run a second time; of the policies only
//! those with `reinvocationPolicy: IfNeeded`, and only if the object changed after they ran.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// The state of one pass through the mutating plugins.
#[derive(Debug, Default)]
pub struct Pass {
    is_second: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_wanted: bool,
    /// Reinvocable policies that have run since the last change.
    ran: BTreeSet<String>,
    /// Reinvocable policies after which the object has changed.
    due: BTreeSet<String>,
    /// The object when the last policy had run.
    last_object: Option<Value>,
}

impl Pass {
    /// The second pass, if a policy changed the object in the first.
    pub(super) fn next(self) -> Option<Self> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (!self.is_second && state.is_wanted)
            .then(|| Self { is_second: true, state: Mutex::new(State { is_wanted: false, ..state }) })
    }

    /// Compares the object, before policies run, with its state after the former pass.
    pub(super) fn begin_policies(&self, object: &Value) {
        let mut state = self.lock();
        if self.is_second && state.last_object.as_ref().is_some_and(|last_object| last_object != object) {
            state.set_all_due();
        }
    }

    /// Returns true if a policy must run: in the first pass all must.
    pub(super) fn is_due(&self, policy: &str) -> bool {
        !self.is_second || self.lock().due.contains(policy)
    }

    /// Records that a policy has run.
    pub(super) fn record_run(&self, policy: String, changed: bool, is_reinvocable: bool) {
        let mut state = self.lock();
        if changed {
            state.set_all_due();
            state.is_wanted = true;
        }
        if is_reinvocable {
            state.ran.insert(policy);
        }
    }

    /// Records the object after the policies have run.
    pub(super) fn end_policies(&self, object: &Value) {
        self.lock().last_object = Some(object.clone());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn set_all_due(&mut self) {
        let ran = std::mem::take(&mut self.ran);
        self.due.extend(ran);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn second_pass_runs_policies_after_which_the_object_changed() {
        let pass = Pass::default();
        pass.begin_policies(&json!({}));
        pass.record_run("early".into(), true, true);
        pass.record_run("content".into(), false, false);
        pass.record_run("late".into(), true, true);
        pass.end_policies(&json!({"a": 1}));
        let second = pass.next().unwrap();
        second.begin_policies(&json!({"a": 1}));
        assert!(second.is_due("early"));
        assert!(!second.is_due("content") && !second.is_due("late"));
        second.record_run("early".into(), true, true);
        assert!(second.next().is_none(), "there is no third pass");
    }

    #[test]
    fn change_by_another_plugin_reinvokes_all_policies() {
        let pass = Pass::default();
        pass.record_run("one".into(), true, true);
        pass.end_policies(&json!({"a": 1}));
        let second = pass.next().unwrap();
        assert!(!second.is_due("one"));
        second.begin_policies(&json!({"a": 2}));
        assert!(second.is_due("one"));
    }

    #[test]
    fn there_is_no_second_pass_without_changes() {
        let pass = Pass::default();
        pass.record_run("one".into(), false, true);
        assert!(pass.next().is_none());
    }
}
