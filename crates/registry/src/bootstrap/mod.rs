//! Bootstrap objects that every cluster has, shared by all clusters.
//!
//! They are not written to the store. They are prepared when the server starts, and are visible beneath the objects
//! that a cluster has written itself ([`overlay`]). So a new cluster costs nothing, and a new version of the server
//! brings its own bootstrap objects. A bootstrap object that a cluster changes is stored in that cluster from then
//! on; most of those that it deletes are restored.
//!
//! One record in the store contains the time and the revision of the bootstrap objects. It is written at the first
//! start, and again whenever the objects have changed.

mod api_services;
mod authentication;
mod endpoint;
mod flow_control;
mod namespace_contents;
mod objects;
mod overlay;
mod rbac;
mod reconcile;
mod record;
mod shared_objects;
mod storage;

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_store::{Expect, Put, Txn};

pub use endpoint::Endpoint;

use crate::catalog;
use crate::cluster::{Cluster, Registry};
use crate::encode::Encoded;
use crate::error::Result;
use crate::kind::Declaration;
use namespace_contents::is_restored_by_controller;
pub(crate) use overlay::{ClusterBase, Shared};
use shared_objects::{SharedObjects, Since};

/// Data about the server for the bootstrap objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// The address for clients, if there is one.
    pub endpoint: Option<Endpoint>,
    /// The CAs that sign certificates of clients and of this server, in PEM.
    pub client_ca: Option<String>,
    /// Settings by which extension API servers accept this server as a front proxy, for the ConfigMap
    /// `extension-apiserver-authentication`.
    pub front_proxy: BTreeMap<String, String>,
}

impl Registry {
    /// Prepares the bootstrap objects; to be called once, before the first request.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn bootstrap(&self, server_info: &ServerInfo) -> Result<()> {
        let shared = self.shared(server_info).await?;
        self.set_base(Arc::new(shared));
        Ok(())
    }

    async fn shared(&self, server_info: &ServerInfo) -> Result<Shared> {
        let shared_objects = SharedObjects::of(self, server_info)?;
        loop {
            let (record, revision) = self.origin().await?;
            let unchanged = revision.filter(|_| record.digest() == shared_objects.digest());
            let noted = match unchanged {
                Some(revision) => Some(revision),
                None => self.note(&record.clone().with_digest(shared_objects.digest()), revision).await?,
            };
            // After a conflict with another server, the record of that one is used.
            if let Some(revision) = noted {
                let since = Since::new(record.since())?;
                return Ok(Shared { shared_objects, revision, seed: record.seed().to_owned(), since });
            }
        }
    }
}

/// Kinds whose deleted bootstrap objects are not restored while the server runs: kube-apiserver creates them only
/// when it starts, and a deleted StorageClass stays deleted.
const NOT_RESTORED: &[&str] =
    &["PriorityClass", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "StorageClass"];

impl Cluster {
    /// Restores a bootstrap object that was just deleted, where Kubernetes has a controller that does so while it
    /// runs. The restored object has a new UID, by which clients see that the old one is gone. If this fails, the
    /// next start restores it.
    pub(crate) async fn restore(&self, declaration: &Declaration, key: &str) {
        let Some(encoded) = self.base().and_then(|base| base.encoded(key.as_bytes())) else { return };
        let version = declaration.versions.first().map(|version| &**version).unwrap_or_default();
        let Some(kind) = catalog::find(&declaration.group, version, &declaration.plural) else { return };
        let name = key.rsplit('/').next().unwrap_or_default();
        if NOT_RESTORED.contains(&&*declaration.kind) || is_restored_by_controller(&declaration.kind, name) {
            return;
        }
        let Ok(object) = serde_json::from_slice(&encoded.bytes) else { return };
        let object = self.complete(object);
        let encoded = Encoded::of(&object);
        let put = Put::new(key, encoded.bytes).stamp_at(encoded.stamp).expect(Expect::Absent);
        // The allocations were released with the object; after a conflict the next start restores it.
        let allocations = kind
            .allocations(&object)
            .into_iter()
            .map(|allocation| self.record(allocation).expect(Expect::Absent));
        let txn = allocations.fold(Txn::new(), Txn::put).put(put);
        drop(self.store.commit(txn).await);
    }
}
