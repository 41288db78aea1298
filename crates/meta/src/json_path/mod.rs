//! The paths by which custom kinds name values in their objects, such as
//! `.status.conditions[?(@.type=="Ready")].status`: as much of client-go's JSONPath as stands between
//! one pair of braces.
//!
//! A path that leads nowhere finds nothing, which is no fault; comparing what cannot be compared, or
//! asking for an item that a list does not have, is one.

mod eval;
mod parse;

use std::borrow::Cow;

use serde_json::Value;

use crate::apply::go_format;
use crate::field::json_text;

/// A path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

/// Why a text is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidJsonPath(String);

/// Why a path cannot be followed in an object.
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
    /// The value itself and everything in it.
    Deep,
    /// The items for which something is so.
    Filter(Box<Filter>),
    /// What several paths find.
    Union(Vec<JsonPath>),
    /// A value that stands in the path.
    Literal(Value),
}

/// Items from one index to another; below zero counted from the end.
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
    /// None: whether there is something at `left`.
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
    /// Reads a path, without braces around it.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Self, InvalidJsonPath> {
        parse::parse(text)
    }

    /// All that it leads to.
    ///
    /// # Errors
    /// If it cannot be followed.
    pub fn find<'a>(&'a self, object: &'a Value) -> Result<Vec<Cow<'a, Value>>, LostJsonPath> {
        eval::find(self, vec![Cow::Borrowed(object)])
    }

    /// The first that it leads to, if anything.
    ///
    /// # Errors
    /// If it cannot be followed.
    pub fn first<'a>(&'a self, object: &'a Value) -> Result<Option<Cow<'a, Value>>, LostJsonPath> {
        Ok(self.find(object)?.into_iter().next())
    }
}

/// A value as text, as upstream's columns and selectors show it.
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
    fn path_to_all_depths_of_all_depths_ends() {
        crate::testing::on_large_stack(|| {
            // The macro would copy the value at each level.
            let around = |inner: Value| [("a".to_owned(), inner)].into_iter().collect();
            let object = (0..3_000).fold(json!(1), |inner, _| around(inner));
            let find = |path: &str| JsonPath::parse(path).unwrap().find(&object).map(|found| found.len());
            assert_eq!(find("$..a"), Ok(3_000));
            assert!(find("$..a..a").unwrap_err().to_string().contains("more than"));
        });
    }

    #[test]
    fn paths_lead_where_client_go_leads_them() {
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
    fn values_are_shown_as_go_shows_them() {
        let value = json!({"a": ["<b>", 1.5]});
        assert_eq!(text(&value), "{\"a\":[\"\\u003cb\\u003e\",1.5]}");
        assert_eq!(text(&json!(1e6)), "1e+06");
        assert_eq!(text(&json!(12)), "12");
        assert_eq!(text(&Value::Null), "<no value>");
    }

    #[test]
    fn some_paths_are_none() {
        for path in [".a[", ".a[x y", ".a[?(@.b", ".a[?(@.b)", "....a", ".a[1:2:3:4]", "%", ".a\n"] {
            assert!(JsonPath::parse(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn some_paths_cannot_be_followed() {
        let object = json!({"list": [1], "text": "x"});
        for path in [".list[1]", ".text[0]", ".list[?(@ == \"a\")]", ".text[?(@.a)]"] {
            assert!(JsonPath::parse(path).unwrap().find(&object).is_err(), "{path}");
        }
    }
}
