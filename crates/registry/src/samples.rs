//! Examples of a kind: what must be accepted, what must be refused and why.

use coracle_meta::field::ErrorList;
use coracle_meta::time::Time;
use serde_json::Value;

use crate::kind::Kind;

/// Examples of a kind.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Objects as a client would send them; at least one. The first is used for all tests of
    /// the life cycle.
    pub valid: Vec<Value>,
    /// Objects that must be refused.
    pub invalid: Vec<Refused>,
    /// Changes of the first valid object, as merge patches, that must be accepted; at least
    /// one, unless the kind cannot be updated.
    pub updates: Vec<Value>,
    /// Changes that must be refused.
    pub invalid_updates: Vec<Refused>,
}

impl Samples {
    /// For kinds that are made while the program runs.
    pub(crate) fn none() -> Self {
        Self { valid: Vec::new(), invalid: Vec::new(), updates: Vec::new(), invalid_updates: Vec::new() }
    }
}

/// Something that must be refused.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The object, or the merge patch to the first valid one.
    pub object: Value,
    /// The field that must be named, such as `spec.containers[0].name`.
    pub field: &'static str,
    /// The reason that must be given, such as `FieldValueRequired`.
    pub reason: &'static str,
}

impl Refused {
    /// Something that must be refused.
    pub fn new(object: Value, field: &'static str, reason: &'static str) -> Self {
        Self { object, field, reason }
    }
}

/// What a kind has against a new object, as far as it is up to the kind.
pub fn errors_on_create(kind: &dyn Kind, object: &Value) -> ErrorList {
    let mut object = stored(kind, object.clone());
    kind.set_defaults(&mut object);
    kind.prepare_for_create(&mut object, Time(0));
    let mut errors = ErrorList::default();
    kind.validate(&object, &mut errors);
    kind.validate_create(&object, &mut errors);
    errors
}

/// What a kind has against a change of an object.
pub fn errors_on_update(kind: &dyn Kind, old: &Value, patch: &Value) -> ErrorList {
    let declaration = kind.declaration();
    let version = declaration.versions.first().map_or("", |version| version);
    let mut old = stored(kind, old.clone());
    kind.set_defaults(&mut old);
    kind.prepare_for_create(&mut old, Time(0));
    let mut new = old.clone();
    if declaration.is_converted(version) {
        new = kind.convert_out(version, new);
    }
    merge(&mut new, patch);
    let mut new = stored(kind, new);
    kind.set_defaults(&mut new);
    kind.prepare_for_update(&mut new, &old);
    let mut errors = ErrorList::default();
    kind.validate(&new, &mut errors);
    kind.validate_update(&new, &old, &mut errors);
    errors
}

/// A sample, in the form in which hooks see it.
fn stored(kind: &dyn Kind, object: Value) -> Value {
    let declaration = kind.declaration();
    let version = declaration.versions.first().map_or("", |version| version);
    if declaration.is_converted(version) { kind.convert_in(version, object) } else { object }
}

/// A merge patch, as RFC 7396 has it.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}
