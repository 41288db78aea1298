//! Objects in the form in which they would be stored, without being.

use serde_json::{Value, json};

use super::Write;
use super::ownership::Ownership;
use crate::allocation::AllocatedSet;
use crate::cluster::Cluster;
use crate::error::Result;

impl Cluster {
    /// What creating this object would store, if nobody else had a say.
    pub(crate) fn prepared(&self, write: &Write<'_>, object: Value) -> Result<Value> {
        let object = self.complete_new(write, object)?;
        let object = Ownership::of(write).track(None, object, self.now());
        self.check_new(write, object, &AllocatedSet::default())
    }

    /// What applying these fields to an object would store.
    pub(crate) fn with_applied(&self, write: &Write<'_>, object: Value, fields: &Value) -> Result<Value> {
        let mut config = fields.clone();
        config["apiVersion"] = write.api_version.into();
        config["kind"] = write.kind.declaration().kind.as_ref().into();
        config["metadata"] = json!({"name": object["metadata"]["name"]});
        Ownership::of(write).apply(Some(&object), &config, false, self.now())
    }
}
