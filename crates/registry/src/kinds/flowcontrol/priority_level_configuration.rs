//! PriorityLevelConfiguration: how many requests of a priority level are served concurrently.

use std::sync::LazyLock;

use coracle_meta::field::{BadValue, ErrorList, FieldError, Path};
use serde_json::{Value, json};

use super::check_conditions;
use crate::kind::{Column, Declaration, Generation, Kind, Scope, StatusMetadata, Subresource};
use crate::kinds::rules;
use crate::{internal_types, view};

/// Default shares of a limited level, as in kube-apiserver.
const DEFAULT_SHARES: i64 = 30;

/// Defaults of queues, as in kube-apiserver.
const QUEUING_DEFAULTS: [(&str, i64); 3] = [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)];

/// Maximum number of queues, as in kube-apiserver.
const MAX_QUEUES: i64 = 10_000_000;

/// Maximum number of hash bits for dealing a hand of queues, as in kube-apiserver.
const MAX_HASH_BITS: f64 = 60.0;

/// Annotation that is only valid in an older version of the API.
const ZERO_SHARES_ANNOTATION: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

/// [`Kind`] of PriorityLevelConfiguration objects.
pub struct PriorityLevelConfiguration;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    checks_metadata_change_again: false,
    metadata_checks: 1,
    subresources: vec![Subresource::status("PriorityLevelConfiguration")],
    status_metadata: StatusMetadata::Kept,
    generation: Generation::Spec,
    columns: vec![
        Column::name(),
        Column::text("Type", "type of the level: Exempt or Limited"),
        Column::text("NominalConcurrencyShares", "share of the server's concurrency limit"),
        Column::text("Queues", "number of queues"),
        Column::text("HandSize", "number of queues dealt to a flow"),
        Column::text("QueueLengthLimit", "maximum number of waiting requests per queue"),
        Column::age(),
    ],
    storage_version_hash: "Kir5PVfvNeI=".into(),
    ..Declaration::new(
        "flowcontrol.apiserver.k8s.io",
        &["v1"],
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
        "prioritylevelconfiguration",
        Scope::Cluster,
    )
});

impl Kind for PriorityLevelConfiguration {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn set_defaults(&self, object: &mut Value) {
        if let Some(exempt) = object.pointer_mut("/spec/exempt") {
            view::set_default(exempt, "nominalConcurrencyShares", || 0.into());
            view::set_default(exempt, "lendablePercent", || 0.into());
        }
        if let Some(limited) = object.pointer_mut("/spec/limited") {
            view::set_default(limited, "nominalConcurrencyShares", || DEFAULT_SHARES.into());
            view::set_default(limited, "lendablePercent", || 0.into());
        }
        if let Some(queuing) = object.pointer_mut("/spec/limited/limitResponse/queuing") {
            for (field, default) in QUEUING_DEFAULTS {
                if view::integer(queuing, &[field]).unwrap_or(0) == 0 {
                    queuing[field] = default.into();
                }
            }
        }
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        if view::at(object, &["metadata", "annotations", ZERO_SHARES_ANNOTATION]).is_some() {
            let detail = format!("annotation '{ZERO_SHARES_ANNOTATION}' is forbidden");
            errors.push(FieldError::forbidden(&Path::root("metadata.annotations"), detail));
        }
        check_spec(object, &Path::root("spec"), errors);
        check_mandatory(object, errors);
        check_conditions(object, errors);
    }

    fn validate_status_update(&self, new: &Value, _old: &Value, errors: &mut ErrorList) {
        check_conditions(new, errors);
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let limited = &["spec", "limited"][..];
        let number = |path: &[&str]| -> Value {
            let full = [limited, path].concat();
            view::at(object, &full).cloned().unwrap_or_else(|| "<none>".into())
        };
        vec![
            view::name(object).into(),
            view::text(object, &["spec", "type"]).into(),
            number(&["nominalConcurrencyShares"]),
            number(&["limitResponse", "queuing", "queues"]),
            number(&["limitResponse", "queuing", "handSize"]),
            number(&["limitResponse", "queuing", "queueLengthLimit"]),
            view::age(object, now),
        ]
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

fn check_spec(object: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let level_type = view::text(object, &["spec", "type"]);
    let (exempt, limited) = (view::at(object, &["spec", "exempt"]), view::at(object, &["spec", "limited"]));
    let type_path = path.child("type");
    if (view::name(object) == "exempt") != (level_type == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(FieldError::invalid(&type_path, BadValue::named(level_type), detail));
    }
    match (level_type, limited) {
        ("Exempt", limited) => {
            if limited.is_some() {
                let detail = "must be nil if the type is not Limited";
                errors.push(FieldError::forbidden(&path.child("limited"), detail));
            }
            if let Some(exempt) = exempt {
                check_shares(exempt, &path.child("exempt"), errors);
                check_lendable(exempt, &path.child("exempt"), errors);
            }
        }
        ("Limited", limited) => {
            if exempt.is_some() {
                errors
                    .push(FieldError::forbidden(&path.child("exempt"), "must be nil if the type is Limited"));
            }
            let path = path.child("limited");
            match limited {
                Some(limited) => check_limited(limited, &path, errors),
                None => errors.push(FieldError::required(&path, "must not be empty when type is Limited")),
            }
        }
        _ => {
            if rules::required(&type_path, level_type, errors) {
                rules::one_of(&type_path, level_type, &["Exempt", "Limited"], errors);
            }
        }
    }
}

fn check_shares(level: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let shares = view::integer(level, &["nominalConcurrencyShares"]);
    if let Some(shares) = shares.filter(|shares| *shares < 0) {
        let path = path.child("nominalConcurrencyShares");
        errors.push(FieldError::invalid(&path, shares, "must be a non-negative integer"));
    }
}

fn check_lendable(level: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let percent = view::integer(level, &["lendablePercent"]);
    if let Some(percent) = percent.filter(|percent| !(0..=100).contains(percent)) {
        let path = path.child("lendablePercent");
        errors.push(FieldError::invalid(&path, percent, "must be between 0 and 100, inclusive"));
    }
}

fn check_limited(limited: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    check_shares(limited, path, errors);
    check_response(limited, &path.child("limitResponse"), errors);
    check_lendable(limited, path, errors);
    let borrowing = view::integer(limited, &["borrowingLimitPercent"]);
    if let Some(percent) = borrowing.filter(|percent| *percent < 0) {
        let path = path.child("borrowingLimitPercent");
        errors.push(FieldError::invalid(&path, percent, "if specified, must be a non-negative integer"));
    }
}

fn check_response(limited: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let queuing = view::at(limited, &["limitResponse", "queuing"]);
    let queuing_path = path.child("queuing");
    match (view::text(limited, &["limitResponse", "type"]), queuing) {
        ("Reject", None) => {}
        ("Reject", Some(_)) => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(FieldError::forbidden(&queuing_path, detail));
        }
        ("Queue", Some(queuing)) => check_queuing(queuing, &queuing_path, errors),
        ("Queue", None) => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(FieldError::required(&queuing_path, detail));
        }
        (other, _) => {
            let path = path.child("type");
            if rules::required(&path, other, errors) {
                rules::one_of(&path, other, &["Queue", "Reject"], errors);
            }
        }
    }
}

fn check_queuing(queuing: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let number = |field: &str| view::integer(queuing, &[field]).unwrap_or(0);
    let (limit, queues, hand) = (number("queueLengthLimit"), number("queues"), number("handSize"));
    if limit <= 0 {
        errors.push(FieldError::invalid(&path.child("queueLengthLimit"), limit, "must be positive"));
    }
    let queues_path = path.child("queues");
    if queues <= 0 {
        errors.push(FieldError::invalid(&queues_path, queues, "must be positive"));
    } else if queues > MAX_QUEUES {
        let detail = format!("must not be greater than {MAX_QUEUES}");
        errors.push(FieldError::invalid(&queues_path, queues, detail));
    }
    let detail = if hand <= 0 {
        "must be positive".to_owned()
    } else if hand > queues {
        format!("should not be greater than queues ({queues})")
    } else if needs_too_much_entropy(queues, hand) {
        format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than \
             {MAX_HASH_BITS}"
        )
    } else {
        return;
    };
    errors.push(FieldError::invalid(&path.child("handSize"), hand, detail));
}

/// Returns true if dealing a hand of queues takes more bits than the hash has. Both numbers are small
/// enough for a float to represent them exactly.
fn needs_too_much_entropy(queues: i64, hand: i64) -> bool {
    let (queues, hand) = (queues as f64, hand as f64);
    (queues.log2() * hand).ceil() > MAX_HASH_BITS
}

/// Requires that the two mandatory levels have the spec on which the server relies.
fn check_mandatory(object: &Value, errors: &mut ErrorList) {
    let (name, spec) = (view::name(object), object.get("spec").unwrap_or(&Value::Null));
    let Some(mandatory) = mandatory_spec(name) else { return };
    let mut comparable = spec.clone();
    let mut exception = "";
    if name == "exempt" && comparable.is_object() {
        exception = " except the 'spec.exempt' field";
        comparable["exempt"] = mandatory["exempt"].clone();
    }
    if !rules::same(Some(&comparable), Some(&mandatory)) {
        let detail = format!("spec of '{name}'{exception} must equal the fixed value");
        errors.push(FieldError::invalid(
            &Path::root("spec"),
            internal_types::printed("@flowcontrol.PriorityLevelConfigurationSpec", Some(spec)),
            detail,
        ));
    }
}

/// Returns the spec that the level of this name must have; `None` if it is not mandatory.
pub fn mandatory_spec(name: &str) -> Option<Value> {
    match name {
        "exempt" => Some(json!({
            "type": "Exempt",
            "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
        })),
        "catch-all" => Some(json!({
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 5,
                "lendablePercent": 0,
                "limitResponse": {"type": "Reject"},
            },
        })),
        _ => None,
    }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use crate::kinds::sample::{cluster, with};
    use crate::samples::{Refused, Samples};

    let level = |spec: Value| {
        cluster("flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration", json!({"spec": spec}))
    };
    let valid = level(json!({
        "type": "Limited",
        "limited": {
            "lendablePercent": 50,
            "borrowingLimitPercent": 10,
            "limitResponse": {"type": "Queue", "queuing": {"queues": 64}},
        },
    }));
    let refused = |pointer, value, field, reason| Refused::new(with(&valid, pointer, value), field, reason);
    let queuing = "/spec/limited/limitResponse/queuing";
    let queued = |value, field, reason| refused(queuing, value, field, reason);
    let catch_all = |spec| with(&level(spec), "/metadata/name", json!("catch-all"));
    let mandatory = mandatory_spec("catch-all").unwrap_or_default();
    let hand = "spec.limited.limitResponse.queuing.handSize";
    Samples {
        invalid: vec![
            refused("/spec/type", json!(""), "spec.type", "FieldValueRequired"),
            refused("/spec/type", json!("Open"), "spec.type", "FieldValueNotSupported"),
            refused("/spec/type", json!("Exempt"), "spec.limited", "FieldValueForbidden"),
            refused("/spec/limited", Value::Null, "spec.limited", "FieldValueRequired"),
            refused("/spec/exempt", json!({}), "spec.exempt", "FieldValueForbidden"),
            refused(
                "/spec/limited/nominalConcurrencyShares",
                json!(-1),
                "spec.limited.nominalConcurrencyShares",
                "FieldValueInvalid",
            ),
            refused(
                "/spec/limited/lendablePercent",
                json!(101),
                "spec.limited.lendablePercent",
                "FieldValueInvalid",
            ),
            refused(
                "/spec/limited/borrowingLimitPercent",
                json!(-1),
                "spec.limited.borrowingLimitPercent",
                "FieldValueInvalid",
            ),
            queued(Value::Null, "spec.limited.limitResponse.queuing", "FieldValueRequired"),
            queued(json!({"queues": 4, "handSize": 5}), hand, "FieldValueInvalid"),
            queued(json!({"queues": 128, "handSize": 9}), hand, "FieldValueInvalid"),
            queued(json!({"queues": -1}), "spec.limited.limitResponse.queuing.queues", "FieldValueInvalid"),
            Refused::new(
                catch_all(with(&mandatory, "/limited/nominalConcurrencyShares", json!(6))),
                "spec",
                "FieldValueInvalid",
            ),
        ],
        valid: vec![valid, catch_all(mandatory)],
        updates: vec![json!({"spec": {"limited": {"nominalConcurrencyShares": 5}}})],
        invalid_updates: vec![Refused::new(
            json!({"spec": {"limited": {"limitResponse": {"type": "Reject"}}}}),
            "spec.limited.limitResponse.queuing",
            "FieldValueForbidden",
        )],
    }
}
