//! Role-based access control: what the Roles and ClusterRoles of a cluster allow to whom its bindings
//! give them.
//!
//! What is asked often is arranged for it and kept in memory, for as many clusters as are in use. It is
//! kept current without a task: every change is in a queue of the store, and whoever asks takes first
//! what has arrived. A queue that nobody has looked into for long is given up by the store, and all is
//! read anew.

mod binding;
mod bindings;
mod followed;
mod index;
mod kept;
mod rule;
mod shown;

use std::sync::Arc;

use coracle_registry::{Cluster, Identity};

use super::{Attributes, Authorizer, Decision, Known, Permissions, Rules};
pub(crate) use binding::RoleRef;
use followed::Followed;
pub(crate) use index::Index;
use kept::Kept;
pub(crate) use shown::{list, shown};

/// The API group of roles and bindings.
pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// Asks the roles and bindings of the cluster.
#[derive(Default)]
pub struct Rbac {
    kept: Kept,
}

impl Authorizer for Rbac {
    fn permissions<'a>(&'a self, cluster: &'a Cluster) -> Known<'a> {
        Box::pin(async move {
            let followed = self.kept.get(cluster.id());
            followed.refresh(cluster).await?;
            Ok(followed as Arc<dyn Permissions>)
        })
    }
}

impl Permissions for Followed {
    fn authorize(&self, identity: &Identity, attributes: &Attributes<'_>) -> Decision {
        self.read(|index| index.authorize(identity, attributes))
    }

    fn rules(&self, identity: &Identity, namespace: &str) -> Rules {
        self.read(|index| index.rules(identity, namespace))
    }
}
