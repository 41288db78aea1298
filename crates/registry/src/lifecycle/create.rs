//! Creation.

use coracle_meta::name::generate_name;
use coracle_meta::object::{Meta, ensure_namespace, fill_system_fields, wipe_system_fields};
use coracle_store::{Expect, Put};
use serde_json::Value;

use super::{Object, Write, meta_mut, metadata_errors, ownership};
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
    pub async fn create(&self, write: &Write<'_>, object: Value) -> Result<Object> {
        let generated = Meta::of(&object).name().is_empty() && !Meta::of(&object).generate_name().is_empty();
        for _ in 0..NAME_ATTEMPTS {
            let mut candidate = object.clone();
            if generated {
                let name = generate_name(Meta::of(&object).generate_name(), self.name_digits());
                meta_mut(&mut candidate)?.set_name(&name);
            }
            match self.create_named(write, candidate).await {
                Err(Error::AlreadyExists(_)) if generated => {}
                outcome => return outcome,
            }
        }
        Err(Error::NoFreeName(write.subject(Meta::of(&object).generate_name())))
    }

    async fn create_named(&self, write: &Write<'_>, object: Value) -> Result<Object> {
        let object = self.prepare_new(write, object, Tracking::Update)?;
        let name = Meta::of(&object).name().to_owned();
        let encoded = Encoded::of(&object);
        let key = keys::key(write.declaration(), write.namespace, &name);
        if write.dry_run {
            return self.would_create(write, &key, &name, &encoded).await;
        }
        let put = Put::new(key, encoded.bytes.clone()).stamp_at(encoded.stamp).expect(Expect::Absent);
        match self.store.put(put).await {
            Ok(committed) => {
                Ok(Object { json: encoded.stamped(committed.revision), revision: committed.revision })
            }
            Err(coracle_store::Error::Conflict(_)) => Err(Error::AlreadyExists(write.subject(&name))),
            Err(error) => Err(error.into()),
        }
    }

    async fn would_create(
        &self,
        write: &Write<'_>,
        key: &str,
        name: &str,
        encoded: &Encoded,
    ) -> Result<Object> {
        let found = self.store.get(key).await?;
        if found.entry.is_some() {
            return Err(Error::AlreadyExists(write.subject(name)));
        }
        // It has no revision: nothing was written.
        Ok(Object { json: encoded.bytes.clone(), revision: found.revision })
    }

    /// Brings a new object into the form in which it is stored, and checks that it may be.
    pub(super) fn prepare_new(
        &self,
        write: &Write<'_>,
        mut object: Value,
        tracking: Tracking,
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
        if let (true, Value::Object(fields)) = (declaration.has_status(), &mut object) {
            fields.remove("status");
        }
        kind.set_defaults(&mut object);
        if tracking == Tracking::Update {
            object = ownership::track(write, None, object, now);
        }
        kind.prepare_for_create(&mut object);
        let mut errors = metadata_errors(declaration, &object);
        kind.validate(&object, &mut errors);
        write.check(Meta::of(&object).name(), errors)?;
        Ok(object)
    }
}
