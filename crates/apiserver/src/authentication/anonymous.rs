//! Anonymous requests, which have no credentials.

use std::sync::Arc;

use coracle_registry::Identity;

use super::authenticator::{Attempt, Authenticated, Authenticator, Pending};
use crate::credential_scope::CredentialScope;
use crate::health::Probe;
use crate::identity::{ANONYMOUS, UNAUTHENTICATED};

/// Paths that requests without credentials may use. Authorization still applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anonymous {
    /// Health endpoints only: `/healthz`, `/livez` and `/readyz`, and the checks below them.
    #[default]
    HealthPaths,
    /// All paths, as in kube-apiserver.
    Everywhere,
}

pub(super) struct AnonymousAuthenticator {
    allowed: Anonymous,
    identity: Arc<Identity>,
}

impl AnonymousAuthenticator {
    pub(super) fn new(allowed: Anonymous) -> Self {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        let identity = Arc::new(Identity { name: ANONYMOUS.to_owned(), groups, ..Identity::default() });
        Self { allowed, identity }
    }
}

impl Authenticator for AnonymousAuthenticator {
    fn authenticate<'a>(&'a self, attempt: &'a Attempt<'a>) -> Pending<'a> {
        let allowed = match self.allowed {
            Anonymous::Everywhere => true,
            Anonymous::HealthPaths => Probe::of_path(attempt.path).is_some(),
        };
        let audiences = attempt.audiences.to_vec();
        let found = allowed.then(|| Authenticated {
            identity: self.identity.clone(),
            scope: CredentialScope::of(attempt.cluster),
            audiences,
        });
        Box::pin(std::future::ready(Ok(found)))
    }
}
