//! Asking again: those who change objects may want to see what others changed after them.
//!
//! Everybody is asked once, in order. If a policy has changed the object, everybody is asked once
//! more; of the policies only those that want it, and only if something changed after they spoke.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// One time of asking everybody.
#[derive(Debug, Default)]
pub struct Pass {
    again: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    wanted: bool,
    /// Those who want to be asked again, and have spoken since the last change.
    spoken: BTreeSet<String>,
    /// Those after whom something has changed.
    due: BTreeSet<String>,
    /// The object when the last of them had spoken.
    left: Option<Value>,
}

impl Pass {
    /// The second time, if one is wanted.
    pub(super) fn next(self) -> Option<Self> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        (!self.again && state.wanted)
            .then(|| Self { again: true, state: Mutex::new(State { wanted: false, ..state }) })
    }

    /// Takes note of the object as one finds it who may want to be asked again.
    pub(super) fn enter(&self, object: &Value) {
        let mut state = self.lock();
        if self.again && state.left.as_ref().is_some_and(|left| left != object) {
            state.all_due();
        }
    }

    /// Whether somebody is to be asked: the first time everybody is.
    pub(super) fn is_due(&self, who: &str) -> bool {
        !self.again || self.lock().due.contains(who)
    }

    /// Somebody has spoken.
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

    /// Takes note of the object as one leaves it.
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
    fn only_those_are_asked_again_after_whom_something_changed() {
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
        assert!(again.next().is_none(), "nobody is asked a third time");
    }

    #[test]
    fn what_others_change_makes_all_due() {
        let pass = Pass::default();
        pass.spoke("one".into(), true, true);
        pass.leave(&json!({"a": 1}));
        let again = pass.next().unwrap();
        assert!(!again.is_due("one"));
        again.enter(&json!({"a": 2}));
        assert!(again.is_due("one"));
    }

    #[test]
    fn without_changes_nobody_is_asked_again() {
        let pass = Pass::default();
        pass.spoke("one".into(), false, true);
        assert!(pass.next().is_none());
    }
}
