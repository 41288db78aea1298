//! Label selectors in objects: `matchLabels` and `matchExpressions`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::labels::{Operator, Requirement, Selector};
use crate::field::{BadValue, ErrorList, FieldError, Path, quoted};
use crate::name;
use crate::object::validate_labels;

/// A `LabelSelector` of meta/v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Required labels and their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Further requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// A `LabelSelectorRequirement` of meta/v1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelSelectorRequirement {
    /// The label key.
    #[serde(default)]
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    #[serde(default)]
    pub operator: String,
    /// Required for `In` and `NotIn`, not allowed for the other operators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// The reason why a selector in an object is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// The operator is unknown.
    #[error("{} is not a valid label selector operator", quoted(.0))]
    Operator(String),
    /// A label key or value is invalid.
    #[error(transparent)]
    Invalid(#[from] ErrorList),
}

/// Relaxations of the validation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValidationOptions {
    /// Accept invalid label values, because a stored object already has one.
    pub allow_invalid_values: bool,
    /// Accept unknown operators, as access reviews do for authorizers that support them.
    pub allow_unknown_operators: bool,
}

impl LabelSelector {
    /// Converts to a [`Selector`] that can match. An absent selector, unlike an empty one, matches
    /// nothing; see [`Selector::nothing`].
    ///
    /// # Errors
    /// If the selector is invalid.
    pub fn to_selector(&self) -> Result<Selector, SelectorError> {
        let labels = self.match_labels.iter();
        let mut requirements = labels
            .map(|(key, value)| Requirement::new(key, Operator::Equals, [value.as_str()]))
            .collect::<Result<Vec<_>, _>>()?;
        for expression in &self.match_expressions {
            let operator = expression
                .parse_operator()
                .ok_or_else(|| SelectorError::Operator(expression.operator.clone()))?;
            requirements.push(Requirement::new(
                &expression.key,
                operator,
                expression.values.iter().map(String::as_str),
            )?);
        }
        Ok(Selector::new(requirements))
    }

    /// Returns true if the selector matches every object.
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Returns true if an expression contains an invalid label value.
    pub fn has_invalid_value(&self) -> bool {
        let mut values = self.match_expressions.iter().flat_map(|expression| &expression.values);
        values.any(|value| !name::label_value(value).is_empty())
    }

    /// Validates the selector.
    pub fn validate(&self, path: &Path<'_>, options: ValidationOptions) -> ErrorList {
        let labels = self.match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let mut errors = validate_labels(labels, &path.child("matchLabels"));
        let expressions = path.child("matchExpressions");
        for (index, expression) in self.match_expressions.iter().enumerate() {
            errors.extend(expression.validate(&expressions.index(index), options));
        }
        errors
    }
}

impl LabelSelectorRequirement {
    fn parse_operator(&self) -> Option<Operator> {
        match self.operator.as_str() {
            "In" => Some(Operator::In),
            "NotIn" => Some(Operator::NotIn),
            "Exists" => Some(Operator::Exists),
            "DoesNotExist" => Some(Operator::DoesNotExist),
            _ => None,
        }
    }

    /// Validates the requirement.
    pub fn validate(&self, path: &Path<'_>, options: ValidationOptions) -> ErrorList {
        let mut errors = ErrorList::new();
        let values = path.child("values");
        match self.parse_operator() {
            Some(Operator::In | Operator::NotIn) if self.values.is_empty() => {
                let message = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(&values, message));
            }
            Some(Operator::Exists | Operator::DoesNotExist) if !self.values.is_empty() => {
                let message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(&values, message));
            }
            None if !options.allow_unknown_operators => {
                let found = BadValue::named(&self.operator);
                let message = "not a valid selector operator";
                errors.push(FieldError::invalid(&path.child("operator"), found, message));
            }
            _ => {}
        }
        let key = path.child("key");
        let messages = name::qualified_name(&self.key).into_iter();
        errors.extend(messages.map(|message| FieldError::invalid(&key, self.key.as_str(), message)));
        if !options.allow_invalid_values {
            for (index, value) in self.values.iter().enumerate() {
                let path = values.index(index);
                let messages = name::label_value(value).into_iter();
                errors.extend(messages.map(|message| FieldError::invalid(&path, value.as_str(), message)));
            }
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn selector(json: serde_json::Value) -> LabelSelector {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn selector_matches_only_if_labels_and_expressions_match() {
        let selector = selector(json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        }));
        let parsed = selector.to_selector().unwrap();
        assert_eq!(parsed.to_string(), "app=web,!old,tier in (a,b)");
        assert!(parsed.matches(&[("app", "web"), ("tier", "a")][..]));
        assert!(!parsed.matches(&[("app", "web")][..]));
        assert!(!parsed.matches(&[("app", "web"), ("tier", "a"), ("old", "")][..]));
        assert!(LabelSelector::default().to_selector().unwrap().is_everything());
        assert!(selector.validate(&Path::root("spec.selector"), ValidationOptions::default()).is_empty());
    }

    #[test]
    fn invalid_selector_returns_all_errors() {
        let selector = selector(json!({
            "matchLabels": {"-": "web"},
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "a", "operator": "Exists", "values": ["x"]},
                {"key": "a", "operator": "Like", "values": ["-"]},
            ],
        }));
        let errors = selector.validate(&Path::root("s"), ValidationOptions::default());
        let messages: Vec<String> =
            errors.iter().map(|error| error.to_string().split(" (e.g.").next().unwrap().to_owned()).collect();
        assert_eq!(
            messages,
            [
                "s.matchLabels: Invalid value: \"-\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
                "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "s.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                "s.matchExpressions[2].operator: Invalid value: \"Like\": not a valid selector operator",
                "s.matchExpressions[2].values[0]: Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            ]
        );
        assert!(selector.has_invalid_value());
        let unknown = self::selector(json!({"matchExpressions": [{"key": "a", "operator": "Like"}]}));
        let error = unknown.to_selector().unwrap_err();
        assert_eq!(error.to_string(), "\"Like\" is not a valid label selector operator");
    }
}
