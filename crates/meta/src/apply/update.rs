//! Ownership rules of a write.
//!
//! A manager that changes a field becomes its only owner. With apply, it may change a field only if
//! no other manager owns it, or by force. [`super::FieldManager`] decides when these rules apply
//! and to which manager.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::conflict::Conflicts;
use super::field_filter::ResetFields;
use super::field_manager::ApplyError;
use super::field_set::FieldSet;
use super::lazy_fields::LazyFields;
use super::managed_fields::{ManagedFields, ManagedFieldsEntry, ManagerId};
use super::prune::Pruner;
use super::typed::{Comparison, IgnoredFields, Type};
use super::value_order;
use super::versions::{ConversionError, Versioned, Versions};

/// Fields that identify the object or that only the server writes.
pub(super) static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of_fields(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "clusterName"],
        &["metadata", "creationTimestamp"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "resourceVersion"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
    ])
});

/// The type and version of a write.
#[derive(Clone, Copy)]
pub(super) struct Updater<'a> {
    pub(super) versions: &'a dyn Versions,
    pub(super) api_version: &'a str,
    pub(super) object_type: Type<'a>,
    pub(super) reset_fields: &'a ResetFields,
}

/// The outcome of [`Updater::update`].
pub(super) struct Outcome {
    /// True if the write changed a field that can be owned.
    pub(super) has_changed: bool,
    /// True if the new object may not match its type, see [`Comparison::is_malformed`].
    pub(super) is_malformed: bool,
}

impl Updater<'_> {
    /// Transfers the ownership of changed fields from all their owners to the writer.
    pub(super) fn update(
        &self,
        live: &Value,
        new: &Value,
        managed: &mut ManagedFields,
        id: &ManagerId,
    ) -> Result<Outcome, ConversionError> {
        self.reconcile(managed);
        let mut comparisons = Comparisons::new(self, live, new);
        for entry in &mut managed.entries {
            let Some(comparison) = comparisons.at(&entry.api_version)? else { continue };
            if entry.id == *id {
                entry.fields.remove(&comparison.removed);
            } else {
                disown(&mut entry.fields, comparison);
            }
        }
        let changes = comparisons.into_own();
        let is_malformed = changes.is_malformed;
        let mut changed = changes.modified.union(changes.added);
        let server_side = changed.intersection(&NEVER_OWNED);
        changed.remove(&NEVER_OWNED);
        let has_changed = !changed.is_empty();
        self.assign(managed, id, changed, &server_side);
        managed.entries.retain(|entry| !entry.fields.is_empty());
        Ok(Outcome { has_changed, is_malformed })
    }

    /// Returns the fields that the creator of an object owns, as `fieldsV1`. `None` if only
    /// [`Self::update`] can compute them.
    pub(super) fn created(&self, start: &Value, new: &Value) -> Option<Map<String, Value>> {
        let trees = self.reset_fields.excluded_subtrees(self.api_version)?;
        self.object_type.created(start, new, IgnoredFields { fields: Some(&NEVER_OWNED), trees })
    }

    /// Adds the changed fields to the writer's entry.
    fn assign(&self, managed: &mut ManagedFields, id: &ManagerId, changed: FieldSet, server_side: &FieldSet) {
        match managed.entries.iter_mut().find(|entry| entry.id == *id) {
            Some(entry) => {
                entry.fields.remove(server_side);
                entry.fields.insert(changed);
            }
            None => {
                managed.entries.push(ManagedFieldsEntry::new(id.clone(), self.api_version, None, changed));
            }
        }
    }

    /// Merges a configuration. Returns the resulting object, or `None` if nothing changed.
    pub(super) fn apply(
        &self,
        live: &Value,
        config: &Value,
        managed: &mut ManagedFields,
        id: &ManagerId,
        force: bool,
    ) -> Result<Option<Value>, ApplyError> {
        let time = managed.get(id).and_then(|entry| entry.time.clone());
        self.reconcile(managed);
        let merged = self.object_type.merge(live.clone(), config);
        let fields = self.reset_fields.filter(self.api_version, self.object_type.to_field_set(config));
        let last = managed.get(id);
        // If every field is applied again there is nothing to prune: the usual case, and much
        // cheaper. Empty values are the exception: an empty object is a field only as long as it is
        // empty.
        let is_covered =
            last.is_none_or(|last| last.api_version == self.api_version && last.fields().is_subset(&fields));
        let may_prune = !is_covered || mentions_empty(config);
        let own = ManagedFieldsEntry::new(id.clone(), self.api_version, time, fields);
        let last = managed.replace(own);
        let new = match last {
            Some(last) if may_prune => Pruner { updater: self, managed, last: &last }.prune(merged)?,
            _ => merged,
        };
        self.take_over(live, &new, managed, id, force)?;
        Ok((!value_order::equal(live, &new)).then_some(new))
    }

    /// Removes changed fields from the sets of other managers, or reports conflicts without
    /// `force`.
    fn take_over(
        &self,
        live: &Value,
        new: &Value,
        managed: &mut ManagedFields,
        id: &ManagerId,
        force: bool,
    ) -> Result<(), ApplyError> {
        let mut comparisons = Comparisons::new(self, live, new);
        let mut conflicts = Vec::new();
        for entry in managed.entries.iter_mut().filter(|entry| entry.id != *id) {
            let Some(comparison) = comparisons.at(&entry.api_version)? else { continue };
            if !force {
                let owned = entry.fields();
                let modified = owned.intersection(&comparison.modified);
                let conflict = modified.union(owned.intersection(&comparison.added));
                if !conflict.is_empty() {
                    conflicts.push((entry.id.clone(), conflict));
                }
            }
            disown(&mut entry.fields, comparison);
        }
        if !conflicts.is_empty() {
            return Err(Conflicts::new(conflicts).into());
        }
        managed.entries.retain(|entry| !entry.fields.is_empty());
        Ok(())
    }

    /// Adapts entries to the current schemas, and drops entries of removed versions.
    fn reconcile(&self, managed: &mut ManagedFields) {
        managed.entries.retain_mut(|entry| match self.type_at(&entry.api_version) {
            Some(object_type) => {
                entry.fields.reconcile(object_type);
                true
            }
            None => false,
        });
    }

    pub(super) fn type_at(&self, api_version: &str) -> Option<Type<'_>> {
        if api_version == self.api_version {
            return Some(self.object_type);
        }
        self.versions.object_type(api_version)
    }
}

/// Removes fields that were changed, added or removed by another manager.
fn disown(fields: &mut LazyFields, comparison: &Comparison) {
    fields.remove(&comparison.modified);
    fields.remove(&comparison.added);
    fields.remove(&comparison.removed);
}

fn mentions_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty() || fields.values().any(mentions_empty),
        Value::Array(items) => items.iter().any(mentions_empty),
        _ => false,
    }
}

/// The comparison of two objects at each version with owned fields, computed lazily.
struct Comparisons<'u> {
    updater: &'u Updater<'u>,
    live: Versioned<'u>,
    new: Versioned<'u>,
    /// The first is that of the version of the request.
    by_version: Vec<(Cow<'u, str>, Option<Comparison>)>,
}

impl<'u> Comparisons<'u> {
    fn new(updater: &'u Updater<'u>, live: &'u Value, new: &'u Value) -> Self {
        let own = updater.filtered(updater.object_type.compare(live, new), updater.api_version);
        Self {
            updater,
            live: Versioned::borrowed(live, updater.api_version),
            new: Versioned::borrowed(new, updater.api_version),
            by_version: vec![(Cow::Borrowed(updater.api_version), Some(own))],
        }
    }

    fn at(&mut self, api_version: &str) -> Result<Option<&Comparison>, ConversionError> {
        let index = match self.by_version.iter().position(|entry| entry.0 == api_version) {
            Some(index) => index,
            None => {
                let found = self.compare(api_version)?;
                self.by_version.push((Cow::Owned(api_version.to_owned()), found));
                self.by_version.len() - 1
            }
        };
        Ok(self.by_version[index].1.as_ref())
    }

    fn compare(&self, api_version: &str) -> Result<Option<Comparison>, ConversionError> {
        let versions = self.updater.versions;
        let (Some(object_type), Some(live), Some(new)) = (
            self.updater.type_at(api_version),
            self.live.at(versions, api_version)?,
            self.new.at(versions, api_version)?,
        ) else {
            return Ok(None);
        };
        let comparison = object_type.compare(&live.object, &new.object);
        Ok(Some(self.updater.filtered(comparison, api_version)))
    }

    fn into_own(self) -> Comparison {
        self.by_version.into_iter().next().and_then(|entry| entry.1).unwrap_or_default()
    }
}

impl Updater<'_> {
    fn filtered(&self, comparison: Comparison, api_version: &str) -> Comparison {
        let filter = |set| self.reset_fields.filter(api_version, set);
        Comparison {
            removed: filter(comparison.removed),
            modified: filter(comparison.modified),
            added: filter(comparison.added),
            is_malformed: comparison.is_malformed,
        }
    }
}
