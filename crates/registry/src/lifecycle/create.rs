//! Creating objects.

use coracle_meta::field::ErrorList;
use coracle_meta::name::generate_name;
use coracle_meta::object::{Meta, ensure_namespace, fill_system_fields, wipe_system_fields};
use coracle_store::Entry;
use serde_json::{Map, Value};

use super::commit::{Known, Plan, Step};
use super::owner_references::{Stage, keep_each_once};
use super::ownership::Ownership;
use super::sent_body::validated;
use super::update::Updated;
use super::{Object, Write, meta_mut, metadata_errors};
use crate::admission::{Attributes, Operation};
use crate::allocation::AllocatedSet;
use crate::cluster::Cluster;
use crate::condition::Conditions;
use crate::error::{Error, Result};
use crate::keys;

/// Number of names that are generated for an object with `generateName` before giving up.
const NAME_ATTEMPTS: usize = 8;

/// Whether field ownership of a new object has been computed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracking {
    /// Not yet: the writer becomes the manager of all fields it has set.
    Update,
    /// By server-side apply, which has made the object.
    Done,
}

impl Cluster {
    /// Creates a decoded object.
    ///
    /// # Errors
    /// If the object is invalid, rejected by admission, or exists already.
    pub async fn create(&self, write: &Write<'_>, mut object: Value) -> Result<Updated> {
        if write.declaration().uuid_as_default_name && is_unnamed(&object) {
            meta_mut(&mut object)?.set_name(&self.new_uid());
        }
        let meta = Meta::of(&object);
        if !meta.name().is_empty() || meta.generate_name().is_empty() {
            let display_name = meta.name().to_owned();
            return self.create_named(write, object, &display_name).await;
        }
        let prefix = meta.generate_name().to_owned();
        for _ in 0..NAME_ATTEMPTS {
            let name = generate_name(&prefix, self.name_digits());
            meta_mut(&mut object)?.set_name(&name);
            match self.create_named(write, object.clone(), &prefix).await {
                Err(Error::AlreadyExists(_) | Error::BeingDeleted(_)) => {}
                outcome => return outcome,
            }
        }
        Err(Error::NoFreeName(write.subject(&prefix)))
    }

    async fn create_named(&self, write: &Write<'_>, object: Value, display_name: &str) -> Result<Updated> {
        let meta = Meta::of(&object);
        let (name, sent_revision) = (meta.name().to_owned(), meta.resource_version().to_owned());
        let key = keys::key(write.declaration(), write.namespace, &name);
        let known = if write.dry_run { Known::Nothing } else { Known::Absent };
        let mut attempts = self.attempts(write.declaration(), key, known).await?;
        attempts.load_ranges(write.kind).await?;
        // The object is prepared again only after a conflict with another allocation; any other conflict means that
        // another writer has created the object.
        let again = write.kind.ranges_from().map(|_| object.clone());
        let mut object = Some(object);
        loop {
            // A valid object whose transaction found an existing one.
            if object.is_none() {
                check_absent(write, &name, attempts.found())?;
            }
            let Some(new) = object.take().or_else(|| again.clone()) else {
                return Err(attempts.contention());
            };
            let candidate = Candidate { object: new, display_name, tracking: Tracking::Update };
            let conditions = Conditions::default();
            let (object, warnings) =
                self.prepare_new(write, candidate, attempts.taken(), &conditions).await?;
            // An invalid object is rejected as invalid whether or not its name exists.
            check_absent(write, &name, attempts.found())?;
            attempts.require(conditions);
            let encoded = write.encoded(&object);
            let allocations = write.kind.allocations(&object);
            let plan = Plan { step: Step::Put(encoded.clone()), allocations, released: Vec::new() };
            let plan = if write.dry_run { plan.dry() } else { plan };
            let Some(outcome) = attempts.carry_out(plan).await? else { continue };
            // An object that is not written has only the revision that the client sent.
            let json = match outcome.changed {
                true => encoded.stamped(outcome.revision),
                false => encoded.with_revision(&sent_revision),
            };
            let object = Object { json, revision: outcome.revision };
            return Ok(Updated { object, created: true, warnings });
        }
    }

    /// Prepares a new object for the store, and runs admission and validation. Returns it with the warnings for the
    /// client.
    pub(super) async fn prepare_new(
        &self,
        write: &Write<'_>,
        candidate: Candidate<'_>,
        taken: &AllocatedSet,
        conditions: &Conditions,
    ) -> Result<(Value, Vec<String>)> {
        let Candidate { object, display_name, tracking } = candidate;
        if let Some(why) = write.kind.creation_refused() {
            return Err(Error::Forbidden { subject: write.subject(display_name), message: why.to_owned() });
        }
        let revision = Meta::of(&object).resource_version().parse::<u64>().unwrap_or(0);
        let is_unlabelled = Meta::of(&object).labels().is_none_or(Map::is_empty);
        let mut object = self.complete_new(write, object)?;
        let mut warnings = Vec::new();
        if tracking == Tracking::Update {
            warnings.extend(keep_each_once(&mut object, Stage::AsSent));
            // The manager owns the fields that it sent, without those that admission adds.
            object = Ownership::of(write).track(None, object, self.now());
        }
        let operation = Operation::Create;
        let attributes =
            Attributes { cluster: self, write, operation, name: display_name, old: None, conditions };
        self.mutate(&attributes, &mut object, &mut warnings).await?;
        warnings.extend(keep_each_once(&mut object, Stage::AfterAdmission));
        if is_unlabelled {
            write.kind.prepare_unlabelled(&mut object);
        }
        warnings.extend(write.kind.warnings_before_create(&object));
        let errors = self.namespace_label_errors(write, &object, None).await?;
        let object = self.check_new(write, object, taken, errors)?;
        warnings.extend(write.kind.warnings(&object, None));
        let attributes = Attributes { name: Meta::of(&object).name(), ..attributes };
        self.validate(&attributes, &object, &mut warnings).await?;
        if revision != 0 && !write.dry_run {
            // This error comes from kube-apiserver's storage layer. So it comes last, is an internal error, and does
            // not occur in a dry run, which does not reach the storage.
            let message = "resourceVersion should not be set on objects to be created";
            return Err(Error::Unspecific(message.into()));
        }
        Ok((object, warnings))
    }

    /// Sets defaults and the metadata that only the server may set.
    pub(super) fn complete_new(&self, write: &Write<'_>, mut object: Value) -> Result<Value> {
        let declaration = write.declaration();
        let mut meta = meta_mut(&mut object)?;
        meta.set_resource_version("");
        ensure_namespace(&mut meta, write.namespace)?;
        wipe_system_fields(&mut meta);
        fill_system_fields(&mut meta, &self.new_uid(), self.now());
        if declaration.generation.starts_at_one() {
            meta.set_generation(1);
        }
        if declaration.has_status() && !declaration.keeps_status_on_create {
            drop_status(write, &mut object);
        }
        write.kind.set_defaults(&mut object);
        write.kind.set_default_times(&mut object, self.now());
        Ok(object)
    }

    /// Runs the kind's preparation, allocation and validation for a new object. `errors` were found before.
    pub(super) fn check_new(
        &self,
        write: &Write<'_>,
        mut object: Value,
        taken: &AllocatedSet,
        mut errors: ErrorList,
    ) -> Result<Value> {
        let (kind, now) = (write.kind, self.now());
        kind.note_requester(&mut object, write.requester);
        kind.prepare_for_create(&mut object, now);
        self.allocate(write, &mut object, None, taken)?;
        errors.extend(validated(&object, write.sent, |object| {
            let mut errors = metadata_errors(write.declaration(), object);
            kind.validate(object, &mut errors);
            kind.validate_create(object, &mut errors);
            errors
        }));
        write.check(Meta::of(&object).name(), errors)?;
        Ok(object)
    }
}

/// A new object.
pub(super) struct Candidate<'a> {
    pub(super) object: Value,
    /// Name for errors: the prefix only for a generated name.
    pub(super) display_name: &'a str,
    pub(super) tracking: Tracking,
}

fn is_unnamed(object: &Value) -> bool {
    let meta = Meta::of(object);
    meta.name().is_empty() && meta.generate_name().is_empty()
}

/// Returns an error if the name exists.
fn check_absent(write: &Write<'_>, name: &str, found: Option<&Entry>) -> Result<()> {
    let Some(entry) = found else { return Ok(()) };
    let subject = write.subject(name);
    let is_deleting = Meta::of(&write.read(entry)?).is_deleting();
    Err(if is_deleting { Error::BeingDeleted(subject) } else { Error::AlreadyExists(subject) })
}

/// Resets the status to its value in an object that never had one.
fn drop_status(write: &Write<'_>, object: &mut Value) {
    let Value::Object(fields) = object else { return };
    match write.form().unset_field("status") {
        Some(unset) => fields.insert("status".to_owned(), unset),
        None => fields.remove("status"),
    };
}
