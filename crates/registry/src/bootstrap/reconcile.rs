//! What is done at a start about objects of the beginning that people have deleted or changed.

use coracle_meta::gvk::split_api_version;
use coracle_store::{Base, Error as StoreError, Expect, Put};
use serde_json::Value;

use super::objects::SERVER;
use super::rbac::{self, Reconciled, reconciled};
use super::storage;
use crate::cluster::Cluster;
use crate::encode::Encoded;
use crate::error::{Error, Result};
use crate::identity::Identity;
use crate::lifecycle::{Change, DeleteOptions, Write, tree};
use crate::view;

impl Cluster {
    /// Brings back what was deleted of most of what every cluster has, and adds to roles and bindings what was taken
    /// from them, as upstream does when it starts.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn reconcile(&self) -> Result<()> {
        let Some(base) = self.base() else { return Ok(()) };
        for key in base.keys(b"") {
            let found = self.store.get(&key).await?.entry;
            // What nobody has written is as old as the base, and right.
            if found.as_ref().is_some_and(|entry| entry.mod_revision() == base.revision()) {
                continue;
            }
            let Some(expected) = base.encoded(&key) else { continue };
            match found {
                None if is_to_stay_deleted(&expected) => {}
                None => self.bring_back(key, expected).await?,
                Some(entry) => self.complement(key, &tree(&entry)?, expected).await?,
            }
        }
        Ok(())
    }

    async fn bring_back(&self, key: Vec<u8>, expected: Encoded) -> Result<()> {
        let put = Put::new(key, expected.bytes).stamp_at(expected.stamp).expect(Expect::Absent);
        match self.store.put(put).await {
            // Another server mends too.
            Ok(_) | Err(StoreError::Conflict(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds to a role or a binding that somebody has changed what is missing.
    async fn complement(&self, key: Vec<u8>, existing: &Value, encoded: Encoded) -> Result<()> {
        let expected: Value = serde_json::from_slice(&encoded.bytes).unwrap_or_default();
        let Some(kind) = rbac::kind_of(&expected) else { return Ok(()) };
        let api_version = view::text(&expected, &["apiVersion"]);
        let write = Write {
            kind,
            api_version,
            served_version: split_api_version(api_version).1,
            namespace: view::text(&expected, &["metadata", "namespace"]),
            subresource: "",
            manager: SERVER,
            requester: &Identity::server(),
            dry_run: false,
            audit: None,
            sent: None,
        };
        let name = view::name(&expected);
        // A policy of the cluster must not keep it from starting.
        let cluster = self.without_admission();
        let done = match reconciled(existing, &expected) {
            Reconciled::Keep => return Ok(()),
            Reconciled::Change(_) => {
                let change = |existing| Ok(complemented(existing, &expected));
                cluster.update(&write, name, &Change::Patch(&change)).await.map(drop)
            }
            Reconciled::MakeAgain => {
                cluster.delete(&write, name, &DeleteOptions::default()).await?;
                self.bring_back(key, encoded).await
            }
        };
        match done {
            // Somebody was faster, and will have another start.
            Err(Error::NotFound(_)) => Ok(()),
            done => done,
        }
    }
}

fn is_to_stay_deleted(expected: &Encoded) -> bool {
    let object: Value = serde_json::from_slice(&expected.bytes).unwrap_or_default();
    storage::stays_deleted(view::text(&object, &["kind"]))
}

/// What an object becomes, which may have changed since it was looked at.
fn complemented(existing: Value, expected: &Value) -> Value {
    match reconciled(&existing, expected) {
        Reconciled::Change(new) => new,
        Reconciled::Keep | Reconciled::MakeAgain => existing,
    }
}
