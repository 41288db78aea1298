//! Conditions of a certificate signing request, which may be added but not removed.

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::Value;

use crate::kinds::ratchet;
use crate::kinds::rules;
use crate::view;

/// Conditions whose status must be True.
const ONLY_TRUE: [&str; 3] = ["Approved", "Denied", "Failed"];

/// Conditions that only the approval subresource may set.
pub(super) const APPROVAL: [&str; 2] = ["Approved", "Denied"];

/// All conditions.
pub(super) fn all(object: &Value) -> &[Value] {
    view::items(object, &["status", "conditions"])
}

/// All conditions of a type.
pub(super) fn of_type<'a>(object: &'a Value, wanted: &str) -> Vec<&'a Value> {
    all(object).iter().filter(|condition| view::text(condition, &["type"]) == wanted).collect()
}

/// Requires valid and consistent conditions.
pub(super) fn check(object: &Value, errors: &mut ErrorList) {
    let path = Path::root("status.conditions");
    let mut seen = BTreeSet::new();
    for (index, condition) in all(object).iter().enumerate() {
        let path_here = path.index(index);
        let condition_type = view::text(condition, &["type"]);
        errors.ratcheted(ratchet::CONDITION_TYPE, |errors| {
            rules::required(&path_here.child("type"), condition_type, errors);
        });
        let status = view::text(condition, &["status"]);
        let allowed: &[&str] =
            if ONLY_TRUE.contains(&condition_type) { &["True"] } else { &["False", "True", "Unknown"] };
        if rules::required(&path_here.child("status"), status, errors) {
            rules::one_of(&path_here.child("status"), status, allowed, errors);
        }
        let opposite = match condition_type {
            "Approved" => Some("Denied"),
            "Denied" => Some("Approved"),
            _ => None,
        };
        if opposite.is_some_and(|opposite| seen.contains(opposite)) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            let error = FieldError::invalid(&path, BadValue::named(condition_type), detail);
            errors.push(error.unless(ratchet::APPROVED_AND_DENIED));
        }
        if !seen.insert(condition_type) {
            let path = path_here.child("type");
            let error = FieldError::duplicate(&path, BadValue::named(condition_type));
            errors.push(error.unless(ratchet::CONDITION_TWICE));
        }
    }
}

/// Rejects the removal of conditions.
pub(super) fn check_none_removed(new: &Value, old: &Value, errors: &mut ErrorList) {
    for condition_type in ONLY_TRUE {
        if of_type(new, condition_type).len() < of_type(old, condition_type).len() {
            let detail = format!("updates may not remove a condition of type \"{condition_type}\"");
            errors.push(FieldError::forbidden(&Path::root("status.conditions"), detail));
        }
    }
}

/// Rejects changes of approval conditions outside of the approval subresource.
pub(super) fn check_approval_kept(new: &Value, old: &Value, errors: &mut ErrorList) {
    for condition_type in APPROVAL {
        let (new, old) = (of_type(new, condition_type), of_type(old, condition_type));
        let act = if new.len() > old.len() {
            "add"
        } else if new.len() == old.len() && new != old {
            "modify"
        } else {
            continue;
        };
        let detail = format!("updates may not {act} a condition of type \"{condition_type}\"");
        errors.push(FieldError::forbidden(&Path::root("status.conditions"), detail));
    }
}

/// Restores the conditions of a type, unless some were added or removed, which validation will reject.
pub(super) fn keep(new: &mut Value, old: &Value, condition_type: &str) {
    let kept = of_type(old, condition_type);
    if of_type(new, condition_type).len() != kept.len() {
        return;
    }
    let conditions = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    let same_type = conditions
        .into_iter()
        .flatten()
        .filter(|condition| view::text(condition, &["type"]) == condition_type);
    for (condition, old) in same_type.zip(kept) {
        *condition = old.clone();
    }
}

/// Sets missing times: an unchanged condition keeps its time.
pub(super) fn populate_times(new: &mut Value, old: &Value, now: &str) {
    let conditions = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        view::set_default(condition, "lastUpdateTime", || now.into());
        let before = of_type(old, view::text(condition, &["type"])).into_iter();
        let before = before.filter(|before| before.get("status") == condition.get("status"));
        let since = before.filter_map(|before| before.get("lastTransitionTime").cloned()).next();
        view::set_default(condition, "lastTransitionTime", || since.unwrap_or_else(|| now.into()));
    }
}
