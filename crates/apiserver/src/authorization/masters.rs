//! Administrators: whoever is in one group may do everything, whatever roles say.

use std::sync::Arc;

use coracle_registry::{Cluster, Identity};

use super::{Attributes, Authorizer, Decided, Decision, Known, Permissions, Rules, known};

/// Whoever is in this group may do everything, as in upstream.
const MASTERS: &str = "system:masters";

/// Administrators may do everything; of others nothing is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct MastersOnly;

/// Whether somebody may do everything.
pub(crate) fn is_master(identity: &Identity) -> bool {
    identity.groups.iter().any(|group| group == MASTERS)
}

impl Authorizer for MastersOnly {
    fn permissions<'a>(&'a self, _cluster: &'a Cluster) -> Known<'a> {
        known(Arc::new(*self))
    }

    fn authorize<'a>(
        &'a self,
        _cluster: &'a Cluster,
        identity: &'a Identity,
        attributes: &'a Attributes<'a>,
    ) -> Decided<'a> {
        Box::pin(std::future::ready(Ok(Permissions::authorize(self, identity, attributes))))
    }
}

impl Permissions for MastersOnly {
    fn authorize(&self, identity: &Identity, _attributes: &Attributes<'_>) -> Decision {
        Decision { allowed: is_master(identity), ..Decision::default() }
    }

    /// None: a role that is bound to the group says it, for those who ask.
    fn rules(&self, _identity: &Identity, _namespace: &str) -> Rules {
        Rules::default()
    }
}
