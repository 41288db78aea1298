//! MutatingAdmissionPolicy: CEL expressions that change an object before it is written.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use super::{name_warnings, policies};
use crate::kind::{Column, Declaration, Generation, Kind, Scope, texts};
use crate::kinds::rules;
use crate::view;
use coracle_cel::policy::{PolicyExpressions, Role};

/// Patch types, their fields, and the roles of their expressions.
const PATCH_TYPES: [(&str, &str, Role); 2] = [
    ("ApplyConfiguration", "applyConfiguration", Role::ApplyConfiguration),
    ("JSONPatch", "jsonPatch", Role::JsonPatch),
];

/// [`Kind`] of MutatingAdmissionPolicy objects.
pub struct MutatingAdmissionPolicy;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    prefixed_finalizers: false,
    metadata_checks: 1,
    checks_metadata_change_again: false,
    categories: texts(&["api-extensions"]),
    generation: Generation::Spec,
    unconditional_update: false,
    columns: vec![
        Column::name(),
        Column::integer("Mutations", "how many changes it makes"),
        Column::text("ParamKind", "the kind of its parameters"),
        Column::age(),
    ],
    storage_version_hash: "LYmCf+UMVdg=".into(),
    ..Declaration::new(
        "admissionregistration.k8s.io",
        &["v1"],
        "MutatingAdmissionPolicy",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicy",
        Scope::Cluster,
    )
});

impl Kind for MutatingAdmissionPolicy {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        policies::set_defaults(object);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        let expressions = policies::check(object, true, &path, errors);
        let (mutations, mutations_path) =
            (view::items(object, &["spec", "mutations"]), path.child("mutations"));
        if mutations.is_empty() {
            errors.push(FieldError::required(&mutations_path, "mutations must contain at least one item"));
        }
        for (index, mutation) in mutations.iter().enumerate() {
            check_mutation(mutation, &expressions, &mutations_path.index(index), errors);
        }
        let (policy, path) =
            (view::text(object, &["spec", "reinvocationPolicy"]), path.child("reinvocationPolicy"));
        if rules::required(&path, policy, errors) {
            rules::one_of(&path, policy, &["IfNeeded", "Never"], errors);
        }
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        name_warnings(new)
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let count = view::items(object, &["spec", "mutations"]).len();
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
}

fn check_mutation(
    mutation: &Value,
    expressions: &PolicyExpressions,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let (patch_type, type_path) = (view::text(mutation, &["patchType"]), path.child("patchType"));
    let known = PATCH_TYPES.map(|(known, ..)| known);
    if !rules::required(&type_path, patch_type, errors)
        || !rules::one_of(&type_path, patch_type, &known, errors)
    {
        return;
    }
    let mut fields = PATCH_TYPES;
    // kube-apiserver reports errors of the field for the patch type first.
    fields.sort_by_key(|(known, ..)| *known != patch_type);
    for (known, field, role) in fields {
        let (patch, path) = (mutation.get(field), path.child(field));
        match (known == patch_type, patch) {
            (true, Some(patch)) => {
                let expression = view::text(patch, &["expression"]).trim();
                let path = path.child("expression");
                policies::check_expression(expression, role, expressions, "", &path, errors);
            }
            (true, None) => {
                let detail = format!("must be specified when patchType is {patch_type}");
                errors.push(FieldError::required(&path, detail));
            }
            (false, Some(_)) => {
                let detail = format!("must not be specified when patchType is {patch_type}");
                errors.push(FieldError::invalid(&path, format!("{{{field}}}"), detail));
            }
            (false, None) => {}
        }
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let valid = cluster(
        "admissionregistration.k8s.io/v1",
        "MutatingAdmissionPolicy",
        json!({"spec": {
            "matchConstraints": policies::sample_constraints(),
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}},
                {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'remove', path: '/a'}]"}},
            ],
            "reinvocationPolicy": "Never",
        }}),
    );
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    let mut invalid = policies::invalid_samples(&valid);
    invalid.extend([
        refused("/spec/mutations", json!([]), "spec.mutations", "FieldValueRequired"),
        refused(
            "/spec/mutations/0/patchType",
            json!(""),
            "spec.mutations[0].patchType",
            "FieldValueRequired",
        ),
        refused(
            "/spec/mutations/0/patchType",
            json!("Sed"),
            "spec.mutations[0].patchType",
            "FieldValueNotSupported",
        ),
        refused(
            "/spec/mutations/0/patchType",
            json!("JSONPatch"),
            "spec.mutations[0].jsonPatch",
            "FieldValueRequired",
        ),
        refused(
            "/spec/mutations/0/patchType",
            json!("JSONPatch"),
            "spec.mutations[0].applyConfiguration",
            "FieldValueInvalid",
        ),
        refused(
            "/spec/mutations/1/jsonPatch/expression",
            json!(""),
            "spec.mutations[1].jsonPatch.expression",
            "FieldValueRequired",
        ),
        refused("/spec/reinvocationPolicy", Value::Null, "spec.reinvocationPolicy", "FieldValueRequired"),
        refused(
            "/spec/reinvocationPolicy",
            json!("Once"),
            "spec.reinvocationPolicy",
            "FieldValueNotSupported",
        ),
        refused(
            "/spec/matchConstraints/resourceRules/0/operations",
            json!(["DELETE"]),
            "spec.matchConstraints.resourceRules.operations",
            "FieldValueNotSupported",
        ),
    ]);
    Samples {
        invalid,
        valid: vec![valid],
        updates: vec![json!({"spec": {"reinvocationPolicy": "IfNeeded"}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"mutations": []}}),
            "spec.mutations",
            "FieldValueRequired",
        )],
    }
}
