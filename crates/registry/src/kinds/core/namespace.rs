//! Namespace: a scope for names.
//!
//! Its deletion is a process: the finalizers of its `spec` name the components that still have to clean up.

use std::borrow::Cow;
use std::sync::LazyLock;

use coracle_meta::apply::{FieldFilter, FieldSet};
use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use coracle_meta::name;
use coracle_meta::time::Time;
use serde_json::{Value, json};

use super::rules;
use crate::kind::{Column, Declaration, DeletionRule, Kind, NameRule, Scope, Subresource, Verbs, texts};
use crate::view;

/// Finalizer that delays the removal of a namespace until its contents are deleted.
const FINALIZER: &str = "kubernetes";

/// Finalizers that need no domain prefix.
const STANDARD_FINALIZERS: &[&str] = &[FINALIZER, "orphan", "foregroundDeletion"];

/// Label that repeats the name, so that label selectors can match it.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// [`Kind`] of Namespace objects.
pub struct Namespace;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    deletion: DeletionRule::Namespace,
    metadata_checks: 1,
    short_names: texts(&["ns"]),
    verbs: Verbs::ALL.without(Verbs::DELETE_COLLECTION),
    subresources: vec![
        Subresource::new("finalize", "Namespace", Verbs::UPDATE),
        Subresource::status("Namespace"),
    ],
    names: NameRule::DnsLabel,
    deletion_returns_object: true,
    selectable_fields: texts(&["status.phase"]),
    columns: vec![
        Column::name(),
        Column::text("Status", "phase of the namespace: Active or Terminating"),
        Column::age(),
    ],
    storage_version_hash: "Q3oi5N2YM8M=".into(),
    ..Declaration::new("", &["v1"], "Namespace", "namespaces", "namespace", Scope::Cluster)
});

impl Kind for Namespace {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        label_with_name(object);
        if view::text(object, &["status", "phase"]).is_empty() {
            object["status"]["phase"] = "Active".into();
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        // The name may have been generated since defaults were set.
        label_with_name(object);
        object["status"] = json!({"phase": "Active"});
        let finalizers = &mut object["spec"]["finalizers"];
        if !finalizers.is_array() {
            *finalizers = json!([]);
        }
        if let Value::Array(finalizers) = finalizers
            && !finalizers.iter().any(|finalizer| finalizer == FINALIZER)
        {
            finalizers.push(FINALIZER.into());
        }
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        match view::at(old, &["spec", "finalizers"]) {
            Some(finalizers) => new["spec"]["finalizers"] = finalizers.clone(),
            None => {
                if let Some(Value::Object(spec)) = new.get_mut("spec") {
                    spec.remove("finalizers");
                }
            }
        }
    }

    fn untouched(&self, part: &str) -> Option<FieldFilter> {
        (part == "finalize").then(|| FieldFilter::Except(FieldSet::of_fields(&[&["status"]])))
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        for finalizer in view::items(object, &["spec", "finalizers"]) {
            check_finalizer(finalizer, &Path::root("spec.finalizers"), errors);
        }
    }

    fn validate_status_update(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let phase = view::text(new, &["status", "phase"]);
        let (wanted, detail) = if view::at(new, &["metadata", "deletionTimestamp"]).is_none() {
            ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
        } else {
            ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
        };
        if phase != wanted {
            errors.push(FieldError::invalid(&Path::root("status.Phase"), BadValue::named(phase), detail));
        }
    }

    fn prepare_for_part_update(&self, _part: &str, new: &mut Value, old: &Value, _now: Time) {
        // The only other subresource is `finalize`. It changes the finalizers and metadata.
        if let (Value::Object(new), Value::Object(old)) = (new, old) {
            new.remove("status");
            new.extend(old.get("status").map(|status| ("status".to_owned(), status.clone())));
        }
    }

    fn validate_part_update(&self, _part: &str, new: &Value, _old: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec.finalizers");
        for (index, finalizer) in view::items(new, &["spec", "finalizers"]).iter().enumerate() {
            check_finalizer(finalizer, &path.index(index), errors);
        }
    }

    fn begin_deletion(&self, object: &mut Value) {
        object["status"]["phase"] = "Terminating".into();
        // Namespaces have no grace period.
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            metadata.remove("deletionGracePeriodSeconds");
        }
    }

    fn is_held(&self, object: &Value) -> bool {
        !view::items(object, &["spec", "finalizers"]).is_empty()
    }

    fn selectable_value<'a>(&self, object: &'a Value, _field: &str) -> Cow<'a, str> {
        Cow::Borrowed(view::text(object, &["status", "phase"]))
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let phase = view::text(object, &["status", "phase"]);
        vec![view::name(object).into(), phase.into(), view::age(object, now)]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

fn label_with_name(object: &mut Value) {
    let name = view::name(object).to_owned();
    if !name.is_empty() {
        object["metadata"]["labels"][NAME_LABEL] = name.into();
    }
}

fn check_finalizer(finalizer: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let finalizer = finalizer.as_str().unwrap_or_default();
    rules::text(finalizer, name::qualified_name, path, errors);
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(FieldError::invalid(path, finalizer, detail));
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::samples::{Refused, Samples};

    let with = |spec: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sample"}, "spec": spec});
    Samples {
        valid: vec![with(json!({})), with(json!({"finalizers": ["example.com/own"]}))],
        invalid: vec![
            Refused::new(with(json!({"finalizers": ["own"]})), "spec.finalizers", "FieldValueInvalid"),
            Refused::new(with(json!({"finalizers": ["a b/c"]})), "spec.finalizers", "FieldValueInvalid"),
        ],
        updates: vec![
            json!({"metadata": {"labels": {"team": "blue"}}}),
            // Ignored: only the subresource `finalize` changes finalizers.
            json!({"spec": {"finalizers": ["own"]}}),
        ],
        invalid_updates: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_namespace_is_active_and_has_the_finalizer() {
        let mut namespace = json!({"metadata": {"name": "blue"}});
        Namespace.set_defaults(&mut namespace);
        Namespace.prepare_for_create(&mut namespace, Time(0));
        assert_eq!(namespace["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "blue"}));
        assert_eq!(namespace["spec"], json!({"finalizers": ["kubernetes"]}));
        assert_eq!(namespace["status"], json!({"phase": "Active"}));
    }

    #[test]
    fn update_keeps_the_finalizers() {
        let old = json!({"spec": {"finalizers": ["kubernetes"]}});
        let mut new = json!({"metadata": {"name": "blue"}});
        Namespace.prepare_for_update(&mut new, &old);
        assert_eq!(new["spec"], old["spec"]);
        Namespace.prepare_for_update(&mut new, &json!({"spec": {}}));
        assert_eq!(new["spec"], json!({}));
    }

    #[test]
    fn phase_must_match_the_deletion_timestamp() {
        let check = |namespace: Value| {
            let mut errors = ErrorList::new();
            Namespace.validate_status_update(&namespace, &namespace, &mut errors);
            errors.to_string()
        };
        assert_eq!(check(json!({"status": {"phase": "Active"}})), "");
        assert_eq!(
            check(json!({"status": {"phase": "Terminating"}})),
            r#"status.Phase: Invalid value: "Terminating": may only be 'Active' if `deletionTimestamp` is empty"#
        );
        let deleting = json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Terminating"}});
        assert_eq!(check(deleting), "");
    }

    #[test]
    fn finalize_error_names_the_invalid_finalizer() {
        let mut errors = ErrorList::new();
        let namespace = json!({"spec": {"finalizers": ["kubernetes", "own"]}});
        Namespace.validate_part_update("finalize", &namespace, &namespace, &mut errors);
        let fields: Vec<_> = errors.iter().map(|error| error.field.clone()).collect();
        assert_eq!(fields, ["spec.finalizers[1]"]);
    }
}
