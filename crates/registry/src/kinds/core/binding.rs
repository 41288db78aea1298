//! Binding: assigns a pod to a node. It supports only create, and nothing is stored.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use crate::kind::{Declaration, Kind, Scope, Verbs};
use crate::view;

/// [`Kind`] of Binding objects.
pub struct Binding;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    verbs: Verbs::CREATE,
    ..Declaration::new("", &["v1"], "Binding", "bindings", "binding", Scope::Namespaced)
});

impl Kind for Binding {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let kind = view::text(object, &["target", "kind"]);
        if !kind.is_empty() && kind != "Node" {
            errors.push(FieldError::not_supported(&Path::root("target.kind"), kind, &["Node", "<empty>"]));
        }
        if view::text(object, &["target", "name"]).is_empty() {
            errors.push(FieldError::required(&Path::root("target.name"), ""));
        }
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let to = |target: Value| json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "sample", "namespace": "default"}, "target": target});
    Samples {
        valid: vec![to(json!({"kind": "Node", "name": "node-1"})), to(json!({"name": "node-1"}))],
        invalid: vec![
            Refused::new(
                to(json!({"kind": "Pod", "name": "node-1"})),
                "target.kind",
                "FieldValueNotSupported",
            ),
            Refused::new(to(json!({"kind": "Node"})), "target.name", "FieldValueRequired"),
        ],
        updates: Vec::new(),
        invalid_updates: Vec::new(),
    }
}
