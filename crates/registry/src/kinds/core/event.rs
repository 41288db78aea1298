//! Event: a report about an object.
//!
//! The group `events.k8s.io` serves the same objects in another form. They are stored in the form of the core group,
//! which is the one below.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use coracle_meta::field::{ErrorList, FieldError, Path};
use coracle_meta::name;
use serde_json::Value;

use super::rules;
use crate::kind::{Column, Declaration, Kind, NameRule, Scope, texts};
use crate::view;

const MAX_FIELD_BYTES: usize = 128;
const MAX_MESSAGE_BYTES: usize = 1024;

/// Time until an event is deleted, as by default in kube-apiserver (`--event-ttl`).
const TIME_TO_LIVE: Duration = Duration::from_secs(3600);

/// [`Kind`] of Event objects.
pub struct Event;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    names: NameRule::PathSegment,
    selectable_fields: texts(&[
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ]),
    ..declaration("")
});

/// The parts of the declaration that both groups share.
pub(crate) fn declaration(group: &'static str) -> Declaration {
    Declaration {
        short_names: texts(&["ev"]),
        create_on_update: true,
        prefixed_finalizers: false,
        checks_metadata_change_again: false,
        ignores_propagation: true,
        time_to_live: Some(TIME_TO_LIVE),
        columns: columns(),
        storage_version_hash: "r2yiGXH7wu8=".into(),
        ..Declaration::new(group, &["v1"], "Event", "events", "event", Scope::Namespaced)
    }
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("Last Seen", "time since the last occurrence"),
        Column::text("Type", "type of the event: Normal or Warning"),
        Column::text("Reason", "short, machine-readable reason"),
        Column::text("Object", "object that the event is about"),
        Column::text("Subobject", "field path within the object").wide(),
        Column::text("Source", "component that reports the event").wide(),
        Column::text("Message", "human-readable description"),
        Column::text("First Seen", "time since the first occurrence").wide(),
        Column::text("Count", "number of occurrences").wide(),
        Column::name().wide(),
    ]
}

impl Kind for Event {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        validate(object, "reportingComponent", errors);
    }

    fn selectable_value<'a>(&self, object: &'a Value, field: &str) -> Cow<'a, str> {
        Cow::Borrowed(match field {
            "source" => first_not_empty(
                view::text(object, &["source", "component"]),
                view::text(object, &["reportingComponent"]),
            ),
            field => match field.split_once('.') {
                Some((part, field)) => view::text(object, &[part, field]),
                None => view::text(object, &[field]),
            },
        })
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        cells(object, now)
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

/// Validates an event of either group; the groups name the reporter field differently.
///
/// Events with an `eventTime` come from the newer API and are validated more strictly.
pub(crate) fn validate(object: &Value, reporter_field: &str, errors: &mut ErrorList) {
    let namespace = view::text(object, &["metadata", "namespace"]);
    let involved = view::text(object, &["involvedObject", "namespace"]);
    let newer = view::at(object, &["eventTime"]).is_some();
    let matching = match (newer, involved) {
        (false, "") => ["", "default"].contains(&namespace),
        (false, involved) => involved == namespace,
        (true, "") => ["default", "kube-system"].contains(&namespace),
        (true, _) => true,
    };
    if !matching {
        let path = Path::root("involvedObject.namespace");
        errors.push(FieldError::invalid(&path, involved, "does not match event.namespace"));
    }
    if newer {
        check_newer(object, reporter_field, errors);
    }
    rules::text(namespace, name::dns1123_subdomain, &Path::root("namespace"), errors);
}

fn check_newer(object: &Value, reporter_field: &str, errors: &mut ErrorList) {
    let reporter = view::text(object, &["reportingComponent"]);
    let path = Path::root(reporter_field);
    if reporter.is_empty() {
        errors.push(FieldError::required(&path, ""));
    }
    rules::text(reporter, name::qualified_name, &path, errors);
    for field in ["reportingInstance", "action", "reason"] {
        let path = Path::root(field);
        let length = view::text(object, &[field]).len();
        if length == 0 {
            errors.push(FieldError::required(&path, ""));
        }
        check_length(length, MAX_FIELD_BYTES, &path, errors);
    }
    check_length(view::text(object, &["message"]).len(), MAX_MESSAGE_BYTES, &Path::root("message"), errors);
}

fn check_length(length: usize, max: usize, path: &Path<'_>, errors: &mut ErrorList) {
    if length > max {
        errors.push(FieldError::invalid(path, "", format!("can have at most {max} characters")));
    }
}

/// Table row of an event in the form of the core group.
pub(crate) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let age = |path: &[&str]| view::age_since(object, path, now);
    let has = |field: &str| view::at(object, &[field]).is_some();
    let first = age(if has("firstTimestamp") { &["firstTimestamp"] } else { &["eventTime"] });
    let (last, count) = if has("series") {
        (age(&["series", "lastObservedTime"]), view::integer(object, &["series", "count"]).unwrap_or(0))
    } else {
        let last = if has("lastTimestamp") { age(&["lastTimestamp"]) } else { first.clone() };
        // Newer events leave `count` unset if they happened once.
        (last, view::integer(object, &["count"]).filter(|count| *count != 0).unwrap_or(1))
    };
    vec![
        last.into(),
        view::text(object, &["type"]).into(),
        view::text(object, &["reason"]).into(),
        target(object).into(),
        view::text(object, &["involvedObject", "fieldPath"]).into(),
        source(object).into(),
        view::text(object, &["message"]).trim().into(),
        first.into(),
        count.into(),
        view::name(object).into(),
    ]
}

fn target(object: &Value) -> String {
    let kind = view::text(object, &["involvedObject", "kind"]).to_lowercase();
    let name = view::text(object, &["involvedObject", "name"]);
    if name.is_empty() { kind } else { format!("{kind}/{name}") }
}

fn source(object: &Value) -> String {
    let component = first_not_empty(
        view::text(object, &["source", "component"]),
        view::text(object, &["reportingComponent"]),
    );
    let instance =
        first_not_empty(view::text(object, &["source", "host"]), view::text(object, &["reportingInstance"]));
    if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") }
}

fn first_not_empty<'a>(first: &'a str, second: &'a str) -> &'a str {
    if first.is_empty() { second } else { first }
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let with = |extra: Value| {
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "sample", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        });
        if let (Value::Object(fields), Value::Object(extra)) = (&mut object, extra) {
            fields.extend(extra);
        }
        object
    };
    let newer = |extra: Value| {
        let mut object = with(
            json!({"eventTime": "2026-01-02T03:04:05.000000Z", "reportingComponent": "example.com/c", "reportingInstance": "i", "action": "Act", "reason": "Because"}),
        );
        if let (Value::Object(fields), Value::Object(extra)) = (&mut object, extra) {
            fields.extend(extra);
        }
        object
    };
    let (invalid, required) = ("FieldValueInvalid", "FieldValueRequired");
    Samples {
        valid: vec![
            with(
                json!({"reason": "Started", "message": "it runs", "type": "Normal", "count": 2, "source": {"component": "kubelet", "host": "n"}, "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:04:06Z"}),
            ),
            newer(json!({"series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:05.000000Z"}})),
            with(json!({"involvedObject": {"kind": "Node", "name": "n"}})),
        ],
        invalid: vec![
            Refused::new(
                with(json!({"involvedObject": {"namespace": "other"}})),
                "involvedObject.namespace",
                invalid,
            ),
            Refused::new(
                newer(json!({"involvedObject": {}, "metadata": {"name": "a", "namespace": "other"}})),
                "involvedObject.namespace",
                invalid,
            ),
            Refused::new(newer(json!({"reportingComponent": ""})), "reportingComponent", required),
            Refused::new(newer(json!({"reportingInstance": ""})), "reportingInstance", required),
            Refused::new(newer(json!({"action": "x".repeat(129)})), "action", invalid),
            Refused::new(newer(json!({"reason": ""})), "reason", required),
            Refused::new(newer(json!({"message": "x".repeat(1025)})), "message", invalid),
        ],
        updates: vec![json!({"count": 3, "message": "it still runs"})],
        invalid_updates: vec![Refused::new(
            json!({"involvedObject": {"namespace": "other"}}),
            "involvedObject.namespace",
            invalid,
        )],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn table_rows_cover_older_and_newer_events() {
        let older = json!({"involvedObject": {"kind": "Pod", "name": "p"}, "source": {"component": "kubelet", "host": "n"}, "message": " m\n", "count": 4});
        let cells = Event.cells(&older, 0);
        assert_eq!(cells[3..7], [json!("pod/p"), json!(""), json!("kubelet, n"), json!("m")]);
        assert_eq!(cells[8], 4);
        let newer =
            json!({"involvedObject": {"kind": "Node"}, "reportingComponent": "c", "series": {"count": 9}});
        let cells = Event.cells(&newer, 0);
        assert_eq!((&cells[3], &cells[5], &cells[8]), (&json!("node"), &json!("c"), &json!(9)));
        assert_eq!(Event.cells(&json!({}), 0)[8], 1);
    }

    #[test]
    fn source_field_falls_back_to_the_reporting_component() {
        let event = json!({"reportingComponent": "c", "involvedObject": {"kind": "Pod"}});
        assert_eq!(Event.selectable_value(&event, "source"), "c");
        assert_eq!(Event.selectable_value(&event, "involvedObject.kind"), "Pod");
        assert_eq!(Event.selectable_value(&event, "type"), "");
    }
}
