//! ResourceSlice: a part of the devices of a pool.

use std::borrow::Cow;
use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path, quoted};
use coracle_meta::time::Time;
use serde_json::Value;

use super::lists::check_set;
use super::node_selection::used_selection_fields;
use super::{devices, naming, taints};
use crate::kind::{Column, Declaration, Generation, Kind, Scope, texts};
use crate::kinds::rules;
use crate::kinds::storage::driver_name;
use crate::view;

/// Maximum number of devices of a slice, as in kube-apiserver.
const MAX_DEVICES: usize = 128;

/// Maximum number of devices of a slice if they have taints or consume counters, as in kube-apiserver.
const MAX_ADVANCED_DEVICES: usize = 64;

/// Maximum number of counter sets of a slice, as in kube-apiserver.
const MAX_COUNTER_SETS: usize = 8;

/// Fields that select the nodes on which the devices can be used.
const NODE_SELECTION_FIELDS: [&str; 4] = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];

/// [`Kind`] of ResourceSlice objects.
pub struct ResourceSlice;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    generation: Generation::Spec,
    deletion_returns_object: true,
    selectable_fields: texts(&["spec.driver", "spec.nodeName"]),
    columns: vec![
        Column::name(),
        Column::text("Node", "the node on which the devices are"),
        Column::text("Driver", "the driver that offers them"),
        Column::text("Pool", "the pool that they belong to"),
        Column::age(),
    ],
    storage_version_hash: "KsC072WgaEY=".into(),
    ..Declaration::new(
        "resource.k8s.io",
        &["v1"],
        "ResourceSlice",
        "resourceslices",
        "resourceslice",
        Scope::Cluster,
    )
});

impl Kind for ResourceSlice {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_default_times(&self, object: &mut Value, now: Time) {
        devices::for_each_mut(object, |device| taints::set_default_times(device, now));
    }

    fn prepare_for_create(&self, object: &mut Value, _now: Time) {
        devices::drop_disabled_fields(object, None);
    }

    fn prepare_for_update(&self, new: &mut Value, old: &Value) {
        devices::drop_disabled_fields(new, Some(old));
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        check_spec(object, None, errors);
    }

    /// Includes the immutable fields, whose errors come among the others.
    fn revalidate(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        let mut found = ErrorList::new();
        check_spec(new, Some(old), &mut found);
        found.forgive(new, old, |old, errors| self.validate(old, errors));
        errors.extend(found);
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let driver = view::text(new, &["spec", "driver"]);
        if driver == driver.to_lowercase() {
            return Vec::new();
        }
        let found = quoted(driver);
        vec![format!("spec.driver: driver names should be lowercase; {found} contains uppercase characters")]
    }

    fn selectable_value<'a>(&self, object: &'a Value, field: &str) -> Cow<'a, str> {
        let field = field.strip_prefix("spec.").unwrap_or_default();
        view::text(object, &["spec", field]).into()
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        vec![
            view::name(object).into(),
            view::text(object, &["spec", "nodeName"]).into(),
            view::text(object, &["spec", "driver"]).into(),
            view::text(object, &["spec", "pool", "name"]).into(),
            view::age(object, now),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

fn name_of(item: &Value) -> String {
    view::text(item, &["name"]).to_owned()
}

fn check_spec(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let path = Path::root("spec");
    let none = Value::Null;
    let spec = object.get("spec").unwrap_or(&none);
    driver_name(&path.child("driver"), view::text(spec, &["driver"]), errors);
    check_pool(spec, &path.child("pool"), errors);
    if let Some(old) = old {
        check_unchanged(object, old, errors);
    }
    check_nodes(spec, &path, errors);
    if spec.get("sharedCounters").is_some() && spec.get("devices").is_some() {
        let detail = "only one of `sharedCounters` or `devices` is allowed";
        errors.push(FieldError::invalid(&path, "", detail));
    }
    check_devices(spec, &path.child("devices"), errors);
    let (sets, sets_path) = (view::items(spec, &["sharedCounters"]), path.child("sharedCounters"));
    check_set(sets, MAX_COUNTER_SETS, &sets_path, errors, name_of, |set, path, errors| {
        devices::check_counters(set, "name", path, errors);
    });
}

fn check_unchanged(new: &Value, old: &Value, errors: &mut ErrorList) {
    let fields: [(&[&str], &str); 3] =
        [(&["spec", "pool", "name"], "s"), (&["spec", "driver"], "s"), (&["spec", "nodeName"], "*s")];
    for (field, shape) in fields {
        let path = field.join(".");
        rules::unchanged(shape, &Path::root(&path), view::at(new, field), view::at(old, field), errors);
    }
}

fn check_pool(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    naming::pool_name(&path.child("name"), view::text(spec, &["pool", "name"]), errors);
    let number = |field: &str| view::integer(spec, &["pool", field]).unwrap_or(0);
    let (slices, generation) = (number("resourceSliceCount"), number("generation"));
    if slices <= 0 {
        errors.push(FieldError::invalid(
            &path.child("resourceSliceCount"),
            slices,
            "must be greater than zero",
        ));
    }
    if generation < 0 {
        let detail = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(&path.child("generation"), generation, detail));
    }
}

/// Requires that exactly one field selects nodes.
fn check_nodes(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let empty_name = "must be either unset or set to a non-empty string";
    let used = used_selection_fields(spec, &NODE_SELECTION_FIELDS, empty_name, path, errors);
    if let Some(selector) = spec.get("nodeSelector") {
        let terms = view::items(selector, &["nodeSelectorTerms"]);
        if terms.len() != 1 {
            let found = selector.get("nodeSelectorTerms").unwrap_or(&Value::Null);
            let path = path.child("nodeSelector.nodeSelectorTerms");
            errors.push(FieldError::invalid(&path, found, "must have exactly one node selector term"));
        }
    }
    let required =
        "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match used.as_slice() {
        [] => errors.push(FieldError::required(path, required)),
        [_] => {}
        several => {
            let detail = format!("{required}, but multiple fields are set");
            errors.push(FieldError::invalid(path, format!("{{{}}}", several.join(", ")), detail));
        }
    }
}

fn check_devices(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let all = view::items(spec, &["devices"]);
    let advanced = |device: &Value| {
        ["taints", "consumesCounters"].iter().any(|field| !view::items(device, &[field]).is_empty())
    };
    let max = if all.iter().any(advanced) { MAX_ADVANCED_DEVICES } else { MAX_DEVICES };
    let own_nodes = view::is_true(spec, &["perDeviceNodeSelection"]);
    check_set(all, max, path, errors, name_of, |device, path, errors| {
        devices::check(device, own_nodes, path, errors);
    });
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let device = json!({
        "name": "gpu-0",
        "attributes": {"model": {"string": "x1"}, "example.com/firmware": {"version": "1.2.3"}, "cores": {"int": 8}},
        "capacity": {"memory": {"value": "16Gi", "requestPolicy": {"default": "1Gi", "validValues": ["1Gi", "2Gi"]}}},
        "allowMultipleAllocations": true,
        "taints": [{"key": "example.com/hot", "value": "yes", "effect": "NoSchedule"}],
        "consumesCounters": [{"counterSet": "slots", "counters": {"slot-1": {"value": "1"}}}],
        "bindingConditions": ["example.com/ready"],
        "bindingFailureConditions": ["example.com/failed"],
    });
    let pool = json!({"name": "node-1/gpus", "generation": 1, "resourceSliceCount": 1});
    let slice = |extra: Value| {
        let mut spec = json!({"driver": "gpu.example.com", "pool": pool});
        if let (Value::Object(spec), Value::Object(extra)) = (&mut spec, extra) {
            spec.extend(extra);
        }
        cluster("resource.k8s.io/v1", "ResourceSlice", json!({"spec": spec}))
    };
    let valid = slice(json!({"nodeName": "node-1", "devices": [device]}));
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    let in_device = |pointer: &str, value, field, reason| {
        Refused::new(with(&valid, &format!("/spec/devices/0/{pointer}"), value), field, reason)
    };
    let counters = json!([{"name": "slots", "counters": {"slot-1": {"value": "1"}}}]);
    let term = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
    let mut invalid = vec![
        refused("/spec/driver", json!(""), "spec.driver", "FieldValueRequired"),
        refused("/spec/pool/name", json!("A"), "spec.pool.name", "FieldValueInvalid"),
        refused(
            "/spec/pool/resourceSliceCount",
            json!(0),
            "spec.pool.resourceSliceCount",
            "FieldValueInvalid",
        ),
        refused("/spec/pool/generation", json!(-1), "spec.pool.generation", "FieldValueInvalid"),
        refused("/spec/nodeName", Value::Null, "spec", "FieldValueRequired"),
        refused("/spec/nodeName", json!(""), "spec.nodeName", "FieldValueInvalid"),
        refused("/spec/allNodes", json!(true), "spec", "FieldValueInvalid"),
        refused("/spec/allNodes", json!(false), "spec.allNodes", "FieldValueInvalid"),
        refused("/spec/sharedCounters", counters, "spec", "FieldValueInvalid"),
        refused("/spec/devices", json!([device, device]), "spec.devices[1]", "FieldValueDuplicate"),
        refused("/spec/devices", json!(vec![&device; 65]), "spec.devices", "FieldValueTooMany"),
        Refused::new(
            slice(json!({"nodeSelector": {"nodeSelectorTerms": [term, term]}})),
            "spec.nodeSelector.nodeSelectorTerms",
            "FieldValueInvalid",
        ),
        Refused::new(
            slice(json!({"perDeviceNodeSelection": true, "devices": [{"name": "a"}]})),
            "spec.devices[0]",
            "FieldValueRequired",
        ),
    ];
    invalid.extend([
        in_device("name", json!("A"), "spec.devices[0].name", "FieldValueInvalid"),
        in_device("nodeName", json!("a"), "spec.devices[0]", "FieldValueInvalid"),
        in_device("attributes/model", json!({}), "spec.devices[0].attributes[model]", "FieldValueInvalid"),
        in_device("attributes", json!({"1": {"int": 1}}), "spec.devices[0].attributes", "FieldValueInvalid"),
        in_device(
            "attributes",
            json!({"a": {"version": "1"}}),
            "spec.devices[0].attributes[a].version",
            "FieldValueInvalid",
        ),
        in_device(
            "attributes",
            json!({"a": {"string": "x".repeat(65)}}),
            "spec.devices[0].attributes[a].string",
            "FieldValueTooLong",
        ),
        in_device(
            "allowMultipleAllocations",
            Value::Null,
            "spec.devices[0].capacity[memory].requestPolicy",
            "FieldValueForbidden",
        ),
        in_device(
            "taints/0/effect",
            json!("Hide"),
            "spec.devices[0].taints[0].effect",
            "FieldValueNotSupported",
        ),
        in_device(
            "consumesCounters/0/counters",
            json!({}),
            "spec.devices[0].consumesCounters[0].counters",
            "FieldValueRequired",
        ),
        in_device(
            "bindingFailureConditions",
            Value::Null,
            "spec.devices[0].bindingFailureConditions",
            "FieldValueInvalid",
        ),
    ]);
    Samples {
        invalid,
        valid: vec![
            valid,
            slice(
                json!({"allNodes": true, "sharedCounters": [{"name": "slots", "counters": {"slot-1": {"value": "1"}}}]}),
            ),
            slice(json!({"nodeSelector": {"nodeSelectorTerms": [term]}})),
            slice(json!({"perDeviceNodeSelection": true, "devices": [{"name": "a", "allNodes": true}]})),
        ],
        updates: vec![json!({"spec": {"devices": []}}), json!({"spec": {"pool": {"generation": 2}}})],
        invalid_updates: vec![
            Refused::new(json!({"spec": {"driver": "other"}}), "spec.driver", "FieldValueInvalid"),
            Refused::new(json!({"spec": {"pool": {"name": "other"}}}), "spec.pool.name", "FieldValueInvalid"),
            Refused::new(json!({"spec": {"nodeName": "node-2"}}), "spec.nodeName", "FieldValueInvalid"),
        ],
    }
}
