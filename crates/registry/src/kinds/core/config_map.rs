//! ConfigMap: configuration as keys and values.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use crate::kind::{Column, Declaration, Kind, Scope, texts};
use crate::view;

/// Maximum size of all values together in bytes, as in kube-apiserver.
const MAX_TOTAL_BYTES: usize = 1024 * 1024;

/// [`Kind`] of ConfigMap objects.
pub struct ConfigMap;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    short_names: texts(&["cm"]),
    columns: vec![Column::name(), Column::text("Data", "number of keys"), Column::age()],
    storage_version_hash: "qFsyl6wFWjQ=".into(),
    ..Declaration::new("", &["v1"], "ConfigMap", "configmaps", "configmap", Scope::Namespaced)
});

impl Kind for ConfigMap {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let mut total = 0;
        let binary_keys: BTreeSet<_> = view::fields(object, &["binaryData"]).map(|(key, _)| key).collect();
        for (key, value) in view::fields(object, &["data"]) {
            let path = Path::root("data");
            check_key(key, &path, errors);
            if binary_keys.contains(key) {
                let detail = "duplicate of key present in binaryData";
                errors.push(FieldError::invalid(&path.key(key), key.as_str(), detail));
            }
            total += value.as_str().map_or(0, str::len);
        }
        for (key, value) in view::fields(object, &["binaryData"]) {
            check_key(key, &Path::root("binaryData"), errors);
            // Base64 in JSON: four characters encode three bytes.
            total += value.as_str().map_or(0, |text| text.trim_end_matches('=').len() * 3 / 4);
        }
        if total > MAX_TOTAL_BYTES {
            errors.push(FieldError::too_long(&Path::root(""), MAX_TOTAL_BYTES));
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        if !view::is_true(old, &["immutable"]) {
            return;
        }
        let frozen = "field is immutable when `immutable` is set";
        if !view::is_true(new, &["immutable"]) {
            errors.push(FieldError::forbidden(&Path::root("immutable"), frozen));
        }
        for field in ["data", "binaryData"] {
            if new.get(field) != old.get(field) {
                errors.push(FieldError::forbidden(&Path::root(field), frozen));
            }
        }
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let count = view::fields(object, &["data"]).count() + view::fields(object, &["binaryData"]).count();
        vec![view::name(object).into(), count.into(), view::age(object, now)]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

fn check_key(key: &str, path: &Path<'_>, errors: &mut ErrorList) {
    for message in name::config_map_key(key) {
        errors.push(FieldError::invalid(&path.key(key), key, message));
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let with = |extra: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sample", "namespace": "default"}});
        if let (Value::Object(fields), Value::Object(extra)) = (&mut object, extra) {
            fields.extend(extra);
        }
        object
    };
    Samples {
        valid: vec![
            with(json!({"data": {"key": "value", "other.key": ""}})),
            with(json!({"binaryData": {"bytes": "AAEC"}, "immutable": true})),
        ],
        invalid: vec![
            Refused::new(with(json!({"data": {"": "x"}})), "data[]", "FieldValueInvalid"),
            Refused::new(with(json!({"data": {"a/b": "x"}})), "data[a/b]", "FieldValueInvalid"),
            Refused::new(with(json!({"data": {"..": "x"}})), "data[..]", "FieldValueInvalid"),
            Refused::new(
                with(json!({"data": {"a": "x"}, "binaryData": {"a": "AA=="}})),
                "data[a]",
                "FieldValueInvalid",
            ),
            Refused::new(
                with(json!({"data": {"a": "x".repeat(MAX_TOTAL_BYTES + 1)}})),
                "[]",
                "FieldValueTooLong",
            ),
        ],
        updates: vec![json!({"data": {"key": "changed"}}), json!({"immutable": true})],
        invalid_updates: vec![Refused::new(json!({"data": {"a b": ""}}), "data[a b]", "FieldValueInvalid")],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::samples::errors_on_update;

    #[test]
    fn key_in_data_and_binary_data_is_reported_at_data() {
        let object = json!({"data": {"a": "1", "b": "2"}, "binaryData": {"b": "AA==", "c": "AA=="}});
        let mut errors = ErrorList::default();
        ConfigMap.validate(&object, &mut errors);
        let expected = "data[b]: Invalid value: \"b\": duplicate of key present in binaryData";
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn immutable_config_map_update_is_rejected() {
        let old = json!({"immutable": true, "data": {"a": "1"}});
        for (patch, field) in
            [(json!({"data": {"a": "2"}}), "data"), (json!({"immutable": null}), "immutable")]
        {
            let errors = errors_on_update(&ConfigMap, &old, &patch);
            let fields: Vec<_> = errors.iter().map(|error| error.field.clone()).collect();
            assert_eq!(fields, [field]);
        }
        let labelled = errors_on_update(&ConfigMap, &old, &json!({"metadata": {"labels": {"x": "y"}}}));
        assert!(labelled.is_empty());
    }
}
