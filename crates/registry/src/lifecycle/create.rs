//! Creation.

use coracle_api::codec::unset_field;
use coracle_api::schema::types;
use coracle_meta::name::generate_name;
use coracle_meta::object::{Meta, ensure_namespace, fill_system_fields, wipe_system_fields};
use serde_json::Value;

use super::commit::{Known, Plan, Step};
use super::ownership::Ownership;
use super::{Object, Write, meta_mut, metadata_errors, tree};
use crate::claim::Taken;
use crate::cluster::Cluster;
use crate::encode::Encoded;
use crate::error::{Error, Result};
use crate::keys;
use crate::kind::Generation;

/// How often another name is tried for an object that is to be given one.
const NAME_ATTEMPTS: usize = 8;

/// Whether who owns what has been noted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Tracking {
    /// Not yet: whoever writes owns what it writes.
    Update,
    /// By the apply that made the object.
    Done,
}

impl Cluster {
    /// Creates an object. It has been decoded; everything else happens here.
    ///
    /// # Errors
    /// If it may not be, or exists already.
    pub async fn create(&self, write: &Write<'_>, mut object: Value) -> Result<Object> {
        let meta = Meta::of(&object);
        if !meta.name().is_empty() || meta.generate_name().is_empty() {
            return self.create_named(write, &object).await;
        }
        let prefix = meta.generate_name().to_owned();
        for _ in 0..NAME_ATTEMPTS {
            let name = generate_name(&prefix, self.name_digits());
            meta_mut(&mut object)?.set_name(&name);
            match self.create_named(write, &object).await {
                Err(Error::AlreadyExists(_) | Error::BeingDeleted(_)) => {}
                outcome => return outcome,
            }
        }
        Err(Error::NoFreeName(write.subject(&prefix)))
    }

    async fn create_named(&self, write: &Write<'_>, object: &Value) -> Result<Object> {
        let name = Meta::of(object).name();
        let key = keys::key(write.declaration(), write.namespace, name);
        let mut last: Option<Encoded> = None;
        let known = if write.dry_run { Known::Nothing } else { Known::Absent };
        let outcome = self
            .transact(write.declaration(), &key, known, |found, taken| {
                if let Some(entry) = found {
                    let subject = write.subject(name);
                    let is_deleting = Meta::of(&tree(entry)?).is_deleting();
                    return Err(if is_deleting {
                        Error::BeingDeleted(subject)
                    } else {
                        Error::AlreadyExists(subject)
                    });
                }
                let object = self.prepare_new(write, object.clone(), Tracking::Update, taken)?;
                let encoded = last.insert(Encoded::of(&object));
                if write.dry_run {
                    return Ok(Plan::keep());
                }
                let claims = write.kind.claims(&object);
                Ok(Plan { step: Step::Put(encoded.clone()), claims, released: Vec::new() })
            })
            .await?;
        let encoded = last.ok_or_else(|| Error::AlreadyExists(write.subject(name)))?;
        // What was not written has no revision.
        let json = if outcome.changed { encoded.stamped(outcome.revision) } else { encoded.unstored() };
        Ok(Object { json, revision: outcome.revision })
    }

    /// Brings a new object into the form in which it is stored, and checks that it may be.
    pub(super) fn prepare_new(
        &self,
        write: &Write<'_>,
        mut object: Value,
        tracking: Tracking,
        taken: &Taken,
    ) -> Result<Value> {
        let (kind, declaration) = (write.kind, write.declaration());
        let now = self.now();
        let mut meta = meta_mut(&mut object)?;
        if !meta.view().resource_version().is_empty() {
            return Err(Error::BadRequest(
                "resourceVersion should not be set on objects to be created".into(),
            ));
        }
        ensure_namespace(&mut meta, write.namespace)?;
        wipe_system_fields(&mut meta);
        fill_system_fields(&mut meta, &self.new_uid(), now);
        meta.set_generation(if declaration.generation == Generation::Untracked { 0 } else { 1 });
        if declaration.has_status() && !declaration.keeps_status_on_create {
            drop_status(write, &mut object);
        }
        kind.set_defaults(&mut object);
        if tracking == Tracking::Update {
            object = Ownership::of(write).track(None, object, now);
        }
        kind.note_requester(&mut object, write.requester);
        kind.prepare_for_create(&mut object, now);
        self.allocate(write, &mut object, None, taken)?;
        let mut errors = metadata_errors(declaration, &object);
        kind.validate(&object, &mut errors);
        kind.validate_create(&object, &mut errors);
        write.check(Meta::of(&object).name(), errors)?;
        Ok(object)
    }
}

/// Leaves the status as it is where nobody has written any.
fn drop_status(write: &Write<'_>, object: &mut Value) {
    let Value::Object(fields) = object else { return };
    let (group, version) = write.group_version();
    let id = types().kind(group, version, &write.declaration().kind);
    match id.and_then(|id| unset_field(id, "status")) {
        Some(unset) => fields.insert("status".to_owned(), unset),
        None => fields.remove("status"),
    };
}
