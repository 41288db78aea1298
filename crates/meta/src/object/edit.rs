//! Modification of an object's metadata.

use serde_json::{Map, Value};

use super::{Meta, OwnerReference};
use crate::time::Time;

/// Mutable access to the metadata of an object. Setting a field to an empty value removes it.
#[derive(Debug)]
pub struct MetaMut<'a>(&'a mut Map<String, Value>);

impl<'a> MetaMut<'a> {
    /// Returns the metadata of an object, added if absent. `None` if the value is not an object, or
    /// its metadata is not.
    pub fn of(object: &'a mut Value) -> Option<Self> {
        let metadata = object.as_object_mut()?.entry("metadata").or_insert(Value::Null);
        if metadata.is_null() {
            *metadata = Value::Object(Map::new());
        }
        metadata.as_object_mut().map(Self)
    }

    /// Returns a read-only view.
    pub fn view(&self) -> Meta<'_> {
        Meta::from_map(self.0)
    }

    /// Sets or removes a field.
    pub fn set(&mut self, name: &str, value: Option<Value>) {
        match value {
            Some(value) => self.0.insert(name.to_owned(), value),
            None => self.0.remove(name),
        };
    }

    fn set_text(&mut self, name: &str, text: &str) {
        self.set(name, (!text.is_empty()).then(|| text.into()));
    }

    /// Sets `metadata.name`.
    pub fn set_name(&mut self, name: &str) {
        self.set_text("name", name);
    }

    /// Sets `metadata.generateName`.
    pub fn set_generate_name(&mut self, prefix: &str) {
        self.set_text("generateName", prefix);
    }

    /// Sets `metadata.namespace`.
    pub fn set_namespace(&mut self, namespace: &str) {
        self.set_text("namespace", namespace);
    }

    /// Sets `metadata.uid`.
    pub fn set_uid(&mut self, uid: &str) {
        self.set_text("uid", uid);
    }

    /// Sets `metadata.resourceVersion`.
    pub fn set_resource_version(&mut self, resource_version: &str) {
        self.set_text("resourceVersion", resource_version);
    }

    /// Sets `metadata.generation`; zero removes it.
    pub fn set_generation(&mut self, generation: i64) {
        self.set("generation", (generation != 0).then(|| generation.into()));
    }

    /// Sets `metadata.creationTimestamp`.
    pub fn set_creation_timestamp(&mut self, time: Option<Time>) {
        self.set("creationTimestamp", time.map(|time| time.to_string().into()));
    }

    /// Sets `metadata.deletionTimestamp`.
    pub fn set_deletion_timestamp(&mut self, time: Option<Time>) {
        self.set("deletionTimestamp", time.map(|time| time.to_string().into()));
    }

    /// Sets `metadata.deletionGracePeriodSeconds`.
    pub fn set_deletion_grace_period_seconds(&mut self, seconds: Option<i64>) {
        self.set("deletionGracePeriodSeconds", seconds.map(Value::from));
    }

    /// Sets a label.
    pub fn set_label(&mut self, key: &str, value: &str) {
        self.set_entry("labels", key, value);
    }

    /// Removes a label.
    pub fn remove_label(&mut self, key: &str) {
        self.remove_entry("labels", key);
    }

    /// Sets an annotation.
    pub fn set_annotation(&mut self, key: &str, value: &str) {
        self.set_entry("annotations", key, value);
    }

    /// Removes an annotation.
    pub fn remove_annotation(&mut self, key: &str) {
        self.remove_entry("annotations", key);
    }

    fn set_entry(&mut self, field: &str, key: &str, value: &str) {
        let map = self.0.entry(field).or_insert(Value::Null);
        if !map.is_object() {
            *map = Value::Object(Map::new());
        }
        if let Some(map) = map.as_object_mut() {
            map.insert(key.to_owned(), value.into());
        }
    }

    fn remove_entry(&mut self, field: &str, key: &str) {
        let Some(map) = self.0.get_mut(field).and_then(Value::as_object_mut) else { return };
        map.remove(key);
        if map.is_empty() {
            self.0.remove(field);
        }
    }

    /// Replaces all finalizers.
    pub fn set_finalizers<'b>(&mut self, finalizers: impl IntoIterator<Item = &'b str>) {
        let finalizers: Vec<Value> = finalizers.into_iter().map(Value::from).collect();
        self.set_list("finalizers", finalizers);
    }

    /// Adds a finalizer. Returns false if the object already had it.
    pub fn add_finalizer(&mut self, name: &str) -> bool {
        if self.view().has_finalizer(name) {
            return false;
        }
        let mut finalizers: Vec<Value> = self.view().finalizers().map(Value::from).collect();
        finalizers.push(name.into());
        self.set_list("finalizers", finalizers);
        true
    }

    /// Removes a finalizer. Returns false if the object did not have it.
    pub fn remove_finalizer(&mut self, name: &str) -> bool {
        if !self.view().has_finalizer(name) {
            return false;
        }
        let others = self.view().finalizers().filter(|finalizer| *finalizer != name).map(Value::from);
        let others = others.collect();
        self.set_list("finalizers", others);
        true
    }

    /// Replaces all owner references.
    pub fn set_owner_references<'b>(&mut self, owners: impl IntoIterator<Item = OwnerReference<'b>>) {
        let owners = owners.into_iter().map(OwnerReference::to_value).collect();
        self.set_list("ownerReferences", owners);
    }

    /// Replaces all entries of `metadata.managedFields`.
    pub fn set_managed_fields(&mut self, entries: Vec<Value>) {
        self.set_list("managedFields", entries);
    }

    fn set_list(&mut self, name: &str, items: Vec<Value>) {
        self.set(name, (!items.is_empty()).then(|| items.into()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_value_removes_field() {
        let mut object = json!({});
        let mut meta = MetaMut::of(&mut object).unwrap();
        meta.set_name("x");
        meta.set_namespace("n");
        meta.set_generation(1);
        meta.set_creation_timestamp(Some(Time(0)));
        meta.set_label("a", "1");
        meta.set_annotation("b", "2");
        assert!(meta.add_finalizer("f") && !meta.add_finalizer("f"));
        meta.set_owner_references([OwnerReference { uid: "1", ..OwnerReference::default() }]);
        let expected = json!({"metadata": {
            "name": "x", "namespace": "n", "generation": 1, "creationTimestamp": "1970-01-01T00:00:00Z",
            "labels": {"a": "1"}, "annotations": {"b": "2"}, "finalizers": ["f"],
            "ownerReferences": [{"apiVersion": "", "kind": "", "name": "", "uid": "1"}],
        }});
        assert_eq!(object, expected);
        let mut meta = MetaMut::of(&mut object).unwrap();
        meta.set_name("");
        meta.set_namespace("");
        meta.set_generation(0);
        meta.set_creation_timestamp(None);
        meta.remove_label("a");
        meta.remove_annotation("b");
        assert!(meta.remove_finalizer("f") && !meta.remove_finalizer("f"));
        meta.set_owner_references([]);
        assert_eq!(object, json!({"metadata": {}}));
        assert!(MetaMut::of(&mut json!({"metadata": []})).is_none());
    }
}
