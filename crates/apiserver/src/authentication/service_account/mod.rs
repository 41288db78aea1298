//! Service account tokens: bound tokens, which expire, and legacy tokens, which do not.
//!
//! A valid signature is not sufficient: the account, and the object that the token is bound to, must still exist in the
//! cluster of the request. They are looked up for every request, so that a token is invalid as soon as its pod is
//! deleted.

mod bound;
mod legacy;
mod verified_tokens;

use std::sync::Arc;

use coracle_meta::field::quoted;
use coracle_registry::{Identity, Kind, catalog};

use super::authenticator::{
    Attempt, Authenticated, AuthenticationError, BearerToken, Outcome, Pending, TokenAuthenticator,
    intersection,
};
use super::hasher::SecretHasher;
use crate::credential_scope::CredentialScope;
use crate::token::{Claims, ClusterClaims, Jwt, LEGACY_ISSUER, LegacyClaims, TokenSigner, issuer};
use verified_tokens::VerifiedTokens;

/// The group of all service accounts, and the prefix of the groups of a namespace.
const ALL_ACCOUNTS: &str = "system:serviceaccounts";

pub(super) struct ServiceAccountAuthenticator {
    signer: Arc<dyn TokenSigner>,
    /// The issuers of the default cluster's tokens: the signer's, and its former ones. The issuers of other
    /// clusters are derived from them.
    issuers: Vec<String>,
    verified: VerifiedTokens<VerifiedToken>,
    hasher: SecretHasher,
    kinds: Kinds,
}

/// The kinds that tokens refer to.
struct Kinds {
    accounts: &'static dyn Kind,
    pods: &'static dyn Kind,
    secrets: &'static dyn Kind,
    nodes: &'static dyn Kind,
}

/// A token with a valid signature.
struct VerifiedToken {
    claims: AnyClaims,
    issuer: String,
    /// The cluster that it is valid for.
    scope: CredentialScope,
    /// The user of the token.
    identity: Arc<Identity>,
    key_id: String,
}

enum AnyClaims {
    Bound(Box<Claims>),
    Legacy(LegacyClaims),
}

impl AnyClaims {
    fn cluster(&self) -> &ClusterClaims {
        match self {
            Self::Bound(claims) => &claims.kubernetes.cluster,
            Self::Legacy(claims) => &claims.cluster,
        }
    }
}

fn is_legacy_issuer(issuer: &str, cluster: &str) -> bool {
    issuer == issuer::of_cluster(LEGACY_ISSUER, cluster)
}

impl ServiceAccountAuthenticator {
    pub(super) fn new(signer: Arc<dyn TokenSigner>, issuers: Vec<String>) -> Self {
        let kind = |plural| catalog::find("", "v1", plural).expect("a built-in kind");
        let kinds = Kinds {
            accounts: kind("serviceaccounts"),
            pods: kind("pods"),
            secrets: kind("secrets"),
            nodes: kind("nodes"),
        };
        let (verified, hasher) = (VerifiedTokens::new(), SecretHasher::new());
        Self { signer, issuers, verified, hasher, kinds }
    }

    async fn judge(&self, token: &BearerToken, attempt: &Attempt<'_>) -> Outcome {
        let Some(verified) = self.signed(token, attempt.cluster.id())? else { return Ok(None) };
        if !verified.scope.covers(attempt.cluster) {
            return Err(AuthenticationError::WrongCluster);
        }
        let audiences = self.audiences(&verified, attempt)?;
        match &verified.claims {
            AnyClaims::Bound(claims) => self.check_bound(claims, attempt).await?,
            AnyClaims::Legacy(claims) => self.check_legacy(claims, token, attempt).await?,
        }
        let (identity, scope) = (verified.identity.clone(), verified.scope.clone());
        Ok(Some(Authenticated { identity, scope, audiences }))
    }

    /// Returns the claims of a token that the issuer of a cluster has issued, if its signature is valid.
    fn signed(
        &self,
        token: &BearerToken,
        cluster: &str,
    ) -> Result<Option<Arc<VerifiedToken>>, AuthenticationError> {
        let hash = self.verified.hash(token);
        let keys = self.signer.public_keys();
        let verified =
            self.verified.find(hash).filter(|verified| keys.iter().any(|key| key.id() == verified.key_id));
        if let Some(verified) = verified {
            // The token may have been cached by a request to the cluster that it is for.
            return Ok(self.is_issuer(&verified.issuer, cluster).then_some(verified));
        }
        let read = self.read(token, cluster)?.map(Arc::new);
        if let Some(verified) = &read {
            self.verified.keep(hash, verified.clone());
        }
        Ok(read)
    }

    /// Returns true if tokens of this issuer may belong to the cluster.
    fn is_issuer(&self, issuer: &str, cluster: &str) -> bool {
        is_legacy_issuer(issuer, cluster)
            || self.issuers.iter().any(|base| issuer == issuer::of_cluster(base, cluster))
    }

    fn read(&self, token: &BearerToken, cluster: &str) -> Result<Option<VerifiedToken>, AuthenticationError> {
        let Some(jwt) = Jwt::parse(token.expose()) else { return Ok(None) };
        let Some(issuer) = jwt.issuer() else { return Ok(None) };
        if !self.is_issuer(&issuer, cluster) {
            return Ok(None);
        }
        let key = jwt.verify(self.signer.public_keys()).map_err(AuthenticationError::because)?;
        let key_id = key.id().to_owned();
        let read = if is_legacy_issuer(&issuer, cluster) {
            jwt.claims()
                .map(|claims: LegacyClaims| (Arc::new(legacy::identity(&claims)), AnyClaims::Legacy(claims)))
        } else {
            jwt.claims()
                .map(|claims: Box<Claims>| (Arc::new(bound::identity(&claims)), AnyClaims::Bound(claims)))
        };
        Ok(read.map(|(identity, claims)| {
            let scope = claims.cluster().scope();
            VerifiedToken { claims, issuer, scope, identity, key_id }
        }))
    }

    /// Returns the requested audiences that the token is for.
    fn audiences(
        &self,
        verified: &VerifiedToken,
        attempt: &Attempt<'_>,
    ) -> Result<Vec<String>, AuthenticationError> {
        let said = match &verified.claims {
            AnyClaims::Bound(claims) => claims.aud.as_slice(),
            AnyClaims::Legacy(_) => &[],
        };
        let own = if said.is_empty() { attempt.api_audiences } else { said };
        let both = intersection(own, attempt.audiences);
        if both.is_empty() {
            return Err(AuthenticationError::refused(format!(
                "token audiences {} is invalid for the target audiences {}",
                list(own),
                list(attempt.audiences)
            )));
        }
        Ok(both)
    }
}

impl TokenAuthenticator for ServiceAccountAuthenticator {
    fn authenticate_token<'a>(&'a self, token: &'a BearerToken, attempt: &'a Attempt<'a>) -> Pending<'a> {
        Box::pin(self.judge(token, attempt))
    }
}

/// The user of a service account.
fn user(namespace: &str, name: &str, uid: &str) -> Identity {
    Identity {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        uid: uid.to_owned(),
        groups: vec![ALL_ACCOUNTS.to_owned(), format!("{ALL_ACCOUNTS}:{namespace}")],
        ..Identity::default()
    }
}

/// Formats a list of texts like Go.
fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| quoted(name).to_string()).collect();
    format!("[{}]", names.join(" "))
}
