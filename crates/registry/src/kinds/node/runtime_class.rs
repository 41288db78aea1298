//! RuntimeClass: selects the container runtime of pods.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, Path};
use coracle_meta::name;
use serde_json::Value;

use super::{overhead, tolerations};
use crate::kind::{Column, Declaration, Kind, Scope};
use crate::kinds::rules;
use crate::view;

/// [`Kind`] of RuntimeClass objects.
pub struct RuntimeClass;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    metadata_checks: 1,
    unconditional_update: false,
    prefixed_finalizers: false,
    create_on_update: true,
    columns: vec![
        Column::name(),
        Column::text("Handler", "name of the runtime handler on nodes"),
        Column::age(),
    ],
    storage_version_hash: "WQTu1GL3T2Q=".into(),
    ..Declaration::new(
        "node.k8s.io",
        &["v1"],
        "RuntimeClass",
        "runtimeclasses",
        "runtimeclass",
        Scope::Cluster,
    )
});

impl Kind for RuntimeClass {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let handler = view::text(object, &["handler"]);
        rules::required_name(&Path::root("handler"), handler, name::dns1123_label, errors);
        if let Some(overhead) = object.get("overhead") {
            overhead::check(overhead, &Path::root("overhead"), errors);
        }
        let path = Path::root("scheduling");
        rules::labels(&path.child("nodeSelector"), view::at(object, &["scheduling", "nodeSelector"]), errors);
        let tolerations = view::items(object, &["scheduling", "tolerations"]);
        tolerations::check(tolerations, &path.child("tolerations"), errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        rules::unchanged("s", &Path::root("handler"), new.get("handler"), old.get("handler"), errors);
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        view::fields(new, &["scheduling", "nodeSelector"])
            .filter_map(|(key, _)| rules::deprecated_node_label(key))
            .map(|message| format!("scheduling.nodeSelector: {message}"))
            .collect()
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let handler = view::text(object, &["handler"]);
        vec![view::name(object).into(), handler.into(), view::age(object, now)]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let toleration = json!({"key": "runtime", "operator": "Equal", "value": "vm", "effect": "NoSchedule"});
    let valid = cluster(
        "node.k8s.io/v1",
        "RuntimeClass",
        json!({
            "handler": "vm",
            "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
            "scheduling": {"nodeSelector": {"runtime": "vm"}, "tolerations": [toleration]},
        }),
    );
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    let first = "/scheduling/tolerations/0";
    let tolerated = |value, field, reason| refused(first, value, field, reason);
    Samples {
        invalid: vec![
            refused("/handler", json!(""), "handler", "FieldValueRequired"),
            refused("/handler", json!("A.b"), "handler", "FieldValueInvalid"),
            refused("/overhead/podFixed", json!({"cpu": "-1"}), "overhead.limits[cpu]", "FieldValueInvalid"),
            refused("/overhead/podFixed", json!({"pods": "1"}), "overhead.limits[pods]", "FieldValueInvalid"),
            refused("/overhead/podFixed", json!({"hugepages-2Mi": "2Mi"}), "overhead", "FieldValueForbidden"),
            refused(
                "/overhead/podFixed",
                json!({"a.b/c": "1.5"}),
                "overhead.limits[a.b/c]",
                "FieldValueInvalid",
            ),
            refused(
                "/scheduling/nodeSelector",
                json!({"a b": ""}),
                "scheduling.nodeSelector",
                "FieldValueInvalid",
            ),
            refused(
                "/scheduling/tolerations",
                json!([toleration, toleration]),
                "scheduling.tolerations[1]",
                "FieldValueDuplicate",
            ),
            tolerated(
                json!({"key": "a b", "operator": "Exists"}),
                "scheduling.tolerations[0].key",
                "FieldValueInvalid",
            ),
            tolerated(
                json!({"operator": "Equal"}),
                "scheduling.tolerations[0].operator",
                "FieldValueInvalid",
            ),
            tolerated(
                json!({"key": "a", "operator": "Gt", "value": "1"}),
                "scheduling.tolerations[0].operator",
                "FieldValueNotSupported",
            ),
            tolerated(
                json!({"key": "a", "operator": "Exists", "tolerationSeconds": 1}),
                "scheduling.tolerations[0].effect",
                "FieldValueInvalid",
            ),
            tolerated(
                json!({"key": "a", "operator": "Exists", "effect": "Hide"}),
                "scheduling.tolerations[0].effect",
                "FieldValueNotSupported",
            ),
        ],
        valid: vec![valid, cluster("node.k8s.io/v1", "RuntimeClass", json!({"handler": "runc"}))],
        updates: vec![json!({"overhead": null}), json!({"scheduling": {"nodeSelector": {"a": "b"}}})],
        invalid_updates: vec![Refused::new(json!({"handler": "other"}), "handler", "FieldValueInvalid")],
    }
}
