//! The traits of authenticators, and their results.
//!
//! [`Authenticator`] examines a whole request, [`TokenAuthenticator`] the bearer token of one. Support for another kind
//! of token, such as those of an identity provider, is a [`TokenAuthenticator`].

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use coracle_base::Timestamp;
use coracle_registry::{Cluster, Error, Identity};
use http::HeaderMap;

use crate::credential_scope::CredentialScope;
use crate::identity::{PeerCertificate, PeerIdentity};
use crate::metrics::ServerMetrics;

/// The parts of a request that authenticators examine.
pub(crate) struct Attempt<'a> {
    pub(crate) headers: &'a HeaderMap,
    /// The identity of a peer without a credential, as components of this process have it.
    pub(crate) peer: Option<&'a PeerIdentity>,
    /// The clusters that a component of this process acts in; None for requests over the network.
    pub(crate) in_process: Option<&'a CredentialScope>,
    /// The client certificate of the TLS handshake.
    pub(crate) certificate: Option<&'a PeerCertificate>,
    pub(crate) path: &'a str,
    /// The cluster of the request, which stores the objects that credentials refer to.
    pub(crate) cluster: &'a Cluster,
    /// Audiences that identify this server in tokens of this cluster.
    pub(crate) api_audiences: &'a [String],
    /// Audiences of which the credential must have at least one.
    pub(crate) audiences: &'a [String],
    pub(crate) now: Timestamp,
    pub(crate) metrics: &'a ServerMetrics,
}

impl Attempt<'_> {
    /// Seconds since the epoch.
    pub(crate) fn now_s(&self) -> i64 {
        i64::try_from(self.now.as_millis() / 1000).unwrap_or(i64::MAX)
    }
}

/// An authenticated user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authenticated {
    pub(crate) identity: Arc<Identity>,
    /// The clusters that the credential is valid for.
    pub(crate) scope: CredentialScope,
    /// Requested audiences that the credential is for; empty if it is not restricted to audiences.
    pub(crate) audiences: Vec<String>,
}

/// Why authentication failed. Never contains the credential.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthenticationError {
    /// No authenticator recognizes the token.
    #[error("invalid bearer token")]
    InvalidToken,
    /// An authenticator recognizes the credential and rejects it.
    #[error("{0}")]
    Refused(Cow<'static, str>),
    /// The credential is valid, but not in the cluster of the request.
    #[error("the credential is not valid in this cluster")]
    WrongCluster,
    /// The errors of several authenticators.
    #[error("{}", aggregate(.0))]
    Several(Vec<AuthenticationError>),
    /// An object that the credential refers to could not be read.
    #[error("cannot read an object that the credential refers to")]
    Lookup(#[source] Error),
}

impl AuthenticationError {
    pub(crate) fn refused(why: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(why.into())
    }

    /// A rejection with the text of another error.
    pub(crate) fn because(error: impl fmt::Display) -> Self {
        Self::refused(error.to_string())
    }

    /// Combines errors; None if there are none.
    pub(crate) fn of(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 => None,
            1 => errors.pop(),
            _ => Some(Self::Several(errors)),
        }
    }

    /// The error of a lookup, if one failed: then the credential may be valid.
    pub(crate) fn lookup(&self) -> Option<&Error> {
        match self {
            Self::Lookup(error) => Some(error),
            Self::Several(errors) => errors.iter().find_map(Self::lookup),
            Self::InvalidToken | Self::WrongCluster | Self::Refused(_) => None,
        }
    }

    fn texts(&self, found: &mut Vec<String>) {
        if let Self::Several(errors) = self {
            errors.iter().for_each(|error| error.texts(found));
            return;
        }
        let text = self.to_string();
        if !found.contains(&text) {
            found.push(text);
        }
    }
}

/// Formats several errors like `Aggregate` of k8s.io/apimachinery: flat, and each once.
fn aggregate(errors: &[AuthenticationError]) -> String {
    let mut texts = Vec::new();
    errors.iter().for_each(|error| error.texts(&mut texts));
    if texts.len() == 1 { texts.swap_remove(0) } else { format!("[{}]", texts.join(", ")) }
}

impl From<Error> for AuthenticationError {
    fn from(error: Error) -> Self {
        Self::Lookup(error)
    }
}

/// A user; None if the authenticator does not recognize a credential; or an error if it rejects one.
pub(crate) type Outcome = Result<Option<Authenticated>, AuthenticationError>;

/// A future of an [`Outcome`].
pub(crate) type Pending<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// Authenticates requests.
pub(crate) trait Authenticator: Send + Sync {
    /// Authenticates a request. Returns None if the request has no credential for this authenticator.
    fn authenticate<'a>(&'a self, attempt: &'a Attempt<'a>) -> Pending<'a>;
}

/// Authenticates bearer tokens.
pub(crate) trait TokenAuthenticator: Send + Sync {
    /// Authenticates a token. Returns None if the token is not of this authenticator's kind.
    fn authenticate_token<'a>(&'a self, token: &'a BearerToken, attempt: &'a Attempt<'a>) -> Pending<'a>;
}

/// A bearer token. Its `Debug` output hides it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BearerToken(String);

impl BearerToken {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text of the token, for comparison.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}

/// The audiences of credentials that are not restricted to any: those of the requested audiences that identify this
/// server. None if there are none.
pub(crate) fn implicit_audiences(own: &[String], wanted: &[String]) -> Option<Vec<String>> {
    let both = intersection(own, wanted);
    // Without audiences on both sides the credential is valid.
    (!both.is_empty() || own.is_empty() && wanted.is_empty()).then_some(both)
}

/// The wanted names that are present, in the order in which they are wanted.
pub(crate) fn intersection(there: &[String], wanted: &[String]) -> Vec<String> {
    wanted.iter().filter(|name| there.contains(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_flattened_and_deduplicated() {
        let refused = |why: &'static str| AuthenticationError::refused(why);
        let nested = AuthenticationError::of(vec![refused("a"), refused("b")]).unwrap();
        let all = AuthenticationError::of(vec![AuthenticationError::InvalidToken, nested, refused("a")]);
        assert_eq!(all.unwrap().to_string(), "[invalid bearer token, a, b]");
        let twice = vec![AuthenticationError::InvalidToken, AuthenticationError::InvalidToken];
        assert_eq!(AuthenticationError::of(twice).unwrap().to_string(), "invalid bearer token");
        assert!(AuthenticationError::of(Vec::new()).is_none());
    }

    #[test]
    fn debug_output_hides_the_token() {
        assert_eq!(format!("{:?}", BearerToken::new("planted")), "BearerToken(..)");
    }

    #[test]
    fn audiences_are_in_the_requested_order() {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(intersection(&names("a b c"), &names("c x a")), names("c a"));
        assert_eq!(implicit_audiences(&names("a"), &names("b")), None);
    }
}
