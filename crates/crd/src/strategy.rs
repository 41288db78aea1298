//! All that is asked of an object of a custom kind when it is written, in upstream's order.

use coracle_meta::field::{ErrorList, Path};
use serde_json::Value;

use crate::Structural;

impl Structural {
    /// Whether an object may come into being. Its own metadata is checked for all kinds alike, and
    /// not here.
    pub fn check_create(&self, object: &Value, errors: &mut ErrorList) {
        self.validate(object, None, &Path::NIL, errors);
        self.validate_embedded(object, errors);
        self.validate_lists(object, errors);
    }

    /// Whether it may become another.
    pub fn check_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        self.validate(new, Some(old), &Path::NIL, errors);
        self.validate_embedded(new, errors);
        self.check_list_update(new, old, errors);
    }

    /// Whether its status may become another, through the status subresource.
    pub fn check_status_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        if let Some(status) = new.get("status") {
            self.validate_status(status, old.get("status"), &Path::root("status"), errors);
        }
        self.check_list_update(new, old, errors);
    }

    /// Lists that had duplicates may keep them.
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
}
