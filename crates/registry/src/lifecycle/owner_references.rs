//! Removal of duplicate owner references, with a warning.

use serde_json::Value;

/// When duplicates were removed. kube-apiserver does it before and after mutating admission for objects that are sent
/// as a whole, and only after it for patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    AsSent,
    AfterAdmission,
}

impl Stage {
    fn words(self) -> &'static str {
        match self {
            Self::AsSent => "",
            Self::AfterAdmission => " after mutating admission happens",
        }
    }
}

/// Removes duplicate owner references. Returns a warning if there were any.
pub(super) fn keep_each_once(object: &mut Value, stage: Stage) -> Option<String> {
    let Some(Value::Array(owners)) = object.pointer_mut("/metadata/ownerReferences") else { return None };
    // Fast path: hardly any object has two owners.
    if owners.len() < 2 {
        return None;
    }
    let mut unique: Vec<Value> = Vec::with_capacity(owners.len());
    let mut again: Vec<String> = Vec::new();
    for owner in std::mem::take(owners) {
        if unique.contains(&owner) {
            again.push(owner.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned());
        } else {
            unique.push(owner);
        }
    }
    *owners = unique;
    (!again.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, \
             and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            stage.words(),
            again.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_equal_owner_references_are_removed() {
        let (a, other) = (json!({"uid": "a", "name": "x"}), json!({"uid": "a", "name": "y"}));
        let mut object = json!({"metadata": {"ownerReferences": [a, other, a]}});
        let warning = keep_each_once(&mut object, Stage::AfterAdmission).unwrap();
        assert!(
            warning.contains("entries after mutating admission happens; ") && warning.ends_with(": a"),
            "{warning}"
        );
        assert_eq!(object, json!({"metadata": {"ownerReferences": [a, other]}}));
        assert_eq!(keep_each_once(&mut object, Stage::AsSent), None);
        assert_eq!(keep_each_once(&mut json!({}), Stage::AsSent), None);
    }
}
