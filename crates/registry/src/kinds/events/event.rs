//! Event of the group `events.k8s.io`: another form of the core group's events, in whose form they are stored and
//! seen by the hooks here.

use std::borrow::Cow;
use std::sync::LazyLock;

use coracle_meta::field::{ErrorList, FieldError, Path};
use serde_json::Value;

use crate::kind::{Declaration, Kind, StoredAs, texts};
use crate::kinds::core::event as core_event;
use crate::kinds::core::rules;
use crate::view;

/// Fields with different names: here and in the core group.
const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Fields that the core group writes even if they are empty and this group does not, by their names in the core group.
const WRITTEN_EMPTY: [&str; 2] = ["reportingComponent", "reportingInstance"];

/// Immutable fields by the names that messages use, and their types. kube-apiserver checks and reports
/// the reason twice.
const IMMUTABLE: [(&str, &str); 14] = [
    ("involvedObject", "@core.ObjectReference"),
    ("reason", "s"),
    ("message", "s"),
    ("source", "@core.EventSource"),
    ("firstTimestamp", "t"),
    ("lastTimestamp", "t"),
    ("count", "i"),
    ("reason", "s"),
    ("type", "s"),
    ("eventTime", "t"),
    ("action", "s"),
    ("related", "*@core.ObjectReference"),
    ("reportingController", "s"),
    ("reportingInstance", "s"),
];

/// [`Kind`] of Event objects.
pub struct Event;

static DECLARATION: LazyLock<Declaration> = LazyLock::new(|| Declaration {
    selectable_fields: texts(&[
        "reason",
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reportingController",
        "type",
    ]),
    prefixed_finalizers: true,
    checks_metadata_change_again: true,
    stored_as: Some(StoredAs { group: "".into(), version: "v1".into() }),
    ..core_event::declaration("events.k8s.io")
});

impl Kind for Event {
    fn declaration(&self) -> &Declaration {
        &DECLARATION
    }

    fn validate(&self, object: &Value, errors: &mut ErrorList) {
        core_event::validate(object, "reportingController", errors);
    }

    fn validate_create(&self, object: &Value, errors: &mut ErrorList) {
        validate_new(object, errors);
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut ErrorList) {
        if new.get("series") != old.get("series") {
            check_series(new, errors);
        }
        for (field, shape) in IMMUTABLE {
            let name = if field == "reportingController" { "reportingComponent" } else { field };
            rules::immutable(shape, new.get(name), old.get(name), &Path::root(field), errors);
        }
    }

    fn selectable_value<'a>(&self, object: &'a Value, field: &str) -> Cow<'a, str> {
        Cow::Borrowed(match field.split_once('.') {
            Some((part, field)) => view::text(object, &[stored_name(part), field]),
            None => view::text(object, &[stored_name(field)]),
        })
    }

    fn convert_in(&self, _version: &str, object: Value) -> Value {
        let mut core = renamed(object, "v1", |(here, core)| (here, core));
        for field in WRITTEN_EMPTY {
            view::set_default(&mut core, field, || "".into());
        }
        core
    }

    fn convert_out(&self, _version: &str, mut object: Value) -> Value {
        if let Value::Object(fields) = &mut object {
            fields.retain(|name, value| *value != "" || !WRITTEN_EMPTY.contains(&name.as_str()));
        }
        renamed(object, "events.k8s.io/v1", |(here, core)| (core, here))
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        core_event::cells(object, now)
    }

    #[cfg(any(test, feature = "samples"))]
    fn samples(&self) -> crate::samples::Samples {
        samples()
    }
}

/// Validates what applies only to new events of this group. Other validation must accept updates of events that were
/// created through the core group.
fn validate_new(event: &Value, errors: &mut ErrorList) {
    check_series(event, errors);
    if view::at(event, &["eventTime"]).is_none() {
        errors.push(FieldError::required(&Path::root("eventTime"), ""));
    }
    let event_type = view::text(event, &["type"]);
    if event_type != "Normal" && event_type != "Warning" {
        let detail = format!("has invalid value: {event_type}");
        errors.push(FieldError::invalid(&Path::root("type"), "", detail));
    }
    for field in ["firstTimestamp", "lastTimestamp", "count"] {
        if !rules::same(view::at(event, &[field]), None) {
            errors.push(FieldError::invalid(&Path::root(field), "", "needs to be unset"));
        }
    }
    let source = |field: &str| view::text(event, &["source", field]);
    if !source("component").is_empty() || !source("host").is_empty() {
        errors.push(FieldError::invalid(&Path::root("source"), "", "needs to be unset"));
    }
}

fn check_series(event: &Value, errors: &mut ErrorList) {
    let Some(series) = view::at(event, &["series"]) else { return };
    if view::integer(series, &["count"]).unwrap_or(0) < 2 {
        errors.push(FieldError::invalid(&Path::root("series.count"), "", "should be at least 2"));
    }
    if view::at(series, &["lastObservedTime"]).is_none() {
        errors.push(FieldError::required(&Path::root("series.lastObservedTime"), ""));
    }
}

/// Name of a field in the stored form.
fn stored_name(name: &str) -> &str {
    NAMES.iter().find(|(here, _)| *here == name).map_or(name, |(_, core)| core)
}

fn renamed(
    mut event: Value,
    api_version: &'static str,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    if let Value::Object(fields) = &mut event {
        for (from, to) in NAMES.map(direction) {
            if let Some(value) = fields.remove(from) {
                fields.insert(to.to_owned(), value);
            }
        }
        if let Some(found) = fields.get_mut("apiVersion") {
            *found = api_version.into();
        }
    }
    event
}

#[cfg(any(test, feature = "samples"))]
fn samples() -> crate::samples::Samples {
    use serde_json::json;

    use crate::samples::{Refused, Samples};

    let with = |extra: Value| {
        let mut object = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": "sample", "namespace": "default"},
            "eventTime": "2026-01-02T03:04:05.000000Z",
            "reportingController": "example.com/c",
            "reportingInstance": "i",
            "action": "Act",
            "reason": "Because",
            "regarding": {"kind": "Pod", "namespace": "default", "name": "p"},
            "note": "it happened",
            "type": "Normal",
        });
        if let (Value::Object(fields), Value::Object(extra)) = (&mut object, extra) {
            fields.extend(extra);
        }
        object
    };
    let (invalid, required) = ("FieldValueInvalid", "FieldValueRequired");
    Samples {
        valid: vec![with(json!({}))],
        invalid: vec![
            Refused::new(with(json!({"reportingController": ""})), "reportingController", required),
            Refused::new(with(json!({"note": "x".repeat(1025)})), "message", invalid),
            Refused::new(with(json!({"action": ""})), "action", required),
        ],
        updates: vec![
            json!({"series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000000Z"}}),
            json!({"metadata": {"labels": {"a": "b"}}}),
        ],
        invalid_updates: vec![
            Refused::new(json!({"series": {"count": 1}}), "series.count", invalid),
            Refused::new(json!({"note": "it happened again"}), "message", invalid),
            Refused::new(json!({"regarding": {"name": "q"}}), "involvedObject", invalid),
            Refused::new(json!({"eventTime": "2026-01-02T03:04:06.000000Z"}), "eventTime", invalid),
            Refused::new(json!({"reportingController": "d"}), "reportingController", invalid),
        ],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::core::event::Event as CoreEvent;

    fn to_core(event: Value) -> Value {
        Event.convert_in("v1", event)
    }

    fn from_core(event: Value) -> Value {
        Event.convert_out("v1", event)
    }

    #[test]
    fn conversion_to_core_and_back_is_lossless() {
        for sample in Event.samples().valid {
            assert_eq!(from_core(to_core(sample.clone())), sample);
        }
        for sample in CoreEvent.samples().valid {
            let sample = CoreEvent.conform("v1", sample).unwrap().object;
            assert_eq!(to_core(from_core(sample.clone())), sample);
        }
        let core =
            json!({"apiVersion": "v1", "involvedObject": {}, "message": "m", "source": {}, "count": 1});
        let here = json!({"apiVersion": "events.k8s.io/v1", "regarding": {}, "note": "m", "deprecatedSource": {}, "deprecatedCount": 1});
        assert_eq!(from_core(core), here);
        let nobody = json!({"reportingComponent": "", "reportingInstance": ""});
        assert_eq!((from_core(nobody.clone()), to_core(json!({}))), (json!({}), nobody));
    }

    #[test]
    fn deprecated_fields_in_new_event_are_rejected() {
        let check = |event: Value| {
            let mut errors = ErrorList::new();
            Event.validate_create(&to_core(event), &mut errors);
            errors.iter().map(|error| error.field.clone()).collect::<Vec<_>>()
        };
        assert!(check(Event.samples().valid.remove(0)).is_empty());
        let older = json!({"deprecatedCount": 1, "deprecatedSource": {"component": "c"}});
        assert_eq!(check(older), ["eventTime", "type", "count", "source"]);
    }
}
