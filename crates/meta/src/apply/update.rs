//! What a write does to who owns what.
//!
//! Whoever changes a field owns it from then on, alone; with apply only if nobody else owned
//! it, or by force. These are the rules themselves; [`super::FieldManager`] decides when they
//! are used and by whom.

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
use super::typed::{Comparison, Type, Uncounted};
use super::value_order;
use super::versions::{ConversionError, Versioned, Versions};

/// What says which object it is, and what only the server writes.
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

/// The kind and version that is written.
#[derive(Clone, Copy)]
pub(super) struct Updater<'a> {
    pub(super) versions: &'a dyn Versions,
    pub(super) api_version: &'a str,
    pub(super) object_type: Type<'a>,
    pub(super) reset_fields: &'a ResetFields,
}

/// The outcome of [`Updater::update`].
pub(super) struct Outcome {
    /// Whether the writer changed anything that can be owned.
    pub(super) has_changed: bool,
    /// Whether the new object may not be of its type, see [`Comparison::is_malformed`].
    pub(super) is_malformed: bool,
}

impl Updater<'_> {
    /// Takes what changed from all that owned it and gives it to the writer.
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
        self.give(managed, id, changed, &server_side);
        managed.entries.retain(|entry| !entry.fields.is_empty());
        Ok(Outcome { has_changed, is_malformed })
    }

    /// What the writer owns of an object that nobody has written before, as it is stored; none if only
    /// [`Self::update`] can tell.
    pub(super) fn created(&self, start: &Value, new: &Value) -> Option<Map<String, Value>> {
        let trees = self.reset_fields.excluded_subtrees(self.api_version)?;
        self.object_type.created(start, new, Uncounted { fields: Some(&NEVER_OWNED), trees })
    }

    /// Makes the writer the owner of what it changed.
    fn give(&self, managed: &mut ManagedFields, id: &ManagerId, changed: FieldSet, server_side: &FieldSet) {
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

    /// Merges a configuration; the object that results, or nothing if it is as it was.
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
        // What is all applied again leaves nothing to remove: the usual case, and much cheaper.
        // Something empty is the exception: it is a field only as long as it is empty.
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

    /// Takes what changed from others that owned it, if that is allowed.
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

    /// Makes entries fit the schemas of today, and drops those of versions that are gone.
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

/// Nobody owns what another has changed, or what is gone.
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

/// How an object changed, seen at each version that someone owns fields of.
struct Comparisons<'u> {
    updater: &'u Updater<'u>,
    live: Versioned<'u>,
    new: Versioned<'u>,
    /// The first is that of the version written.
    known: Vec<(Cow<'u, str>, Option<Comparison>)>,
}

impl<'u> Comparisons<'u> {
    fn new(updater: &'u Updater<'u>, live: &'u Value, new: &'u Value) -> Self {
        let own = updater.filtered(updater.object_type.compare(live, new), updater.api_version);
        Self {
            updater,
            live: Versioned::borrowed(live, updater.api_version),
            new: Versioned::borrowed(new, updater.api_version),
            known: vec![(Cow::Borrowed(updater.api_version), Some(own))],
        }
    }

    fn at(&mut self, api_version: &str) -> Result<Option<&Comparison>, ConversionError> {
        let place = match self.known.iter().position(|known| known.0 == api_version) {
            Some(place) => place,
            None => {
                let found = self.compare(api_version)?;
                self.known.push((Cow::Owned(api_version.to_owned()), found));
                self.known.len() - 1
            }
        };
        Ok(self.known[place].1.as_ref())
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
        self.known.into_iter().next().and_then(|known| known.1).unwrap_or_default()
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
