//! Tables, as printed by `kubectl get`, and objects reduced to their metadata.

mod duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use crate::status::ListMeta;
pub use duration::{human_duration, short_human_duration, translate_timestamp_since};

/// `apiVersion` of the types in this module, unless the client requests [`META_V1BETA1`].
pub const META_V1: &str = "meta.k8s.io/v1";

/// The older `apiVersion`, which some clients still request.
pub const META_V1BETA1: &str = "meta.k8s.io/v1beta1";

/// A `Table` of meta.k8s.io/v1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    /// Always `Table`.
    pub kind: String,
    /// [`META_V1`] or [`META_V1BETA1`].
    pub api_version: String,
    /// List metadata of the printed list.
    #[serde(default)]
    pub metadata: ListMeta,
    /// The columns. Absent, and written as `null`, in every watch event but the first.
    pub column_definitions: Option<Vec<TableColumnDefinition>>,
    /// One row per object.
    pub rows: Vec<TableRow>,
}

/// A column of a [`Table`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableColumnDefinition {
    /// The heading.
    pub name: String,
    /// The OpenAPI type of the cells.
    #[serde(rename = "type")]
    pub kind: String,
    /// The OpenAPI format of the cells; `name` marks the column with the object's name.
    pub format: String,
    /// Human-readable description.
    pub description: String,
    /// Zero for columns that are always printed; others only with `-o wide`.
    pub priority: i32,
}

/// A row of a [`Table`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableRow {
    /// One cell per column.
    pub cells: Vec<Value>,
    /// Conditions of the row, such as the completion of its pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<TableRowCondition>,
    /// The object, its metadata or `null`, according to [`IncludeObject`].
    #[serde(default)]
    pub object: Value,
}

/// A condition of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableRowCondition {
    /// Always `Completed` so far.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Machine-readable reason.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Human-readable message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The part of an object included in its row (`includeObject` parameter).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IncludeObject {
    /// No part.
    None,
    /// A [`PartialObjectMetadata`].
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

/// `PartialObjectMetadata` of meta.k8s.io/v1: only the metadata of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialObjectMetadata {
    /// Always `PartialObjectMetadata`.
    pub kind: String,
    /// [`META_V1`] or [`META_V1BETA1`].
    pub api_version: String,
    /// The metadata of the object.
    pub metadata: Value,
}

/// `PartialObjectMetadataList` of meta.k8s.io/v1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialObjectMetadataList {
    /// Always `PartialObjectMetadataList`.
    pub kind: String,
    /// [`META_V1`] or [`META_V1BETA1`].
    pub api_version: String,
    /// List metadata.
    #[serde(default)]
    pub metadata: ListMeta,
    /// One item per object.
    pub items: Vec<PartialObjectMetadata>,
}

impl Table {
    /// Creates a table without rows.
    pub fn new(columns: Vec<TableColumnDefinition>) -> Self {
        Self {
            kind: "Table".to_owned(),
            api_version: META_V1.to_owned(),
            metadata: ListMeta::default(),
            column_definitions: Some(columns),
            rows: Vec::new(),
        }
    }
}

impl TableColumnDefinition {
    /// Creates a column that is always printed.
    pub fn new(name: &str, kind: &str, format: &str, description: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: format.to_owned(),
            description: description.to_owned(),
            priority: 0,
        }
    }

    /// Restricts the column to `-o wide`.
    #[must_use]
    pub fn wide(self) -> Self {
        Self { priority: 1, ..self }
    }
}

impl TableRowCondition {
    /// Creates the condition that the object has completed, for this reason.
    pub fn completed(reason: &str, message: &str) -> Self {
        Self {
            kind: "Completed".to_owned(),
            status: "True".to_owned(),
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }
}

impl IncludeObject {
    /// Parses the query parameter; `None` for an invalid value.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "None" => Some(Self::None),
            "" | "Metadata" => Some(Self::Metadata),
            "Object" => Some(Self::Object),
            _ => None,
        }
    }

    /// Returns the part of an object to include in its row.
    pub fn of(self, object: &Value, api_version: &str) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Object => object.clone(),
            Self::Metadata => {
                let partial = PartialObjectMetadata::of(object, api_version);
                serde_json::json!({
                    "kind": partial.kind, "apiVersion": partial.api_version, "metadata": partial.metadata
                })
            }
        }
    }
}

impl PartialObjectMetadata {
    /// Reduces an object to its metadata.
    pub fn of(object: &Value, api_version: &str) -> Self {
        let metadata = object.get("metadata").filter(|metadata| metadata.is_object());
        Self {
            kind: "PartialObjectMetadata".to_owned(),
            api_version: api_version.to_owned(),
            metadata: metadata.cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new())),
        }
    }
}

impl PartialObjectMetadataList {
    /// Reduces the objects of a list to their metadata.
    pub fn of<'a>(
        objects: impl IntoIterator<Item = &'a Value>,
        metadata: ListMeta,
        api_version: &str,
    ) -> Self {
        let items = objects.into_iter().map(|object| PartialObjectMetadata::of(object, api_version));
        Self {
            kind: "PartialObjectMetadataList".to_owned(),
            api_version: api_version.to_owned(),
            metadata,
            items: items.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn table_serializes_as_in_kube_apiserver() {
        let name = TableColumnDefinition::new("Name", "string", "name", "who");
        let mut table = Table::new(vec![name.clone(), TableColumnDefinition { ..name }.wide()]);
        let object = json!({"kind": "Pod", "metadata": {"name": "x"}, "spec": {}});
        for include in [IncludeObject::Metadata, IncludeObject::None] {
            let object = include.of(&object, META_V1);
            table.rows.push(TableRow { cells: vec![json!("x"), json!(1)], object, ..TableRow::default() });
        }
        table.rows[1].conditions.push(TableRowCondition::completed("Succeeded", ""));
        let text = serde_json::to_string(&table).unwrap();
        assert_eq!(
            text,
            r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":[{"name":"Name","type":"string","format":"name","description":"who","priority":0},{"name":"Name","type":"string","format":"name","description":"who","priority":1}],"rows":[{"cells":["x",1],"object":{"apiVersion":"meta.k8s.io/v1","kind":"PartialObjectMetadata","metadata":{"name":"x"}}},{"cells":["x",1],"conditions":[{"type":"Completed","status":"True","reason":"Succeeded"}],"object":null}]}"#
        );
        assert_eq!(serde_json::from_str::<Table>(&text).unwrap(), table);
        table.column_definitions = None;
        table.rows.clear();
        let text = serde_json::to_string(&table).unwrap();
        assert!(text.ends_with(r#""columnDefinitions":null,"rows":[]}"#), "{text}");
    }

    #[test]
    fn partial_object_metadata_list_serializes_as_in_kube_apiserver() {
        let objects = [json!({"metadata": {"name": "x"}, "data": {}}), json!({})];
        let metadata = ListMeta { resource_version: "5".to_owned(), ..ListMeta::default() };
        let list = PartialObjectMetadataList::of(&objects, metadata, META_V1);
        assert_eq!(
            serde_json::to_string(&list).unwrap(),
            r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"5"},"items":[{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"x"}},{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{}}]}"#
        );
    }
}
