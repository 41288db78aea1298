//! The scale subresource: desired and current replica counts of an object of any kind.
//!
//! A kind declares the paths of the counts within its objects; the Scale of an object, and the effect of a changed
//! Scale on the object, follow from them.

use std::borrow::Cow;

use coracle_meta::object::Meta;
use coracle_meta::selector::{LabelSelector, labels};
use serde_json::{Map, Value, json};

/// Names of the fields on the way to a value.
pub type FieldPath = Vec<Cow<'static, str>>;

/// Paths of the values of a Scale in the objects of a kind.
#[derive(Clone, Debug)]
pub struct ScalePaths {
    /// Path of the desired number of replicas.
    pub spec_replicas: FieldPath,
    /// Path of the current number of replicas.
    pub status_replicas: FieldPath,
    /// The selector of the replicas, if the kind has one.
    pub selector: Option<ScaleSelector>,
    /// `spec_replicas` as one text, for kinds whose objects have no scale unless that field is set.
    pub is_said: Option<String>,
}

/// Format of the selector.
#[derive(Clone, Debug)]
pub enum ScaleSelector {
    /// A `LabelSelector`.
    LabelSelector(FieldPath),
    /// A map of labels and required values.
    Labels(FieldPath),
    /// A selector in text form.
    Text(FieldPath),
}

impl ScalePaths {
    /// `spec.replicas`, `status.replicas` and `spec.selector`, as in most built-in kinds.
    pub fn usual(selector: fn(FieldPath) -> ScaleSelector) -> Self {
        Self {
            spec_replicas: vec!["spec".into(), "replicas".into()],
            status_replicas: vec!["status".into(), "replicas".into()],
            selector: Some(selector(vec!["spec".into(), "selector".into()])),
            is_said: None,
        }
    }

    /// The Scale of an object.
    pub fn scale_of(&self, object: &Value) -> Value {
        let mut metadata = Map::new();
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object.get("metadata").and_then(|metadata| metadata.get(field)) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        let mut spec = json!({});
        // A count of zero is omitted.
        if let Some(replicas) = number(object, &self.spec_replicas).filter(|replicas| *replicas != 0) {
            spec["replicas"] = replicas.into();
        }
        let mut status = json!({"replicas": number(object, &self.status_replicas).unwrap_or(0)});
        let selector = self.selector.as_ref().map_or_else(String::new, |selector| selector.text(object));
        if !selector.is_empty() {
            status["selector"] = selector.into();
        }
        json!({
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": metadata,
            "spec": spec,
            "status": status,
        })
    }

    /// Path of the replica count, if the kind requires it and the object does not set it.
    pub fn unsaid(&self, object: &Value) -> Option<&str> {
        self.is_said.as_deref().filter(|_| at(object, &self.spec_replicas).is_none())
    }

    /// Sets the desired number of replicas.
    pub fn set_replicas(&self, object: &mut Value, replicas: i64) {
        let Some((last, parents)) = self.spec_replicas.split_last() else { return };
        let mut place = object;
        for name in parents {
            let Value::Object(fields) = place else { return };
            place = fields.entry(&**name).or_insert_with(|| json!({}));
        }
        if let Value::Object(fields) = place {
            fields.insert(last.to_string(), replicas.into());
        }
    }
}

impl ScaleSelector {
    /// The selector in the text form of a Scale; empty if there is none.
    fn text(&self, object: &Value) -> String {
        match self {
            Self::LabelSelector(path) => {
                let found = at(object, path).map(|value| serde_json::from_value(value.clone()));
                let selector =
                    found.and_then(Result::ok).map(|selector: LabelSelector| selector.to_selector());
                selector.and_then(Result::ok).map(|selector| selector.to_string()).unwrap_or_default()
            }
            Self::Labels(path) => {
                let fields = at(object, path).and_then(Value::as_object).into_iter().flatten();
                let pairs = fields.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
                labels::Selector::from_set(pairs).to_string()
            }
            Self::Text(path) => at(object, path).and_then(Value::as_str).unwrap_or_default().to_owned(),
        }
    }
}

/// Desired number of replicas of a Scale.
pub(crate) fn replicas(scale: &Value) -> i64 {
    scale.get("spec").and_then(|spec| spec.get("replicas")).and_then(Value::as_i64).unwrap_or(0)
}

/// UID of the object that a Scale is for; empty if it states none.
pub(crate) fn uid(scale: &Value) -> &str {
    Meta::of(scale).uid()
}

fn at<'a>(object: &'a Value, path: &FieldPath) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, name| value.get(&**name))
}

fn number(object: &Value, path: &FieldPath) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_has_counts_and_selector() {
        let mut object = json!({
            "metadata": {"name": "a", "uid": "u", "labels": {"not": "told"}},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"b": "c", "a": "b"}}},
            "status": {"replicas": 1}
        });
        let paths = ScalePaths::usual(ScaleSelector::LabelSelector);
        let scale = paths.scale_of(&object);
        assert_eq!(scale["metadata"], json!({"name": "a", "uid": "u"}));
        assert_eq!(scale["spec"], json!({"replicas": 2}));
        assert_eq!(scale["status"], json!({"replicas": 1, "selector": "a=b,b=c"}));
        paths.set_replicas(&mut object, 0);
        assert_eq!(paths.scale_of(&object)["spec"], json!({}));
    }

    #[test]
    fn selectors_of_all_formats_are_printed() {
        let object = json!({"spec": {"labels": {"a": "b"}, "text": "x in (y)"}});
        let path = |name: &'static str| vec!["spec".into(), name.into()];
        assert_eq!(ScaleSelector::Labels(path("labels")).text(&object), "a=b");
        assert_eq!(ScaleSelector::Text(path("text")).text(&object), "x in (y)");
        assert_eq!(ScaleSelector::LabelSelector(path("none")).text(&object), "");
    }
}
