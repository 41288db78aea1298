//! Encoding of field sets as `fieldsV1`.
//!
//! A set is a JSON object with an entry for each path element. The value `{}` means that the path
//! is a member; a key `"."` that the path is a member in addition to its descendants.

use serde_json::{Map, Value};

use super::field_set::{FieldNode, FieldSet};
use super::path_element::{PathElement, push_json_string};
use crate::patch;

/// Maximum nesting depth of a set, and of an object with such sets in its managedFields: the levels
/// of the object that the set describes, those from the object to the set, and an empty map for the
/// innermost field.
pub const MAX_DEPTH: usize = patch::MAX_DEPTH + 5;

/// Maximum number of path elements in a set. A request of 3 MiB, the largest allowed, cannot
/// contain so many.
pub const MAX_FIELDS: usize = 1 << 20;

/// Reason why `fieldsV1` could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldsV1Error {
    /// The value is not a field set.
    #[error("fields must be an object")]
    NotAnObject,
    /// A key is not a path element.
    #[error("parsing key {text:?} as path element: {reason}")]
    Element {
        /// The key.
        text: String,
        /// The reason.
        reason: String,
    },
    /// The set is nested more than [`MAX_DEPTH`] levels deep.
    #[error("fields are nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    /// The set has more than [`MAX_FIELDS`] path elements.
    #[error("there are more than {MAX_FIELDS} fields")]
    TooMany,
    /// The text is not JSON.
    #[error("{0}")]
    Json(String),
}

/// The key that marks a path as a member in addition to its descendants.
pub(super) const MEMBER: &str = ".";

impl FieldSet {
    /// Decodes a set from its JSON form.
    ///
    /// # Errors
    /// If the value is not a field set, or exceeds a limit.
    pub fn from_fields_v1(fields: &Value) -> Result<Self, FieldsV1Error> {
        Reader { left: MAX_FIELDS }.read(fields, MAX_DEPTH).map(|(_, set)| set)
    }

    /// Decodes a set from JSON text.
    ///
    /// # Errors
    /// If the text is not a field set, or exceeds a limit.
    pub fn from_json(text: &str) -> Result<Self, FieldsV1Error> {
        let fields = serde_json::from_str(text).map_err(|error| FieldsV1Error::Json(error.to_string()))?;
        Self::from_fields_v1(&fields)
    }

    /// Encodes the set as JSON. Entries are in the order of the map type; see
    /// [`FieldSet::to_json`].
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(contents(self, false))
    }

    /// Encodes the set as JSON text, byte for byte as kube-apiserver: entries in the order of path
    /// elements.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        push_contents(&mut out, &mut String::new(), self, false);
        out
    }
}

/// Returns true if this is a valid set that would be encoded in exactly this form.
pub(super) fn is_canonical(fields: &Value) -> bool {
    let Value::Object(fields) = fields else { return false };
    let mut check = CanonicalCheck { left: MAX_FIELDS, text: String::new() };
    !fields.contains_key(MEMBER) && check.is_canonical(fields, MAX_DEPTH)
}

struct CanonicalCheck {
    left: usize,
    text: String,
}

impl CanonicalCheck {
    fn is_canonical(&mut self, fields: &Map<String, Value>, depth: usize) -> bool {
        if depth == 0 || self.left < fields.len() || (fields.len() == 1 && fields.contains_key(MEMBER)) {
            return false;
        }
        self.left -= fields.len();
        fields.iter().all(|(key, value)| {
            let Value::Object(below) = value else { return false };
            match key.as_str() {
                MEMBER => below.is_empty(),
                _ => self.is_canonical_key(key) && self.is_canonical(below, depth - 1),
            }
        })
    }

    fn is_canonical_key(&mut self, key: &str) -> bool {
        if key.starts_with("f:") {
            return true;
        }
        let Ok(Some(element)) = PathElement::parse(key) else { return false };
        self.text.clear();
        element.write_to(&mut self.text);
        self.text == key
    }
}

struct Reader {
    left: usize,
}

impl Reader {
    /// Decodes a set. Returns whether the path itself is a member, and its descendants.
    fn read(&mut self, fields: &Value, depth: usize) -> Result<(bool, FieldSet), FieldsV1Error> {
        let map = match fields {
            Value::Object(map) => map,
            Value::Null => return Ok((true, FieldSet::new())),
            _ => return Err(FieldsV1Error::NotAnObject),
        };
        self.left = self.left.checked_sub(map.len()).ok_or(FieldsV1Error::TooMany)?;
        let below = depth.checked_sub(1).ok_or(FieldsV1Error::TooDeep)?;
        let mut is_member = false;
        let mut nodes = Vec::with_capacity(map.len());
        for (key, value) in map {
            if key == MEMBER {
                is_member = true;
            } else if let Some(element) = PathElement::parse(key)? {
                let (member, children) = self.read(value, below)?;
                nodes.push(FieldNode { element, member, children });
            }
        }
        let set = FieldSet::from_nodes(merge_equal(nodes));
        Ok((is_member || set.is_empty(), set))
    }
}

/// Merges nodes with equal elements: different keys can denote one element, such as `v:1` and
/// `v:1.0`.
fn merge_equal(mut nodes: Vec<FieldNode>) -> Vec<FieldNode> {
    if nodes.is_sorted_by(|a, b| a.element < b.element) {
        return nodes;
    }
    nodes.sort_by(|a, b| a.element.cmp(&b.element));
    nodes.dedup_by(|later, first| {
        let equal = later.element == first.element;
        if equal {
            first.member |= later.member;
            first.children = std::mem::take(&mut first.children).union(std::mem::take(&mut later.children));
        }
        equal
    });
    nodes
}

fn contents(set: &FieldSet, is_member: bool) -> Map<String, Value> {
    let own = (is_member && !set.is_empty()).then(|| (MEMBER.to_owned(), Value::Object(Map::new())));
    let below = set.nodes().iter().map(|node| {
        let mut key = String::new();
        node.element.write_to(&mut key);
        (key, Value::Object(contents(&node.children, node.member)))
    });
    own.into_iter().chain(below).collect()
}

fn push_contents(out: &mut String, key: &mut String, set: &FieldSet, is_member: bool) {
    out.push('{');
    if is_member && !set.is_empty() {
        out.push_str("\".\":{}");
    }
    for (at, node) in set.nodes().iter().enumerate() {
        if at > 0 || is_member {
            out.push(',');
        }
        key.clear();
        node.element.write_to(key);
        push_json_string(out, key, false);
        out.push(':');
        push_contents(out, key, &node.children, node.member);
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::on_large_stack;

    #[test]
    fn fields_v1_round_trips() {
        for text in [
            "{}",
            r#"{"f:data":{".":{},"f:a":{},"f:b":{}}}"#,
            r#"{"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}},"k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{}}}"#,
            r#"{"f:finalizers":{".":{},"v:\"a\\u003cb\"":{},"v:\"c\"":{}}}"#,
            r#"{"f:a<b\u0008":{}}"#,
            r#"{"f:list":{"i:2":{},"i:10":{}}}"#,
        ] {
            let set = FieldSet::from_json(text).unwrap();
            assert_eq!(set.to_json(), text);
            assert_eq!(FieldSet::from_fields_v1(&set.to_fields_v1()).unwrap(), set);
        }
    }

    #[test]
    fn non_canonical_fields_v1_is_decoded() {
        for (text, expected) in [
            (r#"{"f:a":null}"#, r#"{"f:a":{}}"#),
            (r#"{"f:a":{".":{}}}"#, r#"{"f:a":{}}"#),
            (r#"{"f:a":{"x:later":{}}}"#, r#"{"f:a":{}}"#),
            (r#"{".":{},"f:a":{}}"#, r#"{"f:a":{}}"#),
            (r#"{"f:a":{"v:1":{},"v:1.0":{"f:b":{}}}}"#, r#"{"f:a":{"v:1":{".":{},"f:b":{}}}}"#),
            (r#"{"f:p":{"k:{\"b\":1,\"a\":2}":{}}}"#, r#"{"f:p":{"k:{\"a\":2,\"b\":1}":{}}}"#),
        ] {
            assert_eq!(FieldSet::from_json(text).unwrap().to_json(), expected, "{text}");
            assert!(!is_canonical(&serde_json::from_str(text).unwrap()), "{text}");
            assert!(is_canonical(&serde_json::from_str(expected).unwrap()), "{expected}");
        }
    }

    #[test]
    fn malformed_fields_v1_is_rejected() {
        for text in ["[]", "3", "{", r#"{"a":{}}"#, r#"{"f:a":[]}"#, r#"{"ff:a":{}}"#, r#"{"v:{":{}}"#] {
            assert!(FieldSet::from_json(text).is_err(), "{text}");
        }
        on_large_stack(|| {
            let mut deep = Value::Object(Map::new());
            for _ in 0..MAX_DEPTH {
                deep = Value::Object(Map::from_iter([("f:a".to_owned(), deep)]));
            }
            assert_eq!(FieldSet::from_fields_v1(&deep), Err(FieldsV1Error::TooDeep));
        });
        assert_eq!(
            Reader { left: 1 }.read(&serde_json::json!({"f:a": {"f:b": {}}}), 9),
            Err(FieldsV1Error::TooMany)
        );
    }
}
