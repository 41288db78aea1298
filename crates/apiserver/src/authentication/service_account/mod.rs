//! Tokens of service accounts, those that end and those of old that do not.
//!
//! A good signature is not enough: the account, and whatever the token is bound to, must still be there
//! in the cluster that is asked. That is looked up for every request, so that a token is void at once
//! when its pod has gone.

mod bound;
mod known;
mod legacy;

use std::sync::Arc;

use coracle_meta::field::quoted;
use coracle_registry::{Identity, Kind, catalog};

use super::authenticator::{
    Attempt, Authenticated, AuthenticationError, BearerToken, Outcome, Pending, TokenAuthenticator,
    intersection,
};
use super::hasher::SecretHasher;
use crate::token::{Claims, Jwt, LEGACY_ISSUER, LegacyClaims, TokenSigner};
use known::KnownTokens;

/// The groups of all accounts, and of those of a namespace.
const ALL_ACCOUNTS: &str = "system:serviceaccounts";

pub(super) struct ServiceAccountAuthenticator {
    signer: Arc<dyn TokenSigner>,
    /// Who may vouch for tokens: the signer, and others that it was called before.
    issuers: Vec<String>,
    api_audiences: Vec<String>,
    known: KnownTokens<Known>,
    hasher: SecretHasher,
    kinds: Kinds,
}

/// The kinds that tokens are bound to.
struct Kinds {
    accounts: &'static dyn Kind,
    pods: &'static dyn Kind,
    secrets: &'static dyn Kind,
    nodes: &'static dyn Kind,
}

/// A token that one of our keys has signed.
struct Known {
    says: Says,
    /// Who it is, if it is good.
    identity: Arc<Identity>,
    key_id: String,
}

enum Says {
    Bound(Box<Claims>),
    Legacy(LegacyClaims),
}

impl ServiceAccountAuthenticator {
    pub(super) fn new(
        signer: Arc<dyn TokenSigner>,
        issuers: Vec<String>,
        api_audiences: Vec<String>,
    ) -> Self {
        let kind = |plural| catalog::find("", "v1", plural).expect("a built-in kind");
        let kinds = Kinds {
            accounts: kind("serviceaccounts"),
            pods: kind("pods"),
            secrets: kind("secrets"),
            nodes: kind("nodes"),
        };
        let (known, hasher) = (KnownTokens::new(), SecretHasher::new());
        Self { signer, issuers, api_audiences, known, hasher, kinds }
    }

    async fn judge(&self, token: &BearerToken, attempt: &Attempt<'_>) -> Outcome {
        let Some(known) = self.signed(token)? else { return Ok(None) };
        let audiences = self.audiences(&known, attempt)?;
        match &known.says {
            Says::Bound(claims) => self.check_bound(claims, attempt).await?,
            Says::Legacy(claims) => self.check_legacy(claims, token, attempt).await?,
        }
        Ok(Some(Authenticated { identity: known.identity.clone(), audiences }))
    }

    /// What a token says, if it is one of ours and has a good signature.
    fn signed(&self, token: &BearerToken) -> Result<Option<Arc<Known>>, AuthenticationError> {
        let hash = self.known.hash(token);
        let keys = self.signer.public_keys();
        let known = self.known.find(hash).filter(|known| keys.iter().any(|key| key.id() == known.key_id));
        if known.is_some() {
            return Ok(known);
        }
        let read = self.read(token)?.map(Arc::new);
        if let Some(known) = &read {
            self.known.keep(hash, known.clone());
        }
        Ok(read)
    }

    fn read(&self, token: &BearerToken) -> Result<Option<Known>, AuthenticationError> {
        let Some(jwt) = Jwt::parse(token.expose()) else { return Ok(None) };
        let Some(issuer) = jwt.issuer() else { return Ok(None) };
        let is_legacy = issuer == LEGACY_ISSUER;
        if !is_legacy && !self.issuers.contains(&issuer) {
            return Ok(None);
        }
        let key = jwt.verify(self.signer.public_keys()).map_err(AuthenticationError::because)?;
        let key_id = key.id().to_owned();
        let read = if is_legacy {
            jwt.claims()
                .map(|claims: LegacyClaims| (Arc::new(legacy::identity(&claims)), Says::Legacy(claims)))
        } else {
            jwt.claims().map(|claims: Box<Claims>| (Arc::new(bound::identity(&claims)), Says::Bound(claims)))
        };
        Ok(read.map(|(identity, says)| Known { says, identity, key_id }))
    }

    /// For which of the audiences asked about the token is.
    fn audiences(&self, known: &Known, attempt: &Attempt<'_>) -> Result<Vec<String>, AuthenticationError> {
        let said = match &known.says {
            Says::Bound(claims) => claims.aud.as_slice(),
            Says::Legacy(_) => &[],
        };
        let own = if said.is_empty() { &*self.api_audiences } else { said };
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

/// The user that an account is.
fn user(namespace: &str, name: &str, uid: &str) -> Identity {
    Identity {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        uid: uid.to_owned(),
        groups: vec![ALL_ACCOUNTS.to_owned(), format!("{ALL_ACCOUNTS}:{namespace}")],
        ..Identity::default()
    }
}

/// As Go prints it.
fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| quoted(name).to_string()).collect();
    format!("[{}]", names.join(" "))
}
