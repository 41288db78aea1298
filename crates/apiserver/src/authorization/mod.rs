//! Authorization: decides whether a user may perform an operation.
//!
//! One server serves many clusters, each with its own roles. An [`Authorizer`] therefore first loads the
//! [`Permissions`] of a cluster, which may have to be read from the store. [`Permissions`] then decide synchronously,
//! because CEL expressions of admission policies also authorize and cannot wait.

mod attributes;
mod decision;
mod forbidden;
mod masters;
mod node;
pub(crate) mod rbac;
mod union;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use coracle_registry::{Cluster, Identity, Result};

pub use attributes::{Attributes, ResourceTarget, Target};
pub use decision::{Decision, NonResourceRule, ResourceRule, Rules};
pub(crate) use forbidden::forbidden;
pub use masters::MastersOnly;
pub(crate) use masters::is_master;
pub use node::NodeAuthorizer;
pub use rbac::Rbac;
pub use union::Union;

/// A future of the permissions of a cluster.
pub type PendingPermissions<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Permissions>>> + Send + 'a>>;

/// A future of a decision.
pub type PendingDecision<'a> = Pin<Box<dyn Future<Output = Result<Decision>> + Send + 'a>>;

/// The labels of an authorizer in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthorizerLabel {
    /// Type of the authorizer, such as `RBAC`.
    pub kind: &'static str,
    /// Name in the authorization configuration, such as `rbac`.
    pub name: &'static str,
}

/// Decides whether users may perform operations, in every cluster.
pub trait Authorizer: Send + Sync {
    /// Returns the current permissions in a cluster. Implementations cache what they read.
    fn permissions<'a>(&'a self, cluster: &'a Cluster) -> PendingPermissions<'a>;

    /// Decides whether a user may perform an operation in a cluster. Called for every request; implementations may
    /// decide without loading all permissions of the cluster.
    fn authorize<'a>(
        &'a self,
        cluster: &'a Cluster,
        identity: &'a Identity,
        attributes: &'a Attributes<'a>,
    ) -> PendingDecision<'a> {
        Box::pin(async move { Ok(self.permissions(cluster).await?.authorize(identity, attributes)) })
    }

    /// Labels of the authorizer in metrics. Decisions of an authorizer without labels are not counted.
    fn label(&self) -> Option<AuthorizerLabel> {
        None
    }

    /// Frees what is cached for a deleted cluster.
    fn forget_cluster(&self, _id: &str) {}

    /// Number of cached clusters, for tests.
    fn cached_clusters(&self) -> usize {
        0
    }
}

/// A snapshot of the permissions in one cluster.
pub trait Permissions: Send + Sync {
    /// Decides whether a user may perform an operation.
    fn authorize(&self, identity: &Identity, attributes: &Attributes<'_>) -> Decision;

    /// Lists the operations that a user may perform in a namespace.
    fn rules(&self, identity: &Identity, namespace: &str) -> Rules;
}

/// Wraps permissions that are available without waiting.
pub fn ready<'a>(permissions: Arc<dyn Permissions>) -> PendingPermissions<'a> {
    Box::pin(std::future::ready(Ok(permissions)))
}
