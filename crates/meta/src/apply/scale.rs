//! Who owns the number of replicas, seen from the object and from its Scale.
//!
//! Both tell of the same field, each in its own version and at its own path. A write to the
//! Scale is tracked there, and what came of it is told by the object again.

use super::field_set::{FieldSet, Path};
use super::managed_fields::{ManagedFields, ManagedFieldsEntry, ManagerId};
use super::path_element::PathElement;

/// The version of Scale objects.
const SCALE_VERSION: &str = "autoscaling/v1";

/// Where a Scale has the number of replicas.
const IN_SCALE: &[&str] = &["spec", "replicas"];

/// What is owned of an object that has a Scale.
#[derive(Clone, Debug)]
pub struct ScaleOwnership {
    managed: ManagedFields,
    api_version: String,
    replicas: Path,
}

impl ScaleOwnership {
    /// Of an object of this version that has its number of replicas at this path of fields.
    pub fn new<'a>(
        managed: ManagedFields,
        api_version: &str,
        replicas: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let replicas = replicas.into_iter().map(PathElement::field).collect();
        Self { managed, api_version: api_version.to_owned(), replicas }
    }

    /// The entries of those who own the number of replicas, as the Scale tells them.
    pub fn of_scale(&self) -> ManagedFields {
        let owners = self.managed.entries.iter().filter(|entry| self.owns_replicas(entry));
        let told = owners.map(|entry| {
            let id = &entry.id;
            let id = ManagerId::new(&id.manager, id.operation, SCALE_VERSION, &id.subresource);
            let fields = FieldSet::of_fields(&[IN_SCALE]);
            ManagedFieldsEntry::new(id, SCALE_VERSION, entry.time.clone(), fields)
        });
        ManagedFields { entries: told.collect() }
    }

    /// The entries of the object, now that those of its Scale are these.
    ///
    /// Only one who applies is known again: whoever updates has another identity in each
    /// version, and so gets an entry of its own, without a time. Upstream does the same.
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
            match of_scale.iter().position(|known| known.id == entry.id) {
                Some(place) => {
                    of_scale.swap_remove(place);
                    entries.push(entry.clone());
                }
                None => entries.extend(self.without_replicas(entry)),
            }
        }
        let in_scale: Path = IN_SCALE.iter().map(|name| PathElement::field(*name)).collect();
        let newly = of_scale.into_iter().filter(|entry| entry.fields().contains(&in_scale));
        let fields = self.replicas_set();
        entries.extend(
            newly.map(|entry| ManagedFieldsEntry::new(entry.id, &self.api_version, None, fields.clone())),
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

    /// Nothing if that was all.
    fn without_replicas(&self, entry: &ManagedFieldsEntry) -> Option<ManagedFieldsEntry> {
        let mut fields = entry.fields().into_owned();
        fields.remove(&self.replicas_set());
        let left = ManagedFieldsEntry::new(entry.id.clone(), &entry.api_version, entry.time.clone(), fields);
        (!left.fields().is_empty()).then_some(left)
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
    fn owners_of_the_replicas_are_told_in_the_version_of_the_scale() {
        let scale = ownership().of_scale();
        assert_eq!(scale.entries.len(), 1);
        assert_eq!(scale.entries[0].api_version, "autoscaling/v1");
        assert_eq!(scale.entries[0].id, ManagerId::new("a", Operation::Apply, "", ""));
    }

    #[test]
    fn who_scales_takes_the_replicas_from_the_others() {
        let by_b = json!([{"manager": "b", "operation": "Update", "apiVersion": "autoscaling/v1",
            "subresource": "scale", "fieldsType": "FieldsV1", "time": "2026-01-02T00:00:00Z",
            "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
        let told = ownership().of_object(managed(by_b)).encode().unwrap();
        assert_eq!(
            told,
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
    fn one_who_applied_them_keeps_them_where_nobody_took_them() {
        let kept = ownership();
        let scale = kept.of_scale();
        let told = kept.of_object(scale);
        let a = told.get(&ManagerId::new("a", Operation::Apply, "", "")).unwrap();
        assert_eq!(a.fields().len(), 2);
    }
}
