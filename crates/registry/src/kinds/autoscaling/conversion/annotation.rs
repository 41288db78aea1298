//! Encoding of annotations of autoscaling/v1, with fields in kube-apiserver's order.

use coracle_meta::field::json_text;
use serde_json::{Map, Value};

use crate::view;

/// Fields of a behavior that have the same names in v2 and in the annotation, except for case.
const RULES: [&str; 4] = ["stabilizationWindowSeconds", "selectPolicy", "policies", "tolerance"];
const POLICY: [&str; 3] = ["type", "value", "periodSeconds"];

/// An object of these fields and encoded values.
pub(super) fn object_text<'a>(fields: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let fields: Vec<_> = fields.into_iter().map(|(name, text)| format!("\"{name}\":{text}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// The fields that an object has, in this order.
pub(super) fn present_fields(object: &Value, order: &[&str]) -> String {
    object_text(order.iter().filter_map(|field| Some((*field, json_text(object.get(field)?)))))
}

/// Encodes a label selector.
pub(super) fn selector_text(selector: &Value) -> String {
    let expressions = selector.get("matchExpressions").map(|expressions| {
        let encoded = view::items(expressions, &[]).iter();
        let encoded: Vec<_> =
            encoded.map(|expression| present_fields(expression, &["key", "operator", "values"])).collect();
        ("matchExpressions", format!("[{}]", encoded.join(",")))
    });
    let labels = selector.get("matchLabels").map(|labels| ("matchLabels", json_text(labels)));
    object_text(labels.into_iter().chain(expressions))
}

/// Encodes the conditions of a status.
pub(super) fn conditions_text(conditions: &[Value]) -> String {
    let encoded: Vec<_> = conditions
        .iter()
        .map(|condition| {
            let fields = ["type", "status", "lastTransitionTime", "reason", "message"].into_iter();
            object_text(fields.filter_map(|field| match condition.get(field) {
                Some(value) => Some((field, json_text(value))),
                // kube-apiserver cannot omit a time.
                None if field == "lastTransitionTime" => Some((field, "null".to_owned())),
                None => None,
            }))
        })
        .collect();
    format!("[{}]", encoded.join(","))
}

/// Encodes a behavior. kube-apiserver encodes its internal type, whose fields are capitalized and never omitted.
pub(super) fn behavior_text(behavior: &Value) -> String {
    let directions = ["scaleUp", "scaleDown"].map(|direction| {
        let text = behavior.get(direction).map_or_else(|| "null".to_owned(), rules_text);
        (capital(direction), text)
    });
    object_text(directions.iter().map(|(name, text)| (name.as_str(), text.clone())))
}

fn rules_text(rules: &Value) -> String {
    let fields = RULES.map(|field| {
        let text = match (field, rules.get(field)) {
            (_, None) => "null".to_owned(),
            ("policies", Some(policies)) => {
                let policies = view::items(policies, &[]).iter().map(policy_text);
                format!("[{}]", policies.collect::<Vec<_>>().join(","))
            }
            (_, Some(value)) => json_text(value),
        };
        (capital(field), text)
    });
    object_text(fields.iter().map(|(name, text)| (name.as_str(), text.clone())))
}

fn policy_text(policy: &Value) -> String {
    let fields = POLICY.map(|field| {
        let zero = if field == "type" { "\"\"" } else { "0" };
        (capital(field), policy.get(field).map_or_else(|| zero.to_owned(), json_text))
    });
    object_text(fields.iter().map(|(name, text)| (name.as_str(), text.clone())))
}

fn capital(name: &str) -> String {
    let (first, rest) = name.split_at(1);
    first.to_uppercase() + rest
}

/// Decodes a behavior from its annotation; none if it is empty.
pub(super) fn read_behavior(text: &Value) -> Option<Value> {
    let read_policy = |policy: &Value| renamed(policy, &POLICY);
    let read_rules = |rules: &Value| {
        let mut rules = renamed(rules, &RULES);
        if let Some(Value::Array(policies)) = rules.get_mut("policies") {
            *policies = policies.iter().map(read_policy).collect();
        }
        rules
    };
    let mut behavior = renamed(text, &["scaleUp", "scaleDown"]);
    for rules in behavior.as_object_mut()?.values_mut() {
        *rules = read_rules(rules);
    }
    Some(behavior).filter(|behavior| behavior.as_object().is_some_and(|fields| !fields.is_empty()))
}

/// The fields with these names, compared without case, except for nulls.
fn renamed(object: &Value, names: &[&str]) -> Value {
    let mut fields = Map::new();
    for (name, value) in view::fields(object, &[]).filter(|(_, value)| !value.is_null()) {
        let known = names.iter().find(|known| known.eq_ignore_ascii_case(name));
        fields.extend(known.map(|known| ((*known).to_owned(), value.clone())));
    }
    Value::Object(fields)
}
