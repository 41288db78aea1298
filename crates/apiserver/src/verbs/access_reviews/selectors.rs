//! Field and label selectors of access reviews.

use coracle_meta::selector::labels::Operator;
use coracle_meta::selector::{fields, labels};
use coracle_registry::view;
use serde_json::Value;

/// The requirements of a selector that could be parsed.
pub(super) struct Read<R> {
    pub(super) requirements: Vec<R>,
    /// True if a requirement could not be parsed. Without it the review covers more objects, so this never allows more.
    pub(super) incomplete: bool,
}

impl<R> Default for Read<R> {
    fn default() -> Self {
        Self { requirements: Vec::new(), incomplete: false }
    }
}

impl<R> Read<R> {
    fn of(requirements: impl Iterator<Item = Option<R>>) -> Self {
        let mut read = Self::default();
        for requirement in requirements {
            read.incomplete |= requirement.is_none();
            read.requirements.extend(requirement);
        }
        read
    }

    /// The evaluation error for requirements that could not be parsed.
    pub(super) fn problem(&self, field: &str) -> Option<String> {
        let partially = if self.requirements.is_empty() { "" } else { "partially " };
        let told = || format!("spec.resourceAttributes.{field} {partially}ignored due to parse error");
        self.incomplete.then(told)
    }
}

/// Parses the field selector of a review.
pub(super) fn of_fields(attributes: &Value) -> Read<fields::Requirement> {
    let expressions = view::items(attributes, &["fieldSelector", "requirements"]);
    if !expressions.is_empty() {
        return Read::of(expressions.iter().map(field_requirement));
    }
    match view::text(attributes, &["fieldSelector", "rawSelector"]).parse::<fields::Selector>() {
        Ok(selector) => Read { requirements: selector.requirements().to_vec(), incomplete: false },
        Err(_) => Read { incomplete: true, ..Read::default() },
    }
}

/// Parses the label selector of a review.
pub(super) fn of_labels(attributes: &Value) -> Read<labels::Requirement> {
    let expressions = view::items(attributes, &["labelSelector", "requirements"]);
    if !expressions.is_empty() {
        return Read::of(expressions.iter().map(label_requirement));
    }
    match view::text(attributes, &["labelSelector", "rawSelector"]).parse::<labels::Selector>() {
        Ok(selector) => Read { requirements: selector.requirements().to_vec(), incomplete: false },
        Err(_) => Read { incomplete: true, ..Read::default() },
    }
}

/// Converts a field requirement, which can only compare with a single value.
fn field_requirement(expression: &Value) -> Option<fields::Requirement> {
    let equal = match view::text(expression, &["operator"]) {
        "In" => true,
        "NotIn" => false,
        _ => return None,
    };
    let [value] = view::items(expression, &["values"]) else { return None };
    let (field, value) = (view::text(expression, &["key"]).into(), value.as_str()?.into());
    Some(fields::Requirement { field, equal, value })
}

fn label_requirement(expression: &Value) -> Option<labels::Requirement> {
    let operator = match view::text(expression, &["operator"]) {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        _ => return None,
    };
    let values = view::items(expression, &["values"]).iter().filter_map(Value::as_str);
    labels::Requirement::new(view::text(expression, &["key"]), operator, values).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selector_with_invalid_requirements_keeps_the_valid_ones_and_reports_the_rest() {
        let fields = |selector: Value| {
            let read = of_fields(&json!({"fieldSelector": selector}));
            let shown: Vec<String> = read.requirements.iter().map(ToString::to_string).collect();
            (shown.join(","), read.problem("fieldSelector").unwrap_or_default())
        };
        let ignored = "spec.resourceAttributes.fieldSelector ignored due to parse error";
        assert_eq!(fields(json!({"rawSelector": "a=b,c!=d"})), ("a=b,c!=d".into(), String::new()));
        assert_eq!(fields(json!({"rawSelector": "what"})), (String::new(), ignored.into()));
        let requirement =
            |operator: &str, values: Value| json!({"key": "a", "operator": operator, "values": values});
        let both =
            json!({"requirements": [requirement("In", json!(["b"])), requirement("Exists", json!([]))]});
        let partially = "spec.resourceAttributes.fieldSelector partially ignored due to parse error";
        assert_eq!(fields(both), ("a=b".into(), partially.into()));
        assert_eq!(fields(json!({"requirements": [requirement("In", json!(["b", "c"]))]})).1, ignored);
        assert_eq!(fields(json!({})), (String::new(), String::new()));

        let labels = |selector: Value| {
            let read = of_labels(&json!({"labelSelector": selector}));
            (read.requirements.len(), read.problem("labelSelector").is_some())
        };
        assert_eq!(labels(json!({"rawSelector": "a=b,c"})), (2, false));
        assert_eq!(labels(json!({"requirements": [requirement("In", json!(["b", "c"]))]})), (1, false));
        assert_eq!(labels(json!({"requirements": [requirement("Near", json!(["b"]))]})), (0, true));
    }
}
