//! Deletion: at once, after a grace period, or when the last finalizer has gone.

use coracle_meta::object::{Meta, MetaMut};
use coracle_store::{Entry, Put, Update};
use serde_json::Value;

use super::{Object, Write, meta_mut, tree};
use crate::cluster::Cluster;
use crate::encode::{Encoded, deleted};
use crate::error::{Error, Result};
use crate::keys;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// What happens to dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They stay and forget their owner.
    Orphan,
    /// They go afterwards.
    Background,
    /// They go first.
    Foreground,
}

/// How to delete.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Only the object with this uid.
    pub uid: Option<String>,
    /// Only the object in this state.
    pub resource_version: Option<String>,
    /// What happens to dependents.
    pub propagation: Option<Propagation>,
}

/// What a deletion came to.
#[derive(Clone, Debug)]
pub struct Deletion {
    /// The object as it was, or as it is now if it stays for a while.
    pub object: Object,
    /// Whether it is gone.
    pub gone: bool,
}

impl Cluster {
    /// Deletes an object, or begins to.
    ///
    /// # Errors
    /// If there is none, or not the one that is meant.
    pub async fn delete(&self, write: &Write<'_>, name: &str, options: &DeleteOptions) -> Result<Deletion> {
        let key = keys::key(write.declaration(), write.namespace, name);
        let mut pending: Option<Encoded> = None;
        let outcome = self
            .store
            .update(&key, |found| {
                let entry = found.ok_or_else(|| Error::NotFound(write.subject(name)))?;
                check_preconditions(write, name, options, entry)?;
                let (object, changed) = self.mark(write, options, tree(entry)?)?;
                let over = Meta::of(&object).finalizers().next().is_none();
                pending = (!over).then(|| Encoded::of(&object));
                Ok::<_, Error>(match &pending {
                    _ if write.dry_run => Update::Keep,
                    None => Update::Delete,
                    Some(_) if !changed => Update::Keep,
                    Some(encoded) => {
                        Update::Put(Put::new(Vec::new(), encoded.bytes.clone()).stamp_at(encoded.stamp))
                    }
                })
            })
            .await?;
        let entry = outcome.previous.ok_or_else(|| Error::NotFound(write.subject(name)))?;
        let revision = if outcome.changed { outcome.revision } else { entry.mod_revision() };
        let json = match &pending {
            Some(encoded) => encoded.stamped(revision),
            None => deleted(&entry, revision),
        };
        Ok(Deletion { object: Object { json, revision }, gone: pending.is_none() })
    }

    /// Says in the object that it is being deleted, and by which finalizers it is kept.
    fn mark(&self, write: &Write<'_>, options: &DeleteOptions, mut object: Value) -> Result<(Value, bool)> {
        let now = self.now();
        let mut meta = meta_mut(&mut object)?;
        let mut changed = set_propagation(write, options, &mut meta);
        if !meta.view().is_deleting() {
            meta.set_deletion_timestamp(Some(now));
            meta.set_deletion_grace_period_seconds(Some(0));
            let generation = meta.view().generation();
            if generation > 0 {
                meta.set_generation(generation + 1);
            }
            changed = true;
        }
        Ok((object, changed))
    }
}

/// The finalizers that the garbage collector acts on. A client that does not say leaves those
/// that are there.
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
    let wanted = options.propagation.unwrap_or(default);
    let mut changed = false;
    for (name, policy) in [(ORPHAN, Propagation::Orphan), (FOREGROUND, Propagation::Foreground)] {
        changed |= if wanted == policy { meta.add_finalizer(name) } else { meta.remove_finalizer(name) };
    }
    changed
}

fn check_preconditions(write: &Write<'_>, name: &str, options: &DeleteOptions, entry: &Entry) -> Result<()> {
    let failed = |field, expected: &str, found: &str| Error::PreconditionFailed {
        subject: write.subject(name),
        field,
        expected: expected.to_owned(),
        found: found.to_owned(),
    };
    let object = tree(entry)?;
    let uid = Meta::of(&object).uid();
    if let Some(expected) = options.uid.as_deref().filter(|expected| *expected != uid) {
        return Err(failed("UID", expected, uid));
    }
    let revision = entry.mod_revision().to_string();
    if let Some(expected) = options.resource_version.as_deref().filter(|expected| *expected != revision) {
        return Err(failed("ResourceVersion", expected, &revision));
    }
    Ok(())
}
