//! Checks the events of a round against its requests: every acknowledged change appears once and in order, and
//! nothing else.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Change, Event, EventType, Kind, ObjectId, Objects, Observation, Operation, Outcome, Revision, Rule,
    Version, Violation,
};

/// Everything that happened between two verifications.
#[derive(Debug)]
pub(crate) struct Round<'a> {
    /// The objects at the end of the last round.
    pub(crate) before: &'a Objects,
    /// The requests of this round, those to an object of one writer in the order in which they were sent.
    pub(crate) operations: &'a [Operation],
    /// The events that each watch delivered in this round: its name, its kind, the observations.
    pub(crate) watches: &'a [(String, Kind, Vec<Observation>)],
    /// A list of all objects after everything that the watches delivered.
    pub(crate) listed: &'a Objects,
}

type Events<'a> = BTreeMap<Revision, &'a Event>;

/// Checks the events of one round. A kind is skipped if all of its watches got 410 Gone: then no watch has
/// all of its events.
pub(crate) fn check_round(round: &Round<'_>) -> Vec<Violation> {
    let mut violations = repeated_revisions(round.operations);
    for kind in Kind::ALL {
        let of_kind: Vec<_> = round.watches.iter().filter(|(_, watched, _)| *watched == kind).collect();
        let whole: Vec<_> = of_kind.iter().filter(|(_, _, seen)| !has_relist(seen)).collect();
        let (events, disagreements) =
            merged(of_kind.iter().map(|(name, _, seen)| (name.as_str(), seen.as_slice())));
        violations.extend(disagreements);
        if whole.is_empty() {
            continue;
        }
        for (name, _, seen) in whole {
            violations.extend(gaps(name, seen, &events));
        }
        violations.extend(check_objects(round, kind, &events));
        violations.extend(check_list(round, kind, &events));
    }
    violations
}

fn has_relist(seen: &[Observation]) -> bool {
    seen.iter().any(|observation| matches!(observation, Observation::Relist { .. }))
}

fn events_of(seen: &[Observation]) -> impl Iterator<Item = &Event> {
    seen.iter().filter_map(|observation| match observation {
        Observation::Event(event) => Some(event),
        _ => None,
    })
}

fn repeated_revisions(operations: &[Operation]) -> Vec<Violation> {
    let mut owners: BTreeMap<Revision, &Operation> = BTreeMap::new();
    let mut violations = Vec::new();
    for operation in operations {
        let Outcome::Acknowledged(Some(version)) = &operation.outcome else { continue };
        if let Some(other) = owners.insert(version.revision, operation) {
            let found = format!("revision {} for {} {} too", version.revision, other.object, other.change);
            violations.push(Violation::new(
                Rule::Revisions,
                &operation.object,
                "a revision of its own",
                found,
            ));
        }
    }
    violations
}

/// The events of all watches of a kind, by revision.
fn merged<'a>(watches: impl Iterator<Item = (&'a str, &'a [Observation])>) -> (Events<'a>, Vec<Violation>) {
    let mut events = Events::new();
    let mut violations = Vec::new();
    for (name, seen) in watches {
        for event in events_of(seen) {
            let other = *events.entry(event.version.revision).or_insert(event);
            if other != event {
                violations.push(Violation::new(Rule::EventAgreement, name, other, event));
            }
        }
    }
    (events, violations)
}

/// Events that other watches of the kind delivered and this one did not, though it saw the end of the round.
fn gaps(name: &str, seen: &[Observation], events: &Events<'_>) -> Vec<Violation> {
    let delivered: BTreeSet<Revision> = events_of(seen).map(|event| event.version.revision).collect();
    let missing = events.iter().filter(|(revision, _)| !delivered.contains(revision));
    missing
        .map(|(_, event)| Violation::new(Rule::EventGap, name, event, "no event at that revision"))
        .collect()
}

fn check_objects(round: &Round<'_>, kind: Kind, events: &Events<'_>) -> Vec<Violation> {
    let mut objects: BTreeMap<&ObjectId, (Vec<&Operation>, Vec<&Event>)> = BTreeMap::new();
    for operation in round.operations.iter().filter(|operation| operation.object.kind == kind) {
        objects.entry(&operation.object).or_default().0.push(operation);
    }
    for event in events.values() {
        objects.entry(&event.object).or_default().1.push(event);
    }
    let mut violations = Vec::new();
    for (object, (operations, events)) in objects {
        let outcome = if object.is_shared {
            explain_shared(&operations, &events)
        } else {
            explain_owned(&operations, &events)
        };
        violations.extend(outcome.err());
        violations.extend(stale_replaces(round.before.get(object), &operations, &events));
    }
    violations
}

/// Matches the events of an object with the requests of its one writer, which are in the same order.
fn explain_owned(operations: &[&Operation], events: &[&Event]) -> Result<(), Violation> {
    let mut events = events.iter().peekable();
    for operation in operations {
        let is_next = events.peek().is_some_and(|event| is_event_of(operation, event));
        match &operation.outcome {
            Outcome::Rejected { .. } => {}
            Outcome::Unknown => drop(events.next_if(|_| is_next)),
            Outcome::Acknowledged(_) if is_next => drop(events.next()),
            Outcome::Acknowledged(_) => {
                let found = events.peek().map_or("no further event".to_owned(), ToString::to_string);
                return Err(Violation::new(Rule::EventGap, &operation.object, described(operation), found));
            }
        }
    }
    events.next().map_or(Ok(()), |event| Err(phantom(event)))
}

/// Matches the events of an object with the requests of all of its writers: those that were acknowledged by their
/// revision, others by their stamp.
fn explain_shared(operations: &[&Operation], events: &[&Event]) -> Result<(), Violation> {
    let mut open: Vec<&&Operation> = operations
        .iter()
        .filter(|operation| !matches!(operation.outcome, Outcome::Rejected { .. }))
        .collect();
    for event in events {
        let Some(at) = open.iter().position(|operation| is_event_of(operation, event)) else {
            return Err(phantom(event));
        };
        open.swap_remove(at);
    }
    let missing = open.into_iter().find(|operation| matches!(operation.outcome, Outcome::Acknowledged(_)));
    missing.map_or(Ok(()), |operation| {
        Err(Violation::new(Rule::EventGap, &operation.object, described(operation), "no such event"))
    })
}

fn is_event_of(operation: &Operation, event: &Event) -> bool {
    let (event_type, stamp) = match &operation.change {
        Change::Create(content) => (EventType::Added, Some(&content.stamp)),
        Change::Replace { content, .. } => (EventType::Modified, Some(&content.stamp)),
        Change::Patch { stamp } => (EventType::Modified, Some(stamp)),
        Change::Delete { .. } => (EventType::Deleted, None),
    };
    let is_returned = match &operation.outcome {
        Outcome::Acknowledged(Some(returned)) => *returned == event.version,
        _ => true,
    };
    event.event_type == event_type
        && stamp.is_none_or(|stamp| *stamp == event.version.content.stamp)
        && is_returned
}

fn described(operation: &Operation) -> String {
    let change = &operation.change;
    match &operation.outcome {
        Outcome::Acknowledged(Some(version)) => format!("an event of the {change}, {version}"),
        _ => format!("an event of the {change}"),
    }
}

fn phantom(event: &Event) -> Violation {
    Violation::new(Rule::EventPhantom, &event.object, "an event for each change and no more", event)
}

/// Acknowledged PUTs whose object had another revision than the one they were sent with.
fn stale_replaces(before: Option<&Version>, operations: &[&Operation], events: &[&Event]) -> Vec<Violation> {
    let previous = |revision: Revision| {
        let earlier = events.iter().rev().find(|event| event.version.revision < revision);
        earlier.map(|event| event.version.revision).or(before.map(|version| version.revision))
    };
    let check = |operation: &&Operation| {
        let Change::Replace { expected: Some(expected), .. } = &operation.change else { return None };
        let Outcome::Acknowledged(Some(returned)) = &operation.outcome else { return None };
        let found = previous(returned.revision).filter(|found| found != expected)?;
        let found = format!("the {} acknowledged on revision {found}", operation.change);
        let expected = format!("a rejection, for it was sent with revision {expected}");
        Some(Violation::new(Rule::OptimisticLock, &operation.object, expected, found))
    };
    operations.iter().filter_map(check).collect()
}

/// The list against the objects before the round and the events since.
fn check_list(round: &Round<'_>, kind: Kind, events: &Events<'_>) -> Vec<Violation> {
    let of_kind = |objects: &Objects| -> Objects {
        objects
            .iter()
            .filter(|(object, _)| object.kind == kind)
            .map(|(id, found)| (id.clone(), found.clone()))
            .collect()
    };
    let mut expected = of_kind(round.before);
    for event in events.values() {
        match event.event_type {
            EventType::Deleted => drop(expected.remove(&event.object)),
            _ => drop(expected.insert(event.object.clone(), event.version.clone())),
        }
    }
    let listed = of_kind(round.listed);
    let all: BTreeSet<&ObjectId> = expected.keys().chain(listed.keys()).collect();
    let differing = all.into_iter().filter(|object| expected.get(object) != listed.get(object));
    let text = |version: Option<&Version>| version.map_or("absent".to_owned(), ToString::to_string);
    differing
        .map(|object| {
            Violation::new(Rule::List, object, text(expected.get(object)), text(listed.get(object)))
        })
        .collect()
}
