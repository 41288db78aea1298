//! The seam: what is asked of whoever can tell who somebody is, and what they answer.
//!
//! [`Authenticator`] looks at a whole request, [`TokenAuthenticator`] at the token in one. Whoever
//! knows another kind of token, such as those of an identity provider, is one of the latter.

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

/// What is looked at to find out who is asking.
pub(crate) struct Attempt<'a> {
    pub(crate) headers: &'a HeaderMap,
    /// Who is known without a credential, as the parts of this process are.
    pub(crate) peer: Option<&'a PeerIdentity>,
    /// The clusters that a component of this process acts in; none for requests that came over the network.
    pub(crate) in_process: Option<&'a CredentialScope>,
    /// What was shown in the handshake.
    pub(crate) certificate: Option<&'a PeerCertificate>,
    pub(crate) path: &'a str,
    /// The cluster that is asked. Objects that credentials are about lie there.
    pub(crate) cluster: &'a Cluster,
    /// The names by which tokens mean this server, in this cluster.
    pub(crate) api_audiences: &'a [String],
    /// For whom the credential has to be.
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

/// Somebody who is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authenticated {
    pub(crate) identity: Arc<Identity>,
    /// The clusters that the credential is valid for.
    pub(crate) scope: CredentialScope,
    /// Those of the audiences asked about that the credential is for; none if it is for no audience
    /// in particular.
    pub(crate) audiences: Vec<String>,
}

/// Why somebody is not known. Never says what the credential was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthenticationError {
    /// Nobody knows this token.
    #[error("invalid bearer token")]
    InvalidToken,
    /// Somebody knows it, and it is not good.
    #[error("{0}")]
    Refused(Cow<'static, str>),
    /// The credential is good, but not in the cluster of the request.
    #[error("the credential is not valid in this cluster")]
    WrongCluster,
    /// Several had something to say.
    #[error("{}", aggregate(.0))]
    Several(Vec<AuthenticationError>),
    /// What the credential is about could not be read.
    #[error("cannot read what the credential is about")]
    Lookup(#[source] Error),
}

impl AuthenticationError {
    pub(crate) fn refused(why: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused(why.into())
    }

    /// The same of an error that is told in its own words.
    pub(crate) fn because(error: impl fmt::Display) -> Self {
        Self::refused(error.to_string())
    }

    /// All of these as one, if there are any.
    pub(crate) fn of(mut errors: Vec<Self>) -> Option<Self> {
        match errors.len() {
            0 => None,
            1 => errors.pop(),
            _ => Some(Self::Several(errors)),
        }
    }

    /// What failed on our side, if anything did: then it is not known that the credential is bad.
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

/// As upstream tells several errors (`Aggregate` of k8s.io/apimachinery): flat, and each once.
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

/// Somebody, nobody that this authenticator knows, or somebody who is refused.
pub(crate) type Outcome = Result<Option<Authenticated>, AuthenticationError>;

/// An outcome to wait for.
pub(crate) type Pending<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// Tells who sent a request.
pub(crate) trait Authenticator: Send + Sync {
    /// Who it is. None if nothing in the request is for this authenticator to judge.
    fn authenticate<'a>(&'a self, attempt: &'a Attempt<'a>) -> Pending<'a>;
}

/// Tells whose token something is.
pub(crate) trait TokenAuthenticator: Send + Sync {
    /// Whose it is. None if it is no token that this authenticator knows.
    fn authenticate_token<'a>(&'a self, token: &'a BearerToken, attempt: &'a Attempt<'a>) -> Pending<'a>;
}

/// A token that somebody showed. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BearerToken(String);

impl BearerToken {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The token itself, for whoever has to compare it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}

/// For credentials that are good for whatever the server is: those of the audiences asked about that
/// the server goes by. None if there is none of them.
pub(crate) fn implicit_audiences(own: &[String], wanted: &[String]) -> Option<Vec<String>> {
    let both = intersection(own, wanted);
    // Where audiences are of no concern, everybody is meant.
    (!both.is_empty() || own.is_empty() && wanted.is_empty()).then_some(both)
}

/// Those that are wanted and there, in the order in which they are wanted.
pub(crate) fn intersection(there: &[String], wanted: &[String]) -> Vec<String> {
    wanted.iter().filter(|name| there.contains(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_flat_and_once() {
        let refused = |why: &'static str| AuthenticationError::refused(why);
        let nested = AuthenticationError::of(vec![refused("a"), refused("b")]).unwrap();
        let all = AuthenticationError::of(vec![AuthenticationError::InvalidToken, nested, refused("a")]);
        assert_eq!(all.unwrap().to_string(), "[invalid bearer token, a, b]");
        let twice = vec![AuthenticationError::InvalidToken, AuthenticationError::InvalidToken];
        assert_eq!(AuthenticationError::of(twice).unwrap().to_string(), "invalid bearer token");
        assert!(AuthenticationError::of(Vec::new()).is_none());
    }

    #[test]
    fn tokens_are_not_printed() {
        assert_eq!(format!("{:?}", BearerToken::new("planted")), "BearerToken(..)");
    }

    #[test]
    fn audiences_come_in_the_order_they_are_wanted() {
        let names = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(intersection(&names("a b c"), &names("c x a")), names("c a"));
        assert_eq!(implicit_audiences(&names("a"), &names("b")), None);
    }
}
