//! Audit annotations of policies.

use coracle_registry::kinds::admissionregistration::validating_admission_policy_binding::ValidatingAdmissionPolicyBinding as BindingKind;
use coracle_registry::kinds::apps::deployment::Deployment;
use coracle_registry::kinds::core::config_map::ConfigMap;
use serde_json::{Value, json};

use super::tests::{GROUP, bench_with, denial, deployment, refused, validating};
use crate::admission::testing::only;

fn annotations(values: &[(&str, &str)]) -> Value {
    let annotation = |(key, value): &(&str, &str)| json!({"key": key, "valueExpression": value});
    json!({"auditAnnotations": values.iter().map(annotation).collect::<Vec<_>>()})
}

/// The audit annotations of a new deployment.
async fn noted(policy: Value, binding: Value) -> Vec<String> {
    let bench = bench_with(policy, binding).await;
    bench.noted(&only(validating()), &Deployment, deployment(3)).await
}

#[tokio::test]
async fn annotations_are_recorded_unless_null_or_blank() {
    let policy = annotations(&[
        ("replicas", "'are ' + string(object.spec.replicas) + ' '"),
        ("nothing", "null"),
        ("blank", "' '"),
    ]);
    assert_eq!(noted(policy, json!({})).await, ["p/replicas: are 3"]);
}

#[tokio::test]
async fn long_annotations_are_truncated() {
    let policy = annotations(&[("long", "string(object.metadata.annotations['long'])")]);
    let bench = bench_with(policy, json!({})).await;
    let mut object = deployment(1);
    object["metadata"]["annotations"] = json!({"long": "x".repeat(10 * 1024 + 1)});
    let noted = bench.noted(&only(validating()), &Deployment, object).await;
    assert_eq!(noted, [format!("p/long: {}", "x".repeat(10 * 1024))]);
}

#[tokio::test]
async fn failing_annotation_rejects_unless_failures_are_ignored() {
    let mut policy = annotations(&[("a", "string(object.nothing)"), ("b", "'b'")]);
    let message = "expression 'string(object.nothing)' resulted in error: no such key: nothing";
    assert_eq!(refused(policy.clone(), 1).await, denial(message));
    policy["failurePolicy"] = json!("Ignore");
    assert_eq!(refused(policy.clone(), 1).await, None);
    assert_eq!(noted(policy, json!({})).await, ["p/b: b"]);
}

#[tokio::test]
async fn annotations_of_several_bindings_are_joined() {
    let mut policy = annotations(&[("limit", "string(params.data.limit)")]);
    policy["paramKind"] = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let reference = |name: &str| json!({"paramRef": {"name": name, "namespace": "default", "parameterNotFoundAction": "Deny"}});
    let bench = bench_with(policy, reference("a")).await;
    for (name, limit) in [("a", "3"), ("b", "4"), ("c", "3")] {
        let limits = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"limit": limit},
        });
        bench.create(&ConfigMap, limits).await;
    }
    for name in ["b", "c"] {
        let mut binding = json!({
            "apiVersion": GROUP, "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": format!("b-{name}")}, "spec": reference(name),
        });
        binding["spec"]["policyName"] = json!("p");
        binding["spec"]["validationActions"] = json!(["Audit"]);
        bench.create(&BindingKind, binding).await;
    }
    let noted = bench.noted(&only(validating()), &Deployment, deployment(1)).await;
    assert_eq!(noted, ["p/limit: 3, 4"]);
}

#[tokio::test]
async fn failed_validations_are_recorded_if_the_binding_audits() {
    let policy = json!({"validations": [
        {"expression": "true"},
        {"expression": "object.spec.replicas < 2", "message": "<two>"},
        {"expression": "false", "message": "only the first is noted"},
    ]});
    let binding = json!({"validationActions": ["Warn", "Audit"]});
    let expected = "validation.policy.admission.k8s.io/validation_failure: \
                    [{\"message\":\"\\u003ctwo\\u003e\",\"policy\":\"p\",\"binding\":\"b\",\
                    \"expressionIndex\":1,\"validationActions\":[\"Warn\",\"Audit\"]}]";
    assert_eq!(noted(policy.clone(), binding).await, [expected]);
    assert!(noted(policy, json!({})).await.is_empty());
}
