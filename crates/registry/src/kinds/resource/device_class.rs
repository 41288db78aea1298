//! DeviceClass: selects devices, and configures them.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::configuration::{MAX_CONFIGURATIONS, check_configuration, check_selectors};
use super::lists::check_list;
use crate::kind::{Declaration, Generation, Kind, NameRule, Scope};
use crate::view;

/// [`Kind`] of DeviceClass objects.
pub struct DeviceClass;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    names: NameRule::LongName,
    metadata_checks: 1,
    generation: Generation::Spec,
    deletion_returns_object: true,
    storage_version_hash: "Yk2PTc1Ybxk=".into(),
    ..Declaration::new(
        "resource.k8s.io",
        &["v1"],
        "DeviceClass",
        "deviceclasses",
        "deviceclass",
        Scope::Cluster,
    )
});

impl Kind for DeviceClass {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        check_selectors(view::items(object, &["spec", "selectors"]), &path.child("selectors"), errors);
        let configurations = view::items(object, &["spec", "config"]);
        let config_path = path.child("config");
        check_list(configurations, MAX_CONFIGURATIONS, &config_path, errors, check_configuration);
        let extended = view::at(object, &["spec", "extendedResourceName"]).and_then(Value::as_str);
        if let Some(extended) = extended.filter(|extended| !is_extended_resource(extended)) {
            let path = path.child("extendedResourceName");
            errors.push(FieldError::invalid(&path, extended, "must be a valid extended resource name"));
        }
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }

    #[cfg(any(test, feature = "samples"))]
    fn stored_samples(&self) -> Vec<crate::samples::Stored> {
        use serde_json::json;

        let config = |text: &str| {
            let parameters = json!({"text": text.repeat(11 * 1024)});
            json!({"spec": {"config": [{"opaque": {"driver": "gpu.example.com", "parameters": parameters}}]}})
        };
        let stored = crate::samples::Stored::of(&self.samples().valid[0], &config("x"));
        vec![stored.refusing(config("y"), "spec.config[0].opaque.parameters", "FieldValueTooLong")]
    }
}

/// Returns true for an extended resource, whose name must also be valid in a quota.
fn is_extended_resource(resource: &str) -> bool {
    resource.contains('/')
        && !resource.contains("kubernetes.io/")
        && !resource.starts_with("requests.")
        && name::qualified_name(&format!("requests.{resource}")).is_empty()
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let selector = json!({"cel": {"expression": "device.driver == 'gpu.example.com'"}});
    let valid = cluster(
        "resource.k8s.io/v1",
        "DeviceClass",
        json!({"spec": {
            "selectors": [selector],
            "config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"kind": "X"}}}],
            "extendedResourceName": "example.com/gpu",
        }}),
    );
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    let many: Vec<Value> = vec![selector.clone(); 33];
    Samples {
        invalid: vec![
            refused("/spec/selectors", json!(many), "spec.selectors", "FieldValueTooMany"),
            refused("/spec/selectors", json!([{}]), "spec.selectors[0].cel", "FieldValueRequired"),
            refused(
                "/spec/selectors/0/cel/expression",
                json!("x".repeat(10_241)),
                "spec.selectors[0].cel.expression",
                "FieldValueTooLong",
            ),
            refused("/spec/config", json!([{}]), "spec.config[0].opaque", "FieldValueRequired"),
            refused(
                "/spec/config/0/opaque/driver",
                json!("a b"),
                "spec.config[0].opaque.driver",
                "FieldValueInvalid",
            ),
            refused(
                "/spec/config/0/opaque/parameters",
                Value::Null,
                "spec.config[0].opaque.parameters",
                "FieldValueRequired",
            ),
            refused(
                "/spec/extendedResourceName",
                json!("cpu"),
                "spec.extendedResourceName",
                "FieldValueInvalid",
            ),
        ],
        valid: vec![valid, cluster("resource.k8s.io/v1", "DeviceClass", json!({"spec": {}}))],
        updates: vec![json!({"spec": {"selectors": []}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"selectors": [{}]}}),
            "spec.selectors[0].cel",
            "FieldValueRequired",
        )],
    }
}
