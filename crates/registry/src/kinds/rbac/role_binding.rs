//! RoleBinding: grants a role to subjects in a namespace.

use std::sync::LazyLock;

use coracle_meta::field::ErrorList;
use serde_json::Value;

use super::{GROUP, binding};
use crate::kind::{Declaration, Kind, NameRule, Scope};

/// [`Kind`] of RoleBinding objects.
pub struct RoleBinding;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    names: NameRule::PathSegment,
    create_on_update: true,
    columns: binding::columns(),
    storage_version_hash: "eGsCzGH6b1g=".into(),
    ..Declaration::new(GROUP, &["v1"], "RoleBinding", "rolebindings", "rolebinding", Scope::Namespaced)
});

impl Kind for RoleBinding {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        binding::set_defaults(object);
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        binding::validate(object, Scope::Namespaced, errors);
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

    let empty = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "jane:view", "namespace": "default"},
    });
    let mut samples = binding::samples(&empty, "Role");
    let mut cluster_role = empty;
    cluster_role["roleRef"] = json!({"kind": "ClusterRole", "name": "view"});
    cluster_role["subjects"] = json!([{"kind": "ServiceAccount", "name": "default"}]);
    samples.valid.push(cluster_role);
    samples
}
