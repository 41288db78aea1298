//! What a deployment notes on itself and on its sets, for people, for `kubectl rollout` and for its next look.

use std::collections::BTreeMap;

use coracle_runtime::informer::{Labels, ObjectMetadata};

use crate::view::{Deployment, ReplicaSet};

/// Which of the rollouts of a deployment a set is, and which one a deployment is at.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Which ones a set was before people went back to it.
pub(super) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// How many pods the deployment wanted when the set was last scaled: by this a scaling is told from a rollout.
pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// How many it was to have at most then, of which the set has its part.
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// What a set does not take over from its deployment.
const NOT_COPIED: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

/// The most bytes of a history of revisions, which is about a hundred of them. The oldest go first.
const MAX_REVISION_HISTORY: usize = 2000;

/// Annotations to be written.
pub(super) type Changes = BTreeMap<String, String>;

/// Which revision an object is; zero if it does not say, none if what it says is no number.
pub(super) fn revision(metadata: &ObjectMetadata) -> Option<i64> {
    metadata.annotations.get(REVISION).map_or(Some(0), |text| text.parse().ok())
}

/// A number that is not negative.
pub(super) fn count(annotations: &Labels, key: &str) -> Option<i32> {
    annotations.get(key)?.parse().ok().filter(|count| *count >= 0)
}

/// The annotations by which a set is to know how large its deployment is, as far as it does not.
pub(super) fn sizes(known: &Labels, desired: i32, max: i32) -> Changes {
    let sizes = [(DESIRED_REPLICAS, desired.to_string()), (MAX_REPLICAS, max.to_string())];
    let news = sizes.into_iter().filter(|(key, value)| known.get(key) != Some(value));
    news.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// What the new set of a deployment has to take over from it, and which revision it becomes if it is to be
/// `revision` at least.
pub(super) fn for_new_set(deployment: &Deployment, known: &Labels, revision: i64) -> Changes {
    let of_deployment = deployment.metadata.annotations.iter();
    let mut changes: Changes = of_deployment
        .filter(|(key, value)| !NOT_COPIED.contains(key) && known.get(key) != Some(value))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let old = known.get(REVISION);
    // Somebody's own idea of a revision stays.
    let Ok(number) = old.filter(|old| !old.is_empty()).unwrap_or("0").parse::<i64>() else { return changes };
    if number < revision {
        changes.insert(REVISION.to_owned(), revision.to_string());
        if let Some(history) = old.and_then(|old| history(known.get(REVISION_HISTORY), old)) {
            changes.insert(REVISION_HISTORY.to_owned(), history);
        }
    }
    changes
}

/// The history with one more revision; none if that is longer than any history may be.
fn history(known: Option<&str>, old: &str) -> Option<String> {
    let Some(known) = known.filter(|known| !known.is_empty()) else { return Some(old.to_owned()) };
    let mut kept: Vec<&str> = known.split(',').collect();
    kept.push(old);
    let length = |kept: &[&str]| kept.iter().map(|revision| revision.len() + 1).sum::<usize>() - 1;
    while kept.len() > 1 && length(&kept) > MAX_REVISION_HISTORY {
        kept.remove(0);
    }
    (length(&kept) <= MAX_REVISION_HISTORY).then(|| kept.join(","))
}

/// The revision of a set after these changes.
pub(super) fn revision_after(set: &ReplicaSet, changes: &Changes) -> String {
    let known = || set.metadata.annotations.get(REVISION).unwrap_or_default().to_owned();
    changes.get(REVISION).cloned().unwrap_or_else(known)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(annotations: Value) -> Deployment {
        serde_json::from_value(json!({"metadata": {"annotations": annotations}})).unwrap()
    }

    fn changed(deployment: &Deployment, known: &[(&str, &str)], revision: i64) -> Value {
        let known: Labels = known.iter().copied().collect();
        json!(for_new_set(deployment, &known, revision))
    }

    #[test]
    fn a_new_set_takes_over_what_people_wrote() {
        let deployment = deployment(json!({
            REVISION: "7", "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "kubernetes.io/change-cause": "because", "kept": "k",
        }));
        let expected = json!({REVISION: "3", "kubernetes.io/change-cause": "because"});
        assert_eq!(changed(&deployment, &[("kept", "k")], 3), expected);
    }

    #[test]
    fn going_back_is_remembered() {
        let plain = deployment(json!({}));
        assert_eq!(changed(&plain, &[(REVISION, "3")], 3), json!({}), "it is that already");
        assert_eq!(changed(&plain, &[(REVISION, "5")], 3), json!({}), "later ones were deleted");
        let first = json!({REVISION: "4", REVISION_HISTORY: "1"});
        assert_eq!(changed(&plain, &[(REVISION, "1")], 4), first);
        let again = json!({REVISION: "6", REVISION_HISTORY: "1,4"});
        assert_eq!(changed(&plain, &[(REVISION, "4"), (REVISION_HISTORY, "1")], 6), again);
        assert_eq!(changed(&plain, &[(REVISION, "mine")], 4), json!({}));
        assert_eq!(changed(&plain, &[], 1), json!({REVISION: "1"}));
        let long = format!("1{}", ",22".repeat(666));
        assert_eq!(history(Some(&long), "4").unwrap().len(), 1999, "the oldest has gone");
    }

    #[test]
    fn sizes_are_written_when_they_are_news() {
        let known: Labels = [(DESIRED_REPLICAS, "3"), (MAX_REPLICAS, "4")].into_iter().collect();
        assert_eq!(sizes(&known, 3, 4), Changes::new());
        assert_eq!(json!(sizes(&known, 3, 5)), json!({MAX_REPLICAS: "5"}));
        assert_eq!((count(&known, MAX_REPLICAS), count(&Labels::default(), MAX_REPLICAS)), (Some(4), None));
        assert_eq!(count(&[(MAX_REPLICAS, "-1")].into_iter().collect(), MAX_REPLICAS), None);
    }
}
