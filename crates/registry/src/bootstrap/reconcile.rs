//! Reconciliation of bootstrap objects that users have deleted or changed, at the start of the server.

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
    /// Restores most bootstrap objects that were deleted, and restores rules and subjects that were removed from
    /// roles and bindings, as kube-apiserver does when it starts.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn reconcile(&self) -> Result<()> {
        let Some(base) = self.base() else { return Ok(()) };
        for key in base.keys(b"") {
            let found = self.store.get(&key).await?.entry;
            // An object that was never written is up to date.
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
            // Another server may reconcile concurrently.
            Ok(_) | Err(StoreError::Conflict(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Restores the missing rules or subjects of a changed role or binding.
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
        // Admission policies of the cluster must not prevent its start.
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
            // Another server deleted it first, and will reconcile it.
            Err(Error::NotFound(_)) => Ok(()),
            done => done,
        }
    }
}

fn is_to_stay_deleted(expected: &Encoded) -> bool {
    let object: Value = serde_json::from_slice(&expected.bytes).unwrap_or_default();
    storage::stays_deleted(view::text(&object, &["kind"]))
}

/// Reconciles the latest state of the object, which may have changed since it was read.
fn complemented(existing: Value, expected: &Value) -> Value {
    match reconciled(&existing, expected) {
        Reconciled::Change(new) => new,
        Reconciled::Keep | Reconciled::MakeAgain => existing,
    }
}
