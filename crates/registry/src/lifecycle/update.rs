//! Updating objects: the read–change–write loop.

use coracle_meta::apply::unchanged_but_for_times;
use coracle_meta::field::{ErrorList, Path};
use coracle_meta::gvk::{GroupKind, split_api_version};
use coracle_meta::object::{Meta, ensure_namespace, keep_system_fields, validate_object_meta_update};
use coracle_store::Entry;
use serde_json::{Map, Value};

use super::commit::{Attempts, Known, Plan, Step};
use super::create::{Candidate, Tracking};
use super::owner_references::{Stage, keep_each_once};
use super::ownership::Ownership;
use super::sent_body::validated;
use super::{
    Object, Write, content_changed, finalizer_prefix_errors, generic_metadata_errors, meta_mut,
    metadata_errors,
};
use crate::admission::{Attributes, Operation};
use crate::allocation::AllocatedSet;
use crate::cluster::Cluster;
use crate::condition::Conditions;
use crate::encode::Encoded;
use crate::error::{Error, Result, Subject};
use crate::keys;
use crate::kind::{Generation, Kind, StatusMetadata};

/// Computes the new object from the old one.
type Patch<'a> = &'a (dyn Fn(Value) -> Result<Value> + Send + Sync);

/// The change of an update.
pub enum Change<'a> {
    /// PUT: replaces the object.
    Replace(Value),
    /// PATCH: a function that is called again with a newer object after a conflict.
    Patch(Patch<'a>),
    /// Like `Patch`, but the function has already updated the field ownership.
    Tracked(Patch<'a>),
    /// Server-side apply.
    Apply {
        /// The applied configuration.
        config: &'a Value,
        /// Whether to take over fields that other managers own.
        force: bool,
        /// Called after each merge. Returns errors of the configuration that are reported only after conflicts with
        /// other managers.
        once_merged: &'a (dyn Fn() -> Result<()> + Send + Sync),
    },
}

/// Result of an update.
#[derive(Clone, Debug)]
pub struct Updated {
    /// The object after the update.
    pub object: Object,
    /// Whether the update created the object.
    pub created: bool,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// The next state of an existing object.
enum Next {
    Same(Object),
    Changed(Value),
    /// The last finalizer is gone, so the object is deleted.
    Over(Value),
}

/// A changed object before admission and validation.
struct Changed {
    new: Value,
    /// Warnings for the client.
    warnings: Vec<String>,
}

impl Cluster {
    /// Updates an object.
    ///
    /// # Errors
    /// If it does not exist, has changed since the client read it, is invalid, or is rejected by admission.
    pub async fn update(&self, write: &Write<'_>, name: &str, change: &Change<'_>) -> Result<Updated> {
        if let Change::Replace(object) = change {
            check_name(object, name)?;
        }
        let key = keys::key(write.declaration(), write.namespace, name);
        let mut attempts = self.attempts(write.declaration(), key, Known::Probable).await?;
        attempts.load_ranges(write.kind).await?;
        loop {
            let attempt = self.try_update(write, name, change, &mut attempts).await;
            if let Some(updated) = attempts.settle(attempt).await? {
                return Ok(updated);
            }
        }
    }

    /// One attempt; `None` after a conflict with another writer.
    async fn try_update(
        &self,
        write: &Write<'_>,
        name: &str,
        change: &Change<'_>,
        attempts: &mut Attempts<'_>,
    ) -> Result<Option<Updated>> {
        let found = attempts.found().cloned();
        let old = found.as_ref().map(|entry| write.read(entry)).transpose()?;
        let (taken, conditions) = (attempts.taken(), Conditions::default());
        let (next, warnings) = match (&found, &old) {
            (Some(entry), Some(old)) => {
                let new = self.changed(write, name, change, entry, old)?;
                self.change_existing(write, name, new, (old, entry), taken, &conditions).await?
            }
            _ => self.create_by_update(write, name, change, taken, &conditions).await?,
        };
        attempts.require(conditions);
        let (new, over) = match next {
            Next::Same(object) => {
                let updated = Updated { object, created: false, warnings };
                return Ok(attempts.confirm().await?.then_some(updated));
            }
            Next::Changed(new) => (new, false),
            Next::Over(new) => (new, true),
        };
        let encoded = write.encoded(&new);
        let planned = plan(write, &encoded, &new, old.as_ref(), over);
        let planned = if write.dry_run { planned.dry() } else { planned };
        let Some(outcome) = attempts.carry_out(planned).await? else { return Ok(None) };
        let before = outcome.previous.as_ref().map_or(outcome.revision, Entry::mod_revision);
        let revision = if outcome.changed { outcome.revision } else { before };
        // An object that a dry run would have created has no revision.
        let unstored = outcome.previous.is_none() && !outcome.changed;
        let json = if unstored { encoded.unstored() } else { encoded.stamped(revision) };
        let object = Object { json, revision };
        Ok(Some(Updated { object, created: outcome.previous.is_none(), warnings }))
    }

    async fn create_by_update(
        &self,
        write: &Write<'_>,
        name: &str,
        change: &Change<'_>,
        taken: &AllocatedSet,
        conditions: &Conditions,
    ) -> Result<(Next, Vec<String>)> {
        let (object, tracking) = match change {
            Change::Replace(object)
                if write.declaration().create_on_update && write.subresource.is_empty() =>
            {
                check_uid(write, name, object, &Value::Null)?;
                let mut object = object.clone();
                meta_mut(&mut object)?.set_resource_version("");
                (object, Tracking::Update)
            }
            Change::Apply { config, force, once_merged } if write.subresource.is_empty() => {
                let applied = Ownership::of(write).apply(None, config, *force, self.now())?;
                once_merged()?;
                let uid = Meta::of(&applied).uid();
                if !uid.is_empty() {
                    let reason = format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    );
                    return Err(Error::Conflict { subject: write.subject(name), reason });
                }
                check_name(&applied, name)?;
                (applied, Tracking::Done)
            }
            _ => return Err(Error::NotFound(write.subject(name))),
        };
        let candidate = Candidate { object, display_name: name, tracking };
        let (object, warnings) = self.prepare_new(write, candidate, taken, conditions).await?;
        check_name(&object, name)?;
        Ok((Next::Changed(object), warnings))
    }

    /// Applies the change to the old object.
    fn changed(
        &self,
        write: &Write<'_>,
        name: &str,
        change: &Change<'_>,
        entry: &Entry,
        old: &Value,
    ) -> Result<Changed> {
        let ownership = Ownership::of(write);
        let mut warnings = Vec::new();
        let mut new = match change {
            Change::Replace(object) => {
                check_uid(write, name, object, old)?;
                let mut object = object.clone();
                warnings.extend(keep_each_once(&mut object, Stage::AsSent));
                object
            }
            Change::Patch(patch) | Change::Tracked(patch) => patch(old.clone())?,
            Change::Apply { config, force, once_merged } => {
                let applied = ownership.apply(Some(old), config, *force, self.now())?;
                once_merged()?;
                applied
            }
        };
        ensure_namespace(&mut meta_mut(&mut new)?, write.namespace)?;
        check_name(&new, name)?;
        self.check_revision(write, name, &new, entry)?;
        keep_system_fields(&mut meta_mut(&mut new)?, Meta::of(old));
        let mut new = if write.is_status() { with_status_of(old, new) } else { new };
        write.kind.set_defaults(&mut new);
        write.kind.set_default_times(&mut new, self.now());
        if matches!(change, Change::Replace(_) | Change::Patch(_)) {
            // The manager owns the fields that it sent, without those that admission adds.
            new = ownership.track(Some(old), new, self.now());
        }
        // After tracking: in another version the status may be in another place, where a write without a status takes
        // its fields from their owners.
        if write.subresource.is_empty() && write.declaration().has_status() {
            carry_over(&mut new, old, "status");
        }
        Ok(Changed { new, warnings })
    }

    async fn change_existing(
        &self,
        write: &Write<'_>,
        name: &str,
        changed: Changed,
        (old, entry): (&Value, &Entry),
        taken: &AllocatedSet,
        conditions: &Conditions,
    ) -> Result<(Next, Vec<String>)> {
        let Changed { mut new, mut warnings } = changed;
        let now = self.now();
        let operation = Operation::Update;
        let attributes = Attributes { cluster: self, write, operation, name, old: Some(old), conditions };
        self.mutate(&attributes, &mut new, &mut warnings).await?;
        warnings.extend(keep_each_once(&mut new, Stage::AfterAdmission));
        match write.subresource {
            "" => write.kind.prepare_for_update(&mut new, old),
            "status" => {
                keep_metadata(&mut new, old, write.declaration().status_metadata);
                write.kind.prepare_for_status_update(&mut new, old, now);
            }
            part => write.kind.prepare_for_part_update(part, &mut new, old, now),
        }
        let errors = self.namespace_label_errors(write, &new, Some(old)).await?;
        let new = self.finish_change(write, name, new, (old, entry), taken, errors)?;
        match write.subresource {
            "" => warnings.extend(write.kind.warnings(&new, Some(old))),
            "status" => warnings.extend(write.kind.status_warnings(&new)),
            _ => {}
        }
        self.validate(&attributes, &new, &mut warnings).await?;
        let next = if is_over(write.kind, &new) {
            Next::Over(new)
        } else if unchanged_but_for_times(old, &new) {
            Next::Same(Object { json: entry.value(), revision: entry.mod_revision() })
        } else {
            Next::Changed(new)
        };
        Ok((next, warnings))
    }

    /// Updates generation and allocations, and validates the new object. `errors` were found before.
    fn finish_change(
        &self,
        write: &Write<'_>,
        name: &str,
        mut new: Value,
        (old, entry): (&Value, &Entry),
        taken: &AllocatedSet,
        mut errors: ErrorList,
    ) -> Result<Value> {
        let declaration = write.declaration();
        if declaration.generation != Generation::Untracked
            && !write.is_status()
            && content_changed(declaration.generation, &new, old)
        {
            let generation = Meta::of(old).generation() + 1;
            meta_mut(&mut new)?.set_generation(generation);
        }
        let revision = entry.mod_revision().to_string();
        meta_mut(&mut new)?.set_resource_version(&revision);
        if write.subresource.is_empty() {
            self.allocate(write, &mut new, Some(old), taken)?;
        }
        errors.extend(validated(&new, write.sent, |new| update_errors(write, new, old)));
        if !errors.is_empty() {
            return Err(Error::Invalid { subject: subject_of(write, name, &new), errors });
        }
        Ok(new)
    }

    /// Optimistic concurrency: compares the resourceVersion of the body with that of the stored object.
    fn check_revision(&self, write: &Write<'_>, name: &str, new: &Value, entry: &Entry) -> Result<()> {
        let wanted = Meta::of(new).resource_version();
        if wanted == entry.mod_revision().to_string() {
            return Ok(());
        }
        match if wanted.is_empty() { Ok(0) } else { wanted.parse::<u64>() } {
            // The client accepts any state.
            Ok(0) if write.declaration().unconditional_update => Ok(()),
            Ok(0) => Err(Error::ResourceVersionRequired(write.subject(name))),
            Ok(_) => Err(Error::Modified(write.subject(name))),
            Err(_) => {
                let message = format!("strconv.ParseUint: parsing {wanted:?}: invalid syntax");
                Err(Error::Unspecific(message))
            }
        }
    }
}

fn update_errors(write: &Write<'_>, new: &Value, old: &Value) -> ErrorList {
    let declaration = write.declaration();
    // kube-apiserver validates metadata for all kinds and again for most, and reports all errors, also repeated ones.
    let mut errors = generic_metadata_errors(declaration, new);
    let metadata = Path::root("metadata");
    errors.extend(validate_object_meta_update(Meta::of(new), Meta::of(old), &metadata));
    if declaration.checks_metadata_change_again {
        errors.extend(validate_object_meta_update(Meta::of(new), Meta::of(old), &metadata));
        errors.extend(finalizer_prefix_errors(declaration, new));
    }
    if write.subresource.is_empty() {
        (0..declaration.metadata_checks).for_each(|_| errors.extend(metadata_errors(declaration, new)));
    }
    match write.subresource {
        "" if declaration.reports_changes_first => {
            write.kind.validate_update(new, old, &mut errors);
            write.kind.revalidate(new, old, &mut errors);
        }
        "" => {
            write.kind.revalidate(new, old, &mut errors);
            write.kind.validate_update(new, old, &mut errors);
        }
        "status" => write.kind.validate_status_update(new, old, &mut errors),
        part => write.kind.validate_part_update(part, new, old, &mut errors),
    }
    errors
}

pub(super) fn check_name(object: &Value, name: &str) -> Result<()> {
    let found = Meta::of(object).name();
    if found == name {
        return Ok(());
    }
    Err(Error::BadRequest(if found.is_empty() {
        format!("the name of the object ({name} based on URL) was undeterminable: name must be provided")
    } else {
        format!("the name of the object ({found}) does not match the name on the URL ({name})")
    }))
}

/// The subject of validation errors: for a custom object, the type that the object itself states.
fn subject_of(write: &Write<'_>, name: &str, object: &Value) -> Box<Subject> {
    let subject = write.subject(name);
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    if !write.declaration().is_custom {
        return subject;
    }
    let (group, _) = split_api_version(text("apiVersion"));
    let kind = GroupKind { group: group.to_owned().into(), kind: text("kind").to_owned().into() };
    Box::new(Subject { kind, ..*subject })
}

/// Rejects a body whose UID differs from that of the stored object.
pub(super) fn check_uid(write: &Write<'_>, name: &str, sent: &Value, old: &Value) -> Result<()> {
    let (expected, found) = (Meta::of(sent).uid(), Meta::of(old).uid());
    if expected.is_empty() || expected == found {
        return Ok(());
    }
    Err(Error::PreconditionFailed {
        subject: write.subject(name),
        namespace: write.namespace.to_owned(),
        dry_run: write.dry_run,
        field: "UID",
        expected: expected.to_owned(),
        found: found.to_owned(),
    })
}

/// The plan of an update: the write, new allocations, and released ones.
fn plan(write: &Write<'_>, encoded: &Encoded, new: &Value, old: Option<&Value>, over: bool) -> Plan {
    let held = old.map(|old| write.kind.allocations(old)).unwrap_or_default();
    if over {
        return Plan { step: Step::Delete, allocations: Vec::new(), released: held };
    }
    let wanted = write.kind.allocations(new);
    Plan {
        step: Step::Put(encoded.clone()),
        released: held.iter().filter(|allocation| !wanted.contains(allocation)).cloned().collect(),
        allocations: wanted.into_iter().filter(|allocation| !held.contains(allocation)).collect(),
    }
}

/// Restores everything but status and metadata from the old object. Equal values are not copied.
fn with_status_of(old: &Value, new: Value) -> Value {
    let (Value::Object(old), Value::Object(mut new)) = (old, new) else { return old.clone() };
    let is_replaced = |name: &str, new: &Map<String, Value>| {
        name == "status" || name == "metadata" && new.contains_key(name)
    };
    new.retain(|name, _| name == "status" || name == "metadata" || old.contains_key(name));
    for (name, value) in old {
        if !is_replaced(name, &new) && new.get(name) != Some(value) {
            new.insert(name.clone(), value.clone());
        }
    }
    Value::Object(new)
}

/// Restores the metadata that a write to the status may not change.
fn keep_metadata(new: &mut Value, old: &Value, status_metadata: StatusMetadata) {
    let (Some(new), Some(old)) = (new.get_mut("metadata"), old.get("metadata")) else { return };
    for field in status_metadata.kept_fields() {
        carry_over(new, old, field);
    }
}

fn carry_over(new: &mut Value, old: &Value, field: &str) {
    if let Value::Object(fields) = new {
        match old.get(field) {
            Some(value) => fields.insert(field.into(), value.clone()),
            None => fields.remove(field),
        };
    }
}

/// Whether a terminating object can be removed.
fn is_over(kind: &dyn Kind, object: &Value) -> bool {
    let meta = Meta::of(object);
    meta.is_deleting()
        && meta.finalizers().next().is_none()
        && meta.deletion_grace_period_seconds().unwrap_or(0) == 0
        && !kind.is_held(object)
}
