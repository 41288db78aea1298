//! Samples of Jobs.

use serde_json::{Value, json};

use super::job_spec::sample_template;
use crate::samples::{Refused, Samples};

/// A Job with additional fields in its spec.
pub(super) fn sample(extra: Value) -> Value {
    let mut object = json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sample", "namespace": "default", "uid": "8a5c9a02-0000-4000-8000-000000000002"},
        "spec": {"template": sample_template()},
    });
    if let (Value::Object(fields), Value::Object(extra)) = (&mut object["spec"], extra) {
        fields.extend(extra);
    }
    object
}

/// Samples of Jobs.
pub(super) fn samples() -> Samples {
    let manual = json!({"manualSelector": true, "selector": {"matchLabels": {"app": "pi"}}});
    Samples {
        valid: vec![
            sample(json!({
                "completions": 5,
                "parallelism": 2,
                "completionMode": "Indexed",
                "backoffLimitPerIndex": 1,
                "maxFailedIndexes": 3,
                "ttlSecondsAfterFinished": 100,
                "podFailurePolicy": {"rules": [
                    {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                ]},
                "successPolicy": {"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 2}]},
            })),
            sample(json!({})),
            sample(manual),
            sample(json!({"suspend": true, "managedBy": "acme.io/queue", "activeDeadlineSeconds": 5})),
        ],
        invalid: invalid(),
        updates: vec![
            json!({"spec": {"parallelism": 0, "suspend": true}}),
            json!({"spec": {"completions": 7, "parallelism": 7}}),
            json!({"spec": {"ttlSecondsAfterFinished": 0}}),
        ],
        invalid_updates: vec![
            Refused::new(json!({"spec": {"completions": 6}}), "spec.completions", "FieldValueInvalid"),
            Refused::new(
                json!({"spec": {"completionMode": "NonIndexed"}}),
                "spec.completionMode",
                "FieldValueInvalid",
            ),
            Refused::new(
                json!({"spec": {"selector": {"matchLabels": {"app": "pi"}}}}),
                "spec.selector",
                "FieldValueInvalid",
            ),
            Refused::new(
                json!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 3}}}}),
                "spec.template",
                "FieldValueInvalid",
            ),
            Refused::new(json!({"spec": {"managedBy": "a.io/b"}}), "spec.managedBy", "FieldValueInvalid"),
            Refused::new(
                json!({"spec": {"backoffLimitPerIndex": 2}}),
                "spec.backoffLimitPerIndex",
                "FieldValueInvalid",
            ),
        ],
    }
}

fn invalid() -> Vec<Refused> {
    let refused = |extra: Value, field, reason| Refused::new(sample(extra), field, reason);
    let restart_policy = |policy: &str| {
        let mut template = sample_template();
        template["spec"]["restartPolicy"] = policy.into();
        json!({"template": template})
    };
    let mut labelled = sample_template();
    labelled["metadata"]["labels"]["job-name"] = "other".into();
    let mut long = sample(json!({"completionMode": "Indexed", "completions": 5}));
    long["metadata"]["name"] = "x".repeat(62).into();
    vec![
        refused(json!({"parallelism": -1}), "spec.parallelism", "FieldValueInvalid"),
        refused(json!({"backoffLimit": -1}), "spec.backoffLimit", "FieldValueInvalid"),
        refused(json!({"completionMode": "Some"}), "spec.completionMode", "FieldValueNotSupported"),
        refused(
            json!({"completionMode": "Indexed", "parallelism": 1}),
            "spec.completions",
            "FieldValueRequired",
        ),
        refused(json!({"backoffLimitPerIndex": 1}), "spec.backoffLimitPerIndex", "FieldValueInvalid"),
        refused(json!({"maxFailedIndexes": 1}), "spec.backoffLimitPerIndex", "FieldValueRequired"),
        refused(json!({"managedBy": "foo"}), "spec.managedBy", "FieldValueInvalid"),
        refused(json!({"podReplacementPolicy": "x"}), "spec.podReplacementPolicy", "FieldValueNotSupported"),
        refused(restart_policy("Always"), "spec.template.spec.restartPolicy", "FieldValueRequired"),
        refused(restart_policy("Often"), "spec.template.spec.restartPolicy", "FieldValueNotSupported"),
        refused(
            json!({"podFailurePolicy": {"rules": [{"action": "Count"}]}}),
            "spec.podFailurePolicy.rules[0]",
            "FieldValueInvalid",
        ),
        refused(json!({"successPolicy": {"rules": []}}), "spec.successPolicy", "FieldValueInvalid"),
        refused(json!({"selector": {"matchLabels": {"app": "pi"}}}), "spec.selector", "FieldValueInvalid"),
        refused(json!({"manualSelector": true}), "spec.selector", "FieldValueRequired"),
        refused(
            json!({"template": labelled}),
            "spec.template.metadata.labels[job-name]",
            "FieldValueInvalid",
        ),
        Refused::new(long, "metadata.name", "FieldValueInvalid"),
    ]
}
