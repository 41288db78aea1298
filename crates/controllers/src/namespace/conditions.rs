//! Conditions of a terminating namespace, with Kubernetes' texts, for which users and programs search
//! (`status_condition_utils.go` in `pkg/controller/namespace/deletion`).

use std::collections::BTreeMap;

use coracle_base::Timestamp;

use super::content::Report;
use crate::view;

/// A condition without its time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Condition {
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: String,
}

fn condition(
    kind: &'static str,
    good: (&'static str, &str),
    bad: Option<(&'static str, String)>,
) -> Condition {
    match bad {
        None => Condition { kind, status: "False", reason: good.0, message: good.1.to_owned() },
        Some((reason, message)) => Condition { kind, status: "True", reason, message },
    }
}

/// All five conditions, whether true or false.
pub(super) fn of(report: &Report) -> [Condition; 5] {
    let failed = report.discovery_failure.clone().map(|message| ("DiscoveryFailed", message));
    let undeleted = (!report.failures.is_empty()).then(|| {
        let (count, list) = (report.failures.len(), report.failures.join(", "));
        let message = format!("Failed to delete all resource types, {count} remaining: {list}");
        ("ContentDeletionFailed", message)
    });
    let remaining = listed(&report.remaining, " has ")
        .map(|list| ("SomeResourcesRemain", format!("Some resources are remaining: {list}")));
    let held = listed(&report.finalizers, " in ").map(|list| {
        let message = format!("Some content in the namespace has finalizers remaining: {list}");
        ("SomeFinalizersRemain", message)
    });
    [
        condition(
            "NamespaceDeletionDiscoveryFailure",
            ("ResourcesDiscovered", "All resources successfully discovered"),
            failed,
        ),
        condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
            None,
        ),
        condition(
            "NamespaceDeletionContentFailure",
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
            undeleted,
        ),
        condition(
            "NamespaceContentRemaining",
            ("ContentRemoved", "All content successfully removed"),
            remaining,
        ),
        condition(
            "NamespaceFinalizersRemaining",
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
            held,
        ),
    ]
}

fn listed(counts: &BTreeMap<String, usize>, verb: &str) -> Option<String> {
    let parts = counts.iter().map(|(name, count)| format!("{name}{verb}{count} resource instances"));
    (!counts.is_empty()).then(|| parts.collect::<Vec<_>>().join(", "))
}

/// Updates the conditions; true if any has changed. The transition time changes only with the status.
pub(super) fn update(known: &mut Vec<view::Condition>, new: &[Condition], now: Timestamp) -> bool {
    let mut changed = false;
    for new in new {
        match known.iter_mut().find(|known| *known.r#type == *new.kind) {
            None => known.push(stamped(new, Some(now))),
            Some(known) if is_same(known, new) => continue,
            Some(known) => {
                let since = if *known.status == *new.status { known.last_transition_time } else { None };
                *known = stamped(new, since.or(Some(now)));
            }
        }
        changed = true;
    }
    changed
}

fn is_same(known: &view::Condition, new: &Condition) -> bool {
    *known.status == *new.status && *known.reason == *new.reason && *known.message == *new.message
}

fn stamped(condition: &Condition, since: Option<Timestamp>) -> view::Condition {
    view::Condition {
        r#type: condition.kind.into(),
        status: condition.status.into(),
        reason: condition.reason.into(),
        message: condition.message.as_str().into(),
        last_transition_time: since,
        ..view::Condition::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::default();
        report.add_remaining("pods.", 3, ["example.org/hold", "example.org/hold"].into_iter());
        report
    }

    #[test]
    fn remaining_content_is_reported_as_in_kubernetes() {
        let conditions = of(&report());
        let bad: Vec<_> = conditions.iter().filter(|condition| condition.status == "True").collect();
        assert_eq!(bad.len(), 2);
        assert_eq!(bad[0].message, "Some resources are remaining: pods. has 3 resource instances");
        let held = "Some content in the namespace has finalizers remaining: \
                    example.org/hold in 2 resource instances";
        assert_eq!(bad[1].message, held);
    }

    #[test]
    fn failures_are_reported() {
        let report = Report { failures: vec!["a".into(), "b".into()], ..Report::default() };
        let message = "Failed to delete all resource types, 2 remaining: a, b";
        assert!(of(&report).iter().any(|condition| condition.message == message));
    }

    #[test]
    fn unchanged_conditions_keep_their_transition_time() {
        let (early, late) = (Timestamp::from_millis(1_000), Timestamp::from_millis(9_000));
        let mut known = Vec::new();
        assert!(update(&mut known, &of(&report()), early));
        assert_eq!(known.len(), 5);
        assert!(!update(&mut known, &of(&report()), late));
        let mut fewer = Report::default();
        fewer.add_remaining("pods.", 1, [].into_iter());
        assert!(update(&mut known, &of(&fewer), late));
        let since = |kind: &str| {
            let found = known.iter().find(|condition| *condition.r#type == *kind).unwrap();
            found.last_transition_time.unwrap()
        };
        assert_eq!(since("NamespaceContentRemaining"), early, "still some");
        assert_eq!(since("NamespaceFinalizersRemaining"), late, "no more");
    }
}
