//! Sample objects of kinds: valid ones, and invalid ones with the expected errors.

use coracle_meta::field::ErrorList;
use coracle_meta::time::Time;
use serde_json::Value;

use crate::kind::Kind;

/// Samples of a kind.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Valid objects as a client would send them; at least one. The tests of the life cycle use the first.
    pub valid: Vec<Value>,
    /// Invalid objects.
    pub invalid: Vec<Refused>,
    /// Valid updates of the first valid object, as merge patches; at least one, unless the kind cannot be updated.
    pub updates: Vec<Value>,
    /// Invalid updates.
    pub invalid_updates: Vec<Refused>,
}

impl Samples {
    /// No samples, for custom kinds.
    pub(crate) fn none() -> Self {
        Self { valid: Vec::new(), invalid: Vec::new(), updates: Vec::new(), invalid_updates: Vec::new() }
    }
}

/// An invalid sample and the expected error.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The object, or the merge patch for the first valid object.
    pub object: Value,
    /// Field of the expected error, such as `spec.containers[0].name`.
    pub field: &'static str,
    /// Reason of the expected error, such as `FieldValueRequired`.
    pub reason: &'static str,
}

impl Refused {
    /// An invalid sample and the expected error.
    pub fn new(object: Value, field: &'static str, reason: &'static str) -> Self {
        Self { object, field, reason }
    }
}

/// An object that was stored before the rule that it violates existed (ratcheting validation).
#[derive(Clone, Debug)]
pub struct Stored {
    /// The object, which cannot be created any more.
    pub object: Value,
    /// Updates as merge patches that are valid although they leave the invalid value unchanged; at least one.
    pub updates: Vec<Value>,
    /// Invalid updates.
    pub invalid_updates: Vec<Refused>,
}

impl Stored {
    /// A stored object whose other fields, such as labels, can be updated.
    pub fn new(object: Value) -> Self {
        let update = serde_json::json!({"metadata": {"labels": {"changed": "yes"}}});
        Self { object, updates: vec![update], invalid_updates: Vec::new() }
    }

    /// A stored object: a valid one with a merge patch applied.
    pub fn of(valid: &Value, patch: &Value) -> Self {
        Self::new(merged(valid, patch))
    }

    /// Adds an invalid update.
    #[must_use]
    pub fn refusing(mut self, patch: Value, field: &'static str, reason: &'static str) -> Self {
        self.invalid_updates.push(Refused::new(patch, field, reason));
        self
    }
}

/// A write and the expected warnings.
#[derive(Clone, Debug)]
pub struct Warned {
    /// The subresource; empty for the object itself.
    pub part: &'static str,
    /// The existing object, if any.
    pub old: Option<Value>,
    /// The object that is written.
    pub object: Value,
    /// The expected warnings.
    pub warnings: Vec<&'static str>,
}

impl Warned {
    /// A create request.
    pub fn created(object: Value, warnings: &[&'static str]) -> Self {
        Self { part: "", old: None, object, warnings: warnings.to_vec() }
    }

    /// An update request.
    pub fn updated(old: Value, object: Value, warnings: &[&'static str]) -> Self {
        Self { part: "", old: Some(old), object, warnings: warnings.to_vec() }
    }

    /// An update of the status.
    pub fn status(object: Value, warnings: &[&'static str]) -> Self {
        Self { part: "status", old: None, object, warnings: warnings.to_vec() }
    }
}

/// Warnings of a kind about a write.
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

/// Validation errors of a kind for a new object, without the checks for all kinds.
pub fn errors_on_create(kind: &dyn Kind, object: &Value) -> ErrorList {
    let mut object = stored(kind, object.clone());
    kind.set_defaults(&mut object);
    kind.prepare_for_create(&mut object, Time(0));
    let mut errors = ErrorList::default();
    kind.validate(&object, &mut errors);
    kind.validate_create(&object, &mut errors);
    errors
}

/// Validation errors of a kind for an update, without the checks for all kinds.
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

/// A sample in the stored form, which is the form that hooks see.
fn stored(kind: &dyn Kind, object: Value) -> Value {
    let declaration = kind.declaration();
    let version = declaration.versions.first().map_or("", |version| version);
    if declaration.is_converted(version) { kind.convert_in(version, object) } else { object }
}

/// Applies a merge patch to a copy of an object.
pub fn merged(object: &Value, patch: &Value) -> Value {
    let mut object = object.clone();
    merge(&mut object, patch);
    object
}

/// Applies a merge patch (RFC 7396).
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
