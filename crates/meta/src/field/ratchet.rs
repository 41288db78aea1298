//! Ratcheting validation: errors that an update may keep.
//!
//! Validation rules get stricter over time, but stored objects do not change. Without ratcheting
//! such an object could not be updated any more, not even to fix another field or to remove a
//! finalizer. So each newer rule states when an update may violate it.

use serde_json::Value;

use super::{ErrorList, FieldError};

/// The condition under which an update may violate a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ratchet {
    /// The old object violates the rule of this name, in any field.
    Broken(&'static str),
    /// The old object violates the rule of this name with the same value, in any field.
    Kept(&'static str),
    /// The values at these paths are unchanged.
    Unchanged(&'static [&'static [&'static str]]),
}

impl Ratchet {
    /// Returns true if an update from `old` to `new` may keep the error. `before` are the errors of
    /// `old`.
    fn permits(self, error: &FieldError, before: &ErrorList, new: &Value, old: &Value) -> bool {
        match self {
            Self::Broken(_) => before.iter().any(|other| other.ratchet == Some(self)),
            Self::Kept(_) => {
                before.iter().any(|other| other.ratchet == Some(self) && other.bad_value == error.bad_value)
            }
            Self::Unchanged(paths) => paths.iter().all(|path| at(new, path) == at(old, path)),
        }
    }
}

impl ErrorList {
    /// Runs a check whose errors an update may keep under this condition.
    pub fn ratcheted(&mut self, ratchet: Ratchet, check: impl FnOnce(&mut Self)) {
        let mut errors = Self::new();
        check(&mut errors);
        self.extend(errors.into_iter().map(|error| error.unless(ratchet)));
    }

    /// Removes the errors that an update from `old` to `new` may keep. `check` validates an object.
    pub fn forgive(&mut self, new: &Value, old: &Value, check: impl FnOnce(&Value, &mut Self)) {
        if self.iter().all(|error| error.ratchet.is_none()) {
            return;
        }
        let mut before = Self::new();
        check(old, &mut before);
        let errors = std::mem::take(self);
        self.extend(
            errors.into_iter().filter(|error| {
                error.ratchet.is_none_or(|ratchet| !ratchet.permits(error, &before, new, old))
            }),
        );
    }
}

/// Returns the value at a path; an empty list or object counts as absent.
fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let value = path.iter().try_fold(object, |value, name| value.get(name))?;
    let is_empty = match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    (!is_empty).then_some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::field::Path;

    fn check(object: &Value, errors: &mut ErrorList) {
        for (ratchet, name) in [
            (Ratchet::Broken("b"), "broken"),
            (Ratchet::Kept("k"), "kept"),
            (Ratchet::Unchanged(&[&["whole"]]), "unchanged"),
        ] {
            for value in object[name].as_array().into_iter().flatten() {
                errors.ratcheted(ratchet, |errors| {
                    errors.push(FieldError::invalid(&Path::root(name), value, ""));
                });
            }
        }
        if object["always"] == true {
            errors.push(FieldError::required(&Path::root("always"), ""));
        }
    }

    fn remaining_errors(new: &Value, old: &Value) -> String {
        let mut errors = ErrorList::new();
        check(new, &mut errors);
        errors.forgive(new, old, check);
        errors.to_string()
    }

    #[test]
    fn update_keeps_errors_of_old_object() {
        let broken = json!({"broken": [1], "kept": [1, 2], "unchanged": [1], "whole": 1, "always": true});
        assert_eq!(remaining_errors(&broken, &broken), "always: Required value");
        let more = json!({"broken": [1, 2], "kept": [2, 3], "unchanged": [1], "whole": 2});
        assert_eq!(remaining_errors(&more, &broken), "[kept: Invalid value: 3, unchanged: Invalid value: 1]");
        assert_eq!(
            remaining_errors(&json!({"broken": [1]}), &json!({"kept": [1]})),
            "broken: Invalid value: 1"
        );
        assert_eq!(remaining_errors(&json!({"unchanged": [1], "whole": []}), &json!({})), "");
    }
}
