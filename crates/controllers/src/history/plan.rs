//! Finds the revision of a set's current template. Pure.

use std::sync::Arc;

use super::revision::ControllerRevision;
use super::snapshot::Snapshot;

/// The revisions of a set, classified.
#[derive(Debug, Default)]
pub(crate) struct Classified {
    /// The revision with the current content; `None` if it must be created.
    pub(crate) current: Option<Arc<ControllerRevision>>,
    /// Other revisions with the same content.
    pub(crate) duplicates: Vec<Arc<ControllerRevision>>,
    /// All others, oldest first.
    pub(crate) old: Vec<Arc<ControllerRevision>>,
    /// The number that the current revision must have: it comes last, also after a rollback to an older one.
    pub(crate) number: i64,
}

/// Classifies `revisions`, which are sorted.
pub(crate) fn classify(revisions: &[Arc<ControllerRevision>], now: &Snapshot) -> Classified {
    let (mut same, old): (Vec<_>, Vec<_>) =
        revisions.iter().cloned().partition(|revision| revision.data == *now);
    let current = same.pop();
    let newest_other = old.iter().map(|revision| revision.revision).max().unwrap_or_default();
    let number = current.as_ref().map_or(0, |current| current.revision).max(newest_other + 1);
    Classified { current, duplicates: same, old, number }
}

/// The oldest `count` revisions that are not needed.
pub(crate) fn oldest(
    revisions: &[Arc<ControllerRevision>],
    count: usize,
    is_needed: impl Fn(&ControllerRevision) -> bool,
) -> Vec<Arc<ControllerRevision>> {
    revisions.iter().filter(|revision| !is_needed(revision)).take(count).cloned().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::revision::tests::revision;
    use super::*;

    #[test]
    fn current_revision_has_the_highest_number() {
        let names = |revisions: &[Arc<ControllerRevision>]| {
            revisions.iter().map(|revision| revision.name().to_owned()).collect::<Vec<_>>()
        };
        let classify = |image: &str, revisions: &[Arc<ControllerRevision>]| {
            let placed = classify(revisions, &Snapshot::of_template(json!({"spec": {"image": image}})));
            let current = placed.current.map(|current| current.name().to_owned()).unwrap_or_default();
            (current, placed.number, names(&placed.duplicates), names(&placed.old))
        };
        let (one, two) = (revision("one", 1, "1"), revision("two", 2, "2"));
        let is = |current: &str, number, duplicates: &[&str], old: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
            (current.to_owned(), number, owned(duplicates), owned(old))
        };
        assert_eq!(classify("1", &[]), is("", 1, &[], &[]));
        assert_eq!(classify("2", &[one.clone(), two.clone()]), is("two", 2, &[], &["one"]));
        assert_eq!(classify("3", &[one.clone(), two.clone()]), is("", 3, &[], &["one", "two"]));
        assert_eq!(classify("1", &[one.clone(), two.clone()]), is("one", 3, &[], &["two"]), "rolled back");
        let again = revision("again", 3, "1");
        assert_eq!(classify("1", &[one, two, again]), is("again", 3, &["one"], &["two"]));
    }

    #[test]
    fn needed_revisions_are_kept() {
        let all = [revision("a", 1, "1"), revision("b", 2, "2"), revision("c", 3, "3")];
        let gone = oldest(&all, 2, |revision| revision.name() == "a");
        assert_eq!(gone.iter().map(|revision| revision.name()).collect::<Vec<_>>(), ["b", "c"]);
        assert!(oldest(&all, 0, |_| false).is_empty());
    }
}
