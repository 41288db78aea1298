//! The group `flowcontrol.apiserver.k8s.io`.

pub mod flow_schema;
mod policy_rules;
pub mod priority_level_configuration;

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::Value;

use super::rules;
use crate::view;

/// Requires that conditions have types, and that these are unique.
fn check_conditions(object: &Value, errors: &mut ErrorList) {
    let path = Path::root("status.conditions");
    let mut seen = BTreeSet::new();
    for (index, condition) in view::items(object, &["status", "conditions"]).iter().enumerate() {
        let path = path.index(index);
        let path = path.child("type");
        let condition_type = view::text(condition, &["type"]);
        if !seen.insert(condition_type) {
            errors.push(FieldError::duplicate(&path, BadValue::named(condition_type)));
        }
        rules::required(&path, condition_type, errors);
    }
}
