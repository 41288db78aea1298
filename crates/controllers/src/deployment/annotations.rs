//! Annotations of deployments and replica sets, which users, `kubectl rollout` and later reconciles read.

use std::collections::BTreeMap;

use coracle_runtime::informer::{Labels, ObjectMetadata};

use crate::view::{Deployment, ReplicaSet};

/// Revision of a replica set within its deployment, and the current revision of a deployment.
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
/// Former revisions of a replica set that was rolled back to.
pub(super) const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The deployment's replicas when the set was last scaled, to distinguish scaling from a rollout.
pub(super) const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The deployment's maximum number of pods at that time.
pub(super) const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations that a replica set does not inherit from its deployment.
const NOT_COPIED: &[&str] = &[
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

/// Maximum length of the revision history in bytes, about a hundred revisions. The oldest are dropped.
const MAX_REVISION_HISTORY: usize = 2000;

/// Annotations to set.
pub(super) type Changes = BTreeMap<String, String>;

/// Revision of an object; zero if not annotated, `None` if the value is not a number.
pub(super) fn revision(metadata: &ObjectMetadata) -> Option<i64> {
    metadata.annotations.get(REVISION).map_or(Some(0), |text| text.parse().ok())
}

/// A non-negative number.
pub(super) fn count(annotations: &Labels, key: &str) -> Option<i32> {
    annotations.get(key)?.parse().ok().filter(|count| *count >= 0)
}

/// The size annotations of a replica set that have to change.
pub(super) fn sizes(known: &Labels, desired: i32, max: i32) -> Changes {
    let sizes = [(DESIRED_REPLICAS, desired.to_string()), (MAX_REPLICAS, max.to_string())];
    let changed = sizes.into_iter().filter(|(key, value)| known.get(key) != Some(value));
    changed.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The annotations that the new set inherits from its deployment and does not have yet, and its revision, which
/// becomes `revision` if it is lower.
pub(super) fn for_new_set(deployment: &Deployment, known: &Labels, revision: i64) -> Changes {
    let of_deployment = deployment.metadata.annotations.iter();
    let mut changes: Changes = of_deployment
        .filter(|(key, value)| !NOT_COPIED.contains(key) && known.get(key) != Some(value))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let old = known.get(REVISION);
    // An invalid revision, set by a user, is kept.
    let Ok(number) = old.filter(|old| !old.is_empty()).unwrap_or("0").parse::<i64>() else { return changes };
    if number < revision {
        changes.insert(REVISION.to_owned(), revision.to_string());
        if let Some(history) = old.and_then(|old| history(known.get(REVISION_HISTORY), old)) {
            changes.insert(REVISION_HISTORY.to_owned(), history);
        }
    }
    changes
}

/// The history with one more revision; `None` if that exceeds the limit on its own.
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

/// Revision of a set after these changes.
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
    fn new_set_inherits_annotations() {
        let deployment = deployment(json!({
            REVISION: "7", "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "kubernetes.io/change-cause": "because", "kept": "k",
        }));
        let expected = json!({REVISION: "3", "kubernetes.io/change-cause": "because"});
        assert_eq!(changed(&deployment, &[("kept", "k")], 3), expected);
    }

    #[test]
    fn rollback_extends_the_revision_history() {
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
        assert_eq!(history(Some(&long), "4").unwrap().len(), 1999, "the oldest is dropped");
    }

    #[test]
    fn size_annotations_change_only_when_different() {
        let known: Labels = [(DESIRED_REPLICAS, "3"), (MAX_REPLICAS, "4")].into_iter().collect();
        assert_eq!(sizes(&known, 3, 4), Changes::new());
        assert_eq!(json!(sizes(&known, 3, 5)), json!({MAX_REPLICAS: "5"}));
        assert_eq!((count(&known, MAX_REPLICAS), count(&Labels::default(), MAX_REPLICAS)), (Some(4), None));
        assert_eq!(count(&[(MAX_REPLICAS, "-1")].into_iter().collect(), MAX_REPLICAS), None);
    }
}
