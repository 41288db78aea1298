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

/// An object that was stored before there was a rule against it.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The object, which nobody may create any more.
    pub object: Value,
    /// Changes of it, as merge patches, that must be accepted although the object stays as it is otherwise; at
    /// least one.
    pub updates: Vec<Value>,
    /// Changes that must be refused.
    pub invalid_updates: Vec<Refused>,
}

impl Stored {
    /// An object of which everything else may be changed, such as its labels.
    pub fn new(object: Value) -> Self {
        let update = serde_json::json!({"metadata": {"labels": {"changed": "yes"}}});
        Self { object, updates: vec![update], invalid_updates: Vec::new() }
    }

    /// A valid object, changed by a merge patch.
    pub fn of(valid: &Value, patch: &Value) -> Self {
        Self::new(merged(valid, patch))
    }

    /// The same, with a change that must be refused.
    #[must_use]
    pub fn refusing(mut self, patch: Value, field: &'static str, reason: &'static str) -> Self {
        self.invalid_updates.push(Refused::new(patch, field, reason));
        self
    }
}

/// A write of which the client is warned.
#[derive(Clone, Debug)]
pub struct Warned {
    /// The part that is written; empty for the object itself.
    pub part: &'static str,
    /// What was there before, if there was anything.
    pub old: Option<Value>,
    /// What is written.
    pub object: Value,
    /// What the client is told.
    pub warnings: Vec<&'static str>,
}

impl Warned {
    /// A new object.
    pub fn created(object: Value, warnings: &[&'static str]) -> Self {
        Self { part: "", old: None, object, warnings: warnings.to_vec() }
    }

    /// An object that is changed.
    pub fn updated(old: Value, object: Value, warnings: &[&'static str]) -> Self {
        Self { part: "", old: Some(old), object, warnings: warnings.to_vec() }
    }

    /// A status that is written.
    pub fn status(object: Value, warnings: &[&'static str]) -> Self {
        Self { part: "status", old: None, object, warnings: warnings.to_vec() }
    }
}

/// What a kind warns of when this is written.
pub fn warnings_on(kind: &dyn Kind, write: &Warned) -> Vec<String> {
    let complete = |object: &Value| {
        let mut object = stored(kind, object.clone());
        kind.set_defaults(&mut object);
        object
    };
    let object = complete(&write.object);
    match write.part {
        "" => kind.warnings(&object, write.old.as_ref().map(complete).as_ref()),
        _ => kind.status_warnings(&object),
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
    kind.revalidate(&new, &old, &mut errors);
    kind.validate_update(&new, &old, &mut errors);
    errors
}

/// A sample, in the form in which hooks see it.
fn stored(kind: &dyn Kind, object: Value) -> Value {
    let declaration = kind.declaration();
    let version = declaration.versions.first().map_or("", |version| version);
    if declaration.is_converted(version) { kind.convert_in(version, object) } else { object }
}

/// An object after a merge patch.
pub fn merged(object: &Value, patch: &Value) -> Value {
    let mut object = object.clone();
    merge(&mut object, patch);
    object
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
