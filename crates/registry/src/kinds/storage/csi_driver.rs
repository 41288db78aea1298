//! CSIDriver: capabilities and requirements of a CSI driver.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::time::Time;
use serde_json::{Value, json};

use crate::kind::{Column, Declaration, Generation, Kind, Scope};
use crate::kinds::rules;
use crate::view;

/// Minimum lifetime of tokens, as in kube-apiserver.
const MIN_TOKEN_SECONDS: i64 = 600;

/// Maximum lifetime of tokens, as in kube-apiserver.
const MAX_TOKEN_SECONDS: i64 = 1 << 32;

/// Minimum period between updates of a node's limits, as in kube-apiserver.
const MIN_UPDATE_PERIOD_SECONDS: i64 = 10;

/// [`Kind`] of CSIDriver objects.
pub struct CsiDriver;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    generation: Generation::SpecOnUpdate,
    unconditional_update: false,
    deletion_returns_object: true,
    columns: vec![
        Column::name(),
        Column::boolean("AttachRequired", "whether volumes must be attached before use"),
        Column::boolean("PodInfoOnMount", "whether the driver gets information about the pod"),
        Column::boolean("StorageCapacity", "whether the driver reports its storage capacity"),
        Column::text("TokenRequests", "audiences of service account tokens for the driver"),
        Column::boolean("RequiresRepublish", "whether volumes are republished periodically"),
        Column::text("Modes", "volume lifecycle modes that the driver supports"),
        Column::age(),
    ],
    storage_version_hash: "hL6j/rwBV5w=".into(),
    ..Declaration::new("storage.k8s.io", &["v1"], "CSIDriver", "csidrivers", "csidriver", Scope::Cluster)
});

impl Kind for CsiDriver {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        view::set_default(object, "spec", || json!({}));
        let Some(spec) = object.get_mut("spec") else { return };
        view::set_default(spec, "attachRequired", || true.into());
        for field in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
            view::set_default(spec, field, || false.into());
        }
        view::set_default(spec, "fsGroupPolicy", || "ReadWriteOnceWithFSType".into());
        if view::items(spec, &["volumeLifecycleModes"]).is_empty() {
            spec["volumeLifecycleModes"] = json!(["Persistent"]);
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        drop_disabled_fields(object, None);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        drop_disabled_fields(new, Some(old));
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        let path = Path::root("spec");
        let policy = view::text(object, &["spec", "fsGroupPolicy"]);
        let policies = ["File", "None", "ReadWriteOnceWithFSType"];
        rules::one_of(&path.child("fsGroupPolicy"), policy, &policies, errors);
        check_token_requests(object, &path.child("tokenRequests"), errors);
        for mode in view::items(object, &["spec", "volumeLifecycleModes"]).iter().filter_map(Value::as_str) {
            rules::one_of(&path.child("volumeLifecycleModes"), mode, &["Persistent", "Ephemeral"], errors);
        }
        let period = view::integer(object, &["spec", "nodeAllocatableUpdatePeriodSeconds"]);
        if let Some(period) = period.filter(|period| *period < MIN_UPDATE_PERIOD_SECONDS) {
            let path = path.child("nodeAllocatableUpdatePeriodSeconds");
            errors.push(FieldError::invalid(&path, period, "must be greater than or equal to 10 seconds"));
        }
        check_token_in_secrets(object, &path, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        // The first path is misspelled in kube-apiserver, too.
        let fields = [
            ("spec.attachedRequired", "attachRequired", "*b"),
            ("spec.volumeLifecycleModes", "volumeLifecycleModes", "[s"),
        ];
        for (path, field, shape) in fields {
            let (new, old) = (view::at(new, &["spec", field]), view::at(old, &["spec", field]));
            rules::unchanged(shape, &Path::root(path), new, old, errors);
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let requests = view::at(new, &["spec", "tokenRequests"]);
        let changed = old.is_none_or(|old| !rules::same(requests, view::at(old, &["spec", "tokenRequests"])));
        let any = !view::items(new, &["spec", "tokenRequests"]).is_empty();
        if changed && any && view::at(new, &["spec", "serviceAccountTokenInSecrets"]).is_none() {
            let warning = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, \
                           set to true to prevent possible logging of tokens in volume attributes";
            return vec![warning.to_owned()];
        }
        Vec::new()
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let flag = |name: &str, default: bool| {
            view::at(object, &["spec", name]).and_then(Value::as_bool).unwrap_or(default).into()
        };
        let requests = view::at(object, &["spec", "tokenRequests"]).and_then(Value::as_array);
        let audiences = requests.map_or_else(
            || "<unset>".to_owned(),
            |requests| {
                requests
                    .iter()
                    .map(|request| view::text(request, &["audience"]))
                    .collect::<Vec<_>>()
                    .join(",")
            },
        );
        let modes = view::items(object, &["spec", "volumeLifecycleModes"]).iter();
        let modes = modes.filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        let modes = if modes.is_empty() { "<none>".to_owned() } else { modes };
        vec![
            view::name(object).into(),
            flag("attachRequired", true),
            flag("podInfoOnMount", false),
            flag("storageCapacity", false),
            audiences.into(),
            flag("requiresRepublish", false),
            modes.into(),
            view::age(object, now),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

/// Removes the field of an alpha feature, unless the stored object has it.
fn drop_disabled_fields(object: &mut Value, old: Option<&Value>) {
    let field = "preventPodSchedulingIfMissing";
    let used = old.is_some_and(|old| view::at(old, &["spec", field]).is_some());
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut).filter(|_| !used) {
        spec.remove(field);
    }
}

fn check_token_requests(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut audiences = BTreeSet::new();
    for (index, request) in view::items(object, &["spec", "tokenRequests"]).iter().enumerate() {
        let path = path.index(index);
        let audience = view::text(request, &["audience"]);
        if !audiences.insert(audience) {
            errors.push(FieldError::duplicate(&path.child("audience"), audience));
            continue;
        }
        let Some(seconds) = view::integer(request, &["expirationSeconds"]) else { continue };
        let path = path.child("expirationSeconds");
        if seconds < MIN_TOKEN_SECONDS {
            let detail = "may not specify a duration less than 10 minutes";
            errors.push(FieldError::invalid(&path, seconds, detail));
        }
        if seconds > MAX_TOKEN_SECONDS {
            let detail = "may not specify a duration larger than 2^32 seconds";
            errors.push(FieldError::invalid(&path, seconds, detail));
        }
    }
}

fn check_token_in_secrets(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let in_secrets = view::at(object, &["spec", "serviceAccountTokenInSecrets"]).and_then(Value::as_bool);
    let requests = view::items(object, &["spec", "tokenRequests"]);
    if let Some(in_secrets) = in_secrets.filter(|_| requests.is_empty()) {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(FieldError::invalid(&path.child("serviceAccountTokenInSecrets"), in_secrets, detail));
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let valid = cluster(
        "storage.k8s.io/v1",
        "CSIDriver",
        json!({"spec": {
            "attachRequired": false,
            "fsGroupPolicy": "File",
            "tokenRequests": [{"audience": "a", "expirationSeconds": 3600}, {"audience": ""}],
            "serviceAccountTokenInSecrets": true,
            "volumeLifecycleModes": ["Persistent", "Ephemeral"],
            "nodeAllocatableUpdatePeriodSeconds": 30,
        }}),
    );
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    let seconds = "spec.tokenRequests[0].expirationSeconds";
    Samples {
        invalid: vec![
            refused("/spec/fsGroupPolicy", json!("Dir"), "spec.fsGroupPolicy", "FieldValueNotSupported"),
            refused(
                "/spec/volumeLifecycleModes",
                json!(["Eternal"]),
                "spec.volumeLifecycleModes",
                "FieldValueNotSupported",
            ),
            refused("/spec/tokenRequests/0/expirationSeconds", json!(1), seconds, "FieldValueInvalid"),
            refused(
                "/spec/tokenRequests/0/expirationSeconds",
                json!(1_i64 << 33),
                seconds,
                "FieldValueInvalid",
            ),
            refused(
                "/spec/tokenRequests/1/audience",
                json!("a"),
                "spec.tokenRequests[1].audience",
                "FieldValueDuplicate",
            ),
            refused(
                "/spec/tokenRequests",
                json!([]),
                "spec.serviceAccountTokenInSecrets",
                "FieldValueInvalid",
            ),
            refused(
                "/spec/nodeAllocatableUpdatePeriodSeconds",
                json!(9),
                "spec.nodeAllocatableUpdatePeriodSeconds",
                "FieldValueInvalid",
            ),
        ],
        valid: vec![valid, cluster("storage.k8s.io/v1", "CSIDriver", json!({"spec": {}}))],
        updates: vec![json!({"spec": {"podInfoOnMount": true, "storageCapacity": true}})],
        invalid_updates: vec![
            Refused::new(
                json!({"spec": {"attachRequired": true}}),
                "spec.attachedRequired",
                "FieldValueInvalid",
            ),
            Refused::new(
                json!({"spec": {"volumeLifecycleModes": ["Ephemeral"]}}),
                "spec.volumeLifecycleModes",
                "FieldValueInvalid",
            ),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_token_requests_cause_a_warning() {
        let plain = json!({"spec": {}});
        let tokens = json!({"spec": {"tokenRequests": [{"audience": "a"}]}});
        assert!(CsiDriver.warnings(&plain, None).is_empty());
        assert_eq!(CsiDriver.warnings(&tokens, Some(&plain)).len(), 1);
        assert!(CsiDriver.warnings(&tokens, Some(&tokens)).is_empty());
    }
}
