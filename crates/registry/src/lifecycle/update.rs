//! Changing an object: the one read–change–write loop.

use coracle_meta::apply::unchanged_but_for_times;
use coracle_meta::field::Path;
use coracle_meta::object::{Meta, keep_system_fields, validate_object_meta_update};
use coracle_store::{Entry, Put, Update};
use serde_json::Value;

use super::create::Tracking;
use super::{Object, Write, content_changed, meta_mut, metadata_errors, ownership, tree};
use crate::cluster::Cluster;
use crate::encode::Encoded;
use crate::error::{Error, Result};
use crate::keys;
use crate::kind::Generation;

/// A patch: from what is there to what is to be.
type Patch<'a> = &'a (dyn Fn(Value) -> Result<Value> + Send + Sync);

/// How an object is to change.
pub enum Change<'a> {
    /// To this, whatever it is.
    Replace(Value),
    /// By a patch, which may be applied several times, to newer and newer states.
    Patch(Patch<'a>),
    /// By server-side apply.
    Apply {
        /// What the applier wants.
        config: &'a Value,
        /// Also what others own.
        force: bool,
    },
}

/// What an update came to.
#[derive(Clone, Debug)]
pub struct Updated {
    /// The object as it is now.
    pub object: Object,
    /// Whether it did not exist before.
    pub created: bool,
}

/// What is to be done with the object found.
enum Step {
    Nothing(Object),
    Write(Encoded),
    /// Its last finalizer has gone.
    Remove(Encoded),
}

impl Cluster {
    /// Changes an object.
    ///
    /// # Errors
    /// If it does not exist, has changed, or may not become what it is to become.
    pub async fn update(&self, write: &Write<'_>, name: &str, change: &Change<'_>) -> Result<Updated> {
        let key = keys::key(write.declaration(), write.namespace, name);
        let mut last: Option<Step> = None;
        let mut created = false;
        let outcome = self
            .store
            .update(&key, |found| {
                created = found.is_none();
                let step = match found {
                    Some(entry) => self.change_existing(write, name, change, entry)?,
                    None => self.create_by_update(write, name, change)?,
                };
                let update = match &step {
                    _ if write.dry_run => Update::Keep,
                    Step::Nothing(_) => Update::Keep,
                    Step::Write(encoded) => {
                        Update::Put(Put::new(Vec::new(), encoded.bytes.clone()).stamp_at(encoded.stamp))
                    }
                    Step::Remove(_) => Update::Delete,
                };
                last = Some(step);
                Ok::<_, Error>(update)
            })
            .await?;
        let object = match last {
            Some(Step::Nothing(object)) => object,
            Some(Step::Write(encoded) | Step::Remove(encoded)) if !write.dry_run => {
                Object { json: encoded.stamped(outcome.revision), revision: outcome.revision }
            }
            Some(Step::Write(encoded) | Step::Remove(encoded)) => {
                let revision = outcome.previous.as_ref().map_or(outcome.revision, Entry::mod_revision);
                Object { json: encoded.stamped(revision), revision }
            }
            None => return Err(Error::NotFound(write.subject(name))),
        };
        Ok(Updated { object, created })
    }

    fn create_by_update(&self, write: &Write<'_>, name: &str, change: &Change<'_>) -> Result<Step> {
        let object = match change {
            Change::Replace(object)
                if write.declaration().create_on_update && write.subresource.is_empty() =>
            {
                let mut object = object.clone();
                meta_mut(&mut object)?.set_resource_version("");
                self.prepare_new(write, object, Tracking::Update)?
            }
            Change::Apply { config, force } if write.subresource.is_empty() => {
                let applied = ownership::apply(write, None, config, *force, self.now())?;
                self.prepare_new(write, applied, Tracking::Done)?
            }
            _ => return Err(Error::NotFound(write.subject(name))),
        };
        check_name(&object, name)?;
        Ok(Step::Write(Encoded::of(&object)))
    }

    fn change_existing(
        &self,
        write: &Write<'_>,
        name: &str,
        change: &Change<'_>,
        entry: &Entry,
    ) -> Result<Step> {
        let old = tree(entry)?;
        let now = self.now();
        let mut new = match change {
            Change::Replace(object) => object.clone(),
            Change::Patch(patch) => patch(old.clone())?,
            Change::Apply { config, force } => ownership::apply(write, Some(&old), config, *force, now)?,
        };
        self.check_revision(write, name, &new, entry)?;
        check_name(&new, name)?;
        keep_system_fields(&mut meta_mut(&mut new)?, Meta::of(&old));
        let mut new = if write.is_status() { with_status_of(&old, new) } else { new };
        if !write.is_status() {
            if write.declaration().has_status() {
                carry_over(&mut new, &old, "status");
            }
            write.kind.set_defaults(&mut new);
        }
        if !matches!(change, Change::Apply { .. }) {
            new = ownership::track(write, Some(&old), new, now);
        }
        self.finish_change(write, name, new, &old, entry)
    }

    fn finish_change(
        &self,
        write: &Write<'_>,
        name: &str,
        mut new: Value,
        old: &Value,
        entry: &Entry,
    ) -> Result<Step> {
        let declaration = write.declaration();
        if write.is_status() {
            write.kind.prepare_for_status_update(&mut new, old);
        } else {
            write.kind.prepare_for_update(&mut new, old);
        }
        if declaration.generation != Generation::Untracked
            && content_changed(declaration.generation, &new, old)
        {
            let generation = Meta::of(old).generation() + 1;
            meta_mut(&mut new)?.set_generation(generation);
        }
        let revision = entry.mod_revision().to_string();
        meta_mut(&mut new)?.set_resource_version(&revision);
        let mut errors = metadata_errors(declaration, &new);
        errors.extend(validate_object_meta_update(Meta::of(&new), Meta::of(old), &Path::root("metadata")));
        if write.is_status() {
            write.kind.validate_status_update(&new, old, &mut errors);
        } else {
            write.kind.validate(&new, &mut errors);
            write.kind.validate_update(&new, old, &mut errors);
        }
        write.check(name, errors)?;
        if is_over(&new) {
            return Ok(Step::Remove(Encoded::of(&new)));
        }
        if unchanged_but_for_times(old, &new) {
            return Ok(Step::Nothing(Object { json: entry.value(), revision: entry.mod_revision() }));
        }
        Ok(Step::Write(Encoded::of(&new)))
    }

    /// A revision in the body says which state the client has seen.
    fn check_revision(&self, write: &Write<'_>, name: &str, new: &Value, entry: &Entry) -> Result<()> {
        let wanted = Meta::of(new).resource_version();
        if wanted.is_empty() && !write.declaration().unconditional_update {
            return Err(Error::ResourceVersionRequired(write.subject(name)));
        }
        if wanted.is_empty() || wanted == entry.mod_revision().to_string() {
            return Ok(());
        }
        Err(Error::Modified(write.subject(name)))
    }
}

fn check_name(object: &Value, name: &str) -> Result<()> {
    let found = Meta::of(object).name();
    if found == name {
        return Ok(());
    }
    let message = format!("the name of the object ({found}) does not match the name on the URL ({name})");
    Err(Error::BadRequest(message))
}

/// A status write changes the status, and who owns it, and nothing else.
fn with_status_of(old: &Value, mut new: Value) -> Value {
    let mut result = old.clone();
    let status = new.get_mut("status").map(Value::take);
    let managed = new.get_mut("metadata").and_then(|meta| meta.get_mut("managedFields")).map(Value::take);
    if let Value::Object(fields) = &mut result {
        match status {
            Some(status) => fields.insert("status".into(), status),
            None => fields.remove("status"),
        };
        if let (Some(Value::Object(meta)), Some(managed)) = (fields.get_mut("metadata"), managed) {
            meta.insert("managedFields".into(), managed);
        }
    }
    result
}

fn carry_over(new: &mut Value, old: &Value, field: &str) {
    if let Value::Object(fields) = new {
        match old.get(field) {
            Some(value) => fields.insert(field.into(), value.clone()),
            None => fields.remove(field),
        };
    }
}

/// Whether nothing keeps a deleted object any more.
fn is_over(object: &Value) -> bool {
    let meta = Meta::of(object);
    meta.is_deleting()
        && meta.finalizers().next().is_none()
        && meta.deletion_grace_period_seconds() == Some(0)
}
