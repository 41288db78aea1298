//! Data source of a claim: the initial contents of its volume, named in two fields.

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::{Map, Value};

use crate::kinds::core::rules;
use crate::kinds::ratchet;
use crate::view;

/// Validates `dataSource` or `dataSourceRef`.
pub(super) fn validate(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    rules::required_fields(source, &["name", "kind"], path, errors);
    let group = view::text(source, &["apiGroup"]);
    let kind = view::text(source, &["kind"]);
    if !group.is_empty() {
        errors.ratcheted(ratchet::DATA_SOURCE_GROUP, |errors| {
            rules::text(group, name::dns1123_subdomain, &path.child("apiGroup"), errors);
        });
    } else if kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid(path, kind, detail));
    }
    let namespace = view::text(source, &["namespace"]);
    if !namespace.is_empty() {
        rules::text(namespace, name::dns1123_label, &path.child("namespace"), errors);
    }
}

/// Checks that `dataSource` and `dataSourceRef` agree.
pub(super) fn check_agreement(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (Some(source), Some(reference)) = (spec.get("dataSource"), spec.get("dataSourceRef")) else { return };
    let part = |object: &Value, name: &str| object.get(name).cloned();
    let detail = if !view::text(reference, &["namespace"]).is_empty() {
        "may not be specified when dataSourceRef.namespace is specified"
    } else if ["apiGroup", "kind", "name"].iter().any(|name| part(source, name) != part(reference, name)) {
        "must match dataSourceRef"
    } else {
        return;
    };
    // kube-apiserver reports the path of the other field as the value, which Go prints as an empty object.
    errors.push(FieldError::invalid(path, BadValue::Json("{}".to_owned()), detail));
}

/// Makes `dataSource`, the older field, and `dataSourceRef` equal. A `dataSource` that names anything but a claim or a
/// snapshot is dropped, as it always was, unless the stored claim has either field.
pub(super) fn sync_data_sources(claim: &mut Value, old: Option<&Value>) {
    let old = old.and_then(|old| old.get("spec"));
    let Some(Value::Object(spec)) = claim.get_mut("spec") else { return };
    let in_use = |field: &str| old.is_some_and(|old| old.get(field).is_some());
    let reference = spec.get("dataSourceRef");
    let foreign = reference.is_some_and(|reference| !view::text(reference, &["namespace"]).is_empty());
    if foreign && !in_use("dataSourceRef") {
        spec.remove("dataSourceRef");
    }
    if !in_use("dataSource")
        && !in_use("dataSourceRef")
        && !spec.contains_key("dataSourceRef")
        && spec.get("dataSource").is_some_and(|source| !is_claim_or_snapshot(source))
    {
        spec.remove("dataSource");
    }
    normalize_data_sources(spec);
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    let parts = (view::text(source, &["apiGroup"]), view::text(source, &["kind"]));
    parts == ("", "PersistentVolumeClaim") || parts == ("snapshot.storage.k8s.io", "VolumeSnapshot")
}

fn normalize_data_sources(spec: &mut Map<String, Value>) {
    let copied = |source: &Value| {
        let parts = view::fields(source, &[]).filter(|(name, _)| *name != "namespace");
        Value::Object(parts.map(|(name, value)| (name.clone(), value.clone())).collect())
    };
    match (spec.get("dataSource"), spec.get("dataSourceRef")) {
        (Some(source), None) => {
            let copy = copied(source);
            spec.insert("dataSourceRef".to_owned(), copy);
        }
        (None, Some(reference)) if view::text(reference, &["namespace"]).is_empty() => {
            let copy = copied(reference);
            spec.insert("dataSource".to_owned(), copy);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn synced(spec: Value) -> Value {
        let mut claim = json!({"spec": spec});
        sync_data_sources(&mut claim, None);
        claim["spec"].clone()
    }

    #[test]
    fn missing_field_is_copied_from_the_other() {
        let source = json!({"kind": "PersistentVolumeClaim", "name": "a"});
        let both = json!({"dataSource": source, "dataSourceRef": source});
        assert_eq!(synced(json!({"dataSource": source})), both);
        assert_eq!(synced(json!({"dataSourceRef": source})), both);
    }

    #[test]
    fn unsupported_data_sources_are_dropped() {
        assert_eq!(synced(json!({"dataSource": {"kind": "Other", "name": "a"}})), json!({}));
        let foreign = json!({"kind": "PersistentVolumeClaim", "name": "a", "namespace": "b"});
        assert_eq!(synced(json!({"dataSourceRef": foreign})), json!({}));
    }
}
