//! Looking at other objects.

use coracle_registry::lifecycle::ListOptions;
use coracle_registry::{Cluster, Error, Kind, Result, view};
use serde_json::Value;

/// An object, if there is one.
pub(super) async fn find(
    cluster: &Cluster,
    kind: &dyn Kind,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>> {
    match cluster.get(kind, namespace, name, None).await {
        Ok(object) => parse(&object.json, kind).map(Some),
        Err(Error::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// All objects of a kind, in one namespace or in all, in the order of their names.
pub(super) async fn all(cluster: &Cluster, kind: &dyn Kind, namespace: &str) -> Result<Vec<Value>> {
    let page = cluster.list(kind, namespace, &ListOptions::default()).await?;
    page.entries.iter().map(|entry| parse(entry.value_bytes(), kind)).collect()
}

/// An object as a tree.
pub(super) fn parse(json: &[u8], kind: &dyn Kind) -> Result<Value> {
    serde_json::from_slice(json).map_err(|error| Error::Corrupt {
        key: kind.declaration().group_resource(),
        reason: error.to_string(),
    })
}

/// The field of an object at a path, made where it is absent.
pub(super) fn entry<'a>(object: &'a mut Value, path: &[&str]) -> &'a mut Value {
    path.iter().fold(object, |value, name| {
        if !value.is_object() {
            *value = Value::Object(serde_json::Map::new());
        }
        &mut value[*name]
    })
}

/// Appends to the list of an object at a path.
pub(super) fn push(object: &mut Value, path: &[&str], item: Value) {
    match entry(object, path) {
        Value::Array(items) => items.push(item),
        other => *other = Value::Array(vec![item]),
    }
}

/// The items of a list at a path, for changing them.
pub(super) fn items_mut<'a>(object: &'a mut Value, path: &[&str]) -> &'a mut [Value] {
    if view::items(object, path).is_empty() {
        return &mut [];
    }
    entry(object, path).as_array_mut().map_or(&mut [], Vec::as_mut_slice)
}
