//! Fields of an entry that most writes leave as they are.
//!
//! A write changes few fields, and most entries have none of them. Whether one has is seen in
//! its JSON form as well, so it is read only if it must change. That halves the cost of a
//! write, of which reading and writing all entries would be the greatest part.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::field_set::FieldSet;
use super::fields_v1::{FieldsV1Error, is_canonical};
use super::typed::Type;

/// Fields in one of two forms.
#[derive(Clone, Debug)]
pub(super) enum LazyFields {
    /// As they were sent, and as they would be written.
    Encoded(Value),
    Decoded(FieldSet),
}

impl LazyFields {
    /// Fields as they were sent, checked.
    pub(super) fn new(fields: Value) -> Result<Self, FieldsV1Error> {
        if is_canonical(&fields) {
            return Ok(Self::Encoded(fields));
        }
        match fields {
            Value::Null => Ok(Self::Decoded(FieldSet::new())),
            fields => FieldSet::from_fields_v1(&fields).map(Self::Decoded),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Encoded(fields) => fields.as_object().is_none_or(Map::is_empty),
            Self::Decoded(fields) => fields.is_empty(),
        }
    }

    pub(super) fn read(&self) -> Cow<'_, FieldSet> {
        match self {
            Self::Encoded(fields) => Cow::Owned(decode(fields)),
            Self::Decoded(fields) => Cow::Borrowed(fields),
        }
    }

    /// The fields, to be changed.
    pub(super) fn get_mut(&mut self) -> &mut FieldSet {
        if let Self::Encoded(fields) = self {
            *self = Self::Decoded(decode(fields));
        }
        match self {
            Self::Decoded(fields) => fields,
            Self::Encoded(_) => unreachable!("it was decoded above"),
        }
    }

    pub(super) fn encode(self) -> Value {
        match self {
            Self::Encoded(fields) => fields,
            Self::Decoded(fields) => fields.to_fields_v1(),
        }
    }

    /// Takes out what is in `other`, and nothing below it.
    pub(super) fn remove(&mut self, other: &FieldSet) {
        let is_concerned = match self {
            Self::Encoded(Value::Object(fields)) => intersects(fields, other, &mut String::new()),
            _ => true,
        };
        if is_concerned {
            self.get_mut().remove(other);
        }
    }

    /// Adds what is in `other`.
    pub(super) fn insert(&mut self, other: FieldSet) {
        let is_there = match self {
            Self::Encoded(Value::Object(fields)) => contains(fields, &other, &mut String::new()),
            _ => false,
        };
        if !is_there {
            let own = self.get_mut();
            *own = std::mem::take(own).union(other);
        }
    }

    /// Makes the fields fit a type.
    pub(super) fn reconcile(&mut self, object_type: Type<'_>) {
        let fits = match self {
            Self::Encoded(Value::Object(fields)) => object_type.fits(fields),
            _ => false,
        };
        if !fits {
            object_type.reconcile(self.get_mut());
        }
    }
}

impl PartialEq for LazyFields {
    fn eq(&self, other: &Self) -> bool {
        self.read() == other.read()
    }
}

impl Eq for LazyFields {}

impl From<FieldSet> for LazyFields {
    fn from(fields: FieldSet) -> Self {
        Self::Decoded(fields)
    }
}

/// What was found to be a set when it came in still is one.
fn decode(fields: &Value) -> FieldSet {
    FieldSet::from_fields_v1(fields).unwrap_or_default()
}

/// Whether a set in its JSON form has a member in common with another.
fn intersects(fields: &Map<String, Value>, other: &FieldSet, key: &mut String) -> bool {
    other.nodes().iter().any(|node| {
        key.clear();
        node.element.write_to(key);
        let Some(Value::Object(below)) = fields.get(key.as_str()) else { return false };
        let is_member = below.is_empty() || below.contains_key(".");
        (node.member && is_member) || intersects(below, &node.children, key)
    })
}

/// Whether a set in its JSON form has all members of another.
fn contains(fields: &Map<String, Value>, other: &FieldSet, key: &mut String) -> bool {
    other.nodes().iter().all(|node| {
        key.clear();
        node.element.write_to(key);
        let Some(Value::Object(below)) = fields.get(key.as_str()) else { return false };
        let is_member = below.is_empty() || below.contains_key(".");
        (!node.member || is_member) && contains(below, &node.children, key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn is_encoded(fields: &LazyFields) -> bool {
        matches!(fields, LazyFields::Encoded(_))
    }

    #[test]
    fn fields_are_read_only_to_be_changed() {
        let mut fields = LazyFields::new(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {"v:1": {}}})).unwrap();
        fields.remove(&FieldSet::from_json(r#"{"f:c":{},"f:a":{"f:x":{}},"f:z":{}}"#).unwrap());
        fields.insert(FieldSet::from_json(r#"{"f:a":{".":{},"f:b":{}}}"#).unwrap());
        assert!(is_encoded(&fields));
        fields.remove(&FieldSet::from_json(r#"{"f:a":{}}"#).unwrap());
        assert!(!is_encoded(&fields));
        fields.insert(FieldSet::from_json(r#"{"f:c":{}}"#).unwrap());
        assert_eq!(fields.encode(), json!({"f:a": {"f:b": {}}, "f:c": {".": {}, "v:1": {}}}));
    }

    #[test]
    fn other_spellings_are_read_at_once() {
        for fields in [json!({"f:a": {".": {}}}), json!({"v:1.0": {}}), json!({"x:y": {}}), json!(null)] {
            assert!(!is_encoded(&LazyFields::new(fields.clone()).unwrap()), "{fields}");
        }
        assert!(LazyFields::new(json!({"a": {}})).is_err());
        assert!(LazyFields::new(json!({})).unwrap().is_empty());
    }
}
