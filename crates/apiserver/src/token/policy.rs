//! Settings for issuing service account tokens, and for the discovery of their keys.

use std::time::Duration;

/// Settings for issuing service account tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenPolicy {
    /// The longest lifetime of a token; None for the limit of Kubernetes.
    pub max_expiration: Option<Duration>,
    /// The `https` URL of the key set that is published to relying parties; without it the discovery endpoints are not
    /// served.
    pub jwks_uri: Option<String>,
}
