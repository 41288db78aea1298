//! Objects as they are stored, read, listed and watched: one form of bytes for all.
//!
//! `apiVersion` and `kind` come first, so that lists can leave them out by skipping a known
//! number of bytes. The place of `metadata.resourceVersion` is known, so that the store can
//! insert the revision when it is made.

use bytes::Bytes;
use coracle_store::{Entry, Revision};
use serde_json::{Map, Value};

/// An object encoded for the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// The JSON, with an empty resourceVersion.
    pub(crate) bytes: Bytes,
    /// Where the resourceVersion goes.
    pub(crate) stamp: u32,
}

impl Encoded {
    /// Encodes an object that has metadata.
    pub(crate) fn of(object: &Value) -> Self {
        let mut writer = Writer { out: Vec::with_capacity(512), stamp: 0 };
        match object {
            Value::Object(fields) => writer.root(fields),
            other => writer.value(other),
        }
        Self { stamp: writer.stamp, bytes: writer.out.into() }
    }

    /// The JSON as of a revision.
    pub(crate) fn stamped(&self, revision: Revision) -> Bytes {
        let (before, after) = self.bytes.split_at(self.stamp as usize);
        [before, revision.to_string().as_bytes(), after].concat().into()
    }
}

/// What the bytes of every object of a kind begin with.
pub fn type_prefix(api_version: &str, kind: &str) -> String {
    format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\",")
}

/// The last state of a deleted object, with the revision of its deletion.
pub(crate) fn deleted(last: &Entry, revision: Revision) -> Bytes {
    let parts = last.to_parts();
    Encoded { bytes: parts.value, stamp: parts.stamp.unwrap_or(0) }.stamped(revision)
}

struct Writer {
    out: Vec<u8>,
    stamp: u32,
}

impl Writer {
    fn root(&mut self, fields: &Map<String, Value>) {
        self.out.push(b'{');
        for name in ["apiVersion", "kind"] {
            if let Some(value) = fields.get(name) {
                self.name(name);
                self.value(value);
            }
        }
        for (name, value) in fields.iter().filter(|(name, _)| *name != "apiVersion" && *name != "kind") {
            self.name(name);
            match value {
                Value::Object(metadata) if name == "metadata" => self.metadata(metadata),
                other => self.value(other),
            }
        }
        self.out.push(b'}');
    }

    fn metadata(&mut self, fields: &Map<String, Value>) {
        self.out.push(b'{');
        self.name("resourceVersion");
        self.out.push(b'"');
        // Bodies end at a few MiB, far below what this can count.
        self.stamp = self.out.len() as u32;
        self.out.push(b'"');
        for (name, value) in fields.iter().filter(|(name, _)| *name != "resourceVersion") {
            self.name(name);
            self.value(value);
        }
        self.out.push(b'}');
    }

    fn name(&mut self, name: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.text(name);
        self.out.push(b':');
    }

    fn text(&mut self, text: &str) {
        serde_json::to_writer(&mut self.out, text).expect("memory takes every text");
    }

    fn value(&mut self, value: &Value) {
        serde_json::to_writer(&mut self.out, value).expect("memory takes every value");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_type_comes_first_and_the_revision_has_its_place() {
        let object = json!({"data": {"a": "\"\n"}, "metadata": {"name": "x", "resourceVersion": "7"}, "kind": "K", "apiVersion": "v1"});
        let encoded = Encoded::of(&object);
        assert!(encoded.bytes.starts_with(type_prefix("v1", "K").as_bytes()));
        let stamped: Value = serde_json::from_slice(&encoded.stamped(Revision::new(42))).unwrap();
        let mut expected = object;
        expected["metadata"]["resourceVersion"] = json!("42");
        assert_eq!(stamped, expected);
    }

    #[test]
    fn an_object_without_name_still_has_a_place_for_the_revision() {
        let encoded = Encoded::of(&json!({"metadata": {}}));
        assert_eq!(encoded.stamped(Revision::new(1)), r#"{"metadata":{"resourceVersion":"1"}}"#);
    }
}
