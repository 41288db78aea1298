//! Removal of fields that a manager applied before and does not apply any more.

use std::borrow::Cow;

use serde_json::Value;

use super::field_set::FieldSet;
use super::managed_fields::{ManagedFields, ManagedFieldsEntry};
use super::typed::Type;
use super::update::Updater;
use super::versions::{ConversionError, Versioned};

/// Removes fields that the manager applied last time and not this time, unless another manager owns
/// them.
pub(super) struct Pruner<'a> {
    pub(super) updater: &'a Updater<'a>,
    /// The entries of all managers, including the configuration being applied.
    pub(super) managed: &'a ManagedFields,
    /// The manager's previous entry.
    pub(super) last: &'a ManagedFieldsEntry,
}

impl Pruner<'_> {
    /// Returns the merged object without the fields to remove.
    pub(super) fn prune(&self, merged: Value) -> Result<Value, ConversionError> {
        if self.last.fields.is_empty() {
            return Ok(merged);
        }
        let last_version = self.last.api_version.as_str();
        let pruned = {
            let merged = Versioned::borrowed(&merged, self.updater.api_version);
            let (Some(merged), Some(object_type)) =
                (merged.at(self.updater.versions, last_version)?, self.updater.type_at(last_version))
            else {
                return Ok(merged.object.into_owned());
            };
            let last = object_type.with_named_fields(self.last.fields().into_owned());
            let without_last =
                merged.with_object(object_type.remove(merged.object.clone().into_owned(), &last));
            match self.add_back_owned(&merged, without_last)?.at(self.updater.versions, last_version)? {
                Some(pruned) => self.add_back_dangling(object_type, &merged, &pruned, &last),
                None => merged,
            }
            .at(self.updater.versions, self.updater.api_version)?
            .map(|pruned| pruned.object.into_owned())
        };
        // The conversion to the version of the request always succeeds.
        Ok(pruned.unwrap_or(merged))
    }

    /// Restores removed fields that another manager owns, for each version with owned fields.
    fn add_back_owned<'v>(
        &self,
        merged: &Versioned<'v>,
        pruned: Versioned<'v>,
    ) -> Result<Versioned<'v>, ConversionError> {
        let (mut merged, mut pruned) = (merged.clone(), pruned);
        for (api_version, owned) in self.owned_by_version() {
            let versions = self.updater.versions;
            let (Some(object_type), Some(merged_at), Some(pruned_at)) = (
                self.updater.type_at(api_version),
                merged.at(versions, api_version)?,
                pruned.at(versions, api_version)?,
            ) else {
                continue;
            };
            let named = |set| object_type.with_named_fields(set);
            let mut removed = named(object_type.to_field_set(&merged_at.object));
            removed.remove(&named(object_type.to_field_set(&pruned_at.object)));
            removed.remove(&named(owned));
            pruned =
                merged_at.with_object(object_type.remove(merged_at.object.clone().into_owned(), &removed));
            merged = merged_at;
        }
        Ok(pruned)
    }

    /// Groups the owned fields by version. The version of the manager's previous apply comes first,
    /// because an object without fields that conversion needs could not be converted.
    fn owned_by_version(&self) -> Vec<(&str, FieldSet)> {
        let mut owned: Vec<(&str, Vec<FieldSet>)> = vec![(&self.last.api_version, Vec::new())];
        for entry in &self.managed.entries {
            let fields = entry.fields().into_owned();
            match owned.iter_mut().find(|group| group.0 == entry.api_version) {
                Some(group) => group.1.push(fields),
                None => owned.push((&entry.api_version, vec![fields])),
            }
        }
        owned.into_iter().map(|(version, sets)| (version, FieldSet::union_all(sets))).collect()
    }

    /// Restores removed fields that are not in the manager's previous set and have no owner: they
    /// went only with their parent.
    fn add_back_dangling<'v>(
        &self,
        object_type: Type<'_>,
        merged: &Versioned<'v>,
        pruned: &Versioned<'v>,
        last: &FieldSet,
    ) -> Versioned<'v> {
        let mut removed = object_type.with_named_fields(object_type.to_field_set(&merged.object));
        removed.remove(&object_type.with_named_fields(object_type.to_field_set(&pruned.object)));
        let removed = removed.intersection(last);
        if removed.is_empty() {
            return merged.clone();
        }
        let object = Cow::into_owned(merged.object.clone());
        merged.with_object(object_type.remove(object, &removed))
    }
}
