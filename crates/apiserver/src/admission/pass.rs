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
    again: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    wanted: bool,
    /// Reinvocable policies that have run since the last change.
    spoken: BTreeSet<String>,
    /// Reinvocable policies after which the object has changed.
    due: BTreeSet<String>,
    /// The object when the last policy had run.
    left: Option<Value>,
}

impl Pass {
    /// The second pass, if a policy changed the object in the first.
    pub(super) fn next(self) -> Option<Self> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (!self.again && state.wanted)
            .then(|| Self { again: true, state: Mutex::new(State { wanted: false, ..state }) })
    }

    /// Compares the object, before policies run, with its state after the former pass.
    pub(super) fn enter(&self, object: &Value) {
        let mut state = self.lock();
        if self.again && state.left.as_ref().is_some_and(|left| left != object) {
            state.all_due();
        }
    }

    /// Returns true if a policy must run: in the first pass all must.
    pub(super) fn is_due(&self, who: &str) -> bool {
        !self.again || self.lock().due.contains(who)
    }

    /// Records that a policy has run.
    pub(super) fn spoke(&self, who: String, changed: bool, wants_more: bool) {
        let mut state = self.lock();
        if changed {
            state.all_due();
            state.wanted = true;
        }
        if wants_more {
            state.spoken.insert(who);
        }
    }

    /// Records the object after the policies have run.
    pub(super) fn leave(&self, object: &Value) {
        self.lock().left = Some(object.clone());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn all_due(&mut self) {
        let spoken = std::mem::take(&mut self.spoken);
        self.due.extend(spoken);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn second_pass_runs_policies_after_which_the_object_changed() {
        let pass = Pass::default();
        pass.enter(&json!({}));
        pass.spoke("early".into(), true, true);
        pass.spoke("content".into(), false, false);
        pass.spoke("late".into(), true, true);
        pass.leave(&json!({"a": 1}));
        let again = pass.next().unwrap();
        again.enter(&json!({"a": 1}));
        assert!(again.is_due("early"));
        assert!(!again.is_due("content") && !again.is_due("late"));
        again.spoke("early".into(), true, true);
        assert!(again.next().is_none(), "there is no third pass");
    }

    #[test]
    fn change_by_another_plugin_reinvokes_all_policies() {
        let pass = Pass::default();
        pass.spoke("one".into(), true, true);
        pass.leave(&json!({"a": 1}));
        let again = pass.next().unwrap();
        assert!(!again.is_due("one"));
        again.enter(&json!({"a": 2}));
        assert!(again.is_due("one"));
    }

    #[test]
    fn there_is_no_second_pass_without_changes() {
        let pass = Pass::default();
        pass.spoke("one".into(), false, true);
        assert!(pass.next().is_none());
    }
}
