//! JSONPath, as used by CustomResourceDefinitions for printer columns and selectable fields, such
//! as `.status.conditions[?(@.type=="Ready")].status`: the subset of client-go's JSONPath that can
//! occur within one pair of braces.
//!
//! A path to an absent field yields no values, which is not an error; comparing values that are not
//! comparable, or an index out of bounds, is an error.

mod eval;
mod parse;

use std::borrow::Cow;

use serde_json::Value;

use crate::apply::go_format;
use crate::field::json_text;

/// A parsed JSONPath expression.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

/// A syntax error in a JSONPath expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidJsonPath(String);

/// A JSONPath expression that cannot be evaluated for an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct LostJsonPath(String);

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// The field of this name.
    Field(String),
    /// Items of a list.
    Items(Range),
    /// All fields, or all items.
    All,
    /// Recursive descent: the value and all its descendants.
    Deep,
    /// The items that match a condition.
    Filter(Box<Filter>),
    /// The values of several paths.
    Union(Vec<JsonPath>),
    /// A literal.
    Literal(Value),
}

/// A slice of a list; negative indices count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    from: Option<i64>,
    to: To,
    step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    End,
    Index(i64),
    /// Only the item at `from`.
    Single,
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: JsonPath,
    /// `None`: test for existence.
    compare: Option<(Operator, JsonPath)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Less,
    LessEqual,
    Equal,
    NotEqual,
    GreaterEqual,
    Greater,
}

impl JsonPath {
    /// Parses a path without the surrounding braces.
    ///
    /// # Errors
    /// If the syntax is invalid.
    pub fn parse(text: &str) -> Result<Self, InvalidJsonPath> {
        parse::parse(text)
    }

    /// Returns all values at the path.
    ///
    /// # Errors
    /// If the path cannot be evaluated for this object.
    pub fn find<'a>(&'a self, object: &'a Value) -> Result<Vec<Cow<'a, Value>>, LostJsonPath> {
        eval::find(self, vec![Cow::Borrowed(object)])
    }

    /// Returns the first value at the path, if any.
    ///
    /// # Errors
    /// If the path cannot be evaluated for this object.
    pub fn first<'a>(&'a self, object: &'a Value) -> Result<Option<Cow<'a, Value>>, LostJsonPath> {
        Ok(self.find(object)?.into_iter().next())
    }
}

/// Formats a value as kube-apiserver does for printer columns and selectable fields.
pub fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => "<no value>".into(),
        Value::Bool(truth) => truth.to_string().into(),
        Value::Number(number) => go_format::number(number).into(),
        Value::String(text) => text.into(),
        Value::Array(_) | Value::Object(_) => json_text(value).into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(path: &str) -> Vec<Value> {
        let object = json!({
            "name": "x",
            "a.b": {"c": 1},
            "list": [1, 2, 3],
            "conditions": [
                {"type": "Ready", "status": "True", "n": 1},
                {"type": "Other", "status": "False", "n": 5, "extra": null},
            ],
        });
        let path = JsonPath::parse(path).unwrap();
        let found = path.find(&object).unwrap();
        found.into_iter().map(Cow::into_owned).collect()
    }

    #[test]
    fn repeated_recursive_descent_in_deep_object_is_limited() {
        crate::testing::on_large_stack(|| {
            // The macro would copy the value at each level.
            let wrap = |inner: Value| [("a".to_owned(), inner)].into_iter().collect();
            let object = (0..3_000).fold(json!(1), |inner, _| wrap(inner));
            let find = |path: &str| JsonPath::parse(path).unwrap().find(&object).map(|found| found.len());
            assert_eq!(find("$..a"), Ok(3_000));
            assert!(find("$..a..a").unwrap_err().to_string().contains("more than"));
        });
    }

    #[test]
    fn find_returns_same_values_as_client_go() {
        for (path, expected) in [
            (".name", json!(["x"])),
            ("$.name", json!(["x"])),
            (".none.at.all", json!([])),
            (".a\\.b.c", json!([1])),
            ("['a.b'].c", json!([])),
            ("['a\\.b'].c", json!([1])),
            (".list[0]", json!([1])),
            (".list[-1]", json!([3])),
            (".list[*]", json!([1, 2, 3])),
            (".list[0:2]", json!([1, 2])),
            (".list[::2]", json!([1, 3])),
            (".list[-2:]", json!([2, 3])),
            (".list[0,2]", json!([1, 3])),
            (".conditions[*].status", json!(["True", "False"])),
            (".conditions[?(@.type==\"Ready\")].status", json!(["True"])),
            (".conditions[?(@.type=='Other')].status", json!(["False"])),
            (".conditions[?(@.type != 'Ready')].status", json!(["False"])),
            (".conditions[?(@.n>1)].type", json!(["Other"])),
            (".conditions[?(@.n<=1)].type", json!(["Ready"])),
            (".conditions[?(@.extra)].type", json!(["Other"])),
            ("..status", json!(["True", "False"])),
        ] {
            assert_eq!(Value::from(found(path)), expected, "{path}");
        }
    }

    #[test]
    fn values_are_formatted_as_in_go() {
        let value = json!({"a": ["<b>", 1.5]});
        assert_eq!(text(&value), "{\"a\":[\"\\u003cb\\u003e\",1.5]}");
        assert_eq!(text(&json!(1e6)), "1e+06");
        assert_eq!(text(&json!(12)), "12");
        assert_eq!(text(&Value::Null), "<no value>");
    }

    #[test]
    fn malformed_path_is_rejected() {
        for path in [".a[", ".a[x y", ".a[?(@.b", ".a[?(@.b)", "....a", ".a[1:2:3:4]", "%", ".a\n"] {
            assert!(JsonPath::parse(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn incomparable_values_and_bad_indices_are_errors() {
        let object = json!({"list": [1], "text": "x"});
        for path in [".list[1]", ".text[0]", ".list[?(@ == \"a\")]", ".text[?(@.a)]"] {
            assert!(JsonPath::parse(path).unwrap().find(&object).is_err(), "{path}");
        }
    }
}
