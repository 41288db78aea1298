//! Shared parts of ValidatingWebhookConfiguration and MutatingWebhookConfiguration.

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::{Value, json};

use super::{match_resources, operation_rules};
use crate::kinds::{ratchet, rules, webhook_client};
use crate::view;
use coracle_cel::policy::PolicyExpressions;

/// Default timeout of a webhook, as in Kubernetes.
const DEFAULT_TIMEOUT_SECONDS: i64 = 10;

const SIDE_EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];

/// Versions of AdmissionReview that the server supports.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Sets the defaults of every webhook.
pub(super) fn set_defaults(object: &mut Value, also: fn(&mut Value)) {
    for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        view::set_default(webhook, "failurePolicy", || "Fail".into());
        match_resources::set_matching_defaults(webhook);
        view::set_default(webhook, "timeoutSeconds", || DEFAULT_TIMEOUT_SECONDS.into());
        operation_rules::set_defaults(webhook, "rules");
        if let Some(config) = webhook.get_mut("clientConfig") {
            webhook_client::set_defaults(config);
        }
        also(webhook);
    }
}

/// Validation of a single webhook.
pub(super) type CheckWebhook = fn(&Value, &Path<'_>, &mut ErrorList);

/// Validates every webhook, and that their names are unique. `check_more` validates the fields that only one of the
/// two kinds has.
pub(super) fn check_all(object: &Value, check_more: CheckWebhook, errors: &mut ErrorList) {
    let path = Path::root("webhooks");
    let mut seen = BTreeSet::new();
    for (index, webhook) in view::items(object, &["webhooks"]).iter().enumerate() {
        let path = path.index(index);
        check_one(webhook, check_more, &path, errors);
        check_review_versions(webhook, &path.child("admissionReviewVersions"), errors);
        let name = view::text(webhook, &["name"]);
        if !name.is_empty() && !seen.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), name).unless(ratchet::WEBHOOK_NAMES));
        }
    }
}

fn check_one(webhook: &Value, check_more: CheckWebhook, path: &Path<'_>, errors: &mut ErrorList) {
    check_name(view::text(webhook, &["name"]), &path.child("name"), errors);
    let rules_path = path.child("rules");
    for (index, rule) in view::items(webhook, &["rules"]).iter().enumerate() {
        operation_rules::check(rule, &rules_path.index(index), errors);
    }
    let failure = view::text(webhook, &["failurePolicy"]);
    rules::one_of(&path.child("failurePolicy"), failure, &["Fail", "Ignore"], errors);
    match_resources::check_policy(webhook, path, errors);
    errors.ratcheted(ratchet::SIDE_EFFECTS, |errors| {
        check_side_effects(webhook, &path.child("sideEffects"), errors);
    });
    let timeout = view::integer(webhook, &["timeoutSeconds"]);
    if let Some(timeout) = timeout.filter(|timeout| !(1..=30).contains(timeout)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(&path.child("timeoutSeconds"), timeout, detail));
    }
    match_resources::check_selectors(webhook, path, errors);
    check_more(webhook, path, errors);
    let nowhere = json!({});
    let config = webhook.get("clientConfig").unwrap_or(&nowhere);
    webhook_client::check(config, &path.child("clientConfig"), errors);
    let conditions = view::items(webhook, &["matchConditions"]);
    let expressions = PolicyExpressions::new(false);
    match_resources::check_conditions(conditions, &expressions, &path.child("matchConditions"), errors);
}

/// Requires a domain name with at least three segments.
fn check_name(webhook: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if !rules::required(path, webhook, errors) {
        return;
    }
    let messages = name::dns1123_subdomain(webhook);
    if !messages.is_empty() {
        errors.push(FieldError::invalid(path, webhook, messages.join(",")));
    } else if webhook.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(path, webhook, detail));
    }
}

fn check_side_effects(webhook: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match webhook.get("sideEffects").and_then(Value::as_str) {
        Some(side_effects) => drop(rules::one_of(path, side_effects, &SIDE_EFFECTS, errors)),
        None => {
            let detail = format!("must specify one of {}", SIDE_EFFECTS.join(", "));
            errors.push(FieldError::required(path, detail));
        }
    }
}

fn check_review_versions(webhook: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let versions = view::items(webhook, &["admissionReviewVersions"]);
    if versions.is_empty() {
        let detail = format!("must specify one of {}", REVIEW_VERSIONS.join(", "));
        errors.push(FieldError::required(path, detail));
        return;
    }
    check_versions(versions, Some(&REVIEW_VERSIONS), path, errors);
}

/// Validates the review versions of a webhook, of which the server must support one, if `known` lists those that it
/// supports.
pub(crate) fn check_versions(
    versions: &[Value],
    known: Option<&[&str]>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mut seen = BTreeSet::new();
    for (index, version) in versions.iter().filter_map(Value::as_str).enumerate() {
        if seen.insert(version) {
            rules::each_message(&path.index(index), version, name::dns1035_label(version), errors);
        } else {
            errors.push(FieldError::invalid(&path.index(index), version, "duplicate version"));
        }
    }
    if let Some(known) = known.filter(|known| !known.iter().any(|known| seen.contains(known))) {
        let detail = format!("must include at least one of {}", known.join(", "));
        let found = BadValue::json(&Value::Array(versions.to_vec()));
        errors.push(FieldError::invalid(path, found, detail).unless(ratchet::REVIEW_VERSIONS));
    }
}

/// A sample webhook.
#[cfg(any(test, feature = "samples"))]
pub(super) fn sample() -> Value {
    json!({
        "name": "pods.example.com",
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "clientConfig": {"service": {"namespace": "default", "name": "hook", "path": "/check"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "matchConditions": [{"name": "not-leases", "expression": "request.resource.group != 'x'"}],
    })
}

/// Stored samples of both kinds that violate newer rules.
#[cfg(any(test, feature = "samples"))]
pub(super) fn stored_samples(valid: &Value) -> Vec<crate::samples::Stored> {
    use crate::kinds::sample::with;
    use crate::samples::Stored;

    let stored = |pointer: &str, value| Stored::new(with(valid, &format!("/webhooks{pointer}"), value));
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["no label"]}]});
    let condition = |expression: &str| json!([{"name": "a", "expression": expression}]);
    let mut changed = sample();
    changed["matchConditions"] = condition("nothing known");
    vec![
        Stored::new(with(valid, "/webhooks", json!([sample(), sample()]))),
        stored("/0/sideEffects", json!("Some")),
        stored("/0/admissionReviewVersions", json!(["v0"])),
        stored("/0/namespaceSelector", selector),
        stored("/0/matchConditions", condition("unknown")).refusing(
            json!({"webhooks": [changed]}),
            "webhooks[0].matchConditions[0].expression",
            "FieldValueInvalid",
        ),
    ]
}

/// Invalid samples of both kinds.
#[cfg(any(test, feature = "samples"))]
pub(super) fn invalid_samples(valid: &Value) -> Vec<crate::samples::Refused> {
    use crate::kinds::sample::with;
    use crate::samples::Refused;

    let hook = sample();
    let refused = |pointer: &str, value, field, reason| {
        Refused::new(with(valid, &format!("/webhooks{pointer}"), value), field, reason)
    };
    let condition = json!({"name": "a", "expression": "true"});
    let mut invalid = vec![
        Refused::new(
            with(valid, "/webhooks", json!([hook, hook])),
            "webhooks[1].name",
            "FieldValueDuplicate",
        ),
        refused("/0/name", json!(""), "webhooks[0].name", "FieldValueRequired"),
        refused("/0/name", json!("a.b"), "webhooks[0].name", "FieldValueInvalid"),
        refused("/0/clientConfig", json!({}), "webhooks[0].clientConfig", "FieldValueRequired"),
        refused(
            "/0/clientConfig",
            json!({"url": "http://a"}),
            "webhooks[0].clientConfig.url",
            "FieldValueInvalid",
        ),
        refused("/0/sideEffects", Value::Null, "webhooks[0].sideEffects", "FieldValueRequired"),
        refused("/0/sideEffects", json!("Some"), "webhooks[0].sideEffects", "FieldValueNotSupported"),
        refused("/0/timeoutSeconds", json!(31), "webhooks[0].timeoutSeconds", "FieldValueInvalid"),
        refused("/0/failurePolicy", json!("Maybe"), "webhooks[0].failurePolicy", "FieldValueNotSupported"),
        refused("/0/matchPolicy", json!("Maybe"), "webhooks[0].matchPolicy", "FieldValueNotSupported"),
    ];
    invalid.extend([
        refused(
            "/0/admissionReviewVersions",
            json!([]),
            "webhooks[0].admissionReviewVersions",
            "FieldValueRequired",
        ),
        refused(
            "/0/admissionReviewVersions",
            json!(["v2"]),
            "webhooks[0].admissionReviewVersions",
            "FieldValueInvalid",
        ),
        refused("/0/rules/0/operations", json!([]), "webhooks[0].rules[0].operations", "FieldValueRequired"),
        refused(
            "/0/rules/0/operations",
            json!(["*", "CREATE"]),
            "webhooks[0].rules[0].operations",
            "FieldValueInvalid",
        ),
        refused(
            "/0/rules/0/operations",
            json!(["READ"]),
            "webhooks[0].rules[0].operations[0]",
            "FieldValueNotSupported",
        ),
        refused(
            "/0/rules/0/apiVersions",
            json!([""]),
            "webhooks[0].rules[0].apiVersions[0]",
            "FieldValueRequired",
        ),
        refused("/0/rules/0/scope", json!("All"), "webhooks[0].rules[0].scope", "FieldValueNotSupported"),
        refused(
            "/0/matchConditions/0/expression",
            json!(" "),
            "webhooks[0].matchConditions[0].expression",
            "FieldValueRequired",
        ),
        refused(
            "/0/matchConditions",
            json!([condition, condition]),
            "webhooks[0].matchConditions[1].name",
            "FieldValueDuplicate",
        ),
        refused(
            "/0/objectSelector",
            json!({"matchExpressions": [{"key": "a", "operator": "Is"}]}),
            "webhooks[0].objectSelector.matchExpressions[0].operator",
            "FieldValueInvalid",
        ),
    ]);
    invalid
}
