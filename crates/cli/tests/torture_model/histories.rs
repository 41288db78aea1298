//! Histories of a correct server, and of servers that each violate one guarantee.

use crate::model::{
    Change, Content, Event, EventType, Kind, ObjectId, Objects, Observation, Operation, Outcome,
    PossibleStates, Revision, Round, Rule, Version, Violation, WatchView, check_round,
};

fn owned(name: &str) -> ObjectId {
    ObjectId { kind: Kind::ConfigMap, name: name.to_owned(), is_shared: false }
}

fn shared() -> ObjectId {
    ObjectId { is_shared: true, ..owned("shared") }
}

fn content(stamp: &str, base: &str) -> Content {
    Content { stamp: stamp.to_owned(), base: base.to_owned() }
}

fn version(revision: Revision, stamp: &str, base: &str) -> Version {
    Version { revision, content: content(stamp, base) }
}

fn acknowledged(revision: Revision, stamp: &str, base: &str) -> Outcome {
    Outcome::Acknowledged(Some(version(revision, stamp, base)))
}

fn operation(object: &ObjectId, change: Change, outcome: Outcome) -> Operation {
    Operation { object: object.clone(), change, outcome }
}

fn create(object: &ObjectId, stamp: &str, outcome: Outcome) -> Operation {
    operation(object, Change::Create(content(stamp, stamp)), outcome)
}

fn replace(object: &ObjectId, stamp: &str, expected: Revision, outcome: Outcome) -> Operation {
    let change = Change::Replace { content: content(stamp, stamp), expected: Some(expected) };
    operation(object, change, outcome)
}

fn patch(object: &ObjectId, stamp: &str, outcome: Outcome) -> Operation {
    operation(object, Change::Patch { stamp: stamp.to_owned() }, outcome)
}

fn delete(object: &ObjectId, outcome: Outcome) -> Operation {
    operation(object, Change::Delete { expected: None }, outcome)
}

const DELETED: Outcome = Outcome::Acknowledged(None);

fn event(event_type: EventType, object: &ObjectId, version: Version) -> Observation {
    Observation::Event(Event { event_type, object: object.clone(), version })
}

/// Creates, patches, replaces and deletes one object, and keeps another.
fn history() -> (Vec<Operation>, Vec<Observation>, Objects) {
    let (a, b) = (owned("a"), owned("b"));
    let operations = vec![
        create(&a, "a1", acknowledged(10, "a1", "a1")),
        create(&b, "b1", acknowledged(11, "b1", "b1")),
        patch(&a, "a2", acknowledged(12, "a2", "a1")),
        create(&a, "a3", Outcome::Rejected { code: 409 }),
        replace(&a, "a4", 12, acknowledged(14, "a4", "a4")),
        replace(&a, "a5", 12, Outcome::Rejected { code: 409 }),
        delete(&a, DELETED),
        patch(&a, "a6", Outcome::Rejected { code: 404 }),
    ];
    let seen = vec![
        event(EventType::Added, &a, version(10, "a1", "a1")),
        event(EventType::Added, &b, version(11, "b1", "b1")),
        event(EventType::Modified, &a, version(12, "a2", "a1")),
        Observation::Foreign(13),
        event(EventType::Modified, &a, version(14, "a4", "a4")),
        Observation::Bookmark(14),
        event(EventType::Deleted, &a, version(15, "a4", "a4")),
    ];
    (operations, seen, [(b, version(11, "b1", "b1"))].into())
}

fn states_of(operations: &[Operation]) -> PossibleStates {
    let mut states = PossibleStates::default();
    assert_eq!(states.apply(operations), []);
    states
}

fn broken_rules(violations: &[Violation]) -> Vec<Rule> {
    violations.iter().map(|violation| violation.rule).collect()
}

/// The rules violated in a round with two watches, the first of which delivers everything.
fn check(operations: &[Operation], watches: [Vec<Observation>; 2], listed: &Objects) -> Vec<Rule> {
    let [first, second] = watches;
    let watches =
        [("first".to_owned(), Kind::ConfigMap, first), ("second".to_owned(), Kind::ConfigMap, second)];
    let before = Objects::new();
    broken_rules(&check_round(&Round { before: &before, operations, watches: &watches, listed }))
}

/// The rule that the events of one watch violate.
fn observe_all(seen: &[Observation]) -> Result<(), Rule> {
    let mut view = WatchView::new("watch", 9, Objects::new());
    seen.iter().try_for_each(|observation| view.observe(observation)).map_err(|violation| {
        assert_eq!(violation.subject, view.name());
        violation.rule
    })
}

#[test]
fn history_of_a_faultless_server_has_no_violation() {
    let (operations, seen, listed) = history();
    assert_eq!(states_of(&operations).settle(Kind::ConfigMap, 15, &listed), []);
    assert_eq!(observe_all(&seen), Ok(()));
    assert_eq!(check(&operations, [seen.clone(), seen], &listed), []);
}

#[test]
fn lost_write_is_found() {
    let (operations, seen, _) = history();
    let lost = Objects::new();
    assert_eq!(broken_rules(&states_of(&operations).settle(Kind::ConfigMap, 15, &lost)), [Rule::Durability]);
    assert_eq!(check(&operations, [seen.clone(), seen], &lost), [Rule::List]);
}

#[test]
fn older_content_of_an_acknowledged_write_is_found() {
    let (a, operations) = (owned("a"), history().0);
    let older = [(a, version(10, "a1", "a1"))].into();
    assert_eq!(
        broken_rules(&states_of(&operations[..3]).settle(Kind::ConfigMap, 20, &older)),
        [Rule::Durability; 2]
    );
}

#[test]
fn patch_on_lost_content_is_found() {
    let a = owned("a");
    let operations = [
        create(&a, "a1", acknowledged(10, "a1", "a1")),
        replace(&a, "a2", 10, acknowledged(11, "a2", "a2")),
        patch(&a, "a3", acknowledged(12, "a3", "a1")),
    ];
    assert_eq!(broken_rules(&PossibleStates::default().apply(&operations)), [Rule::Consistency]);
}

#[test]
fn undone_delete_is_found() {
    let (operations, seen, mut listed) = history();
    listed.insert(owned("a"), version(14, "a4", "a4"));
    assert_eq!(broken_rules(&states_of(&operations).settle(Kind::ConfigMap, 15, &listed)), [Rule::Deletion]);
    assert_eq!(check(&operations, [seen.clone(), seen], &listed), [Rule::List]);
}

#[test]
fn object_that_was_never_written_is_found() {
    let listed = [(owned("c"), version(3, "c1", "c1"))].into();
    assert_eq!(
        broken_rules(&PossibleStates::default().settle(Kind::ConfigMap, 15, &listed)),
        [Rule::Deletion]
    );
}

#[test]
fn request_of_unknown_outcome_allows_both_states() {
    let a = owned("a");
    let operations = [create(&a, "a1", acknowledged(10, "a1", "a1")), patch(&a, "a2", Outcome::Unknown)];
    for possible in [version(10, "a1", "a1"), version(12, "a2", "a1")] {
        assert_eq!(states_of(&operations).settle(Kind::ConfigMap, 15, &[(a.clone(), possible)].into()), []);
    }
    for impossible in [version(12, "a2", "a2"), version(12, "a3", "a1"), version(11, "a1", "a1")] {
        let violations =
            states_of(&operations).settle(Kind::ConfigMap, 15, &[(a.clone(), impossible)].into());
        assert_eq!(broken_rules(&violations), [Rule::Durability]);
    }
    let violations = states_of(&operations).settle(Kind::ConfigMap, 15, &Objects::new());
    assert_eq!(broken_rules(&violations), [Rule::Durability], "no delete was sent");
}

#[test]
fn delete_of_unknown_outcome_allows_both_states() {
    let a = owned("a");
    let operations = [create(&a, "a1", acknowledged(10, "a1", "a1")), delete(&a, Outcome::Unknown)];
    assert_eq!(states_of(&operations).settle(Kind::ConfigMap, 15, &Objects::new()), []);
    assert_eq!(
        states_of(&operations).settle(Kind::ConfigMap, 15, &[(a, version(10, "a1", "a1"))].into()),
        []
    );
}

#[test]
fn list_resolves_state_for_next_round() {
    let a = owned("a");
    let mut states = states_of(&[create(&a, "a1", Outcome::Unknown)]);
    assert_eq!(states.settle(Kind::ConfigMap, 15, &Objects::new()), []);
    let late = [(a, version(16, "a1", "a1"))].into();
    assert_eq!(
        broken_rules(&states.settle(Kind::ConfigMap, 20, &late)),
        [Rule::Deletion],
        "it was absent before"
    );
}

#[test]
fn responses_that_no_state_allows_are_found() {
    let a = owned("a");
    for wrong in [
        create(&a, "a2", acknowledged(11, "a2", "a2")),
        replace(&a, "a2", 9, acknowledged(11, "a2", "a2")),
        replace(&a, "a2", 10, acknowledged(11, "a9", "a9")),
        patch(&a, "a2", acknowledged(10, "a2", "a1")),
        replace(&a, "a2", 10, Outcome::Rejected { code: 409 }),
        patch(&a, "a2", Outcome::Rejected { code: 404 }),
        patch(&a, "a2", Outcome::Rejected { code: 403 }),
        delete(&a, Outcome::Rejected { code: 404 }),
    ] {
        let mut states = states_of(&[create(&a, "a1", acknowledged(10, "a1", "a1"))]);
        assert_eq!(
            broken_rules(&states.apply(std::slice::from_ref(&wrong))),
            [Rule::Consistency],
            "{wrong:?}"
        );
    }
}

#[test]
fn revision_of_a_list_that_goes_back_is_found() {
    let (operations, _, listed) = history();
    assert_eq!(broken_rules(&states_of(&operations).settle(Kind::ConfigMap, 13, &listed)), [Rule::Revisions]);
}

#[test]
fn revision_that_is_acknowledged_twice_is_found() {
    let (a, b) = (owned("a"), owned("b"));
    let operations =
        [create(&a, "a1", acknowledged(10, "a1", "a1")), create(&b, "b1", acknowledged(10, "b1", "b1"))];
    let seen = vec![event(EventType::Added, &a, version(10, "a1", "a1"))];
    let listed = [(a, version(10, "a1", "a1"))].into();
    let rules = check(&operations, [seen.clone(), seen], &listed);
    assert_eq!(rules, [Rule::Revisions, Rule::EventGap]);
}

#[test]
fn duplicate_and_reordered_events_are_found() {
    let (_, seen, _) = history();
    for at in 1..seen.len() {
        if matches!(seen[at], Observation::Bookmark(_)) {
            continue;
        }
        let mut twice = seen.clone();
        twice.insert(at, seen[at].clone());
        assert_eq!(observe_all(&twice), Err(Rule::EventOrder), "{at}");
        let mut swapped = seen.clone();
        swapped.swap(at - 1, at);
        assert!(observe_all(&swapped).is_err(), "{at}");
    }
}

#[test]
fn gap_in_one_watch_is_found_by_the_other() {
    let (operations, seen, listed) = history();
    for at in 0..seen.len() {
        if !matches!(seen[at], Observation::Event(_)) {
            continue;
        }
        let mut short = seen.clone();
        short.remove(at);
        assert_eq!(check(&operations, [seen.clone(), short], &listed), [Rule::EventGap], "{at}");
    }
}

#[test]
fn gap_in_all_watches_is_found_by_the_requests() {
    let (operations, seen, listed) = history();
    for at in 0..seen.len() {
        if !matches!(seen[at], Observation::Event(_)) {
            continue;
        }
        let mut short = seen.clone();
        short.remove(at);
        let rules = check(&operations, [short.clone(), short], &listed);
        assert!(rules.contains(&Rule::EventGap), "{at}: {rules:?}");
    }
}

#[test]
fn gap_that_a_view_cannot_explain_is_found() {
    let (_, seen, _) = history();
    let without_create = &seen[1..];
    assert_eq!(observe_all(without_create), Err(Rule::EventGap));
    let without_replace = [&seen[..4], &seen[6..]].concat();
    assert_eq!(observe_all(&without_replace), Err(Rule::EventGap), "the deleted content was never seen");
}

#[test]
fn event_that_no_request_explains_is_found() {
    let (operations, mut seen, mut listed) = history();
    seen.push(event(EventType::Modified, &owned("b"), version(16, "b2", "b1")));
    listed.insert(owned("b"), version(16, "b2", "b1"));
    assert_eq!(check(&operations, [seen.clone(), seen], &listed), [Rule::EventPhantom]);
}

#[test]
fn event_of_a_write_that_was_lost_afterwards_is_found() {
    let a = owned("a");
    let operations = [create(&a, "a1", Outcome::Unknown)];
    let seen = vec![event(EventType::Added, &a, version(10, "a1", "a1"))];
    assert_eq!(check(&operations, [seen.clone(), seen], &Objects::new()), [Rule::List]);
}

#[test]
fn revision_that_two_changes_had_is_found_by_watches_that_disagree() {
    let (a, b) = (owned("a"), owned("b"));
    let operations = [create(&a, "a1", Outcome::Unknown), create(&b, "b1", Outcome::Unknown)];
    let first = vec![event(EventType::Added, &a, version(10, "a1", "a1"))];
    let second = vec![event(EventType::Added, &b, version(10, "b1", "b1"))];
    let listed = [(a, version(10, "a1", "a1"))].into();
    assert_eq!(check(&operations, [first, second], &listed), [Rule::EventAgreement]);
}

#[test]
fn watch_after_gone_is_not_checked_for_missed_events() {
    let (operations, seen, listed) = history();
    let gone = vec![Observation::Relist { revision: 15, objects: listed.clone() }];
    assert_eq!(observe_all(&gone), Ok(()));
    assert_eq!(check(&operations, [seen, gone.clone()], &listed), []);
    assert_eq!(check(&operations, [gone.clone(), gone], &listed), []);
}

#[test]
fn shared_object_is_checked_by_revisions() {
    let object = shared();
    let before: Objects = [(object.clone(), version(5, "s0", "s0"))].into();
    // Two writers sent them in another order; the response to the last one was lost.
    let operations = |expected| {
        [
            replace(&object, "s2", expected, acknowledged(7, "s2", "s2")),
            replace(&object, "s1", 5, acknowledged(6, "s1", "s1")),
            replace(&object, "s9", 5, Outcome::Rejected { code: 409 }),
            replace(&object, "s3", 7, Outcome::Unknown),
        ]
    };
    let seen: Vec<Observation> = [(6, "s1"), (7, "s2"), (8, "s3")]
        .map(|(revision, stamp)| event(EventType::Modified, &object, version(revision, stamp, stamp)))
        .into();
    let listed: Objects = [(object.clone(), version(8, "s3", "s3"))].into();
    let check = |operations: &[Operation], seen: Vec<Observation>| {
        let watches = [("watch".to_owned(), Kind::ConfigMap, seen)];
        let round = Round { before: &before, operations, watches: &watches, listed: &listed };
        broken_rules(&check_round(&round))
    };
    assert_eq!(PossibleStates::default().apply(&operations(6)), []);
    assert_eq!(check(&operations(6), seen.clone()), []);
    // The second writer overwrote the change of the first without having read it.
    assert_eq!(check(&operations(5), seen.clone()), [Rule::OptimisticLock]);
    assert_eq!(check(&operations(6)[..3], seen.clone()), [Rule::EventPhantom]);
    let short = [&seen[..1], &seen[2..]].concat();
    assert!(check(&operations(6), short).contains(&Rule::EventGap));
}

#[test]
fn violation_names_its_rule_and_both_sides() {
    let violation = Violation::new(Rule::Availability, "server", "it works", "exit status 1");
    assert_eq!(violation.to_string(), "Availability: server: expected it works; found exit status 1");
}
