//! ServiceAccount: an identity for pods.

use std::sync::LazyLock;

use coracle_meta::time::Time;
use serde_json::{Value, json};

use crate::kind::{Declaration, Kind, Scope, Subresource, Verbs, texts};
use crate::view;

/// Deprecated annotation that restricts which secrets pods may mount.
const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// [`Kind`] of ServiceAccount objects.
pub struct ServiceAccount;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    short_names: texts(&["sa"]),
    subresources: vec![Subresource {
        group_version: Some(("authentication.k8s.io".into(), "v1".into())),
        ..Subresource::new("token", "TokenRequest", Verbs::CREATE)
    }],
    deletion_returns_object: true,
    storage_version_hash: "pbx9ZvyFpBE=".into(),
    ..Declaration::new("", &["v1"], "ServiceAccount", "serviceaccounts", "serviceaccount", Scope::Namespaced)
});

impl Kind for ServiceAccount {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        keep_only_names_of_secrets(object);
    }

    fn prepare_for_update(&self, new: &mut Value, _old: &Value) {
        keep_only_names_of_secrets(new);
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let annotated = |object: &Value| {
            view::at(object, &["metadata", "annotations", ENFORCE_MOUNTABLE_SECRETS]).is_some()
        };
        if !annotated(new) || old.is_some_and(annotated) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

/// Reduces references to secrets to their names, since they are in the same namespace.
fn keep_only_names_of_secrets(object: &mut Value) {
    if let Some(Value::Array(secrets)) = object.get_mut("secrets") {
        for secret in secrets {
            let name = view::text(secret, &["name"]);
            *secret = if name.is_empty() { json!({}) } else { json!({"name": name}) };
        }
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::samples::Samples;

    Samples {
        valid: vec![json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "sample", "namespace": "default"},
            "automountServiceAccountToken": false,
            "secrets": [{"name": "token"}],
            "imagePullSecrets": [{"name": "registry"}],
        })],
        invalid: Vec::new(),
        updates: vec![json!({"imagePullSecrets": [{"name": "other"}]})],
        invalid_updates: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_references_are_reduced_to_names() {
        let mut account = json!({"secrets": [{"name": "a", "kind": "Secret"}, {"kind": "Secret"}]});
        ServiceAccount.prepare_for_create(&mut account, Time(0));
        assert_eq!(account, json!({"secrets": [{"name": "a"}, {}]}));
    }

    #[test]
    fn deprecated_annotation_causes_a_warning_only_once() {
        let account = json!({"metadata": {"annotations": {ENFORCE_MOUNTABLE_SECRETS: "true"}}});
        assert_eq!(ServiceAccount.warnings(&account, None).len(), 1);
        assert!(ServiceAccount.warnings(&account, Some(&account)).is_empty());
    }
}
