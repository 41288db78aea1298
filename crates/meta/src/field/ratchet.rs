//! What an update may keep although a rule forbids it by now.
//!
//! Rules get stricter over time, and objects that were stored before do not. Nobody could write such an object
//! any more, not even to mend something else or to remove a finalizer. So a rule that came later says when an
//! update may break it.

use serde_json::Value;

use super::{ErrorList, FieldError};

/// When an update may break a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ratchet {
    /// If the object broke the rule of this name before, wherever in it.
    Broken(&'static str),
    /// If the object had this value before, and broke the rule of this name with it, wherever in it.
    Kept(&'static str),
    /// If what stands at these paths is as it was before.
    Unchanged(&'static [&'static [&'static str]]),
}

impl Ratchet {
    /// Whether an error may stand in the object that `old` becomes.
    fn forgives(self, error: &FieldError, before: &ErrorList, new: &Value, old: &Value) -> bool {
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
    /// Does a check whose rule an update may break under these circumstances.
    pub fn ratcheted(&mut self, ratchet: Ratchet, check: impl FnOnce(&mut Self)) {
        let mut found = Self::new();
        check(&mut found);
        self.extend(found.into_iter().map(|error| error.unless(ratchet)));
    }

    /// Leaves out what an update from `old` to `new` may keep. `check` tells what is wrong with an object.
    pub fn forgive(&mut self, new: &Value, old: &Value, check: impl FnOnce(&Value, &mut Self)) {
        if self.iter().all(|error| error.ratchet.is_none()) {
            return;
        }
        let mut before = Self::new();
        check(old, &mut before);
        let found = std::mem::take(self);
        self.extend(
            found.into_iter().filter(|error| {
                error.ratchet.is_none_or(|ratchet| !ratchet.forgives(error, &before, new, old))
            }),
        );
    }
}

/// What stands at a path; an empty list or object is the same as none.
fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    let found = path.iter().try_fold(object, |value, name| value.get(name))?;
    let is_empty = match found {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    (!is_empty).then_some(found)
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

    fn kept(new: &Value, old: &Value) -> String {
        let mut errors = ErrorList::new();
        check(new, &mut errors);
        errors.forgive(new, old, check);
        errors.to_string()
    }

    #[test]
    fn what_was_wrong_before_may_stay() {
        let broken = json!({"broken": [1], "kept": [1, 2], "unchanged": [1], "whole": 1, "always": true});
        assert_eq!(kept(&broken, &broken), "always: Required value");
        let more = json!({"broken": [1, 2], "kept": [2, 3], "unchanged": [1], "whole": 2});
        assert_eq!(kept(&more, &broken), "[kept: Invalid value: 3, unchanged: Invalid value: 1]");
        assert_eq!(kept(&json!({"broken": [1]}), &json!({"kept": [1]})), "broken: Invalid value: 1");
        assert_eq!(kept(&json!({"unchanged": [1], "whole": []}), &json!({})), "");
    }
}
