//! Prepares objects in the stored form without a write.

use coracle_meta::field::ErrorList;
use serde_json::{Value, json};

use super::Write;
use super::ownership::Ownership;
use crate::allocation::AllocatedSet;
use crate::cluster::Cluster;
use crate::error::Result;

impl Cluster {
    /// The object that a create request would store, without admission.
    pub(crate) fn prepared(&self, write: &Write<'_>, object: Value) -> Result<Value> {
        let object = self.complete_new(write, object)?;
        let object = Ownership::of(write).track(None, object, self.now());
        self.check_new(write, object, &AllocatedSet::default(), ErrorList::new())
    }

    /// The object that server-side apply of these fields would store.
    pub(crate) fn with_applied(&self, write: &Write<'_>, object: Value, fields: &Value) -> Result<Value> {
        let mut config = fields.clone();
        config["apiVersion"] = write.api_version.into();
        config["kind"] = write.kind.declaration().kind.as_ref().into();
        config["metadata"] = json!({"name": object["metadata"]["name"]});
        Ownership::of(write).apply(Some(&object), &config, false, self.now())
    }
}
