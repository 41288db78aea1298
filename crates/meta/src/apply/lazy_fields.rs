//! Fields of a managedFields entry, decoded lazily.
//!
//! A write changes few fields, and most entries contain none of them. The JSON form is enough to
//! detect that, so an entry is decoded only if it must change. That halves the cost of a write,
//! most of which would otherwise be decoding and encoding all entries.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::field_set::FieldSet;
use super::fields_v1::{FieldsV1Error, is_canonical};
use super::typed::Type;

/// The fields of an entry, in JSON form or decoded.
#[derive(Clone, Debug)]
pub(super) enum LazyFields {
    /// In JSON form, valid and canonical.
    Encoded(Value),
    Decoded(FieldSet),
}

impl LazyFields {
    /// Validates the fields of an entry; decodes them only if they are not canonical.
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

    /// Decodes the fields for modification.
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

    /// Removes the members of `other`, but not their descendants.
    pub(super) fn remove(&mut self, other: &FieldSet) {
        let has_overlap = match self {
            Self::Encoded(Value::Object(fields)) => intersects(fields, other, &mut String::new()),
            _ => true,
        };
        if has_overlap {
            self.get_mut().remove(other);
        }
    }

    /// Adds the members of `other`.
    pub(super) fn insert(&mut self, other: FieldSet) {
        let is_contained = match self {
            Self::Encoded(Value::Object(fields)) => contains(fields, &other, &mut String::new()),
            _ => false,
        };
        if !is_contained {
            let own = self.get_mut();
            *own = std::mem::take(own).union(other);
        }
    }

    /// Adapts the fields to a type whose lists or maps have become atomic.
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

/// Decodes fields that [`LazyFields::new`] has validated.
fn decode(fields: &Value) -> FieldSet {
    FieldSet::from_fields_v1(fields).unwrap_or_default()
}

/// Returns true if an encoded set has a member in common with another set.
fn intersects(fields: &Map<String, Value>, other: &FieldSet, key: &mut String) -> bool {
    other.nodes().iter().any(|node| {
        key.clear();
        node.element.write_to(key);
        let Some(Value::Object(below)) = fields.get(key.as_str()) else { return false };
        let is_member = below.is_empty() || below.contains_key(".");
        (node.member && is_member) || intersects(below, &node.children, key)
    })
}

/// Returns true if an encoded set contains all members of another set.
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
    fn fields_are_decoded_only_on_change() {
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
    fn non_canonical_fields_are_decoded_at_once() {
        for fields in [json!({"f:a": {".": {}}}), json!({"v:1.0": {}}), json!({"x:y": {}}), json!(null)] {
            assert!(!is_encoded(&LazyFields::new(fields.clone()).unwrap()), "{fields}");
        }
        assert!(LazyFields::new(json!({"a": {}})).is_err());
        assert!(LazyFields::new(json!({})).unwrap().is_empty());
    }
}
