//! Permissions to approve and sign certificates for a signer.
//!
//! `signers` is a resource without objects, for permissions only. The name of the object is that of the signer, or its
//! domain and `/*` for all signers of the domain.

use coracle_registry::Identity;

use super::CERTIFICATES;
use crate::authorization::{Attributes, Permissions, ResourceTarget, Target};

/// Returns true if a user may approve or sign certificate requests for a signer.
pub(super) fn may(permissions: &dyn Permissions, somebody: &Identity, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    [signer, &format!("{domain}/*")].into_iter().any(|name| {
        let target = ResourceTarget {
            group: CERTIFICATES,
            version: "*",
            resource: "signers",
            name,
            ..ResourceTarget::default()
        };
        permissions.authorize(somebody, &Attributes { verb, target: Target::Resource(target) }).allowed
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::Permits;
    use super::*;

    #[test]
    fn permission_names_the_signer_or_its_domain() {
        let somebody = Identity::default();
        let may = |permitted, verb, signer| {
            may(&Permits { verb: "sign", signer: permitted }, &somebody, verb, signer)
        };
        assert!(may("example.com/a", "sign", "example.com/a"));
        assert!(may("example.com/*", "sign", "example.com/a"));
        assert!(may("example.com/*", "sign", "example.com/a/b"));
        assert!(!may("example.com/a", "sign", "example.com/b"));
        assert!(!may("other.com/*", "sign", "example.com/a"));
        assert!(!may("example.com/a", "approve", "example.com/a"));
    }
}
