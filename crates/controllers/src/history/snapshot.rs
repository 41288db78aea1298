//! Content of a ControllerRevision: a patch that restores the pod template.
//!
//! Stored as canonical text, so that equal content has equal text and the same hash: the text that Kubernetes writes,
//! with sorted keys, no spaces, and Go's escapes.

use coracle_meta::go_json;
use coracle_meta::name::ALPHABET;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// FNV-1 with 32 bits.
const FNV_OFFSET: u32 = 2_166_136_261;
const FNV_PRIME: u32 = 16_777_619;

/// The content of a ControllerRevision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot(Box<str>);

impl Snapshot {
    /// Content for a pod template.
    pub(crate) fn of_template(mut template: Value) -> Self {
        template["$patch"] = "replace".into();
        Self::of_data(json!({"spec": {"template": template}}))
    }

    /// Parses the `data` field.
    pub(crate) fn of_data(mut data: Value) -> Self {
        drop_nulls(&mut data);
        Self(escape_as_go(&data.to_string()).into())
    }

    /// The value of the `data` field.
    pub(crate) fn data(&self) -> Value {
        go_json::from_text(&self.0).unwrap_or_default()
    }

    /// The pod template; empty if the revision holds none, which no set has written.
    pub(crate) fn template(&self) -> Value {
        let mut template = self.data().pointer_mut("/spec/template").map(Value::take).unwrap_or_default();
        if let Some(fields) = template.as_object_mut() {
            fields.remove("$patch");
        }
        template
    }

    /// Hash for the revision's name. `probe` changes it after a collision.
    pub(crate) fn hash(&self, probe: Option<i32>) -> String {
        let probe = probe.map(|probe| probe.to_string()).unwrap_or_default();
        let bytes = self.0.bytes().chain(probe.bytes());
        let hash = bytes.fold(FNV_OFFSET, |hash, byte| hash.wrapping_mul(FNV_PRIME) ^ u32::from(byte));
        safe_encode(hash)
    }
}

impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::of_data)
    }
}

/// Encodes a number with letters that form no words.
fn safe_encode(number: u32) -> String {
    let letter = |digit: u8| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()]);
    number.to_string().bytes().map(letter).collect()
}

/// Servers before v1.34 wrote `creationTimestamp: null` into templates, which has no meaning.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Go's escapes for JSON: some characters within strings are escaped unnecessarily.
fn escape_as_go(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_restores_the_template() {
        let template = json!({"metadata": {"labels": {"b": "2", "a": "<&>"}}, "spec": {"containers": []}});
        let snapshot = Snapshot::of_template(template.clone());
        assert_eq!(
            &*snapshot.0,
            r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"a":"\u003c\u0026\u003e","b":"2"}},"spec":{"containers":[]}}}}"#
        );
        assert_eq!(snapshot.template(), template);
        let stored: Snapshot = serde_json::from_value(snapshot.data()).unwrap();
        assert_eq!(stored, snapshot);
    }

    #[test]
    fn nulls_do_not_change_the_snapshot() {
        let with = json!({"metadata": {"creationTimestamp": null}, "spec": {"containers": [{"name": "c"}]}});
        let without = json!({"metadata": {}, "spec": {"containers": [{"name": "c"}]}});
        assert_eq!(Snapshot::of_template(with), Snapshot::of_template(without));
    }

    #[test]
    fn hashes_equal_those_of_kubernetes() {
        // Results of Go's hash/fnv (New32) and SafeEncodeString for the same bytes.
        assert_eq!(Snapshot::default().hash(None), "65bb57b6b5");
        let snapshot = Snapshot::of_template(json!({}));
        assert_eq!(snapshot.hash(Some(0)), "589f85db5b");
        assert_ne!(snapshot.hash(Some(1)), snapshot.hash(Some(0)));
        assert_ne!(snapshot.hash(None), snapshot.hash(Some(0)));
    }
}
