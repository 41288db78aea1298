//! Owners that are named more than once: each is kept once, and the client is told.

use serde_json::Value;

/// When owners were looked at. Upstream does so for objects that are sent whole before and after
/// admission may have changed them, and for others after that.
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

/// Leaves each owner once. Returns what the client should know if one was there again.
pub(super) fn keep_each_once(object: &mut Value, stage: Stage) -> Option<String> {
    let Some(Value::Array(owners)) = object.pointer_mut("/metadata/ownerReferences") else { return None };
    // Every write comes by here, and nearly none names two.
    if owners.len() < 2 {
        return None;
    }
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let mut again: Vec<String> = Vec::new();
    for owner in std::mem::take(owners) {
        if kept.contains(&owner) {
            again.push(owner.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned());
        } else {
            kept.push(owner);
        }
    }
    *owners = kept;
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
    fn only_the_same_owner_again_is_left_out() {
        let (a, other) = (json!({"uid": "a", "name": "x"}), json!({"uid": "a", "name": "y"}));
        let mut object = json!({"metadata": {"ownerReferences": [a, other, a]}});
        let told = keep_each_once(&mut object, Stage::AfterAdmission).unwrap();
        assert!(
            told.contains("entries after mutating admission happens; ") && told.ends_with(": a"),
            "{told}"
        );
        assert_eq!(object, json!({"metadata": {"ownerReferences": [a, other]}}));
        assert_eq!(keep_each_once(&mut object, Stage::AsSent), None);
        assert_eq!(keep_each_once(&mut json!({}), Stage::AsSent), None);
    }
}
