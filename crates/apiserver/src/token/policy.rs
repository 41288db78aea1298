//! How tokens of service accounts are given out, and what is told of them.

use std::time::Duration;

/// What an administrator decides about tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenPolicy {
    /// No token is good for longer; none for no limit but upstream's.
    pub max_expiration: Option<Duration>,
    /// Where others find the keys of tokens, an `https` URL. Without it they are not told.
    pub jwks_uri: Option<String>,
}
