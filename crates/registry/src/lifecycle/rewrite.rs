//! Internal writes of the server, without admission, validation or updates of field ownership.

use coracle_meta::object::Meta;
use serde_json::Value;

use super::commit::{Known, Plan, Step};
use super::{Object, Write, check_preconditions};
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::keys;

/// Preconditions of a write on the stored object.
#[derive(Clone, Debug, Default)]
pub struct Preconditions {
    /// The required UID.
    pub uid: Option<String>,
    /// The required resourceVersion.
    pub resource_version: Option<String>,
}

impl Cluster {
    /// Changes an object by `change`, which is called again with the newer object after a conflict.
    ///
    /// # Errors
    /// If the object does not exist, a precondition fails, or `change` returns an error.
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
