//! PriorityClass: a named priority of pods.

use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use crate::kind::{Column, Declaration, Generation, Kind, Scope, texts};
use crate::kinds::rules;
use crate::view;

/// Highest priority that users may set, as in kube-apiserver.
const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;

/// Prefix of names that are reserved for the system.
const SYSTEM_PREFIX: &str = "system-";

/// Classes of the system, and their values.
const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-node-critical", 2 * HIGHEST_USER_PRIORITY + 1000),
    ("system-cluster-critical", 2 * HIGHEST_USER_PRIORITY),
];

/// [`Kind`] of PriorityClass objects.
pub struct PriorityClass;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    short_names: texts(&["pc"]),
    // The kind has no spec, so its generation stays at one.
    generation: Generation::Spec,
    columns: vec![
        Column::name(),
        Column::integer("Value", "priority of pods of the class"),
        Column::boolean("Global-Default", "whether it is the default class"),
        Column::age(),
        Column::text("PreemptionPolicy", "preemption policy of pods of the class"),
    ],
    storage_version_hash: "1QwjyaZjj3Y=".into(),
    ..Declaration::new(
        "scheduling.k8s.io",
        &["v1"],
        "PriorityClass",
        "priorityclasses",
        "priorityclass",
        Scope::Cluster,
    )
});

impl Kind for PriorityClass {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        view::set_default(object, "preemptionPolicy", || "PreemptLowerPriority".into());
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        if view::name(object).starts_with(SYSTEM_PREFIX) {
            if let Some(fault) = system_class_fault(object) {
                let detail = format!(
                    "priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. \
                     error: {fault}"
                );
                errors.push(FieldError::forbidden(&Path::root("metadata.name"), detail));
            }
        } else if value(object) > HIGHEST_USER_PRIORITY {
            let detail =
                format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
            errors.push(FieldError::forbidden(&Path::root("value"), detail));
        }
        let path = Path::root("preemptionPolicy");
        let policy = view::text(object, &["preemptionPolicy"]);
        if rules::required(&path, policy, errors) {
            rules::one_of(&path, policy, &["PreemptLowerPriority", "Never"], errors);
        }
    }

    /// Nothing: kube-apiserver validates only immutable fields on update.
    fn revalidate(&self, _new: &Value, _old: &Value, _errors: &mut ErrorList) {}

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        if value(new) != value(old) {
            errors.push(FieldError::forbidden(&Path::root("value"), "may not be changed in an update."));
        }
        let field = "preemptionPolicy";
        rules::unchanged("*s", &Path::root(field), new.get(field), old.get(field), errors);
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        vec![
            view::name(object).into(),
            value(object).into(),
            view::is_true(object, &["globalDefault"]).into(),
            view::age(object, now),
            view::text(object, &["preemptionPolicy"]).into(),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

fn value(object: &Value) -> i64 {
    view::integer(object, &["value"]).unwrap_or(0)
}

/// Returns why an object with a reserved name differs from the system's class of that name.
fn system_class_fault(object: &Value) -> Option<String> {
    let name = view::name(object);
    let Some((_, expected)) = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if value(object) != *expected {
        return Some(format!("value of {name} PriorityClass must be {expected}"));
    }
    view::is_true(object, &["globalDefault"])
        .then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let fields = json!({"value": 1000, "globalDefault": false, "description": "important"});
    let valid = cluster("scheduling.k8s.io/v1", "PriorityClass", fields);
    let critical = with(&valid, "/metadata/name", json!("system-cluster-critical"));
    let critical = with(&critical, "/value", json!(2_000_000_000));
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    Samples {
        invalid: vec![
            refused("/metadata/name", json!("system-mine"), "metadata.name", "FieldValueForbidden"),
            refused("/metadata/name", json!("system-node-critical"), "metadata.name", "FieldValueForbidden"),
            refused("/value", json!(1_000_000_001), "value", "FieldValueForbidden"),
            refused("/preemptionPolicy", json!(""), "preemptionPolicy", "FieldValueRequired"),
            refused("/preemptionPolicy", json!("Maybe"), "preemptionPolicy", "FieldValueNotSupported"),
        ],
        valid: vec![valid, critical],
        updates: vec![json!({"description": "less so", "globalDefault": true})],
        invalid_updates: vec![
            Refused::new(json!({"value": 1}), "value", "FieldValueForbidden"),
            Refused::new(json!({"preemptionPolicy": "Never"}), "preemptionPolicy", "FieldValueInvalid"),
        ],
    }
}
