//! Decides on an object, given the state of its owners. Pure.

use kube::api::PropagationPolicy;

use crate::ownership_graph::{Class, FOREGROUND, ORPHAN, Object};

/// An object whose owners may be gone.
pub(super) struct Situation<'a> {
    /// As it is on the server.
    pub(super) object: &'a Object,
    /// Class of each of its owner references.
    pub(super) classes: &'a [Class],
    pub(super) has_dependents: bool,
    /// True if a dependent waits for dependents of its own.
    pub(super) has_waiting_dependent: bool,
}

/// Next step for an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plan {
    Nothing,
    /// It has an owner; remove the owner references at these indexes.
    Disown(Vec<usize>),
    Delete {
        policy: PropagationPolicy,
        /// First clear `blockOwnerDeletion` in its owner references.
        unblock: bool,
    },
}

pub(super) fn plan(situation: &Situation<'_>) -> Plan {
    let Situation { object, classes, .. } = situation;
    let is = |wanted: Class| classes.contains(&wanted);
    if classes.is_empty() {
        return Plan::Nothing;
    }
    if is(Class::Solid) {
        // An owner in foreground deletion must not wait for an object that stays, or it would wait forever.
        let obsolete: Vec<_> = classes
            .iter()
            .enumerate()
            .filter(|(_, class)| **class != Class::Solid)
            .map(|(at, _)| at)
            .collect();
        return if obsolete.is_empty() { Plan::Nothing } else { Plan::Disown(obsolete) };
    }
    if is(Class::Waiting) && situation.has_dependents {
        // If a dependent waits as well, both may wait for each other in a cycle.
        let unblock = situation.has_waiting_dependent;
        return Plan::Delete { policy: PropagationPolicy::Foreground, unblock };
    }
    // The propagation policy chosen at deletion takes precedence.
    let policy = if object.has_finalizer(ORPHAN) {
        PropagationPolicy::Orphan
    } else if object.has_finalizer(FOREGROUND) {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    };
    Plan::Delete { policy, unblock: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(classes: &[Class], finalizers: &[&str], dependents: bool, waiting: bool) -> Plan {
        let finalizers = finalizers.iter().map(|name| (*name).into()).collect();
        let object = Object { finalizers, ..Object::default() };
        let situation = Situation {
            object: &object,
            classes,
            has_dependents: dependents,
            has_waiting_dependent: waiting,
        };
        plan(&situation)
    }

    fn delete(policy: PropagationPolicy) -> Plan {
        Plan::Delete { policy, unblock: false }
    }

    #[test]
    fn object_with_owner_loses_dangling_references() {
        use Class::{Dangling, Solid, Waiting};
        assert_eq!(decide(&[], &[], false, false), Plan::Nothing);
        assert_eq!(decide(&[Solid], &[], true, false), Plan::Nothing);
        assert_eq!(decide(&[Dangling, Solid, Waiting], &[], true, true), Plan::Disown(vec![0, 2]));
    }

    #[test]
    fn object_without_owner_is_deleted_with_the_chosen_policy() {
        use Class::{Dangling, Waiting};
        let background = delete(PropagationPolicy::Background);
        assert_eq!(decide(&[Dangling], &["a/b"], true, true), background);
        assert_eq!(decide(&[Dangling, Waiting], &[], false, false), background);
        assert_eq!(
            decide(&[Dangling], &[ORPHAN, FOREGROUND], true, false),
            delete(PropagationPolicy::Orphan)
        );
        assert_eq!(decide(&[Dangling], &[FOREGROUND], true, false), delete(PropagationPolicy::Foreground));
    }

    #[test]
    fn foreground_deletion_continues_to_dependents_without_cycles() {
        use Class::{Dangling, Waiting};
        let foreground = delete(PropagationPolicy::Foreground);
        assert_eq!(decide(&[Waiting], &[], true, false), foreground);
        assert_eq!(decide(&[Dangling, Waiting], &[ORPHAN], true, false), foreground);
        let unblocked = Plan::Delete { policy: PropagationPolicy::Foreground, unblock: true };
        assert_eq!(decide(&[Waiting], &[], true, true), unblocked);
    }
}
