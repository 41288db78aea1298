//! Deleting objects: at once, after a grace period, or with the removal of the last finalizer.

use coracle_meta::gvk::GroupResource;
use coracle_meta::object::{Meta, MetaMut};
use coracle_meta::time::Time;
use coracle_store::Entry;
use serde_json::Value;

use super::commit::{Attempts, Known, Plan, Step};
use super::{Object, Preconditions, Write, meta_mut};
use crate::admission::{Attributes, Operation};
use crate::cluster::Cluster;
use crate::condition::Conditions;
use crate::error::{Error, Result, Subject};
use crate::keys;
use crate::kind::DeletionRule;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// Propagation policy: what happens to dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are kept, without the owner reference.
    Orphan,
    /// The garbage collector deletes them afterwards.
    Background,
    /// The garbage collector deletes them first.
    Foreground,
}

/// Options of a deletion.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Preconditions on the object.
    pub preconditions: Preconditions,
    /// Propagation policy; the kind's default if none.
    pub propagation: Option<Propagation>,
    /// Grace period for kinds with graceful deletion.
    pub grace_period_s: Option<i64>,
}

/// Result of a deletion.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// The deleted object, or its new state if it is only marked as terminating.
    pub object: Object,
    /// Whether the object is removed from the store.
    pub gone: bool,
}

/// The next state of an object that is being deleted.
struct Planned {
    object: Value,
    changed: bool,
    gone: bool,
}

impl Cluster {
    /// Deletes an object, or marks it as terminating.
    ///
    /// # Errors
    /// If it does not exist, a precondition fails, or admission rejects the deletion.
    pub async fn delete(&self, write: &Write<'_>, name: &str, options: &DeleteOptions) -> Result<Deletion> {
        let key = keys::key(write.declaration(), write.namespace, name);
        let mut attempts = self.attempts(write.declaration(), key, Known::Probable).await?;
        attempts.exempt_from_limits();
        loop {
            let attempt = self.try_delete(write, name, options, &mut attempts).await;
            if let Some(deletion) = attempts.settle(attempt).await? {
                return Ok(deletion);
            }
        }
    }

    /// One attempt; `None` after a conflict with another writer.
    async fn try_delete(
        &self,
        write: &Write<'_>,
        name: &str,
        options: &DeleteOptions,
        attempts: &mut Attempts<'_>,
    ) -> Result<Option<Deletion>> {
        let entry = attempts.found().cloned().ok_or_else(|| Error::NotFound(write.subject(name)))?;
        let object = write.read(&entry)?;
        check_meant(write, name, &options.preconditions, &object, &entry)?;
        let (operation, old, conditions) = (Operation::Delete, Some(&object), Conditions::default());
        let attributes = Attributes { cluster: self, write, operation, name, old, conditions: &conditions };
        // Warnings for deletions do not exist yet.
        self.validate(&attributes, &object, &mut Vec::new()).await?;
        attempts.require(conditions);
        let planned = self.prepare_deletion(write, options, object)?;
        let (encoded, gone) = (write.encoded(&planned.object), planned.gone);
        let plan = match planned {
            _ if write.dry_run => Plan::keep(),
            Planned { gone: true, object, .. } => Plan {
                step: Step::Delete,
                allocations: Vec::new(),
                released: write.kind.allocations(&object),
            },
            Planned { changed: false, .. } => Plan::keep(),
            _ => Plan { step: Step::Put(encoded.clone()), ..Plan::keep() },
        };
        let Some(outcome) = attempts.carry_out(plan).await? else { return Ok(None) };
        let revision = if outcome.changed { outcome.revision } else { entry.mod_revision() };
        Ok(Some(Deletion { object: Object { json: encoded.stamped(revision), revision }, gone }))
    }

    /// Marks the object as terminating, and decides whether it can be removed.
    fn prepare_deletion(
        &self,
        write: &Write<'_>,
        options: &DeleteOptions,
        mut object: Value,
    ) -> Result<Planned> {
        let mut changed = false;
        if Meta::of(&object).is_deleting() && write.kind.is_held(&object) {
            return Ok(Planned { object, changed: false, gone: false });
        }
        let grace_s = if Meta::of(&object).is_deleting() {
            let (remaining_s, shortened) = shorten_grace(&mut object, options)?;
            if remaining_s > 0 && !shortened {
                return Ok(Planned { object, changed: false, gone: false });
            }
            changed |= shortened;
            remaining_s
        } else {
            match write.kind.deletion_grace_period_s(&object, options.grace_period_s) {
                Some(grace_s) => {
                    self.mark(write, &mut object, grace_s)?;
                    changed = true;
                    grace_s
                }
                None => 0,
            }
        };
        let is_definition = write.declaration().deletion == DeletionRule::Definition;
        if !is_definition || Meta::of(&object).is_deleting() {
            changed |= set_propagation(write, options, &mut meta_mut(&mut object)?);
        }
        let must_stay = Meta::of(&object).finalizers().next().is_some() || write.kind.is_held(&object);
        if must_stay && !Meta::of(&object).is_deleting() {
            self.mark(write, &mut object, 0)?;
            changed = true;
        } else if must_stay && Meta::of(&object).deletion_grace_period_seconds().is_none() {
            // The second deletion of a CustomResourceDefinition.
            meta_mut(&mut object)?.set_deletion_grace_period_seconds(Some(0));
            changed = true;
        }
        Ok(Planned { object, changed, gone: !must_stay && grace_s == 0 })
    }

    fn mark(&self, write: &Write<'_>, object: &mut Value, grace_s: i64) -> Result<()> {
        let mut meta = meta_mut(object)?;
        meta.set_deletion_timestamp(Some(Time(self.now().0.saturating_add(grace_s))));
        if write.declaration().deletion != DeletionRule::Definition {
            meta.set_deletion_grace_period_seconds(Some(grace_s));
            let generation = meta.view().generation();
            if generation > 0 {
                meta.set_generation(generation + 1);
            }
        }
        write.kind.begin_deletion(object);
        Ok(())
    }
}

/// Shortens the grace period of a terminating object; it cannot be extended. Returns the remaining seconds and
/// whether they changed.
fn shorten_grace(object: &mut Value, options: &DeleteOptions) -> Result<(i64, bool)> {
    let mut meta = meta_mut(object)?;
    let current_s = meta.view().deletion_grace_period_seconds().unwrap_or(0);
    let wanted_s = options.grace_period_s.map(|seconds| if seconds < 0 { 1 } else { seconds });
    let Some(wanted_s) = wanted_s.filter(|wanted_s| *wanted_s < current_s) else {
        return Ok((current_s, false));
    };
    if let Some(Time(end)) = meta.view().deletion_timestamp() {
        meta.set_deletion_timestamp(Some(Time(end - current_s + wanted_s)));
    }
    meta.set_deletion_grace_period_seconds(Some(wanted_s));
    Ok((wanted_s, true))
}

/// Sets the finalizers for the garbage collector. Without a propagation policy of the client, existing finalizers
/// stay.
fn set_propagation(write: &Write<'_>, options: &DeleteOptions, meta: &mut MetaMut<'_>) -> bool {
    let has = |meta: &MetaMut<'_>, name| meta.view().has_finalizer(name);
    let default = if has(meta, ORPHAN) {
        Propagation::Orphan
    } else if has(meta, FOREGROUND) {
        Propagation::Foreground
    } else if write.declaration().orphans_by_default {
        Propagation::Orphan
    } else {
        Propagation::Background
    };
    let wanted = match write.declaration().ignores_propagation {
        true => Propagation::Background,
        false => options.propagation.unwrap_or(default),
    };
    let mut changed = false;
    for (name, policy) in [(ORPHAN, Propagation::Orphan), (FOREGROUND, Propagation::Foreground)] {
        changed |= if wanted == policy { meta.add_finalizer(name) } else { meta.remove_finalizer(name) };
    }
    changed
}

/// Checks the preconditions.
fn check_meant(
    write: &Write<'_>,
    name: &str,
    wanted: &Preconditions,
    object: &Value,
    entry: &Entry,
) -> Result<()> {
    let refused = |reason: String| {
        let subject = write.subject(name);
        // kube-apiserver puts the kind where the resource belongs.
        let resource =
            GroupResource { group: subject.kind.group.clone(), resource: subject.kind.kind.clone() };
        Error::Conflict { subject: Box::new(Subject { resource, ..*subject }), reason }
    };
    let rule = write.declaration().deletion;
    let mismatch = |field: &str, expected: &str, found: &str, generic: &str| match rule {
        DeletionRule::Generic => Err(refused(format!(
            "the {field} in the precondition ({expected}) does not match the {field} in record ({found}). The object might have been {generic}"
        ))),
        DeletionRule::Namespace | DeletionRule::Definition => Err(Error::Conflict {
            subject: write.subject(name),
            reason: format!(
                "Precondition failed: {field} in precondition: {expected}, {field} in object meta: {found}"
            ),
        }),
    };
    let uid = Meta::of(object).uid();
    if let Some(expected) = wanted.uid.as_deref().filter(|expected| *expected != uid) {
        return mismatch("UID", expected, uid, "deleted and then recreated");
    }
    let revision = entry.mod_revision().to_string();
    match wanted.resource_version.as_deref().filter(|expected| *expected != revision) {
        Some(expected) => mismatch("ResourceVersion", expected, &revision, "modified"),
        None => Ok(()),
    }
}
