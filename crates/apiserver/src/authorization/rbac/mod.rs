//! Role-based access control: the Roles and ClusterRoles of a cluster, granted by its bindings.
//!
//! The index of roles and bindings is kept in memory for the clusters in use; see [`ObjectCache`] for how it is kept
//! current.
//! [`ObjectCache`] for how it is kept current.

mod binding;
mod bindings;
mod compact;
mod index;
mod relevance_cache;
mod rule;

use std::sync::Arc;

use coracle_registry::{Cluster, Identity};

use super::{Attributes, Authorizer, AuthorizerLabel, Decision, PendingPermissions, Permissions, Rules};
use crate::cluster_cache::{ClusterLru, ObjectCache};
pub(crate) use binding::RoleRef;
pub(crate) use compact::{compact_rules, list};
pub(crate) use index::Index;

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// Authorizes by the roles and bindings of the cluster.
#[derive(Default)]
pub struct Rbac {
    clusters: ClusterLru<ObjectCache<Index>>,
}

impl Authorizer for Rbac {
    fn label(&self) -> Option<AuthorizerLabel> {
        Some(AuthorizerLabel { kind: "RBAC", name: "rbac" })
    }

    fn forget_cluster(&self, id: &str) {
        self.clusters.forget(id);
    }

    fn cached_clusters(&self) -> usize {
        self.clusters.len()
    }

    fn permissions<'a>(&'a self, cluster: &'a Cluster) -> PendingPermissions<'a> {
        Box::pin(async move {
            let cache = self.clusters.get(cluster.id(), ObjectCache::default);
            cache.refresh(cluster).await?;
            Ok(cache as Arc<dyn Permissions>)
        })
    }
}

impl Permissions for ObjectCache<Index> {
    fn authorize(&self, identity: &Identity, attributes: &Attributes<'_>) -> Decision {
        self.read(|index| index.authorize(identity, attributes))
    }

    fn rules(&self, identity: &Identity, namespace: &str) -> Rules {
        self.read(|index| index.rules(identity, namespace))
    }
}
