//! Ownership of the replica count, translated between an object and its Scale subresource.
//!
//! Both contain the same field, each in its own version and at its own path. A write to the Scale
//! is tracked in the version of the Scale, and the result is translated back to the object.

use super::field_set::{FieldSet, Path};
use super::managed_fields::{ManagedFields, ManagedFieldsEntry, ManagerId};
use super::path_element::PathElement;

/// The `apiVersion` of Scale objects.
const SCALE_VERSION: &str = "autoscaling/v1";

/// Path of the replica count in a Scale.
const IN_SCALE: &[&str] = &["spec", "replicas"];

/// The managedFields of an object that has a Scale.
#[derive(Clone, Debug)]
pub struct ScaleOwnership {
    managed: ManagedFields,
    api_version: String,
    replicas: Path,
}

impl ScaleOwnership {
    /// Creates the ownership of an object of this version whose replica count is at this path.
    pub fn new<'a>(
        managed: ManagedFields,
        api_version: &str,
        replicas: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let replicas = replicas.into_iter().map(PathElement::field).collect();
        Self { managed, api_version: api_version.to_owned(), replicas }
    }

    /// Returns the entries that own the replica count, translated to the Scale.
    pub fn of_scale(&self) -> ManagedFields {
        let owners = self.managed.entries.iter().filter(|entry| self.owns_replicas(entry));
        let entries = owners.map(|entry| {
            let id = &entry.id;
            let id = ManagerId::new(&id.manager, id.operation, SCALE_VERSION, &id.subresource);
            let fields = FieldSet::of_fields(&[IN_SCALE]);
            ManagedFieldsEntry::new(id, SCALE_VERSION, entry.time.clone(), fields)
        });
        ManagedFields { entries: entries.collect() }
    }

    /// Returns the entries of the object after a write to its Scale, whose entries are `scale`.
    ///
    /// Only an apply manager is recognized: the identity of an update manager contains the version,
    /// so it gets a new entry without a time. kube-apiserver does the same.
    pub fn of_object(self, scale: ManagedFields) -> ManagedFields {
        let mut of_scale = scale.entries;
        let mut entries = Vec::with_capacity(self.managed.entries.len() + of_scale.len());
        for entry in &self.managed.entries {
            if entry.api_version != self.api_version {
                continue;
            }
            if !self.owns_replicas(entry) {
                entries.push(entry.clone());
                continue;
            }
            match of_scale.iter().position(|other| other.id == entry.id) {
                Some(index) => {
                    of_scale.swap_remove(index);
                    entries.push(entry.clone());
                }
                None => entries.extend(self.without_replicas(entry)),
            }
        }
        let in_scale: Path = IN_SCALE.iter().map(|name| PathElement::field(*name)).collect();
        let new_owners = of_scale.into_iter().filter(|entry| entry.fields().contains(&in_scale));
        let fields = self.replicas_set();
        entries.extend(
            new_owners
                .map(|entry| ManagedFieldsEntry::new(entry.id, &self.api_version, None, fields.clone())),
        );
        ManagedFields { entries }
    }

    fn owns_replicas(&self, entry: &ManagedFieldsEntry) -> bool {
        entry.api_version == self.api_version && entry.fields().contains(&self.replicas)
    }

    fn replicas_set(&self) -> FieldSet {
        let mut set = FieldSet::new();
        set.insert(&self.replicas);
        set
    }

    /// Returns the entry without the replica count; `None` if no other field is left.
    fn without_replicas(&self, entry: &ManagedFieldsEntry) -> Option<ManagedFieldsEntry> {
        let mut fields = entry.fields().into_owned();
        fields.remove(&self.replicas_set());
        let rest = ManagedFieldsEntry::new(entry.id.clone(), &entry.api_version, entry.time.clone(), fields);
        (!rest.fields().is_empty()).then_some(rest)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Operation;
    use super::*;

    fn managed(entries: serde_json::Value) -> ManagedFields {
        ManagedFields::decode(Some(&entries)).unwrap()
    }

    fn ownership() -> ScaleOwnership {
        let entries = json!([
            {"manager": "a", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
             "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:replicas": {}, "f:paused": {}}}},
            {"manager": "u", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
             "fieldsV1": {"f:spec": {"f:paused": {}}}},
        ]);
        ScaleOwnership::new(managed(entries), "apps/v1", ["spec", "replicas"])
    }

    #[test]
    fn of_scale_translates_owners_of_replicas() {
        let scale = ownership().of_scale();
        assert_eq!(scale.entries.len(), 1);
        assert_eq!(scale.entries[0].api_version, "autoscaling/v1");
        assert_eq!(scale.entries[0].id, ManagerId::new("a", Operation::Apply, "", ""));
    }

    #[test]
    fn scale_update_takes_replicas_from_other_managers() {
        let by_b = json!([{"manager": "b", "operation": "Update", "apiVersion": "autoscaling/v1",
            "subresource": "scale", "fieldsType": "FieldsV1", "time": "2026-01-02T00:00:00Z",
            "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
        let entries = ownership().of_object(managed(by_b)).encode().unwrap();
        assert_eq!(
            entries,
            json!([
                {"manager": "a", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
                 "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:paused": {}}}},
                {"manager": "b", "operation": "Update", "apiVersion": "apps/v1", "subresource": "scale",
                 "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
                {"manager": "u", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
                 "fieldsV1": {"f:spec": {"f:paused": {}}}},
            ])
        );
    }

    #[test]
    fn apply_manager_keeps_replicas_if_scale_is_unchanged() {
        let ownership = ownership();
        let scale = ownership.of_scale();
        let entries = ownership.of_object(scale);
        let a = entries.get(&ManagerId::new("a", Operation::Apply, "", "")).unwrap();
        assert_eq!(a.fields().len(), 2);
    }
}
