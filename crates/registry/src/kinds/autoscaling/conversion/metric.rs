//! Conversion of metrics between autoscaling/v2 and the annotations of v1.

use coracle_meta::field::json_text;
use coracle_meta::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::annotation::{object_text, present_fields, selector_text};
use crate::kinds::apps::checks::{ensure, set};
use crate::view;

/// A field of a metric in the annotation, and its path in v2.
pub(super) struct Field {
    v1: &'static str,
    v2: &'static [&'static str],
    form: Form,
}

/// Encoding of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Unchanged, omitted if absent.
    Plain,
    /// Unchanged, zero if absent.
    Quantity,
    /// A string, written even if empty.
    Text,
    /// A reference to another object.
    Reference,
    /// A label selector.
    Selector,
}

/// Metric types in the order of their fields, each with its own fields.
pub(super) type Sources = [(&'static str, &'static [Field]); 5];

const fn field(v1: &'static str, v2: &'static [&'static str], form: Form) -> Field {
    Field { v1, v2, form }
}

/// Fields of a spec.
pub(super) const SPEC: Sources = [
    (
        "object",
        &[
            field("target", &["describedObject"], Form::Reference),
            field("metricName", &["metric", "name"], Form::Text),
            field("targetValue", &["target", "value"], Form::Quantity),
            field("selector", &["metric", "selector"], Form::Selector),
            field("averageValue", &["target", "averageValue"], Form::Plain),
        ],
    ),
    (
        "pods",
        &[
            field("metricName", &["metric", "name"], Form::Text),
            field("targetAverageValue", &["target", "averageValue"], Form::Quantity),
            field("selector", &["metric", "selector"], Form::Selector),
        ],
    ),
    (
        "resource",
        &[
            field("name", &["name"], Form::Text),
            field("targetAverageUtilization", &["target", "averageUtilization"], Form::Plain),
            field("targetAverageValue", &["target", "averageValue"], Form::Plain),
        ],
    ),
    (
        "containerResource",
        &[
            field("name", &["name"], Form::Text),
            field("targetAverageUtilization", &["target", "averageUtilization"], Form::Plain),
            field("targetAverageValue", &["target", "averageValue"], Form::Plain),
            field("container", &["container"], Form::Text),
        ],
    ),
    (
        "external",
        &[
            field("metricName", &["metric", "name"], Form::Text),
            field("metricSelector", &["metric", "selector"], Form::Selector),
            field("targetValue", &["target", "value"], Form::Plain),
            field("targetAverageValue", &["target", "averageValue"], Form::Plain),
        ],
    ),
];

/// Fields of a status.
pub(super) const STATUS: Sources = [
    (
        "object",
        &[
            field("target", &["describedObject"], Form::Reference),
            field("metricName", &["metric", "name"], Form::Text),
            field("currentValue", &["current", "value"], Form::Quantity),
            field("selector", &["metric", "selector"], Form::Selector),
            field("averageValue", &["current", "averageValue"], Form::Plain),
        ],
    ),
    (
        "pods",
        &[
            field("metricName", &["metric", "name"], Form::Text),
            field("currentAverageValue", &["current", "averageValue"], Form::Quantity),
            field("selector", &["metric", "selector"], Form::Selector),
        ],
    ),
    (
        "resource",
        &[
            field("name", &["name"], Form::Text),
            field("currentAverageUtilization", &["current", "averageUtilization"], Form::Plain),
            field("currentAverageValue", &["current", "averageValue"], Form::Quantity),
        ],
    ),
    (
        "containerResource",
        &[
            field("name", &["name"], Form::Text),
            field("currentAverageUtilization", &["current", "averageUtilization"], Form::Plain),
            field("currentAverageValue", &["current", "averageValue"], Form::Quantity),
            field("container", &["container"], Form::Text),
        ],
    ),
    (
        "external",
        &[
            field("metricName", &["metric", "name"], Form::Text),
            field("metricSelector", &["metric", "selector"], Form::Selector),
            field("currentValue", &["current", "value"], Form::Quantity),
            field("currentAverageValue", &["current", "averageValue"], Form::Plain),
        ],
    ),
];

/// Encodes metrics of v2 for an annotation.
pub(super) fn all_to_text(metrics: &[&Value], sources: &Sources) -> String {
    let texts: Vec<_> = metrics.iter().map(|metric| to_text(metric, sources)).collect();
    format!("[{}]", texts.join(","))
}

fn to_text(metric: &Value, sources: &Sources) -> String {
    let metric_type = ("type", json_text(&view::text(metric, &["type"]).into()));
    let sources = sources.iter().filter_map(|(name, fields)| {
        let source = metric.get(name)?;
        let fields = fields.iter().filter_map(|field| Some((field.v1, field.text(source)?)));
        Some((*name, object_text(fields)))
    });
    object_text(std::iter::once(metric_type).chain(sources))
}

impl Field {
    /// The encoded value from a metric of v2, unless it is omitted.
    fn text(&self, source: &Value) -> Option<String> {
        let value = view::at(source, self.v2);
        match self.form {
            Form::Plain => value.map(json_text),
            Form::Quantity => Some(value.map_or_else(|| "\"0\"".to_owned(), json_text)),
            Form::Text => Some(value.map_or_else(|| "\"\"".to_owned(), json_text)),
            Form::Reference => {
                Some(present_fields(value.unwrap_or(&Value::Null), &["kind", "name", "apiVersion"]))
            }
            Form::Selector => value.map(selector_text),
        }
    }
}

/// Decodes metrics of v2 from an annotation; none if it is malformed.
pub(super) fn all_to_v2(annotation: &Value, sources: &Sources) -> Option<Vec<Value>> {
    let metrics = annotation.as_array()?;
    metrics.iter().map(|metric| metric.is_object().then(|| to_v2(metric, sources))).collect()
}

fn to_v2(metric: &Value, sources: &Sources) -> Value {
    let mut v2 = Map::new();
    v2.insert("type".to_owned(), view::text(metric, &["type"]).into());
    for (name, fields) in sources {
        let Some(source) = metric.get(name).filter(|source| source.is_object()) else { continue };
        let mut converted = source_to_v2(source, fields);
        if fields.iter().any(|field| field.v2[0] == "target") {
            complete_target(name, ensure(&mut converted, "target"));
        }
        v2.insert((*name).to_owned(), converted);
    }
    Value::Object(v2)
}

fn source_to_v2(source: &Value, fields: &[Field]) -> Value {
    let mut converted = json!({});
    for field in fields {
        let value = match source.get(field.v1).filter(|value| !value.is_null()) {
            Some(value) => value.clone(),
            None if field.form == Form::Quantity => "0".into(),
            None => continue,
        };
        match field.v2 {
            [name] => set(&mut converted, name, value),
            [parent, name] => set(ensure(&mut converted, parent), name, value),
            _ => {}
        }
    }
    converted
}

/// Sets the type of a target according to its fields.
fn complete_target(source: &str, target: &mut Value) {
    let has = |field: &str| target.get(field).is_some();
    let target_type = match source {
        "object" if !has("averageValue") => "Value",
        "external" if has("value") => "Value",
        "resource" | "containerResource" if has("averageUtilization") => "Utilization",
        _ => "AverageValue",
    };
    // The annotation cannot omit the value of an object metric: zero stands for none.
    if source == "object" && target_type == "AverageValue" && is_zero(target.get("value")) {
        target.as_object_mut().map(|fields| fields.remove("value"));
    }
    set(target, "type", target_type.into());
}

fn is_zero(value: Option<&Value>) -> bool {
    value.and_then(|value| Quantity::from_json(value).ok()).is_some_and(|amount| amount.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_of_object_metric_needs_no_value() {
        let metric = json!({"type": "Object", "object": {
            "describedObject": {"kind": "Service", "name": "s"},
            "metric": {"name": "m"},
            "target": {"type": "AverageValue", "averageValue": "5"},
        }});
        let text = all_to_text(&[&metric], &SPEC);
        let expected = concat!(
            r#"[{"type":"Object","object":{"target":{"kind":"Service","name":"s"},"metricName":"m","#,
            r#""targetValue":"0","averageValue":"5"}}]"#,
        );
        assert_eq!(text, expected);
        let back = all_to_v2(&serde_json::from_str(&text).unwrap(), &SPEC).unwrap();
        assert_eq!(back, [metric]);
    }
}
