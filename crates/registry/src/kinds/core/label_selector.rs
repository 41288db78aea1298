//! Label selectors in fields of objects.

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::selector::LabelSelector;
use coracle_meta::selector::labels::Selector;
use serde_json::Value;

use crate::kinds::rules;

/// Validates a label selector.
pub fn validate(selector: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match read(selector) {
        Some(selector) => rules::checked_label_selector(path, &selector, errors),
        None => errors.push(FieldError::invalid(path, selector, "invalid label selector")),
    }
}

/// Returns true if a selector matches labels (a map of strings). An absent or invalid selector matches nothing, an
/// empty one everything.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    let empty = serde_json::Map::new();
    parse(selector).matches(labels.as_object().unwrap_or(&empty))
}

/// Parses a selector; absent and invalid ones are treated as in [`matches()`].
pub fn parse(selector: &Value) -> Selector {
    if selector.is_null() {
        return Selector::nothing();
    }
    let selector = read(selector).and_then(|selector| selector.to_selector().ok());
    selector.unwrap_or_else(Selector::nothing)
}

/// Returns true if a selector has neither labels nor expressions, so that it matches everything.
pub fn is_empty(selector: &Value) -> bool {
    read(selector).is_some_and(|selector| selector.is_empty())
}

/// Formats a selector for a table cell, such as `app=web,tier in (a,b)`; `<none>` for an absent or empty selector,
/// `<error>` for an invalid one.
pub fn to_text(selector: &Value) -> String {
    if selector.is_null() {
        return "<none>".to_owned();
    }
    let parsed = read(selector).and_then(|selector| selector.to_selector().ok());
    let text = parsed.map_or_else(|| "<error>".to_owned(), |selector| selector.to_string());
    if text.is_empty() { "<none>".to_owned() } else { text }
}

fn read(selector: &Value) -> Option<LabelSelector> {
    serde_json::from_value(selector.clone()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_match_and_print() {
        let selector = json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["b", "a"]}]
        });
        assert!(matches(&selector, &json!({"app": "web", "tier": "a"})));
        assert!(!matches(&selector, &json!({"app": "web"})));
        assert!(matches(&json!({}), &Value::Null));
        assert!(!matches(&Value::Null, &json!({"app": "web"})));
        assert_eq!(to_text(&selector), "app=web,tier in (a,b)");
        assert_eq!(to_text(&json!({})), "<none>");
    }

    #[test]
    fn selector_with_unknown_operator_is_rejected() {
        let mut errors = ErrorList::new();
        let selector = json!({"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]});
        validate(&selector, &Path::root("spec.selector"), &mut errors);
        assert_eq!(
            errors.to_string(),
            "spec.selector.matchExpressions[0].operator: Invalid value: \"Like\": not a valid selector operator"
        );
    }
}
