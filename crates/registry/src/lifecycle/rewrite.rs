//! Writes of the system itself: what is there becomes what it should be, and neither the rules for
//! clients nor the ownership of fields are concerned.

use coracle_meta::object::Meta;
use serde_json::Value;

use super::commit::{Known, Plan, Step};
use super::{Object, Write, check_preconditions};
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::keys;

/// Which object is meant, beyond its name.
#[derive(Clone, Debug, Default)]
pub struct Preconditions {
    /// Only the object with this uid.
    pub uid: Option<String>,
    /// Only the object in this state.
    pub resource_version: Option<String>,
}

impl Cluster {
    /// Changes an object as `change` says, which may be asked again with a newer state.
    ///
    /// # Errors
    /// If there is none, it is not the one that is meant, or `change` refuses.
    pub async fn rewrite(
        &self,
        write: &Write<'_>,
        name: &str,
        preconditions: &Preconditions,
        change: impl Fn(&mut Value) -> Result<()>,
    ) -> Result<Object> {
        let key = keys::key(write.declaration(), write.namespace, name);
        let mut attempts = self.attempts(write.declaration(), key, Known::Nothing).await?;
        loop {
            let entry = attempts.found().cloned().ok_or_else(|| Error::NotFound(write.subject(name)))?;
            let mut object = write.read(&entry)?;
            let uid = Meta::of(&object).uid().to_owned();
            check_preconditions(write, name, preconditions, &uid, &entry)?;
            change(&mut object)?;
            let encoded = write.encoded(&object);
            let plan = if write.dry_run {
                Plan::keep()
            } else {
                Plan { step: Step::Put(encoded.clone()), ..Plan::keep() }
            };
            let Some(outcome) = attempts.carry_out(plan).await? else { continue };
            let revision = if outcome.changed { outcome.revision } else { entry.mod_revision() };
            return Ok(Object { json: encoded.stamped(revision), revision });
        }
    }
}
