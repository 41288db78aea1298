//! ValidatingAdmissionPolicy: CEL expressions that accept or reject a request.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::json_path::JsonPath;
use coracle_meta::name;
use serde_json::Value;

use super::{name_warnings, policies};
use crate::kind::{Column, Declaration, Generation, Kind, Scope, StatusMetadata, Subresource, texts};
use crate::kinds::{conditions, rules};
use crate::view;
use coracle_cel::policy::{PolicyExpressions, Role};

/// Maximum number of audit annotations, as in Kubernetes.
const MAX_AUDIT_ANNOTATIONS: usize = 20;

/// Maximum length of a value expression of an audit annotation, as in Kubernetes.
const MAX_VALUE_EXPRESSION_BYTES: usize = 5 * 1024;

/// Allowed reasons of a validation.
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];

/// [`Kind`] of ValidatingAdmissionPolicy objects.
pub struct ValidatingAdmissionPolicy;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    prefixed_finalizers: false,
    metadata_checks: 1,
    checks_metadata_change_again: false,
    categories: texts(&["api-extensions"]),
    subresources: vec![Subresource::status("ValidatingAdmissionPolicy")],
    status_metadata: StatusMetadata::Kept,
    generation: Generation::Spec,
    unconditional_update: false,
    columns: vec![
        Column::name(),
        Column::integer("Validations", "how many expressions must hold"),
        Column::text("ParamKind", "the kind of its parameters"),
        Column::age(),
    ],
    storage_version_hash: "6OxvlMmQ6is=".into(),
    ..Declaration::new(
        "admissionregistration.k8s.io",
        &["v1"],
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        "validatingadmissionpolicy",
        Scope::Cluster,
    )
});

impl Kind for ValidatingAdmissionPolicy {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        policies::set_defaults(object);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        let expressions = policies::check(object, false, &path, errors);
        let validations = view::items(object, &["spec", "validations"]);
        let annotations = view::items(object, &["spec", "auditAnnotations"]);
        if validations.is_empty() && annotations.is_empty() {
            for field in ["validations", "auditAnnotations"] {
                let detail = "validations or auditAnnotations must contain at least one item";
                errors.push(FieldError::required(&path.child(field), detail));
            }
        }
        for (index, validation) in validations.iter().enumerate() {
            check_validation(validation, &expressions, &path.child("validations").index(index), errors);
        }
        check_audit_annotations(object, annotations, &expressions, &path.child("auditAnnotations"), errors);
    }

    fn validate_status_update(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let path = Path::root("status.typeChecking.expressionWarnings");
        let warnings = view::items(new, &["status", "typeChecking", "expressionWarnings"]);
        for (index, warning) in warnings.iter().enumerate() {
            let path = path.index(index);
            rules::required(&path.child("warning"), view::text(warning, &["warning"]).trim(), errors);
            let (reference, path) = (view::text(warning, &["fieldRef"]).trim(), path.child("fieldRef"));
            if !rules::required(&path, reference, errors) {
                continue;
            }
            // kube-apiserver only parses the path, in which any identifier is valid.
            let fault = JsonPath::parse(reference).err().map(|error| error.to_string());
            if let Some(why) = fault.filter(|why| !why.starts_with("unrecognized identifier")) {
                errors.push(FieldError::invalid(&path, reference, format!("invalid JSONPath: {why}")));
            }
        }
        let found = view::items(new, &["status", "conditions"]);
        conditions::check(found, &Path::root("status.conditions"), errors);
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        name_warnings(new)
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let count = view::items(object, &["spec", "validations"]).len();
        vec![
            view::name(object).into(),
            count.into(),
            policies::param_kind_cell(object),
            view::age(object, now),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        use serde_json::json;

        let valid = &self.samples().valid[0];
        let conditions = json!([{"name": "a", "expression": "unknown"}]);
        vec![crate::samples::Stored::of(valid, &json!({"spec": {"matchConditions": conditions}}))]
    }
}

fn check_validation(
    validation: &Value,
    expressions: &PolicyExpressions,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (expression, missing) = (view::text(validation, &["expression"]), "expression is not specified");
    let place = path.child("expression");
    policies::check_expression(expression, Role::Condition, expressions, missing, &place, errors);
    for field in ["messageExpression", "message"] {
        let (text, path) = (view::text(validation, &[field]), path.child(field));
        if !text.is_empty() && text.trim().is_empty() {
            errors.push(FieldError::invalid(&path, text, "must be non-empty if specified"));
        } else if field == "messageExpression" && !text.is_empty() {
            policies::check_expression(text, Role::Message, expressions, "", &path, errors);
        } else if field == "message" && text.trim().contains(['\n', '\r']) {
            errors.push(FieldError::invalid(&path, text, "must not contain line breaks"));
        }
    }
    if let Some(reason) = validation.get("reason").and_then(Value::as_str) {
        rules::one_of(&path.child("reason"), reason, &REASONS, errors);
    }
}

fn check_audit_annotations(
    object: &Value,
    annotations: &[Value],
    expressions: &PolicyExpressions,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        let found = BadValue::json(&Value::Array(annotations.to_vec()));
        let detail = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        errors.push(FieldError::invalid(path, found, detail));
    }
    let mut seen = BTreeSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let path = path.index(index);
        let (key, key_path) = (view::text(annotation, &["key"]), path.child("key"));
        if view::name(object).is_empty() {
            errors.push(FieldError::invalid(&key_path, key, "requires metadata.name be non-empty"));
        } else {
            let full = format!("{}/{key}", view::name(object));
            rules::each_message(&key_path, &full, name::qualified_name(&full), errors);
        }
        check_value_expression(annotation, expressions, &path.child("valueExpression"), errors);
        if !seen.insert(key) {
            errors.push(FieldError::duplicate(&key_path, key));
        }
    }
}

fn check_value_expression(
    annotation: &Value,
    expressions: &PolicyExpressions,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let expression = view::text(annotation, &["valueExpression"]).trim();
    if expression.is_empty() {
        errors.push(FieldError::required(path, "valueExpression is not specified"));
    } else if expression.len() > MAX_VALUE_EXPRESSION_BYTES {
        let detail = format!("must not exceed {MAX_VALUE_EXPRESSION_BYTES} bytes in length");
        errors.push(FieldError::required(path, detail));
    } else {
        policies::check_expression(expression, Role::AuditValue, expressions, "", path, errors);
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let valid = cluster(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        json!({"spec": {
            "paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"},
            "matchConstraints": policies::sample_constraints(),
            "matchConditions": [{"name": "a", "expression": "true"}],
            "variables": [{"name": "count", "expression": "object.spec.replicas"}],
            "validations": [{"expression": "variables.count < 5", "message": "too many", "reason": "Invalid"}],
            "auditAnnotations": [{"key": "count", "valueExpression": "'x'"}],
        }}),
    );
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    let first = "/spec/validations/0";
    let validation = |value, field, reason| refused(first, value, field, reason);
    let annotation = json!({"key": "a", "valueExpression": "'x'"});
    let mut invalid = policies::invalid_samples(&valid);
    invalid.extend([
        validation(json!({}), "spec.validations[0].expression", "FieldValueRequired"),
        validation(
            json!({"expression": "true", "message": "a\nb"}),
            "spec.validations[0].message",
            "FieldValueInvalid",
        ),
        validation(
            json!({"expression": "true", "reason": "Why"}),
            "spec.validations[0].reason",
            "FieldValueNotSupported",
        ),
        validation(
            json!({"expression": "true", "messageExpression": " "}),
            "spec.validations[0].messageExpression",
            "FieldValueInvalid",
        ),
        validation(
            json!({"expression": "object.spec.replicas"}),
            "spec.validations[0].expression",
            "FieldValueInvalid",
        ),
        validation(
            json!({"expression": "true", "messageExpression": "1"}),
            "spec.validations[0].messageExpression",
            "FieldValueInvalid",
        ),
        refused(
            "/spec/auditAnnotations",
            json!([annotation, annotation]),
            "spec.auditAnnotations[1].key",
            "FieldValueDuplicate",
        ),
        refused(
            "/spec/auditAnnotations/0/key",
            json!("a/b"),
            "spec.auditAnnotations[0].key",
            "FieldValueInvalid",
        ),
        refused(
            "/spec/auditAnnotations/0/valueExpression",
            json!("x".repeat(6000)),
            "spec.auditAnnotations[0].valueExpression",
            "FieldValueRequired",
        ),
        Refused::new(
            cluster("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", json!({"spec": {}})),
            "spec.validations",
            "FieldValueRequired",
        ),
    ]);
    Samples {
        invalid,
        valid: vec![valid],
        updates: vec![
            json!({"spec": {"failurePolicy": "Ignore"}}),
            json!({"spec": {"auditAnnotations": null}}),
        ],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"matchConstraints": null}}),
            "spec.matchConstraints",
            "FieldValueRequired",
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_reference_of_a_type_check_must_be_a_json_path() {
        let faults = |reference: &str| {
            let warning = serde_json::json!({"fieldRef": reference, "warning": "w"});
            let status = serde_json::json!({"status": {"typeChecking": {"expressionWarnings": [warning]}}});
            let mut errors = ErrorList::new();
            ValidatingAdmissionPolicy.validate_status_update(&status, &Value::Null, &mut errors);
            errors.to_string()
        };
        assert_eq!(faults("spec.validations[0].expression"), "");
        assert_eq!(
            faults("10.0.0.1"),
            "status.typeChecking.expressionWarnings[0].fieldRef: Invalid value: \"10.0.0.1\": invalid JSONPath: cannot parse number 10.0.0.1"
        );
    }
}
