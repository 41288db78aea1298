//! Encoding of objects: the same bytes are stored, read, listed and watched.
//!
//! `kind` and `apiVersion` come first, so that lists can leave them out by skipping a fixed number of bytes; then the
//! metadata, its fields in the order of the Go type, so that fields for selectors are found without scanning the
//! rest. The offset of `metadata.resourceVersion` is recorded, so that the store can insert the revision on commit.
//! The last byte is a newline.

use bytes::Bytes;
use coracle_meta::go_json;
use coracle_store::{Entry, Revision};
use serde_json::{Map, Value};

/// Fields of metadata in the order in which kube-apiserver writes them.
const METADATA_ORDER: [&str; 14] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
];

/// An object encoded for the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// The JSON, with an empty resourceVersion.
    pub(crate) bytes: Bytes,
    /// Offset of the value of resourceVersion.
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
        // kube-apiserver ends every response with a newline, and stored bytes are sent unchanged.
        writer.out.push(b'\n');
        Self { stamp: writer.stamp, bytes: writer.out.into() }
    }

    /// The JSON with the resourceVersion of a revision.
    pub(crate) fn stamped(&self, revision: Revision) -> Bytes {
        self.with_revision(&revision.to_string())
    }

    /// The JSON with this resourceVersion; without the field if it is empty.
    pub(crate) fn with_revision(&self, revision: &str) -> Bytes {
        let (before, after) = self.bytes.split_at(self.stamp as usize);
        if !revision.is_empty() {
            return [before, revision.as_bytes(), after].concat().into();
        }
        // An object that was never stored has no resourceVersion rather than an empty one.
        let field: &[u8] = b"\"resourceVersion\":\"";
        let before = before.strip_suffix(field).unwrap_or(before);
        let after = after.strip_prefix(b"\"").unwrap_or(after);
        match (before.strip_suffix(b","), after.strip_prefix(b",")) {
            (_, Some(after)) => [before, after].concat().into(),
            (Some(before), None) => [before, after].concat().into(),
            (None, None) => [before, after].concat().into(),
        }
    }

    /// The JSON of an object that is not stored.
    pub(crate) fn unstored(&self) -> Bytes {
        self.with_revision("")
    }
}

/// The first bytes of every object of a kind.
pub fn type_prefix(api_version: &str, kind: &str) -> String {
    format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",")
}

/// The bytes of an object without the final newline, for embedding in other JSON.
pub fn inner(json: &[u8]) -> &[u8] {
    json.strip_suffix(b"\n").unwrap_or(json)
}

/// Encodes an object in the form in which objects are stored.
pub fn json(object: &Value) -> Bytes {
    let encoded = Encoded::of(object);
    if encoded.stamp == 0 {
        return encoded.bytes;
    }
    let revision = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
    encoded.with_revision(revision)
}

/// The bytes of the metadata of an object; `None` if only a parser can find them.
pub fn metadata(json: &[u8]) -> Option<&[u8]> {
    crate::scan::value(json, "metadata")
}

/// The last state of a deleted object, with the revision of the deletion.
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
        for name in ["kind", "apiVersion"] {
            if let Some(value) = fields.get(name) {
                self.name(name);
                self.value(value);
            }
        }
        match fields.get("metadata") {
            Some(Value::Object(metadata)) => {
                self.name("metadata");
                self.metadata(metadata);
            }
            Some(other) => {
                self.name("metadata");
                self.value(other);
            }
            None => {}
        }
        for (name, value) in fields {
            if !matches!(name.as_str(), "kind" | "apiVersion" | "metadata") {
                self.name(name);
                self.value(value);
            }
        }
        self.out.push(b'}');
    }

    fn metadata(&mut self, fields: &Map<String, Value>) {
        self.out.push(b'{');
        for name in METADATA_ORDER {
            if name == "resourceVersion" {
                self.resource_version();
            } else if let Some(value) = fields.get(name) {
                self.name(name);
                self.value(value);
            }
        }
        // Fields that are not in the list: managedFields, which is long and not used by selectors.
        for (name, value) in fields.iter().filter(|(name, _)| !METADATA_ORDER.contains(&name.as_str())) {
            self.name(name);
            self.value(value);
        }
        self.out.push(b'}');
    }

    fn resource_version(&mut self) {
        self.name("resourceVersion");
        self.out.push(b'"');
        // Bodies are limited to a few MiB, far below `u32::MAX`.
        self.stamp = self.out.len() as u32;
        self.out.push(b'"');
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
        go_json::to_writer(&mut self.out, value).expect("memory takes every value");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn type_comes_first_and_revision_is_inserted() {
        let object = json!({"data": {"a": "\"\n"}, "metadata": {"name": "x", "resourceVersion": "7"}, "kind": "K", "apiVersion": "v1"});
        let encoded = Encoded::of(&object);
        assert!(encoded.bytes.starts_with(type_prefix("v1", "K").as_bytes()));
        let stamped: Value = serde_json::from_slice(&encoded.stamped(Revision::new(42))).unwrap();
        let mut expected = object;
        expected["metadata"]["resourceVersion"] = json!("42");
        assert_eq!(stamped, expected);
    }

    #[test]
    fn unstored_object_keeps_its_revision_or_has_none() {
        for object in [
            json!({"metadata": {"name": "x"}}),
            json!({"metadata": {"labels": {"a": "b"}}}),
            json!({"metadata": {"name": "x", "labels": {}}}),
            json!({"metadata": {}}),
            json!({"spec": {}}),
            json!({"metadata": {"name": "x", "resourceVersion": "5"}, "spec": {}}),
        ] {
            assert_eq!(serde_json::from_slice::<Value>(&super::json(&object)).unwrap(), object);
        }
    }

    #[test]
    fn revision_is_inserted_into_object_without_name() {
        let encoded = Encoded::of(&json!({"metadata": {}}));
        assert_eq!(encoded.stamped(Revision::new(1)), "{\"metadata\":{\"resourceVersion\":\"1\"}}\n");
    }
}
