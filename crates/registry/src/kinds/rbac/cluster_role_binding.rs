//! ClusterRoleBinding: grants a role to subjects in the whole cluster.

use std::sync::LazyLock;

use coracle_meta::field::ErrorList;
use serde_json::Value;

use super::{GROUP, binding};
use crate::kind::{Declaration, Kind, NameRule, Scope};

/// [`Kind`] of ClusterRoleBinding objects.
pub struct ClusterRoleBinding;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    names: NameRule::PathSegment,
    create_on_update: true,
    columns: binding::columns(),
    storage_version_hash: "48tpQ8gZHFc=".into(),
    ..Declaration::new(
        GROUP,
        &["v1"],
        "ClusterRoleBinding",
        "clusterrolebindings",
        "clusterrolebinding",
        Scope::Cluster,
    )
});

impl Kind for ClusterRoleBinding {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        binding::set_defaults(object);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        binding::validate(object, Scope::Cluster, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        binding::validate_update(new, old, errors);
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        binding::cells(object, now)
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::Refused;

    let empty = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "jane:view"},
    });
    let mut samples = binding::samples(&empty, "ClusterRole");
    let with = |kind: &str| {
        let mut binding = empty.clone();
        binding["roleRef"] = json!({"kind": kind, "name": "view"});
        binding["subjects"] = json!([{"kind": "ServiceAccount", "name": "default"}]);
        binding
    };
    samples.invalid.extend([
        Refused::new(with("Role"), "roleRef.kind", "FieldValueNotSupported"),
        Refused::new(with("ClusterRole"), "subjects[0].namespace", "FieldValueRequired"),
    ]);
    samples
}
