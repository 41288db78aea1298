//! ControllerRevision: an earlier template of a StatefulSet or DaemonSet.

use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::object::Meta;
use serde_json::Value;

use super::checks;
use crate::kind::{Column, Declaration, Kind, Scope};
use crate::view;

/// [`Kind`] of ControllerRevision objects.
pub struct ControllerRevision;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    columns: vec![
        Column::name(),
        Column::text("Controller", "which object's state it holds"),
        Column::text("Revision", "its place in the order of states"),
        Column::age(),
    ],
    storage_version_hash: "85nkx63pcBU=".into(),
    ..Declaration::new(
        "apps",
        &["v1"],
        "ControllerRevision",
        "controllerrevisions",
        "controllerrevision",
        Scope::Namespaced,
    )
});

impl Kind for ControllerRevision {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        checks::non_negative(object, "revision", &Path::NIL, errors);
    }

    fn validate_create(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("data");
        match object.get("data") {
            None | Some(Value::Null) => errors.push(FieldError::required(&path, "data is mandatory")),
            Some(Value::Object(_)) => {}
            Some(_) => errors.push(FieldError::required(&path, "data must be a valid JSON object")),
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        // The data is opaque, so any difference counts.
        if new.get("data") != old.get("data") {
            let found = BadValue::json(new.get("data").unwrap_or(&Value::Null));
            errors.push(FieldError::invalid(&Path::root("data"), found, "field is immutable"));
        }
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        vec![
            view::name(object).into(),
            controller(object).into(),
            checks::count(object, "revision").into(),
            view::age(object, now),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

/// Table cell of the controller, such as `statefulset.apps/web`.
fn controller(object: &Value) -> String {
    let Some(owner) = Meta::of(object).controller() else { return "<none>".to_owned() };
    let kind = owner.group_version_kind();
    let separator = if kind.group.is_empty() { "" } else { "." };
    let group_kind = format!("{}{separator}{}", kind.kind, kind.group).to_lowercase();
    format!("{group_kind}/{}", owner.name)
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let with = |data: Value, revision: i64| {
        json!({
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": {"name": "web-6b9f", "namespace": "default"},
            "data": data,
            "revision": revision,
        })
    };
    Samples {
        valid: vec![with(json!({"spec": {"template": {"$patch": "replace"}}}), 1), with(json!({}), 0)],
        invalid: vec![
            Refused::new(with(json!({}), -1), "revision", "FieldValueInvalid"),
            Refused::new(with(json!(null), 1), "data", "FieldValueRequired"),
            Refused::new(with(json!([1]), 1), "data", "FieldValueRequired"),
        ],
        updates: vec![json!({"revision": 2})],
        invalid_updates: vec![Refused::new(json!({"data": {"spec": 1}}), "data", "FieldValueInvalid")],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn table_shows_the_controller() {
        let object = |api_version: &str, kind: &str| {
            json!({"metadata": {"ownerReferences": [
                {"apiVersion": api_version, "kind": kind, "name": "Web", "uid": "u", "controller": true},
            ]}})
        };
        assert_eq!(controller(&object("apps/v1", "StatefulSet")), "statefulset.apps/Web");
        assert_eq!(controller(&object("v1", "Pod")), "pod/Web");
        assert_eq!(controller(&json!({})), "<none>");
    }
}
