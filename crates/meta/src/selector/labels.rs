//! Parsed label selectors.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

pub use super::label_parse::ParseError;
use crate::field::{BadValue, ErrorList, FieldError, Path};
use crate::name;

/// A set of labels.
pub trait Labels {
    /// Returns the value of a label.
    fn get(&self, key: &str) -> Option<&str>;
}

/// The operator of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `key = value`
    Equals,
    /// `key == value`
    DoubleEquals,
    /// `key != value`; true without the label
    NotEquals,
    /// `key in (values)`
    In,
    /// `key notin (values)`; true without the label
    NotIn,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key > value`, both integers
    GreaterThan,
    /// `key < value`, both integers
    LessThan,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: Box<str>,
    operator: Operator,
    values: Box<[Box<str>]>,
}

/// A label selector: an object matches if it meets all requirements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    requirements: Box<[Requirement]>,
    nothing: bool,
}

impl Requirement {
    /// Validates and creates a requirement.
    ///
    /// # Errors
    /// If key or values are invalid, or the number of values does not fit the operator.
    pub fn new(
        key: &str,
        operator: Operator,
        values: impl IntoIterator<Item = impl Into<Box<str>>>,
    ) -> Result<Self, ErrorList> {
        let values: Box<[Box<str>]> = values.into_iter().map(Into::into).collect();
        check(key, operator, &values).into_result()?;
        Ok(Self { key: key.into(), operator, values })
    }

    /// Returns the label key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the operator.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// Returns the values in their original order.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(AsRef::as_ref)
    }

    /// Returns true if labels meet the requirement.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        let value = labels.get(&self.key);
        let is_among = |value: &str| self.values.iter().any(|allowed| **allowed == *value);
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(is_among),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(is_among),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value).is_some_and(|(found, bound)| found > bound),
            Operator::LessThan => self.compare(value).is_some_and(|(found, bound)| found < bound),
        }
    }

    fn compare(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

impl Selector {
    /// Returns the selector that matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Returns the selector that matches no object.
    pub fn nothing() -> Self {
        Self { nothing: true, ..Self::default() }
    }

    /// Returns the selector of these requirements.
    pub fn new(requirements: impl IntoIterator<Item = Requirement>) -> Self {
        let mut requirements: Vec<Requirement> = requirements.into_iter().collect();
        // Sort by key, so that equal selectors have the same text.
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements: requirements.into(), nothing: false }
    }

    /// Returns the selector for exactly these values, which are not validated: they come from an
    /// object that was.
    pub fn from_set<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self::new(labels.into_iter().map(|(key, value)| Requirement {
            key: key.into(),
            operator: Operator::Equals,
            values: Box::new([value.into()]),
        }))
    }

    /// Returns true if labels meet all requirements.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// Returns true if every object matches.
    pub fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// Returns true if no object matches.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// Returns the requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns the only value that this label may have, if there is one. Used for index lookups.
    pub fn requires_exact_match(&self, key: &str) -> Option<&str> {
        let requirement = self.requirements.iter().find(|requirement| *requirement.key == *key)?;
        match (requirement.operator, &*requirement.values) {
            (Operator::Equals | Operator::DoubleEquals | Operator::In, [value]) => Some(value),
            _ => None,
        }
    }
}

impl FromStr for Selector {
    type Err = ParseError;

    /// Parses a `labelSelector`, such as `app=web,tier in (a,b),!old`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Ok(Self::new(super::label_parse::parse(text)?))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let mut values: Vec<&str> = self.values().collect();
        values.sort_unstable();
        let values = values.join(",");
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

impl Labels for Map<String, Value> {
    fn get(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }
}

impl Labels for BTreeMap<String, String> {
    fn get(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl<S: std::hash::BuildHasher> Labels for HashMap<String, String, S> {
    fn get(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl Labels for [(&str, &str)] {
    fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(found, _)| *found == key).map(|(_, value)| *value)
    }
}

impl<L: Labels> Labels for Option<&L> {
    fn get(&self, key: &str) -> Option<&str> {
        self.and_then(|labels| labels.get(key))
    }
}

fn check(key: &str, operator: Operator, values: &[Box<str>]) -> ErrorList {
    let mut errors = ErrorList::new();
    errors.extend(check_key(key, &Path::root("key")));
    let path = Path::root("values");
    if let Some(message) = check_count(operator, values.len()) {
        let list = values.iter().map(|value| Value::from(&**value)).collect::<Vec<_>>();
        // In Go an empty list of values is nil, which prints as `null`.
        let list = if list.is_empty() { Value::Null } else { Value::from(list) };
        errors.push(FieldError::invalid(&path, BadValue::json(&list), message));
    }
    for (index, value) in values.iter().enumerate() {
        let path = path.index(index);
        let number = matches!(operator, Operator::GreaterThan | Operator::LessThan);
        if number && value.parse::<i64>().is_err() {
            let message = "for 'Gt', 'Lt' operators, the value must be an integer";
            errors.push(FieldError::invalid(&path, &**value, message));
        }
    }
    for (index, value) in values.iter().enumerate() {
        let messages = name::label_value(value);
        if !messages.is_empty() {
            let path = path.index(index);
            errors.push(FieldError::invalid(&path.key(key), &**value, messages.join("; ")));
        }
    }
    errors
}

fn check_count(operator: Operator, count: usize) -> Option<&'static str> {
    match operator {
        Operator::In | Operator::NotIn => {
            (count == 0).then_some("for 'in', 'notin' operators, values set can't be empty")
        }
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => {
            (count != 1).then_some("exact-match compatibility requires one single value")
        }
        Operator::Exists | Operator::DoesNotExist => {
            (count != 0).then_some("values set must be empty for exists and does not exist")
        }
        Operator::GreaterThan | Operator::LessThan => {
            (count != 1).then_some("for 'Gt', 'Lt' operators, exactly one value is required")
        }
    }
}

pub(super) fn check_key(key: &str, path: &Path<'_>) -> Option<FieldError> {
    let messages = name::qualified_name(key);
    (!messages.is_empty()).then(|| FieldError::invalid(path, key, messages.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_label_matches_negative_requirement() {
        for (text, without, with) in [
            ("x=a", false, true),
            ("x==a", false, true),
            ("x in (a,b)", false, true),
            ("x!=a", true, false),
            ("x notin (a,b)", true, false),
            ("x", false, true),
            ("!x", true, false),
            ("x!=b,x notin (c)", true, true),
            ("n>5", false, true),
            ("n<5", false, false),
            ("x>5", false, false),
            ("", true, true),
        ] {
            let selector: Selector = text.parse().unwrap();
            assert_eq!(selector.matches(&[][..]), without, "{text:?}");
            assert_eq!(selector.matches(&[("x", "a"), ("n", "10")][..]), with, "{text:?}");
        }
        assert!(!Selector::nothing().matches(&[][..]));
        assert!(Selector::nothing().is_nothing() && !Selector::nothing().is_everything());
    }

    #[test]
    fn labels_of_each_map_type_match() {
        let selector = Selector::from_set([("y", "2"), ("x", "1")]);
        assert_eq!(selector.to_string(), "x=1,y=2");
        let json = serde_json::json!({"x": "1", "y": "2"});
        assert!(selector.matches(json.as_object().unwrap()) && selector.matches(&json.as_object()));
        let map: BTreeMap<String, String> = serde_json::from_value(json).unwrap();
        assert!(selector.matches(&map) && !selector.matches(&None::<&BTreeMap<String, String>>));
    }

    #[test]
    fn requires_exact_match_returns_value_for_index() {
        let selector: Selector = "x=a,y in (b),z in (c,d),w!=e".parse().unwrap();
        assert_eq!(selector.requires_exact_match("x"), Some("a"));
        assert_eq!(selector.requires_exact_match("y"), Some("b"));
        for key in ["z", "w", "v"] {
            assert_eq!(selector.requires_exact_match(key), None);
        }
    }

    #[test]
    fn invalid_requirement_is_rejected() {
        let none: [&str; 0] = [];
        for (operator, expected) in [
            (
                Operator::In,
                "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
            ),
            (
                Operator::Equals,
                "values: Invalid value: null: exact-match compatibility requires one single value",
            ),
            (
                Operator::LessThan,
                "values: Invalid value: null: for 'Gt', 'Lt' operators, exactly one value is required",
            ),
        ] {
            assert_eq!(Requirement::new("x", operator, none).unwrap_err().to_string(), expected);
        }
        assert_eq!(
            Requirement::new("x", Operator::Exists, ["a"]).unwrap_err().to_string(),
            "values: Invalid value: [\"a\"]: values set must be empty for exists and does not exist"
        );
    }
}
