//! Validation of custom resources on write, in the same order as kube-apiserver.

use coracle_meta::field::{BadValue, ErrorKind, ErrorList, FieldError, Path};
use serde_json::Value;

use crate::Structural;
use crate::rules::{Evaluation, Ratchet};
use crate::validate::Correlated;

impl Structural {
    /// Validates an object to be created. Its own metadata is validated by the generic code of all
    /// kinds, whose errors `errors` already contains.
    pub fn check_create(&self, object: &Value, errors: &mut ErrorList) {
        self.validate(object, None, &Path::NIL, errors);
        self.validate_embedded(object, errors);
        self.validate_lists(object, errors);
        self.evaluate_rules(object, None, errors);
    }

    /// Validates an update.
    pub fn check_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.validate(new, Some(old), &Path::NIL, errors);
        self.validate_embedded(new, errors);
        self.check_list_update(new, old, errors);
        self.evaluate_rules(new, Some(old), errors);
    }

    /// Validates an update of the status subresource.
    pub fn check_status_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        if let Some(status) = new.get("status") {
            self.validate_status(status, old.get("status"), &Path::root("status"), errors);
        }
        self.check_list_update(new, old, errors);
        self.evaluate_rules(new, Some(old), errors);
    }

    /// Returns warnings for a valid update: rules that unchanged parts violate.
    pub fn update_warnings(&self, new: &Value, old: &Value) -> Vec<String> {
        self.evaluate_rules(new, Some(old), &mut ErrorList::new())
    }

    /// Lists that had duplicates before may keep them.
    fn check_list_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let (mut found, mut before) = (ErrorList::new(), ErrorList::new());
        self.validate_lists(new, &mut found);
        if !found.is_empty() {
            self.validate_lists(old, &mut before);
        }
        if before.is_empty() {
            errors.extend(found);
        }
    }

    /// Evaluates the rules unless other errors block them. Returns the warnings.
    fn evaluate_rules(&self, new: &Value, old: Option<&Value>, errors: &mut ErrorList) -> Vec<String> {
        let Some(rules) = self.rules() else { return Vec::new() };
        if errors.iter().any(|error| is_blocking(error.kind)) {
            let detail = "some validation rules were not checked because the object was invalid; correct the \
                          existing errors to complete validation";
            errors.push(FieldError::invalid(&Path::NIL, BadValue::json(&Value::Null), detail));
            return Vec::new();
        }
        let root = self.root();
        let ratchet = old.map(|old| Ratchet::new(Correlated::new(root, new, old))).unwrap_or_default();
        let mut evaluation = Evaluation::new(errors);
        rules.evaluate(root, new, old, ratchet, &Path::NIL, &mut evaluation);
        evaluation.warnings
    }
}

/// Returns true for errors that would violate assumptions of expressions.
fn is_blocking(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotSupported
            | ErrorKind::Required
            | ErrorKind::TooLong
            | ErrorKind::TooMany
            | ErrorKind::TypeInvalid
    )
}
