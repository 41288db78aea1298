//! Topology spread constraints of pods.

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::{affinity, check};
use crate::kinds::core::label_selector;
use crate::kinds::ratchet;
use crate::view;

/// Validates the topology spread constraints of a spec.
pub(super) fn validate(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let constraints = view::items(spec, &["topologySpreadConstraints"]);
    for (index, constraint) in constraints.iter().enumerate() {
        let path = path.index(index);
        validate_one(constraint, &constraints[index + 1..], &path, errors);
    }
}

fn validate_one(constraint: &Value, rest: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let skew = view::integer(constraint, &["maxSkew"]).unwrap_or(0);
    if skew <= 0 {
        errors.push(FieldError::invalid(&path.child("maxSkew"), skew, check::NOT_POSITIVE));
    }
    let key = view::text(constraint, &["topologyKey"]);
    if key.is_empty() {
        errors.push(FieldError::required(&path.child("topologyKey"), "can not be empty"));
    }
    let action = view::text(constraint, &["whenUnsatisfiable"]);
    check::supported(action, &["DoNotSchedule", "ScheduleAnyway"], &path.child("whenUnsatisfiable"), errors);
    let is_same = |other: &Value| {
        view::text(other, &["topologyKey"]) == key && view::text(other, &["whenUnsatisfiable"]) == action
    };
    if rest.iter().any(is_same) {
        let path = path.child("{topologyKey, whenUnsatisfiable}");
        errors.push(FieldError::duplicate(&path, format!("{{{key}, {action}}}")));
    }
    min_domains(constraint, action, &path.child("minDomains"), errors);
    for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        check::one_of_if_set(constraint, field, &["Honor", "Ignore"], path, errors);
    }
    errors.ratcheted(ratchet::SPREAD_LABEL_KEYS, |errors| affinity::label_keys(constraint, path, errors));
    if let Some(selector) = constraint.get("labelSelector") {
        let mut found = ErrorList::new();
        label_selector::validate(selector, &path.child("labelSelector"), &mut found);
        // A ratchet of its own: the whole selector was once not validated here.
        let spread = |error| FieldError { ratchet: Some(ratchet::SPREAD_SELECTOR), ..error };
        errors.extend(found.into_iter().map(spread));
    }
}

fn min_domains(constraint: &Value, action: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(domains) = view::integer(constraint, &["minDomains"]) else { return };
    if domains <= 0 {
        errors.push(FieldError::invalid(path, domains, check::NOT_POSITIVE));
    }
    if action != "DoNotSchedule" {
        let message = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.push(FieldError::invalid(path, domains, message));
    }
}
