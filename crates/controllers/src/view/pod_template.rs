//! Pod templates in a compact canonical form.
//!
//! Most controllers only compare templates, or read their labels; the JSON tree is built when a pod is created.

use coracle_runtime::informer::Labels;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Maps that mean the same empty as missing. Other empty objects have a meaning, such as `emptyDir`.
const OPTIONAL_IF_EMPTY: &[&str] =
    &["annotations", "labels", "limits", "matchLabels", "metadata", "nodeSelector", "requests", "resources"];

/// A pod template. Templates with the same meaning are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Value")]
pub(crate) struct PodTemplate {
    pub(crate) labels: Labels,
    /// Restart policy of the containers.
    pub(crate) restart_policy: Box<str>,
    /// Everything except the labels, as JSON with sorted keys and without empty fields.
    rest: Box<str>,
}

impl From<Value> for PodTemplate {
    fn from(mut template: Value) -> Self {
        let labels = template.pointer_mut("/metadata/labels").map(Value::take);
        // Validation rejects invalid labels.
        let labels = labels.and_then(|labels| serde_json::from_value(labels).ok()).unwrap_or_default();
        let restart_policy =
            template.pointer("/spec/restartPolicy").and_then(Value::as_str).unwrap_or_default();
        let restart_policy = restart_policy.into();
        drop_empty(&mut template);
        Self { labels, restart_policy, rest: template.to_string().into() }
    }
}

impl PodTemplate {
    /// The template's JSON with these labels.
    pub(crate) fn to_value_with(&self, labels: &Labels) -> Value {
        // It was serialized from JSON.
        let mut template: Value = serde_json::from_str(&self.rest).unwrap_or_default();
        if !template.is_object() {
            template = Value::Object(Map::new());
        }
        if !labels.is_empty() {
            template["metadata"]["labels"] = json!(labels);
        }
        template
    }

    /// The template's JSON.
    pub(crate) fn to_value(&self) -> Value {
        self.to_value_with(&self.labels)
    }

    /// True if both templates are equal except for one label.
    pub(crate) fn equals_except(&self, other: &Self, label: &str) -> bool {
        let others = |labels: &Labels| -> Labels { labels.iter().filter(|(key, _)| *key != label).collect() };
        self.rest == other.rest && others(&self.labels) == others(&other.labels)
    }

    /// The parts to hash.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> {
        let labels = self.labels.iter().flat_map(|(key, value)| [key, value]);
        labels.chain([&*self.rest])
    }
}

/// Removes fields that mean the same as missing ones, innermost first.
fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(drop_empty);
            fields.retain(|name, value| !is_meaningless(name, value));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

fn is_meaningless(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && OPTIONAL_IF_EMPTY.contains(&name),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(value: Value) -> PodTemplate {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn equivalent_templates_are_equal() {
        let plain = template(json!({
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c"}], "volumes": [{"name": "v", "emptyDir": {}}]},
        }));
        let wordy = template(json!({
            "spec": {"volumes": [{"emptyDir": {}, "name": "v"}], "nodeSelector": {}, "tolerations": [],
                "containers": [{"name": "c", "resources": {"limits": {}}, "ports": null}]},
            "metadata": {"creationTimestamp": null, "annotations": {}, "labels": {"app": "x"}},
        }));
        assert_eq!(plain, wordy);
        let other = template(json!({
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{"name": "c"}], "volumes": [{"name": "v"}]},
        }));
        assert_ne!(plain, other, "an empty object can have a meaning");
    }

    #[test]
    fn equals_except_ignores_one_label() {
        let of = |labels: Value| template(json!({"metadata": {"labels": labels}, "spec": {"a": 1}}));
        let (with, without) = (of(json!({"app": "x", "hash": "1"})), of(json!({"app": "x"})));
        assert!(with.equals_except(&without, "hash") && without.equals_except(&with, "hash"));
        assert!(!with.equals_except(&without, "app") && with != without);
    }

    #[test]
    fn template_round_trips() {
        let value = json!({
            "metadata": {"labels": {"app": "x"}, "annotations": {"a": "b"}}, "spec": {"containers": []},
        });
        let expected = json!({"metadata": {"labels": {"app": "x"}, "annotations": {"a": "b"}}, "spec": {}});
        assert_eq!(template(value).to_value(), expected);
        assert_eq!(PodTemplate::default().to_value(), json!({}));
        let labels = Labels::from_iter([("b", "2")]);
        assert_eq!(
            PodTemplate::default().to_value_with(&labels),
            json!({"metadata": {"labels": {"b": "2"}}})
        );
    }
}
