//! The spec of Jobs, which is also part of CronJobs.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::{failure_policy, success_policy};
use crate::kinds::apps::{checks, pod_controller};
use crate::kinds::core::pod_spec;
use crate::kinds::rules;
use crate::view;

/// Limits the length of the list of completed indexes.
const MAX_PARALLELISM: i64 = 100_000;
const MAX_FAILED_INDEXES: i64 = 100_000;
/// Above this number of completions, the two limits below apply as well.
const MANY_COMPLETIONS: i64 = 100_000;
const MAX_PARALLELISM_OF_MANY: i64 = 10_000;
const MAX_FAILED_INDEXES_OF_MANY: i64 = 10_000;
const MAX_MANAGED_BY_BYTES: usize = 63;

/// Sets the defaults that Jobs and job templates of CronJobs share.
pub(super) fn set_template_defaults(spec: &mut Value) {
    failure_policy::set_defaults(spec);
    pod_controller::set_template_defaults(spec);
}

/// Whether the completion mode is Indexed.
pub(super) fn is_indexed(spec: &Value) -> bool {
    view::text(spec, &["completionMode"]) == "Indexed"
}

/// Validates a spec, except for its selector.
pub(super) fn validate(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    checks::all_non_negative(spec, &counts, path, errors);
    if spec.get("maxFailedIndexes").is_some() && spec.get("backoffLimitPerIndex").is_none() {
        let detail = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(&path.child("backoffLimitPerIndex"), detail));
    }
    validate_managed_by(spec, path, errors);
    validate_completion_mode(spec, path, errors);
    failure_policy::validate(spec, path, errors);
    success_policy::validate(spec, is_indexed(spec), path, errors);
    validate_replacement_policy(spec, &path.child("podReplacementPolicy"), errors);
    let template_path = path.child("template");
    pod_spec::validate_template(pod_controller::template(spec), &template_path, errors);
    validate_restart_policy(spec, &template_path.child("spec.restartPolicy"), errors);
}

fn validate_managed_by(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(manager) = spec.get("managedBy").and_then(Value::as_str) else { return };
    let path = path.child("managedBy");
    validate_domain_prefixed_path(manager, &path, errors);
    if manager.len() > MAX_MANAGED_BY_BYTES {
        errors.push(FieldError::too_long(&path, MAX_MANAGED_BY_BYTES));
    }
}

/// Requires a domain-prefixed path such as `acme.io/foo`.
fn validate_domain_prefixed_path(value: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if !rules::required(path, value, errors) {
        return;
    }
    let Some((domain, rest)) = value.split_once('/').filter(|(a, b)| !a.is_empty() && !b.is_empty()) else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.push(FieldError::invalid(path, value, detail));
        return;
    };
    rules::each_message(path, domain, name::dns1123_subdomain(domain), errors);
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !rest.bytes().all(allowed) {
        let detail = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
        errors.push(FieldError::invalid(path, rest, detail));
    }
}

fn validate_completion_mode(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mode = spec.get("completionMode").and_then(Value::as_str);
    if let Some(mode) = mode {
        rules::one_of(&path.child("completionMode"), mode, &["NonIndexed", "Indexed"], errors);
    }
    if mode == Some("Indexed") {
        validate_indexed(spec, path, errors);
    }
    if mode.is_none_or(|mode| mode == "NonIndexed") {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(found) = view::integer(spec, &[field]) {
                let detail = "requires indexed completion mode";
                errors.push(FieldError::invalid(&path.child(field), found, detail));
            }
        }
    }
}

fn validate_indexed(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let number = |field: &str| view::integer(spec, &[field]);
    let mut limit = |field: &str, max: i64, reason: String| {
        if let Some(found) = number(field).filter(|found| *found > max) {
            errors.push(FieldError::invalid(&path.child(field), found, reason));
        }
    };
    let at_most = |max: i64| format!("must be less than or equal to {max}");
    let of_many = |max: i64| {
        format!(
            "{} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index",
            at_most(max)
        )
    };
    let reason = format!("{} when completion mode is Indexed", at_most(MAX_PARALLELISM));
    limit("parallelism", MAX_PARALLELISM, reason);
    let completions = number("completions");
    let no_limit = completions.unwrap_or(i64::MAX);
    limit("maxFailedIndexes", no_limit, "must be less than or equal to completions".to_owned());
    limit("maxFailedIndexes", MAX_FAILED_INDEXES, at_most(MAX_FAILED_INDEXES));
    let are_many = completions.is_some_and(|completions| completions > MANY_COMPLETIONS)
        && number("backoffLimitPerIndex").is_some();
    if are_many {
        limit("parallelism", MAX_PARALLELISM_OF_MANY, of_many(MAX_PARALLELISM_OF_MANY));
        limit("maxFailedIndexes", MAX_FAILED_INDEXES_OF_MANY, of_many(MAX_FAILED_INDEXES_OF_MANY));
    }
    if completions.is_none() {
        let detail = "when completion mode is Indexed";
        errors.push(FieldError::required(&path.child("completions"), detail));
    }
    if are_many && number("maxFailedIndexes").is_none() {
        let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.push(FieldError::required(&path.child("maxFailedIndexes"), detail));
    }
}

fn validate_replacement_policy(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(policy) = spec.get("podReplacementPolicy").and_then(Value::as_str) else { return };
    let allowed: &[&str] = match spec.get("podFailurePolicy") {
        Some(_) => &["Failed"],
        None => &["Failed", "TerminatingOrFailed"],
    };
    rules::one_of(path, policy, allowed, errors);
}

fn validate_restart_policy(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let policy = view::text(spec, &["template", "spec", "restartPolicy"]);
    match policy {
        // The default is `Always`, so an absent policy is an error.
        "" | "Always" => {
            errors.push(FieldError::required(path, "valid values: \"OnFailure\", \"Never\""));
        }
        "OnFailure" if spec.get("podFailurePolicy").is_some() => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(FieldError::invalid(path, BadValue::named(policy), detail));
        }
        other => {
            rules::one_of(path, other, &["OnFailure", "Never"], errors);
        }
    }
}

/// Warnings about a spec.
pub(super) fn warnings(spec: &Value, path: &Path<'_>) -> Vec<String> {
    let mut warnings = Vec::new();
    if is_indexed(spec)
        && checks::count(spec, "completions") > MANY_COMPLETIONS
        && checks::count(spec, "parallelism") > MAX_PARALLELISM_OF_MANY
    {
        warnings.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than \
             10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    warnings.extend(pod_spec::template_warnings(pod_controller::template(spec), &path.child("template")));
    warnings
}

/// A template for samples, whose pods terminate.
#[cfg(any(test, feature = "samples"))]
pub(super) fn sample_template() -> Value {
    serde_json::json!({
        "metadata": {"labels": {"app": "pi"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "pi", "image": "perl:5.34.0", "command": ["perl", "-e", "print"]}],
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(extra: Value) -> String {
        let mut spec = json!({"template": sample_template()});
        if let (Value::Object(fields), Value::Object(extra)) = (&mut spec, extra) {
            fields.extend(extra);
        }
        set_template_defaults(&mut spec);
        let mut errors = ErrorList::new();
        validate(&spec, &Path::root("spec"), &mut errors);
        errors.to_string()
    }

    #[test]
    fn limits_of_indexed_jobs_are_enforced() {
        let indexed = |extra: Value| {
            let mut spec = json!({"completionMode": "Indexed", "completions": 5});
            if let (Value::Object(fields), Value::Object(extra)) = (&mut spec, extra) {
                fields.extend(extra);
            }
            check(spec)
        };
        assert_eq!(indexed(json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 5})), "");
        assert_eq!(
            indexed(json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 6})),
            "spec.maxFailedIndexes: Invalid value: 6: must be less than or equal to completions"
        );
        assert_eq!(
            indexed(json!({"backoffLimitPerIndex": 1, "completions": 100_001, "parallelism": 10_001})),
            "[spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are \
             above 100000 and used with backoff limit per index, spec.maxFailedIndexes: Required value: must be \
             specified when completions is above 100000]"
        );
    }

    #[test]
    fn managed_by_needs_a_domain() {
        assert_eq!(check(json!({"managedBy": "acme.io/foo"})), "");
        assert_eq!(
            check(json!({"managedBy": "foo"})),
            "spec.managedBy: Invalid value: \"foo\": must be a domain-prefixed path (such as \"acme.io/foo\")"
        );
    }
}
