//! What every cluster has from its beginning, and how all clusters share it.
//!
//! These objects are not written. They are made when the program starts, the same for all
//! clusters, and lie beneath what each cluster has written itself ([`base`]). So a new cluster
//! costs nothing, and a new version of the program brings its own objects along. What a
//! cluster changes of them is its own from then on, and what it deletes of most of them comes back.
//!
//! One record in the store says since when they are there and as of which revision: it is
//! written on the first start, and again whenever the objects are not what they were.

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
use namespace_contents::is_missed_by_a_controller;
pub(crate) use overlay::{ClusterBase, Shared};
use shared_objects::{SharedObjects, Since};

/// What the objects say of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// Where clients reach it, if they can.
    pub endpoint: Option<Endpoint>,
    /// The authorities that sign certificates of clients and of this server, in PEM.
    pub client_ca: Option<String>,
    /// By what servers behind this one believe it as a front proxy, as they read it from the ConfigMap
    /// `extension-apiserver-authentication`.
    pub front_proxy: BTreeMap<String, String>,
}

impl Registry {
    /// Makes what every cluster has; to be called once, before the first request.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn bootstrap(&self, server_info: &ServerInfo) -> Result<()> {
        let shared = self.shared(server_info).await?;
        self.set_base(Arc::new(shared));
        Ok(())
    }

    async fn shared(&self, server_info: &ServerInfo) -> Result<Shared> {
        let made = SharedObjects::of(self, server_info)?;
        loop {
            let (record, revision) = self.origin().await?;
            let unchanged = revision.filter(|_| record.digest() == made.digest());
            let noted = match unchanged {
                Some(revision) => Some(revision),
                None => self.note(&record.clone().with_digest(made.digest()), revision).await?,
            };
            // If another server was faster, what it wrote counts.
            if let Some(revision) = noted {
                let since = Since::new(record.since())?;
                return Ok(Shared { made, revision, seed: record.seed().to_owned(), since });
            }
        }
    }
}

/// What upstream makes when it starts, and does not miss while it runs; and what nobody may miss.
const NOT_MISSED: &[&str] =
    &["PriorityClass", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "StorageClass"];

impl Cluster {
    /// Brings back what has just been deleted of what every cluster has, where upstream has a controller
    /// that does so while it runs. It is another object then, which is how clients tell that the old one
    /// is gone. Should this fail, the next start mends it.
    pub(crate) async fn restore(&self, declaration: &Declaration, key: &str) {
        let Some(encoded) = self.base().and_then(|base| base.encoded(key.as_bytes())) else { return };
        let version = declaration.versions.first().map(|version| &**version).unwrap_or_default();
        let Some(kind) = catalog::find(&declaration.group, version, &declaration.plural) else { return };
        let name = key.rsplit('/').next().unwrap_or_default();
        if NOT_MISSED.contains(&&*declaration.kind) || is_missed_by_a_controller(&declaration.kind, name) {
            return;
        }
        let Ok(object) = serde_json::from_slice(&encoded.bytes) else { return };
        let object = self.complete(object);
        let encoded = Encoded::of(&object);
        let put = Put::new(key, encoded.bytes).stamp_at(encoded.stamp).expect(Expect::Absent);
        // What it held was given up with it; if somebody was faster, it waits for the next start.
        let allocations = kind
            .allocations(&object)
            .into_iter()
            .map(|allocation| self.record(allocation).expect(Expect::Absent));
        let txn = allocations.fold(Txn::new(), Txn::put).put(put);
        drop(self.store.commit(txn).await);
    }
}
