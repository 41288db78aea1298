//! ResourceQuota: limits of the total resources of a namespace.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::quantity::Quantity;
use serde_json::Value;

use super::{resource_list, rules};
use crate::kind::{Column, Declaration, Kind, Scope, Subresource, texts};
use crate::{internal_types, view};

/// Scopes that select pods by a property; they support only the operator `Exists`.
const EXISTS_ONLY: &[&str] =
    &["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];

/// Resources of pods to which scopes can apply.
const POD_RESOURCES: &[&str] =
    &["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

/// [`Kind`] of ResourceQuota objects.
pub struct ResourceQuota;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    short_names: texts(&["quota"]),
    subresources: vec![Subresource::status("ResourceQuota")],
    deletion_returns_object: true,
    columns: vec![
        Column::name(),
        Column::text("Request", "usage and limit of each resource, except of limits.*"),
        Column::text("Limit", "usage and limit of each limits.* resource"),
        Column::age(),
    ],
    storage_version_hash: "8uhSgffRX6w=".into(),
    ..Declaration::new("", &["v1"], "ResourceQuota", "resourcequotas", "resourcequota", Scope::Namespaced)
});

impl Kind for ResourceQuota {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        resource_list::set_defaults(object.pointer_mut("/spec/hard"));
        resource_list::set_defaults(object.pointer_mut("/status/hard"));
        resource_list::set_defaults(object.pointer_mut("/status/used"));
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_list(object, ["spec", "hard"], errors);
        check_scopes(object, errors);
        check_scope_selector(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let path = ["spec", "scopes"];
        if scopes(new) != scopes(old) {
            let value = internal_types::printed("[s", view::at(new, &path));
            errors.push(FieldError::invalid(&Path::root("spec.scopes"), value, rules::IMMUTABLE));
        }
    }

    fn validate_status_update(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        check_list(new, ["status", "hard"], errors);
        check_list(new, ["status", "used"], errors);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        ["cpu", "memory", "storage", "ephemeral-storage"]
            .into_iter()
            .filter_map(|resource| request_above_limit(new, resource))
            .collect()
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (name, hard) in resource_list::amounts(object, &["status", "hard"]) {
            let used = resource_list::amount(object, &["status", "used", name]).unwrap_or_default();
            let column = if name.starts_with("limits.") { &mut limits } else { &mut requests };
            column.push(format!("{name}: {used}/{hard}"));
        }
        vec![
            view::name(object).into(),
            requests.join(", ").into(),
            limits.join(", ").into(),
            view::age(object, now),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

fn scopes(object: &Value) -> BTreeSet<&str> {
    view::items(object, &["spec", "scopes"]).iter().filter_map(Value::as_str).collect()
}

fn check_list(object: &Value, field: [&str; 2], errors: &mut ErrorList) {
    let root = Path::root(field[0]);
    let list = root.child(field[1]);
    for (name, amount) in resource_list::amounts(object, &field) {
        let path = list.key(name);
        resource_list::check_quota_name(name, &path, errors);
        resource_list::check_amount(name, &amount, &path, errors);
    }
}

fn is_standard_scope(scope: &str) -> bool {
    EXISTS_ONLY.contains(&scope) || ["PriorityClass", "VolumeAttributesClass"].contains(&scope)
}

/// Returns true if a scope applies to a resource.
fn applies(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => ["persistentvolumeclaims", "requests.storage"].contains(&resource),
        scope if is_standard_scope(scope) => POD_RESOURCES.contains(&resource),
        _ => true,
    }
}

/// Number of limited resources to which a scope does not apply.
fn unsupported(object: &Value, scope: &str) -> usize {
    view::fields(object, &["spec", "hard"])
        .filter(|(name, _)| resource_list::is_standard_for_quota(name) && !applies(scope, name))
        .count()
}

fn conflicting(scopes: &BTreeSet<&str>) -> usize {
    [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]]
        .iter()
        .filter(|pair| pair.iter().all(|scope| scopes.contains(scope)))
        .count()
}

fn check_scopes(object: &Value, errors: &mut ErrorList) {
    let Some(list) = view::at(object, &["spec", "scopes"]) else { return };
    let mut refuse = |detail: &str| {
        errors.push(FieldError::invalid(&Path::root("spec.scopes"), BadValue::json(list), detail))
    };
    for scope in view::items(object, &["spec", "scopes"]).iter().filter_map(Value::as_str) {
        if !is_standard_scope(scope) {
            refuse("unsupported scope");
        }
        for _ in 0..unsupported(object, scope) {
            refuse("unsupported scope applied to resource");
        }
    }
    for _ in 0..conflicting(&scopes(object)) {
        refuse("conflicting scopes");
    }
}

fn check_scope_selector(object: &Value, errors: &mut ErrorList) {
    let Some(selector) = view::at(object, &["spec", "scopeSelector"]) else { return };
    let path = Path::root("spec.scopeSelector.matchExpressions");
    let mut found = BTreeSet::new();
    for expression in view::items(selector, &["matchExpressions"]) {
        let scope = view::text(expression, &["scopeName"]);
        if !is_standard_scope(scope) {
            let path = path.child("scopeName");
            errors.push(FieldError::invalid(&path, BadValue::named(scope), "unsupported scope"));
        }
        for _ in 0..unsupported(object, scope) {
            let detail = "unsupported scope applied to resource";
            errors.push(FieldError::invalid(
                &path,
                internal_types::printed("*@core.ScopeSelector", Some(selector)),
                detail,
            ));
        }
        check_operator(expression, scope, &path, errors);
        found.insert(scope);
    }
    for _ in 0..conflicting(&found) {
        let scopes = view::at(object, &["spec", "scopes"]);
        let value = internal_types::printed("[s", scopes);
        errors.push(FieldError::invalid(&path, value, "conflicting scopes"));
    }
}

fn check_operator(expression: &Value, scope: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let operator = view::text(expression, &["operator"]);
    let operator_path = path.child("operator");
    if EXISTS_ONLY.contains(&scope) && operator != "Exists" {
        let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        errors.push(FieldError::invalid(&operator_path, BadValue::named(operator), detail));
    }
    let values = view::items(expression, &["values"]);
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.push(FieldError::required(&path.child("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            let value = BadValue::json(&values.into());
            errors.push(FieldError::invalid(&path.child("values"), value, detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => {
            let detail = "not a valid selector operator";
            errors.push(FieldError::invalid(&operator_path, BadValue::named(operator), detail));
        }
    }
}

fn request_above_limit(object: &Value, resource: &str) -> Option<String> {
    let amount = |name: &str| -> Option<Quantity> { resource_list::amount(object, &["spec", "hard", name]) };
    let mut request_name = format!("requests.{resource}");
    let mut request = amount(&request_name);
    if request.is_none() && (resource == "cpu" || resource == "memory") {
        request = amount(resource);
        resource.clone_into(&mut request_name);
    }
    let limit_name = format!("limits.{resource}");
    let (request, limit) = (request?, amount(&limit_name)?);
    (request > limit).then(|| {
        format!("ResourceQuota {request_name} ({request}) should be less than {limit_name} ({limit})")
    })
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let with = |spec: Value| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "sample", "namespace": "default"}, "spec": spec});
    let selecting = |expression: Value| {
        with(json!({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [expression]}}))
    };
    let invalid = "FieldValueInvalid";
    Samples {
        valid: vec![
            with(
                json!({"hard": {"pods": "10", "requests.cpu": "1500m", "limits.memory": "1Gi"}, "scopes": ["NotTerminating"]}),
            ),
            with(json!({"hard": {"count/deployments.apps": "2", "requests.example.com/gpu": "4"}})),
            selecting(json!({"scopeName": "PriorityClass", "operator": "In", "values": ["high"]})),
        ],
        invalid: vec![
            Refused::new(with(json!({"hard": {"nonsense": "1"}})), "spec.hard[nonsense]", invalid),
            Refused::new(with(json!({"hard": {"pods": "-1"}})), "spec.hard[pods]", invalid),
            Refused::new(with(json!({"hard": {"pods": "500m"}})), "spec.hard[pods]", invalid),
            Refused::new(with(json!({"hard": {"pods": "1"}, "scopes": ["Some"]})), "spec.scopes", invalid),
            Refused::new(
                with(json!({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]})),
                "spec.scopes",
                invalid,
            ),
            Refused::new(with(json!({"scopes": ["BestEffort", "NotBestEffort"]})), "spec.scopes", invalid),
            Refused::new(
                selecting(json!({"scopeName": "PriorityClass", "operator": "In"})),
                "spec.scopeSelector.matchExpressions.values",
                "FieldValueRequired",
            ),
            Refused::new(
                selecting(json!({"scopeName": "Terminating", "operator": "DoesNotExist"})),
                "spec.scopeSelector.matchExpressions.operator",
                invalid,
            ),
        ],
        updates: vec![json!({"spec": {"hard": {"pods": "20"}}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"scopes": ["Terminating"]}}),
            "spec.scopes",
            invalid,
        )],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn table_row_shows_limits_in_their_own_column() {
        let quota = json!({"status": {"hard": {"limits.cpu": "2", "pods": "3"}, "used": {"pods": "1"}}});
        let cells = ResourceQuota.cells(&quota, 0);
        assert_eq!(cells[1], "pods: 1/3");
        assert_eq!(cells[2], "limits.cpu: 0/2");
    }

    #[test]
    fn request_above_limit_causes_a_warning() {
        let quota = json!({"spec": {"hard": {"cpu": "2", "limits.cpu": "1"}}});
        assert_eq!(
            ResourceQuota.warnings(&quota, None),
            ["ResourceQuota cpu (2) should be less than limits.cpu (1)"]
        );
        assert!(ResourceQuota.warnings(&quota, Some(&quota)).is_empty());
    }
}
