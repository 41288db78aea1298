//! Templates of pods, held small and in one form.
//!
//! Most controllers only compare templates, or read their labels; a tree is made when a pod is.

use coracle_runtime::informer::Labels;
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Maps that are the same as none when they are empty. Other empty objects say something, as `emptyDir` does.
const NO_MATTER_IF_EMPTY: &[&str] =
    &["annotations", "labels", "limits", "matchLabels", "metadata", "nodeSelector", "requests", "resources"];

/// A template of pods. Two that mean the same are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Value")]
pub(crate) struct PodTemplate {
    pub(crate) labels: Labels,
    /// When containers are started again that have ended.
    pub(crate) restart_policy: Box<str>,
    /// All but the labels, as JSON with its keys in order and without what says nothing.
    rest: Box<str>,
}

impl From<Value> for PodTemplate {
    fn from(mut template: Value) -> Self {
        let labels = template.pointer_mut("/metadata/labels").map(Value::take);
        // The server has refused labels that are none.
        let labels = labels.and_then(|labels| serde_json::from_value(labels).ok()).unwrap_or_default();
        let restart_policy =
            template.pointer("/spec/restartPolicy").and_then(Value::as_str).unwrap_or_default();
        let restart_policy = restart_policy.into();
        drop_empty(&mut template);
        Self { labels, restart_policy, rest: template.to_string().into() }
    }
}

impl PodTemplate {
    /// The template as it stands in an object, with these labels.
    pub(crate) fn to_value_with(&self, labels: &Labels) -> Value {
        // It was JSON when it came.
        let mut template: Value = serde_json::from_str(&self.rest).unwrap_or_default();
        if !template.is_object() {
            template = Value::Object(Map::new());
        }
        if !labels.is_empty() {
            template["metadata"]["labels"] = json!(labels);
        }
        template
    }

    /// The template as it stands in an object.
    pub(crate) fn to_value(&self) -> Value {
        self.to_value_with(&self.labels)
    }

    /// Whether both make the same pods, but for one label.
    pub(crate) fn equals_but_for(&self, other: &Self, label: &str) -> bool {
        let others = |labels: &Labels| -> Labels { labels.iter().filter(|(key, _)| *key != label).collect() };
        self.rest == other.rest && others(&self.labels) == others(&other.labels)
    }

    /// What a hash of the template is to be made of.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> {
        let labels = self.labels.iter().flat_map(|(key, value)| [key, value]);
        labels.chain([&*self.rest])
    }
}

/// Leaves out what is the same as nothing, from the inside out.
fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(drop_empty);
            fields.retain(|name, value| !says_nothing(name, value));
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

fn says_nothing(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && NO_MATTER_IF_EMPTY.contains(&name),
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
    fn templates_that_mean_the_same_are_equal() {
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
        assert_ne!(plain, other, "an empty object can say something");
    }

    #[test]
    fn one_label_can_be_left_out_of_account() {
        let of = |labels: Value| template(json!({"metadata": {"labels": labels}, "spec": {"a": 1}}));
        let (with, without) = (of(json!({"app": "x", "hash": "1"})), of(json!({"app": "x"})));
        assert!(with.equals_but_for(&without, "hash") && without.equals_but_for(&with, "hash"));
        assert!(!with.equals_but_for(&without, "app") && with != without);
    }

    #[test]
    fn what_went_in_comes_out() {
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
