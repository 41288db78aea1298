//! Legacy tokens, stored in a secret: they become invalid when the secret or their account is deleted, but do not
//! expire.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use coracle_meta::object::Meta;
use coracle_registry::{Identity, view};
use serde_json::Value;

use super::super::authenticator::{Attempt, AuthenticationError, BearerToken};
use super::{ServiceAccountAuthenticator, user};
use crate::identity::authenticated;
use crate::metrics::TokenUse;
use crate::token::LegacyClaims;

/// Label of a secret whose token has not been used for long and is invalid. Removing the label makes the token valid
/// again.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// The user of a token.
pub(super) fn identity(claims: &LegacyClaims) -> Identity {
    authenticated(user(&claims.namespace, &claims.account, &claims.account_uid))
}

impl LegacyClaims {
    /// Checks that all claims are present and not contradictory.
    fn check(&self) -> Result<(), AuthenticationError> {
        for (claim, text) in [
            ("sub", &self.sub),
            ("namespace", &self.namespace),
            ("secretName", &self.secret),
            ("serviceAccountName", &self.account),
            ("serviceAccountUID", &self.account_uid),
        ] {
            if text.is_empty() {
                return Err(AuthenticationError::refused(format!("{claim} claim is missing")));
            }
        }
        if self.sub != user(&self.namespace, &self.account, "").name {
            return Err(AuthenticationError::refused("sub claim is invalid"));
        }
        Ok(())
    }
}

impl ServiceAccountAuthenticator {
    /// Checks that a token is valid now in the cluster of the request.
    pub(super) async fn check_legacy(
        &self,
        claims: &LegacyClaims,
        token: &BearerToken,
        attempt: &Attempt<'_>,
    ) -> Result<(), AuthenticationError> {
        claims.check()?;
        let LegacyClaims { namespace, secret: name, account, account_uid: claimed, .. } = claims;
        let gone = || AuthenticationError::refused("Token has been invalidated");
        let secret = attempt.cluster.find(self.kinds.secrets, namespace, name).await?;
        let secret = secret.filter(|secret| Meta::of(secret).deletion_timestamp().is_none());
        let secret = secret.ok_or_else(gone)?;
        if !self.hasher.are_equal(&stored_token(&secret), token.expose().as_bytes()) {
            return Err(AuthenticationError::refused("Token does not match server's copy"));
        }
        let found = attempt.cluster.object_identity(self.kinds.accounts, namespace, account).await?;
        let found = found
            .ok_or_else(|| AuthenticationError::refused(format!("serviceaccounts {account:?} not found")))?;
        if found.deletion_timestamp.is_some() {
            let why = format!("ServiceAccount {namespace}/{account} has been deleted");
            return Err(AuthenticationError::refused(why));
        }
        if found.uid != *claimed {
            let why = format!("ServiceAccount UID ({}) does not match claim ({claimed})", found.uid);
            return Err(AuthenticationError::refused(why));
        }
        if !view::text(&secret, &["metadata", "labels", INVALID_SINCE]).is_empty() {
            attempt.metrics.note_token(TokenUse::Invalid);
            return Err(marked_invalid(claims));
        }
        let account = attempt.cluster.find(self.kinds.accounts, namespace, account).await?;
        let refers = |account: &Value| {
            view::items(account, &["secrets"]).iter().any(|secret| view::text(secret, &["name"]) == *name)
        };
        let is_automatic = account.is_some_and(|account| refers(&account));
        attempt.metrics.note_token(if is_automatic { TokenUse::Automatic } else { TokenUse::Manual });
        Ok(())
    }
}

/// The token in the data of a secret.
fn stored_token(secret: &Value) -> Vec<u8> {
    BASE64_STANDARD.decode(view::text(secret, &["data", "token"])).unwrap_or_default()
}

fn marked_invalid(claims: &LegacyClaims) -> AuthenticationError {
    let LegacyClaims { namespace, secret, account, .. } = claims;
    AuthenticationError::refused(format!(
        "the token in secret {namespace}/{secret} for service account {namespace}/{account} has been marked invalid. \
         Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '{INVALID_SINCE}' \
         label from the secret to temporarily allow use of this token"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_without_a_claim_is_rejected() {
        let good = LegacyClaims {
            sub: "system:serviceaccount:ns:robot".into(),
            namespace: "ns".into(),
            secret: "s".into(),
            account: "robot".into(),
            account_uid: "1".into(),
            ..LegacyClaims::default()
        };
        assert!(good.check().is_ok());
        let why = |claims: LegacyClaims| claims.check().unwrap_err().to_string();
        assert_eq!(why(LegacyClaims { sub: String::new(), ..good.clone() }), "sub claim is missing");
        assert_eq!(
            why(LegacyClaims { secret: String::new(), ..good.clone() }),
            "secretName claim is missing"
        );
        let other = LegacyClaims { sub: "system:serviceaccount:ns:admin".into(), ..good };
        assert_eq!(why(other), "sub claim is invalid");
    }
}
