//! The definitions of all OpenAPI v3 documents of a release, in one table.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// All definitions by their full name.
pub(crate) struct Definitions {
    pub(crate) by_name: BTreeMap<String, Value>,
}

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

impl Definitions {
    pub(crate) fn load(directory: &Path) -> Result<Self, Box<dyn Error>> {
        let mut by_name = BTreeMap::new();
        for entry in fs::read_dir(directory)? {
            let document: Value = serde_json::from_slice(&fs::read(entry?.path())?)?;
            let schemas = document.pointer("/components/schemas").and_then(Value::as_object);
            for (name, definition) in schemas.into_iter().flatten() {
                by_name.insert(name.clone(), definition.clone());
            }
        }
        Ok(Self { by_name })
    }

    /// Responses to `as=PartialObjectMetadata` are sent in protobuf too, but no document contains the type, because
    /// no path returns it by default.
    pub(crate) fn add_types_without_path(&mut self) {
        let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{META}.{name}") });
        let text = json!({ "type": "string" });
        let object = json!({
            "description": "PartialObjectMetadata is an object of which only the metadata is told.",
            "type": "object",
            "properties": { "apiVersion": text, "kind": text, "metadata": reference("ObjectMeta") },
            "x-kubernetes-group-version-kind":
                [{ "group": "meta.k8s.io", "version": "v1", "kind": "PartialObjectMetadata" }],
        });
        let list = json!({
            "description": "PartialObjectMetadataList is a list of objects of which only the metadata is told.",
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": text,
                "kind": text,
                "metadata": reference("ListMeta"),
                "items": { "type": "array", "items": reference("PartialObjectMetadata") },
            },
            "x-kubernetes-group-version-kind":
                [{ "group": "meta.k8s.io", "version": "v1", "kind": "PartialObjectMetadataList" }],
        });
        self.by_name.insert(format!("{META}.PartialObjectMetadata"), object);
        self.by_name.insert(format!("{META}.PartialObjectMetadataList"), list);
    }
}

/// The name of the definition that a schema refers to, if any.
pub(crate) fn reference(schema: &Value) -> Option<&str> {
    let target = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"))?;
    target.as_str()?.strip_prefix("#/components/schemas/")
}

/// Splits a full name into its package and its last part.
pub(crate) fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or(("", name))
}
