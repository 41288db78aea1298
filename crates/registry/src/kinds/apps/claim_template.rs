//! The volume claim templates of a StatefulSet.

use coracle_meta::field::{ErrorList, Path};
use serde_json::Value;

use super::checks::{default_text, ensure, set};
use crate::kinds::core::persistent_volume_claim;
use crate::view;

/// Sets the defaults of volume claim templates, including their kind, as in kube-apiserver.
pub(super) fn set_defaults(spec: &mut Value) {
    let Some(Value::Array(claims)) = spec.get_mut("volumeClaimTemplates") else { return };
    for claim in claims {
        set(claim, "apiVersion", "v1".into());
        set(claim, "kind", "PersistentVolumeClaim".into());
        persistent_volume_claim::set_spec_defaults(ensure(claim, "spec"));
        default_text(ensure(claim, "status"), "phase", "Pending");
    }
}

/// Validates volume claim templates.
pub(super) fn validate(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("volumeClaimTemplates");
    for (index, claim) in view::items(spec, &["volumeClaimTemplates"]).iter().enumerate() {
        let path = path.index(index);
        persistent_volume_claim::validate_spec(
            claim.get("spec").unwrap_or(&Value::Null),
            &path.child("spec"),
            errors,
        );
    }
}

/// A claim for samples.
#[cfg(any(test, feature = "samples"))]
pub(super) fn sample() -> Value {
    serde_json::json!({
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claims_need_a_mode_and_a_size() {
        let mut spec = json!({"volumeClaimTemplates": [
            {"spec": {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"], "volumeMode": "x"}},
            {"spec": {"accessModes": ["Any"], "resources": {"requests": {"storage": "0"}}}},
        ]});
        set_defaults(&mut spec);
        assert_eq!(spec["volumeClaimTemplates"][0]["kind"], "PersistentVolumeClaim");
        let mut errors = ErrorList::new();
        validate(&spec, &Path::root("spec"), &mut errors);
        let messages: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "spec.volumeClaimTemplates[0].spec.accessModes: Forbidden: may not use ReadWriteOncePod with \
                 other access modes",
                "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
                "spec.volumeClaimTemplates[0].spec.volumeMode: Unsupported value: \"x\": supported values: \
                 \"Block\", \"Filesystem\"",
                "spec.volumeClaimTemplates[1].spec.accessModes: Unsupported value: \"Any\": supported values: \
                 \"ReadOnlyMany\", \"ReadWriteMany\", \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                "spec.volumeClaimTemplates[1].spec.resources[storage]: Invalid value: \"0\": must be greater \
                 than zero",
            ]
        );
    }
}
