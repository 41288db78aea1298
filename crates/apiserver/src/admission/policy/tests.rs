//! Policies in an in-memory cluster.

use coracle_base::metrics::Metrics;
use coracle_registry::Kind;
use coracle_registry::kinds::admissionregistration::mutating_admission_policy::MutatingAdmissionPolicy as MutatingKind;
use coracle_registry::kinds::admissionregistration::mutating_admission_policy_binding::MutatingAdmissionPolicyBinding as MutatingBindingKind;
use coracle_registry::kinds::admissionregistration::validating_admission_policy::ValidatingAdmissionPolicy as ValidatingKind;
use coracle_registry::kinds::admissionregistration::validating_admission_policy_binding::ValidatingAdmissionPolicyBinding as ValidatingBindingKind;
use coracle_registry::kinds::apps::deployment::Deployment;
use coracle_registry::kinds::core::config_map::ConfigMap;
use coracle_registry::kinds::core::event::Event;
use serde_json::{Value, json};

use super::{MutatingAdmissionPolicy, ValidatingAdmissionPolicy};
use crate::admission::testing::{Bench, masters_only, only};
use crate::admission::{Chain, Operation};

pub(super) const GROUP: &str = "admissionregistration.k8s.io/v1";

pub(super) fn validating() -> ValidatingAdmissionPolicy {
    ValidatingAdmissionPolicy::new(masters_only(), &Metrics::default())
}

fn mutating() -> MutatingAdmissionPolicy {
    MutatingAdmissionPolicy::new(masters_only(), &Metrics::default())
}

/// Match constraints for deployments.
fn deployments() -> Value {
    json!({"resourceRules": [{
        "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"],
    }]})
}

pub(super) fn deployment(replicas: u32) -> Value {
    let labels = json!({"app": "a"});
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default", "labels": labels.clone()},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    Deployment.set_defaults(&mut object);
    object
}

/// A cluster with a policy and a binding.
pub(super) async fn bench_with(policy: Value, binding: Value) -> Bench {
    let bench = Bench::new().await;
    let merged = |kind: &str, name: &str, base: Value, spec: Value| {
        let mut object = json!({"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": base});
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        object
    };
    let constraints = json!({"matchConstraints": deployments()});
    if policy.get("mutations").is_some() {
        let policy = merged("MutatingAdmissionPolicy", "p", constraints, policy);
        bench.create(&MutatingKind, policy).await;
        let bound = json!({"policyName": "p"});
        bench
            .create(&MutatingBindingKind, merged("MutatingAdmissionPolicyBinding", "b", bound, binding))
            .await;
    } else {
        bench.create(&ValidatingKind, merged("ValidatingAdmissionPolicy", "p", constraints, policy)).await;
        let bound = json!({"policyName": "p", "validationActions": ["Deny"]});
        let binding = merged("ValidatingAdmissionPolicyBinding", "b", bound, binding);
        bench.create(&ValidatingBindingKind, binding).await;
    }
    bench
}

/// The error of a policy with these validations for a new deployment.
pub(super) async fn refused(policy: Value, replicas: u32) -> Option<String> {
    let bench = bench_with(policy, json!({})).await;
    bench.admit_new(validating(), &Deployment, deployment(replicas)).await.err()
}

pub(super) fn denial(message: &str) -> Option<String> {
    let whose = "deployments.apps \"d\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b'";
    Some(format!("{whose} denied request: {message}"))
}

#[tokio::test]
async fn failed_validation_rejects_the_request() {
    let policy = json!({"validations": [{"expression": "object.spec.replicas <= 5"}]});
    assert_eq!(refused(policy.clone(), 5).await, None);
    assert_eq!(refused(policy, 6).await, denial("failed expression: object.spec.replicas <= 5"));
}

#[tokio::test]
async fn refusals_are_worded() {
    let validation = |message: Value| {
        let mut validation = json!({"expression": "object.spec.replicas <= 5", "message": "at most five"});
        if !message.is_null() {
            validation["messageExpression"] = message;
        }
        json!({"validations": [validation]})
    };
    assert_eq!(refused(validation(Value::Null), 6).await, denial("at most five"));
    let worded = json!("string(object.spec.replicas) + ' are too many for ' + request.name");
    assert_eq!(refused(validation(worded), 6).await, denial("6 are too many for d"));
    for useless in ["' '", "string(object.nothing)", "'a\\nb'"] {
        assert_eq!(refused(validation(json!(useless)), 6).await, denial("at most five"), "{useless}");
    }
}

#[tokio::test]
async fn variables_are_usable_in_expressions() {
    let policy = json!({
        "variables": [
            {"name": "replicas", "expression": "object.spec.replicas"},
            {"name": "doubled", "expression": "variables.replicas * 2"},
        ],
        "validations": [{"expression": "variables.doubled < 10"}],
    });
    assert_eq!(refused(policy.clone(), 4).await, None);
    assert!(refused(policy, 5).await.is_some());
}

#[tokio::test]
async fn match_conditions_select_requests() {
    let policy = |condition: &str| {
        json!({
            "matchConditions": [{"name": "c", "expression": condition}],
            "validations": [{"expression": "false", "message": "no"}],
        })
    };
    assert_eq!(refused(policy("request.operation == 'CREATE'"), 1).await, denial("no"));
    assert_eq!(refused(policy("request.operation == 'UPDATE'"), 1).await, None);
    assert_eq!(refused(policy("'x' in request.userInfo.groups"), 1).await, None);
    let broken = refused(policy("object.nothing == 1"), 1).await;
    assert_eq!(broken, denial("expression 'object.nothing == 1' resulted in error: no such key: nothing"));
}

#[tokio::test]
async fn evaluation_error_rejects_unless_failures_are_ignored() {
    let policy = |failure: &str| json!({"failurePolicy": failure, "validations": [{"expression": "object.nothing == 1"}]});
    let message = "expression 'object.nothing == 1' resulted in error: no such key: nothing";
    assert_eq!(refused(policy("Fail"), 1).await, denial(message));
    assert_eq!(refused(policy("Ignore"), 1).await, None);
}

#[tokio::test]
async fn expensive_expression_is_stopped() {
    let nested = (0..8).fold("true".to_owned(), |inner, depth| {
        format!("[1,2,3,4,5,6,7,8,9,10,11,12].all(v{depth}, {inner})")
    });
    let policy = json!({"validations": [{"expression": nested.clone()}]});
    let message =
        format!("expression '{nested}' resulted in error: operation cancelled: actual cost limit exceeded");
    assert_eq!(refused(policy, 1).await, denial(&message));
}

#[tokio::test]
async fn parameters_come_from_the_binding() {
    let policy = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "validations": [{"expression": "object.spec.replicas <= int(params.data.limit)"}],
    });
    let reference = |name: &str, action: &str| json!({"paramRef": {"name": name, "namespace": "default", "parameterNotFoundAction": action}});
    let bench = bench_with(policy.clone(), reference("limits", "Deny")).await;
    let missing = "failed to configure binding: no params found for policy binding with `Deny` \
                   parameterNotFoundAction";
    let outcome = bench.admit_new(validating(), &Deployment, deployment(1)).await;
    assert_eq!(outcome.err(), denial(missing));
    let limits = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits"}, "data": {"limit": "3"},
    });
    bench.create(&ConfigMap, limits).await;
    assert!(bench.admit_new(validating(), &Deployment, deployment(3)).await.is_ok());
    assert!(bench.admit_new(validating(), &Deployment, deployment(4)).await.is_err());
    let lenient = bench_with(policy, reference("limits", "Allow")).await;
    assert!(lenient.admit_new(validating(), &Deployment, deployment(9)).await.is_ok());
}

#[tokio::test]
async fn unknown_param_kind_rejects_the_request() {
    let policy = json!({
        "paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Limit"},
        "validations": [{"expression": "true"}],
    });
    let whose = "deployments.apps \"d\" is forbidden: ValidatingAdmissionPolicy 'p' denied request";
    let message = "failed to configure policy: failed to find resource referenced by paramKind: \
                   'rules.example.com/v1, Kind=Limit'";
    assert_eq!(refused(policy, 1).await, Some(format!("{whose}: {message}")));
}

#[tokio::test]
async fn selectors_match_namespaces_and_objects() {
    let policy = json!({"validations": [{"expression": "false", "message": "no"}]});
    for (matches, is_meant) in [
        (json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}), true),
        (json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}), false),
        (json!({"objectSelector": {"matchLabels": {"app": "a"}}}), true),
        (json!({"objectSelector": {"matchLabels": {"app": "b"}}}), false),
        (deployments(), true),
        (json!({"excludeResourceRules": deployments()["resourceRules"]}), false),
    ] {
        let bench = bench_with(policy.clone(), json!({"matchResources": matches.clone()})).await;
        let outcome = bench.admit_new(validating(), &Deployment, deployment(1)).await;
        assert_eq!(outcome.is_err(), is_meant, "{matches}");
    }
}

#[tokio::test]
async fn namespace_selector_sees_only_the_name_of_a_missing_namespace() {
    let policy = json!({"validations": [{"expression": "false", "message": "no"}]});
    for (selector, is_meant) in [
        (json!({"matchLabels": {"team": "a"}}), false),
        (json!({"matchLabels": {"kubernetes.io/metadata.name": "gone"}}), true),
        (json!({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}), true),
    ] {
        let binding = json!({"matchResources": {"namespaceSelector": selector}});
        let bench = Bench { namespace: "gone", ..bench_with(policy.clone(), binding).await };
        let (old, new) = (deployment(1), deployment(2));
        let outcome = bench.admit_update(validating(), &Deployment, "", &old, new).await;
        let message = outcome.err().unwrap_or_default();
        assert_eq!(message.ends_with("denied request: no"), is_meant, "{message}");
    }
}

#[tokio::test]
async fn rules_match_equivalent_groups() {
    let rule = json!({
        "apiGroups": ["events.k8s.io"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["events"],
    });
    let expression =
        "object.note != 'no' && request.kind.group == 'events.k8s.io' && request.requestKind.group == ''";
    for (policy, is_meant) in [("Equivalent", true), ("Exact", false)] {
        let constraints = json!({"matchPolicy": policy, "resourceRules": [rule]});
        let spec = json!({"matchConstraints": constraints, "validations": [{"expression": expression}]});
        let bench = bench_with(spec, json!({})).await;
        let event = |message: &str| {
            json!({
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"},
                "message": message, "involvedObject": {"namespace": "default"},
            })
        };
        assert!(bench.admit_new(validating(), &Event, event("yes")).await.is_ok(), "{policy}");
        assert_eq!(bench.admit_new(validating(), &Event, event("no")).await.is_err(), is_meant, "{policy}");
    }
}

#[tokio::test]
async fn updates_and_deletions_are_validated() {
    let policy = json!({"validations": [
        {"expression": "request.operation != 'UPDATE' || object.spec.replicas >= oldObject.spec.replicas"},
        {"expression": "request.operation != 'DELETE' || (object == null && oldObject.spec.replicas == 0)"},
    ]});
    let bench = bench_with(policy, json!({})).await;
    let update = async |from, to| {
        bench.admit_update(validating(), &Deployment, "", &deployment(from), deployment(to)).await
    };
    assert!(update(1, 2).await.is_ok());
    assert!(update(2, 1).await.is_err());
    let delete = async |replicas| {
        bench.admit(&only(validating()), &Deployment, Operation::Delete, deployment(replicas)).await
    };
    assert!(delete(0).await.is_ok());
    assert!(delete(1).await.is_err());
}

#[tokio::test]
async fn policies_do_not_apply_to_policies() {
    let everything = json!({"resourceRules": [{
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"],
    }]});
    let policy = json!({"matchConstraints": everything, "validations": [{"expression": "false"}]});
    let bench = bench_with(policy, json!({})).await;
    assert!(bench.admit_new(validating(), &Deployment, deployment(1)).await.is_err());
    let binding = json!({
        "apiVersion": GROUP, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny"]},
    });
    let delete = bench.admit(&only(validating()), &ValidatingBindingKind, Operation::Delete, binding).await;
    assert!(delete.is_ok());
}

fn apply_configuration(expression: &str) -> Value {
    json!({
        "reinvocationPolicy": "Never",
        "mutations": [{
            "patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression},
        }],
    })
}

fn json_patch(expression: &str) -> Value {
    json!({
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    })
}

async fn changed(policy: Value) -> Result<Value, String> {
    let bench = bench_with(policy, json!({})).await;
    bench.admit_new(mutating(), &Deployment, deployment(1)).await
}

#[tokio::test]
async fn apply_configuration_is_merged_into_the_object() {
    let expression = "Object{
        metadata: Object.metadata{labels: {'team': 'x'}},
        spec: Object.spec{replicas: object.spec.replicas + 4, template: Object.spec.template{
            spec: Object.spec.template.spec{containers: [
                Object.spec.template.spec.containers{name: 'sidecar', image: 's'}
            ]}
        }}
    }";
    let object = changed(apply_configuration(expression)).await.unwrap();
    assert_eq!(object["metadata"]["labels"], json!({"app": "a", "team": "x"}));
    assert_eq!(object["spec"]["replicas"], 5);
    let containers = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let names: Vec<&str> = containers.iter().map(|container| container["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["c", "sidecar"]);
    assert_eq!(containers[1]["imagePullPolicy"], "Always", "what is added gets its defaults");
}

#[tokio::test]
async fn json_patch_is_applied_to_the_object() {
    let expression = "[
        JSONPatch{op: 'test', path: '/metadata/labels/app', value: 'a'},
        JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('example.com/team'), value: 'x'},
        JSONPatch{op: 'replace', path: '/spec/replicas', value: 7},
    ]";
    let object = changed(json_patch(expression)).await.unwrap();
    assert_eq!(object["metadata"]["labels"]["example.com/team"], "x");
    assert_eq!(object["spec"]["replicas"], 7);
    let untested = expression.replace("value: 'a'", "value: 'b'");
    assert_eq!(changed(json_patch(&untested)).await.unwrap(), deployment(1), "a test that fails stops all");
}

#[tokio::test]
async fn invalid_mutations_are_rejected() {
    let refusal = |message: &str| Err(format!("policy 'p' with binding 'b' denied request: {message}"));
    let atomic = "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{
        containers: [Object.spec.template.spec.containers{name: 'c', args: ['x']}]
    }}}}";
    let message = "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or \
                   structs: .spec.template.spec.containers[0].args";
    assert_eq!(changed(apply_configuration(atomic)).await, refusal(message));
    let missing = "[JSONPatch{op: 'remove', path: '/spec/nothing'}]";
    assert!(changed(json_patch(missing)).await.is_err());
    let unknown = "[JSONPatch{op: 'add', path: '/spec/nothing', value: 1}]";
    assert!(changed(json_patch(unknown)).await.is_err());
    let mut ignored = json_patch(missing);
    ignored["failurePolicy"] = json!("Ignore");
    assert_eq!(changed(ignored).await.unwrap(), deployment(1));
}

/// The first policy counts the labels; the second adds one, and so the first runs again.
#[tokio::test]
async fn reinvocable_policy_sees_later_changes() {
    for (reinvocation, counted) in [("Never", "1"), ("IfNeeded", "2")] {
        let bench = Bench::new().await;
        let count = "Object{metadata: Object.metadata{annotations: \
                     {'labels': string(size(object.metadata.labels))}}}";
        let add = "Object{metadata: Object.metadata{labels: {'team': 'x'}}}";
        for (name, expression) in [("a", count), ("b", add)] {
            let mut policy = json!({
                "apiVersion": GROUP, "kind": "MutatingAdmissionPolicy", "metadata": {"name": name},
                "spec": apply_configuration(expression),
            });
            policy["spec"]["matchConstraints"] = deployments();
            policy["spec"]["reinvocationPolicy"] = json!(reinvocation);
            bench.create(&MutatingKind, policy).await;
            let binding = json!({
                "apiVersion": GROUP, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": name},
                "spec": {"policyName": name},
            });
            bench.create(&MutatingBindingKind, binding).await;
        }
        let chain: Chain = only(mutating());
        let object = bench.admit(&chain, &Deployment, Operation::Create, deployment(1)).await.unwrap();
        assert_eq!(object["metadata"]["annotations"]["labels"], counted, "{reinvocation}");
    }
}
