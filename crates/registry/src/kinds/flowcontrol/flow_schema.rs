//! FlowSchema: assigns requests to priority levels.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::{Value, json};

use super::{check_conditions, policy_rules};
use crate::kind::{Column, Declaration, Generation, Kind, Scope, StatusMetadata, Subresource};
use crate::kinds::rules;
use crate::{internal_types, view};

/// Default precedence of a schema, as in kube-apiserver.
const DEFAULT_PRECEDENCE: i64 = 1000;

/// Lowest precedence, which is the highest number, as in kube-apiserver.
const MAX_PRECEDENCE: i64 = 10_000;

/// [`Kind`] of FlowSchema objects.
pub struct FlowSchema;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    checks_metadata_change_again: false,
    metadata_checks: 1,
    subresources: vec![Subresource::status("FlowSchema")],
    status_metadata: StatusMetadata::Kept,
    generation: Generation::Spec,
    columns: vec![
        Column::name(),
        Column::text("PriorityLevel", "priority level of matching requests"),
        Column::text("MatchingPrecedence", "precedence; schemas with a lower number match first"),
        Column::text("DistinguisherMethod", "method that divides requests into flows"),
        Column::age(),
        Column::text("MissingPL", "whether the priority level is missing"),
    ],
    storage_version_hash: "GJVAJZSZBIw=".into(),
    ..Declaration::new(
        "flowcontrol.apiserver.k8s.io",
        &["v1"],
        "FlowSchema",
        "flowschemas",
        "flowschema",
        Scope::Cluster,
    )
});

impl Kind for FlowSchema {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        view::set_default(object, "spec", || json!({}));
        if view::integer(object, &["spec", "matchingPrecedence"]).unwrap_or(0) == 0
            && let Some(spec) = object.get_mut("spec")
        {
            spec["matchingPrecedence"] = DEFAULT_PRECEDENCE.into();
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        check_precedence(object, &path.child("matchingPrecedence"), errors);
        if let Some(method) = view::at(object, &["spec", "distinguisherMethod"])
            && !matches!(view::text(method, &["type"]), "ByNamespace" | "ByUser")
        {
            let path = path.child("distinguisherMethod.type");
            let found = internal_types::printed("*@flowcontrol.FlowDistinguisherMethod", Some(method));
            errors.push(FieldError::not_supported(&path, found, &["ByNamespace", "ByUser"]));
        }
        check_priority_level(object, &path.child("priorityLevelConfiguration.name"), errors);
        for (index, rule) in view::items(object, &["spec", "rules"]).iter().enumerate() {
            policy_rules::check(rule, &path.child("rules").index(index), errors);
        }
        check_mandatory(object, &path, errors);
        check_conditions(object, errors);
    }

    fn validate_status_update(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        check_conditions(new, errors);
    }

    fn row_order(&self) -> Option<fn(&Value) -> i64> {
        Some(|schema| view::integer(schema, &["spec", "matchingPrecedence"]).unwrap_or(0))
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let method = view::at(object, &["spec", "distinguisherMethod"]);
        let method = method.map_or("<none>", |method| view::text(method, &["type"]));
        let conditions = view::items(object, &["status", "conditions"]);
        let dangling = conditions.iter().find(|condition| view::text(condition, &["type"]) == "Dangling");
        vec![
            view::name(object).into(),
            view::text(object, &["spec", "priorityLevelConfiguration", "name"]).into(),
            view::integer(object, &["spec", "matchingPrecedence"]).unwrap_or(0).into(),
            method.into(),
            view::age(object, now),
            dangling.map_or("?", |condition| view::text(condition, &["status"])).into(),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

fn check_precedence(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let precedence = view::integer(object, &["spec", "matchingPrecedence"]).unwrap_or(0);
    if precedence <= 0 {
        errors.push(FieldError::invalid(path, precedence, "must be a positive value"));
    }
    if precedence > MAX_PRECEDENCE {
        let detail = format!("must not be greater than {MAX_PRECEDENCE}");
        errors.push(FieldError::invalid(path, precedence, detail));
    }
    if precedence == 1 && view::name(object) != "exempt" {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.push(FieldError::invalid(path, precedence, detail));
    }
}

fn check_priority_level(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let level = view::text(object, &["spec", "priorityLevelConfiguration", "name"]);
    if level.is_empty() {
        errors.push(FieldError::required(path, "must reference a priority level"));
    } else {
        rules::each_message(path, level, name::dns1123_subdomain(level), errors);
    }
}

/// Requires that the two mandatory schemas have the spec on which the server relies.
fn check_mandatory(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let name = view::name(object);
    let Some(mandatory) = mandatory_spec(name) else { return };
    if !rules::same(object.get("spec"), Some(&mandatory)) {
        let found = internal_types::printed("@flowcontrol.FlowSchemaSpec", object.get("spec"));
        let detail = format!("spec of '{name}' must equal the fixed value");
        errors.push(FieldError::invalid(path, found, detail));
    }
}

/// Returns the spec that the schema of this name must have; `None` if it is not mandatory.
pub fn mandatory_spec(name: &str) -> Option<Value> {
    let groups = |groups: &[&str]| -> Value {
        groups.iter().map(|group| json!({"kind": "Group", "group": {"name": group}})).collect()
    };
    let rules = |subjects: Value| {
        json!([{
            "subjects": subjects,
            "resourceRules": [{
                "verbs": ["*"],
                "apiGroups": ["*"],
                "resources": ["*"],
                "clusterScope": true,
                "namespaces": ["*"],
            }],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        }])
    };
    match name {
        "exempt" => Some(json!({
            "priorityLevelConfiguration": {"name": "exempt"},
            "matchingPrecedence": 1,
            "rules": rules(groups(&["system:masters"])),
        })),
        "catch-all" => Some(json!({
            "priorityLevelConfiguration": {"name": "catch-all"},
            "matchingPrecedence": MAX_PRECEDENCE,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": rules(groups(&["system:unauthenticated", "system:authenticated"])),
        })),
        _ => None,
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let subject = json!({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "default"}});
    let resource_rule = json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["default"]});
    let valid = cluster(
        "flowcontrol.apiserver.k8s.io/v1",
        "FlowSchema",
        json!({"spec": {
            "priorityLevelConfiguration": {"name": "workload"},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{
                "subjects": [subject, {"kind": "User", "user": {"name": "jane"}}],
                "resourceRules": [resource_rule],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["/healthz", "/livez/*"]}],
            }],
        }}),
    );
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    let in_rule = |pointer: &str, value, field, reason| {
        Refused::new(with(&valid, &format!("/spec/rules/0{pointer}"), value), field, reason)
    };
    let exempt =
        cluster("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", json!({"spec": mandatory_spec("exempt")}));
    let exempt = with(&exempt, "/metadata/name", json!("exempt"));
    Samples {
        invalid: vec![
            refused("/spec/matchingPrecedence", json!(-1), "spec.matchingPrecedence", "FieldValueInvalid"),
            refused("/spec/matchingPrecedence", json!(1), "spec.matchingPrecedence", "FieldValueInvalid"),
            refused(
                "/spec/matchingPrecedence",
                json!(10_001),
                "spec.matchingPrecedence",
                "FieldValueInvalid",
            ),
            refused(
                "/spec/distinguisherMethod/type",
                json!("ByMood"),
                "spec.distinguisherMethod.type",
                "FieldValueNotSupported",
            ),
            refused(
                "/spec/priorityLevelConfiguration/name",
                json!(""),
                "spec.priorityLevelConfiguration.name",
                "FieldValueRequired",
            ),
            in_rule("/subjects", json!([]), "spec.rules[0].subjects", "FieldValueRequired"),
            in_rule(
                "/subjects/0/kind",
                json!("Robot"),
                "spec.rules[0].subjects[0].kind",
                "FieldValueNotSupported",
            ),
            in_rule(
                "/subjects/0/kind",
                json!("User"),
                "spec.rules[0].subjects[0].serviceAccount",
                "FieldValueForbidden",
            ),
            in_rule("/subjects/1/user", Value::Null, "spec.rules[0].subjects[1].user", "FieldValueRequired"),
            in_rule(
                "/subjects/0/serviceAccount/namespace",
                json!(""),
                "spec.rules[0].subjects[0].serviceAccount.namespace",
                "FieldValueRequired",
            ),
            in_rule(
                "/resourceRules/0/verbs",
                json!(["hop"]),
                "spec.rules[0].resourceRules[0].verbs",
                "FieldValueNotSupported",
            ),
            in_rule(
                "/resourceRules/0/apiGroups",
                json!(["*", "a"]),
                "spec.rules[0].resourceRules[0].apiGroups",
                "FieldValueInvalid",
            ),
            in_rule(
                "/resourceRules/0/namespaces",
                json!([]),
                "spec.rules[0].resourceRules[0].namespaces",
                "FieldValueRequired",
            ),
            in_rule(
                "/resourceRules/0/namespaces",
                json!(["A"]),
                "spec.rules[0].resourceRules[0].namespaces[0]",
                "FieldValueInvalid",
            ),
            in_rule(
                "/nonResourceRules/0/nonResourceURLs",
                json!(["/a*"]),
                "spec.rules[0].nonResourceRules[0].nonResourceURLs[0]",
                "FieldValueInvalid",
            ),
            Refused::new(with(&exempt, "/spec/rules", json!([])), "spec", "FieldValueInvalid"),
        ],
        valid: vec![valid, exempt],
        updates: vec![json!({"spec": {"matchingPrecedence": 500}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"rules": [{"subjects": [subject]}]}}),
            "spec.rules[0]",
            "FieldValueRequired",
        )],
    }
}
