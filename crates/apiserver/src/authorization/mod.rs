//! Who may do what: one question, and whoever answers it.
//!
//! One server serves many clusters, and each has roles of its own. So an [`Authorizer`] is asked what
//! is known of a cluster, which may have to be read first, and what it gives, [`Permissions`], answers
//! at once: expressions of policies ask too, and cannot wait.

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

/// What is known of a cluster, once it is known.
pub type Known<'a> = Pin<Box<dyn Future<Output = Result<Arc<dyn Permissions>>> + Send + 'a>>;

/// A decision, once it is made.
pub type Decided<'a> = Pin<Box<dyn Future<Output = Result<Decision>> + Send + 'a>>;

/// The name of an authorizer in metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthorizerLabel {
    /// Its type, such as `RBAC`.
    pub kind: &'static str,
    /// Its name in the configuration, such as `rbac`.
    pub name: &'static str,
}

/// Knows who may do what, in every cluster.
pub trait Authorizer: Send + Sync {
    /// Who may do what in a cluster, as of now. What is read once is kept.
    fn permissions<'a>(&'a self, cluster: &'a Cluster) -> Known<'a>;

    /// Whether somebody may do something in a cluster. Asked for every request; whoever can say it
    /// without knowing all of the cluster does so.
    fn authorize<'a>(
        &'a self,
        cluster: &'a Cluster,
        identity: &'a Identity,
        attributes: &'a Attributes<'a>,
    ) -> Decided<'a> {
        Box::pin(async move { Ok(self.permissions(cluster).await?.authorize(identity, attributes)) })
    }

    /// How metrics name it. Decisions of one without a label are not counted.
    fn label(&self) -> Option<AuthorizerLabel> {
        None
    }

    /// Frees what is cached of a cluster that was deleted.
    fn forget_cluster(&self, _id: &str) {}

    /// How many clusters are cached, for tests.
    fn cached_clusters(&self) -> usize {
        0
    }
}

/// Who may do what in one cluster, as of a moment.
pub trait Permissions: Send + Sync {
    /// Whether somebody may do something.
    fn authorize(&self, identity: &Identity, attributes: &Attributes<'_>) -> Decision;

    /// What somebody may do in a namespace.
    fn rules(&self, identity: &Identity, namespace: &str) -> Rules;
}

/// The answer of an authorizer that has it at hand.
pub fn known<'a>(permissions: Arc<dyn Permissions>) -> Known<'a> {
    Box::pin(std::future::ready(Ok(permissions)))
}
