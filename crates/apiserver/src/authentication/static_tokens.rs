//! Tokens of the static token file: token, user, uid, and optional groups. They are valid for the default cluster only.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use coracle_registry::Identity;

use super::authenticator::{
    Attempt, Authenticated, BearerToken, Pending, TokenAuthenticator, implicit_audiences,
};
use super::csv::{self, CsvError};
use super::hasher::{SecretHash, SecretHasher};
use crate::credential_scope::CredentialScope;
use crate::identity::authenticated;

/// Token, user and uid; groups are optional.
const MIN_COLUMNS: usize = 3;

/// The tokens of a file, stored as hashes only.
pub struct StaticTokens {
    hasher: SecretHasher,
    users: HashMap<SecretHash, Arc<Identity>>,
}

/// Why a token file is invalid. Never contains its content.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct TokenFileError {
    reason: String,
}

impl From<CsvError> for TokenFileError {
    fn from(error: CsvError) -> Self {
        Self { reason: error.to_string() }
    }
}

impl StaticTokens {
    /// Parses lines of `token,user,uid[,"group1,group2"]`. If a token occurs twice, the last line counts; a line
    /// without a token is ignored.
    ///
    /// # Errors
    /// If the text is malformed.
    pub fn from_csv(text: &str) -> Result<Self, TokenFileError> {
        let hasher = SecretHasher::new();
        let mut users = HashMap::new();
        for csv::Record { line, fields } in csv::records(text)? {
            let [token, name, uid, rest @ ..] = fields.as_slice() else {
                let found = fields.len();
                return Err(TokenFileError {
                    reason: format!(
                        "line {line}: must have at least {MIN_COLUMNS} columns (token, user name, user uid), found {found}"
                    ),
                });
            };
            if token.is_empty() {
                tracing::warn!(line, "the token file has a line without a token");
                continue;
            }
            let groups = rest.first().map(|groups| groups.split(',').map(str::to_owned).collect());
            let groups = groups.unwrap_or_default();
            let identity = Identity { name: name.clone(), uid: uid.clone(), groups, ..Identity::default() };
            let identity = Arc::new(authenticated(identity));
            if users.insert(hasher.hash(token.as_bytes()), identity).is_some() {
                tracing::warn!(line, "the token file has a token twice");
            }
        }
        Ok(Self { hasher, users })
    }

    fn find(&self, token: &BearerToken) -> Option<Arc<Identity>> {
        self.users.get(&self.hasher.hash(token.expose().as_bytes())).cloned()
    }
}

impl fmt::Debug for StaticTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticTokens").field("count", &self.users.len()).finish_non_exhaustive()
    }
}

pub(super) struct StaticTokenAuthenticator {
    pub(super) tokens: Arc<StaticTokens>,
}

impl TokenAuthenticator for StaticTokenAuthenticator {
    fn authenticate_token<'a>(&'a self, token: &'a BearerToken, attempt: &'a Attempt<'a>) -> Pending<'a> {
        let audiences = implicit_audiences(attempt.api_audiences, attempt.audiences);
        let found = audiences.and_then(|audiences| {
            let identity = self.tokens.find(token)?;
            Some(Authenticated { identity, scope: CredentialScope::DefaultCluster, audiences })
        });
        Box::pin(std::future::ready(Ok(found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(tokens: &StaticTokens, token: &str) -> Option<Identity> {
        tokens.find(&BearerToken::new(token)).map(|identity| (*identity).clone())
    }

    #[test]
    fn each_line_is_a_user() {
        let text = "t1,jane,7,\"dev,ops\"\nt2,joe,8\n,nobody,9\nt3,ann,1\nt3,eve,2,x,ignored\n";
        let tokens = StaticTokens::from_csv(text).unwrap();
        let jane = find(&tokens, "t1").unwrap();
        assert_eq!((&*jane.name, &*jane.uid), ("jane", "7"));
        assert_eq!(jane.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!(find(&tokens, "t2").unwrap().groups, ["system:authenticated"]);
        assert_eq!(find(&tokens, "t3").unwrap().name, "eve");
        assert_eq!((find(&tokens, ""), find(&tokens, "t"), find(&tokens, "T1")), (None, None, None));
    }

    #[test]
    fn debug_output_and_errors_hide_secrets() {
        let tokens = StaticTokens::from_csv("planted,jane,7").unwrap();
        assert_eq!(format!("{tokens:?}"), "StaticTokens { count: 1, .. }");
        for text in ["planted,jane", "planted\"x,jane,7", "\"planted,jane,7"] {
            let error = StaticTokens::from_csv(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("planted"), "{error}");
        }
        let short = StaticTokens::from_csv("a,b,c\nplanted,jane").unwrap_err().to_string();
        assert!(short.starts_with("line 2: must have at least 3 columns"), "{short}");
    }
}
