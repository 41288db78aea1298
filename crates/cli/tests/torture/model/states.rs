//! Possible states of an object with one writer. A request with an unknown outcome leaves two: the state before it
//! and the state after it. A list resolves them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{
    Change, Content, Kind, ObjectId, Objects, Operation, Outcome, Revision, Rule, Version, Violation,
};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Absent,
    /// The revision is unknown if the outcome of the request was.
    Present {
        content: Content,
        revision: Option<Revision>,
    },
}

impl State {
    fn of(version: Option<&Version>) -> Self {
        match version {
            None => State::Absent,
            Some(Version { revision, content }) => {
                State::Present { content: content.clone(), revision: Some(*revision) }
            }
        }
    }

    /// Returns true if an object in this state may be read as `version`.
    fn matches(&self, version: Option<&Version>) -> bool {
        match (self, version) {
            (State::Absent, None) => true,
            (State::Present { content, revision }, Some(version)) => {
                *content == version.content && revision.is_none_or(|revision| revision == version.revision)
            }
            _ => false,
        }
    }

    /// Returns true if the object may have this revision. An absent object has none.
    fn may_have(&self, expected: Option<Revision>) -> bool {
        match (self, expected) {
            (State::Absent, _) => false,
            (State::Present { .. }, None) => true,
            (State::Present { revision, .. }, Some(expected)) => {
                revision.is_none_or(|revision| revision == expected)
            }
        }
    }

    /// The state after the change; none if this state does not allow it.
    fn after(&self, change: &Change) -> Option<State> {
        let written = |content: &Content| State::Present { content: content.clone(), revision: None };
        match (change, self) {
            (Change::Create(content), State::Absent) => Some(written(content)),
            (Change::Replace { content, expected }, _) if self.may_have(*expected) => Some(written(content)),
            (Change::Patch { stamp }, State::Present { content, .. }) => {
                Some(written(&Content { stamp: stamp.clone(), base: content.base.clone() }))
            }
            (Change::Delete { expected }, _) if self.may_have(*expected) => Some(State::Absent),
            _ => None,
        }
    }

    fn revision(&self) -> Option<Revision> {
        match self {
            State::Absent => None,
            State::Present { revision, .. } => *revision,
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Absent => f.write_str("absent"),
            State::Present { content: Content { stamp, base }, revision } => {
                write!(f, "stamp {stamp} on {base}")?;
                revision.map_or(Ok(()), |revision| write!(f, " at revision {revision}"))
            }
        }
    }
}

/// Possible states of the objects that have one writer each.
#[derive(Debug, Default)]
pub(crate) struct PossibleStates {
    objects: BTreeMap<ObjectId, BTreeSet<State>>,
    /// The highest acknowledged or listed revision.
    highest: Revision,
}

impl PossibleStates {
    /// Applies the requests of one round, in the order in which they were sent for each object.
    pub(crate) fn apply(&mut self, operations: &[Operation]) -> Vec<Violation> {
        let owned = operations.iter().filter(|operation| !operation.object.is_shared);
        owned.filter_map(|operation| self.apply_one(operation).err()).collect()
    }

    fn apply_one(&mut self, operation: &Operation) -> Result<(), Violation> {
        let Operation { object, change, outcome } = operation;
        let states = self.objects.entry(object.clone()).or_insert_with(|| [State::Absent].into());
        let impossible = |states: &BTreeSet<State>, found: &str| {
            Violation::new(Rule::Consistency, object, joined(states), found)
        };
        match outcome {
            Outcome::Unknown => {
                let after: Vec<State> = states.iter().filter_map(|state| state.after(change)).collect();
                states.extend(after);
            }
            Outcome::Acknowledged(returned) => {
                let Some(settled) = acknowledged(states, change, returned.as_ref()) else {
                    let returned = returned.as_ref().map_or("nothing".to_owned(), ToString::to_string);
                    let found = format!("{change} acknowledged, returning {returned}");
                    return Err(impossible(states, &found));
                };
                self.highest = self.highest.max(settled.revision().unwrap_or(0));
                *states = [settled].into();
            }
            Outcome::Rejected { code } => {
                let remaining: BTreeSet<State> =
                    states.iter().filter(|state| rejects(state, change, *code)).cloned().collect();
                if remaining.is_empty() {
                    return Err(impossible(states, &format!("{change} rejected with {code}")));
                }
                *states = remaining;
            }
        }
        Ok(())
    }

    /// Compares the states of a kind with a list of all of its objects, and resolves them.
    pub(crate) fn settle(&mut self, kind: Kind, revision: Revision, listed: &Objects) -> Vec<Violation> {
        let mut violations = Vec::new();
        if revision < self.highest {
            let expected = format!("revision {} or later", self.highest);
            violations.push(Violation::new(
                Rule::Revisions,
                "list",
                expected,
                format!("revision {revision}"),
            ));
        }
        self.highest = self.highest.max(revision);
        for object in listed.keys().filter(|object| !object.is_shared) {
            self.objects.entry(object.clone()).or_insert_with(|| [State::Absent].into());
        }
        for (object, states) in self.objects.iter_mut().filter(|(object, _)| object.kind == kind) {
            let version = listed.get(object);
            if !states.iter().any(|state| state.matches(version)) {
                let is_deleted = states.iter().all(|state| *state == State::Absent);
                let rule = if is_deleted { Rule::Deletion } else { Rule::Durability };
                violations.push(Violation::new(rule, object, joined(states), State::of(version)));
            }
            *states = [State::of(version)].into();
        }
        violations
    }
}

/// The state after an acknowledged change; none if no possible state allows it.
fn acknowledged(states: &BTreeSet<State>, change: &Change, returned: Option<&Version>) -> Option<State> {
    states.iter().find_map(|before| {
        let after = before.after(change)?;
        let grows = match (before.revision(), returned) {
            (Some(before), Some(returned)) => returned.revision > before,
            _ => true,
        };
        (grows && after.matches(returned)).then(|| State::of(returned))
    })
}

/// Returns true if a change in this state is rejected with this code.
fn rejects(state: &State, change: &Change, code: u16) -> bool {
    let is_absent = *state == State::Absent;
    match (change, code) {
        (Change::Create(_), 409) => !is_absent,
        (Change::Replace { expected, .. } | Change::Delete { expected }, 409) => match (state, expected) {
            // An earlier request had an unknown outcome, so the revision may differ.
            (State::Present { revision: None, .. }, Some(_)) => true,
            (State::Present { revision, .. }, Some(_)) => revision != expected,
            _ => false,
        },
        (Change::Replace { .. } | Change::Patch { .. } | Change::Delete { .. }, 404) => is_absent,
        _ => false,
    }
}

fn joined(states: &BTreeSet<State>) -> String {
    states.iter().map(ToString::to_string).collect::<Vec<_>>().join(", or ")
}
