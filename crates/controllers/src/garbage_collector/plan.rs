//! What is to become of an object, given what has become of its owners.

use kube::api::PropagationPolicy;

use crate::ownership_graph::{Class, FOREGROUND, ORPHAN, Object};

/// What is known of an object whose owners may be gone.
pub(super) struct Situation<'a> {
    /// As it is on the server.
    pub(super) object: &'a Object,
    /// Of each of its references.
    pub(super) classes: &'a [Class],
    pub(super) has_dependents: bool,
    /// Whether one of its dependents waits for dependents of its own.
    pub(super) has_waiting_dependent: bool,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Plan {
    Nothing,
    /// It has an owner; these references, by their place, are of no use.
    Disown(Vec<usize>),
    Delete {
        policy: PropagationPolicy,
        /// First let its owners not wait for it.
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
        // An owner that waits must not wait for what stays, or it would wait for ever.
        let of_no_use: Vec<_> = classes
            .iter()
            .enumerate()
            .filter(|(_, class)| **class != Class::Solid)
            .map(|(at, _)| at)
            .collect();
        return if of_no_use.is_empty() { Plan::Nothing } else { Plan::Disown(of_no_use) };
    }
    if is(Class::Waiting) && situation.has_dependents {
        // If a dependent waits as well, both may be waiting for each other in a circle.
        let unblock = situation.has_waiting_dependent;
        return Plan::Delete { policy: PropagationPolicy::Foreground, unblock };
    }
    // Whoever said what is to become of its dependents is heard.
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
    fn what_has_an_owner_stays_and_forgets_the_others() {
        use Class::{Dangling, Solid, Waiting};
        assert_eq!(decide(&[], &[], false, false), Plan::Nothing);
        assert_eq!(decide(&[Solid], &[], true, false), Plan::Nothing);
        assert_eq!(decide(&[Dangling, Solid, Waiting], &[], true, true), Plan::Disown(vec![0, 2]));
    }

    #[test]
    fn what_has_no_owner_goes_as_it_was_said() {
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
    fn the_foreground_goes_on_to_dependents_and_not_in_circles() {
        use Class::{Dangling, Waiting};
        let foreground = delete(PropagationPolicy::Foreground);
        assert_eq!(decide(&[Waiting], &[], true, false), foreground);
        assert_eq!(decide(&[Dangling, Waiting], &[ORPHAN], true, false), foreground);
        let unblocked = Plan::Delete { policy: PropagationPolicy::Foreground, unblock: true };
        assert_eq!(decide(&[Waiting], &[], true, true), unblocked);
    }
}
