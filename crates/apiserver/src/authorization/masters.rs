//! Authorizer for administrators: members of `system:masters` may do everything, whatever roles exist.

use std::sync::Arc;

use coracle_registry::{Cluster, Identity};

use super::{
    Attributes, Authorizer, Decision, PendingDecision, PendingPermissions, Permissions, Rules, ready,
};

/// The group whose members may do everything, as in Kubernetes.
const MASTERS: &str = "system:masters";

/// Allows everything to members of `system:masters`; has no opinion on other users.
#[derive(Clone, Copy, Debug, Default)]
pub struct MastersOnly;

/// Returns true if a user is a member of `system:masters`.
pub(crate) fn is_master(identity: &Identity) -> bool {
    identity.groups.iter().any(|group| group == MASTERS)
}

impl Authorizer for MastersOnly {
    fn permissions<'a>(&'a self, _cluster: &'a Cluster) -> PendingPermissions<'a> {
        ready(Arc::new(*self))
    }

    fn authorize<'a>(
        &'a self,
        _cluster: &'a Cluster,
        identity: &'a Identity,
        attributes: &'a Attributes<'a>,
    ) -> PendingDecision<'a> {
        Box::pin(std::future::ready(Ok(Permissions::authorize(self, identity, attributes))))
    }
}

impl Permissions for MastersOnly {
    fn authorize(&self, identity: &Identity, _attributes: &Attributes<'_>) -> Decision {
        Decision { allowed: is_master(identity), ..Decision::default() }
    }

    /// Empty: the rules are listed from the ClusterRole that is bound to the group.
    fn rules(&self, _identity: &Identity, _namespace: &str) -> Rules {
        Rules::default()
    }
}
