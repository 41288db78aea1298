//! LimitRange: bounds and defaults for the resources of single objects of a namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::quantity::{Format, Quantity};
use serde_json::{Map, Value};

use super::resource_list;
use crate::kind::{Declaration, Kind, Scope, texts};
use crate::kinds::rules::{plain_cells, plain_columns};
use crate::view;

const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

/// [`Kind`] of LimitRange objects.
pub struct LimitRange;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    checks_metadata_change_again: false,
    metadata_checks: 1,
    short_names: texts(&["limits"]),
    create_on_update: true,
    uuid_as_default_name: true,
    columns: plain_columns(),
    storage_version_hash: "EBKMFVe6cwo=".into(),
    ..Declaration::new("", &["v1"], "LimitRange", "limitranges", "limitrange", Scope::Namespaced)
});

impl Kind for LimitRange {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        let Some(Value::Array(limits)) = object.pointer_mut("/spec/limits") else { return };
        for limit in limits {
            for list in LISTS {
                resource_list::set_defaults(limit.get_mut(list));
            }
            if view::text(limit, &["type"]) == "Container" {
                fill(limit, "default", "max");
                fill(limit, "defaultRequest", "default");
                fill(limit, "defaultRequest", "min");
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let list = Path::root("spec.limits");
        let mut seen = BTreeSet::new();
        for (index, limit) in view::items(object, &["spec", "limits"]).iter().enumerate() {
            let path = list.index(index);
            let limit_type = view::text(limit, &["type"]);
            check_type(limit_type, &path.child("type"), errors);
            if !seen.insert(limit_type) {
                errors.push(FieldError::duplicate(&path.child("type"), BadValue::named(limit_type)));
            }
            check_limit(limit, limit_type, &path, errors);
        }
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        plain_cells(object)
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

/// Copies amounts into one list that it lacks and another list has.
fn fill(limit: &mut Value, list: &str, from: &str) {
    let Some(Value::Object(source)) = limit.get(from).cloned() else { return };
    view::set_default(limit, list, || Value::Object(Map::new()));
    if let Some(Value::Object(target)) = limit.get_mut(list) {
        for (name, amount) in source {
            target.entry(name).or_insert(amount);
        }
    }
}

fn check_type(limit_type: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let messages = name::qualified_name(limit_type);
    let standard = limit_type.contains('/')
        || !messages.is_empty()
        || ["Pod", "Container", "PersistentVolumeClaim"].contains(&limit_type);
    for message in messages {
        errors.push(FieldError::invalid(path, BadValue::named(limit_type), message));
    }
    if !standard {
        let detail = "must be a standard limit type or fully qualified";
        errors.push(FieldError::invalid(path, BadValue::named(limit_type), detail));
    }
}

fn check_limit(limit: &Value, limit_type: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let mut amounts: BTreeMap<&str, Amounts> = BTreeMap::new();
    for list in LISTS {
        let list_path = path.child(list);
        if limit_type == "Pod" && (list == "default" || list == "defaultRequest") {
            if view::fields(limit, &[list]).next().is_some() {
                let detail = "may not be specified when `type` is 'Pod'";
                errors.push(FieldError::forbidden(&list_path, detail));
            }
            continue;
        }
        for (name, amount) in resource_list::amounts(limit, &[list]) {
            match limit_type {
                "Pod" | "Container" => {
                    resource_list::check_container_name(name, &list_path.key(name), errors);
                }
                _ => resource_list::check_name(name, &list_path.key(name), errors),
            }
            amounts.entry(name).or_default().set(list, amount);
        }
    }
    if limit_type == "PersistentVolumeClaim"
        && !amounts.get("storage").is_some_and(|amounts| amounts.min.is_some() || amounts.max.is_some())
    {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(FieldError::required(&path.child("limits"), detail));
    }
    for (name, amounts) in amounts {
        amounts.check_order(name, path, errors);
        amounts.check_ratio(name, path, errors);
    }
}

/// Amounts of one resource in all lists.
#[derive(Default)]
struct Amounts {
    max: Option<Quantity>,
    min: Option<Quantity>,
    default: Option<Quantity>,
    request: Option<Quantity>,
    ratio: Option<Quantity>,
}

impl Amounts {
    fn set(&mut self, list: &str, amount: Quantity) {
        let field = match list {
            "max" => &mut self.max,
            "min" => &mut self.min,
            "default" => &mut self.default,
            "defaultRequest" => &mut self.request,
            _ => &mut self.ratio,
        };
        *field = Some(amount);
    }

    /// Checks that min ≤ default request ≤ default ≤ max. As in kube-apiserver, the value in a message is not always
    /// that of the field that it names.
    fn check_order(&self, name: &str, path: &Path<'_>, errors: &mut ErrorList) {
        let mut ascending = |low: (&Option<Quantity>, &str),
                             high: (&Option<Quantity>, &str),
                             list: &str,
                             shows_low| {
            if let (Some(low_amount), Some(high_amount)) = (low.0, high.0)
                && low_amount > high_amount
            {
                let bad_value = resource_list::bad_value(if shows_low { low_amount } else { high_amount });
                let detail =
                    format!("{} value {low_amount} is greater than {} value {high_amount}", low.1, high.1);
                errors.push(FieldError::invalid(&path.child(list).key(name), bad_value, detail));
            }
        };
        let (min, max) = ((&self.min, "min"), (&self.max, "max"));
        let request = (&self.request, "default request");
        ascending(min, max, "min", true);
        ascending(min, request, "defaultRequest", false);
        ascending(request, max, "defaultRequest", true);
        ascending(request, (&self.default, "default limit"), "defaultRequest", true);
        ascending(min, (&self.default, "default"), "default", true);
        ascending((&self.default, "default"), max, "default", false);
        if let (Some(default), Some(request)) = (&self.default, &self.request)
            && default != request
            && (!resource_list::is_native(name) || name.starts_with("hugepages-"))
        {
            let detail =
                format!("default value {default} must equal to defaultRequest value {request} in {name}");
            let path = path.child("defaultRequest");
            errors.push(FieldError::invalid(&path.key(name), resource_list::bad_value(request), detail));
        }
    }

    fn check_ratio(&self, name: &str, path: &Path<'_>, errors: &mut ErrorList) {
        let Some(ratio) = &self.ratio else { return };
        let path = path.child("maxLimitRequestRatio");
        let path = path.key(name);
        if *ratio < Quantity::new(1, Format::DecimalSi) {
            let detail = format!("ratio {ratio} is less than 1");
            errors.push(FieldError::invalid(&path, resource_list::bad_value(ratio), detail));
        }
        if let (Some(min), Some(max)) = (&self.min, &self.max) {
            let limit = float(max) / float(min);
            if float(ratio) > limit {
                let detail = format!("ratio {ratio} is greater than max/min = {limit:.6}");
                errors.push(FieldError::invalid(&path, resource_list::bad_value(ratio), detail));
            }
        }
    }
}

/// The amount as a floating point number, exact to thousandths where these fit into 64 bits.
fn float(amount: &Quantity) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a ratio need not be exact")]
    if amount.value() < i64::MAX / 1000 {
        amount.milli_value() as f64 / 1000.0
    } else {
        amount.value() as f64
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let with = |limits: Value| json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "sample", "namespace": "default"}, "spec": {"limits": limits}});
    let one = |limit: Value| with(json!([limit]));
    let invalid = "FieldValueInvalid";
    Samples {
        valid: vec![
            with(json!([
                {"type": "Container", "max": {"cpu": "2", "memory": "1Gi"}, "min": {"cpu": "100m"}, "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "200m"}, "maxLimitRequestRatio": {"cpu": "10"}},
                {"type": "Pod", "max": {"cpu": "4"}},
                {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}},
            ])),
            one(json!({"type": "example.com/own", "max": {"pods": "3"}})),
        ],
        invalid: vec![
            Refused::new(one(json!({"type": "Thing"})), "spec.limits[0].type", invalid),
            Refused::new(
                with(json!([{"type": "Pod"}, {"type": "Pod"}])),
                "spec.limits[1].type",
                "FieldValueDuplicate",
            ),
            Refused::new(
                one(json!({"type": "Container", "max": {"pods": "1"}})),
                "spec.limits[0].max[pods]",
                invalid,
            ),
            Refused::new(
                one(json!({"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}})),
                "spec.limits[0].min[cpu]",
                invalid,
            ),
            Refused::new(
                one(json!({"type": "Pod", "default": {"cpu": "1"}})),
                "spec.limits[0].default",
                "FieldValueForbidden",
            ),
            Refused::new(
                one(json!({"type": "PersistentVolumeClaim"})),
                "spec.limits[0].limits",
                "FieldValueRequired",
            ),
            Refused::new(
                one(json!({"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}})),
                "spec.limits[0].defaultRequest[cpu]",
                invalid,
            ),
            Refused::new(
                one(
                    json!({"type": "Pod", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}),
                ),
                "spec.limits[0].maxLimitRequestRatio[cpu]",
                invalid,
            ),
            Refused::new(
                one(
                    json!({"type": "Container", "default": {"example.com/gpu": "2"}, "defaultRequest": {"example.com/gpu": "1"}}),
                ),
                "spec.limits[0].defaultRequest[example.com/gpu]",
                invalid,
            ),
        ],
        updates: vec![json!({"spec": {"limits": []}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"limits": [{"type": "Thing"}]}}),
            "spec.limits[0].type",
            invalid,
        )],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples::errors_on_create;

    #[test]
    fn missing_defaults_are_taken_from_the_bounds() {
        let mut range = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}]}});
        LimitRange.set_defaults(&mut range);
        let limit = &range["spec"]["limits"][0];
        assert_eq!(limit["default"], json!({"cpu": "2"}));
        assert_eq!(limit["defaultRequest"], json!({"cpu": "2", "memory": "1Mi"}));
    }

    #[test]
    fn messages_match_kube_apiserver() {
        let range = json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "500m"}}]}});
        assert_eq!(
            errors_on_create(&LimitRange, &range).to_string(),
            r#"[spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1, spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1]"#
        );
    }
}
