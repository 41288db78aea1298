//! Bootstrap tokens, with which nodes join: secrets of the namespace `kube-system`, named after the public half of the
//! token (`plugin/pkg/auth/authenticator/token/bootstrap` of Kubernetes).

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use coracle_meta::object::Meta;
use coracle_meta::time::Time;
use coracle_registry::{Identity, catalog, view};
use serde_json::Value;

use super::authenticator::{
    Attempt, Authenticated, BearerToken, Outcome, Pending, TokenAuthenticator, implicit_audiences,
};
use super::hasher::SecretHasher;
use crate::credential_scope::CredentialScope;
use crate::identity::authenticated;

const NAMESPACE: &str = "kube-system";
const NAME_PREFIX: &str = "bootstrap-token-";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
const USER_PREFIX: &str = "system:bootstrap:";
const DEFAULT_GROUP: &str = "system:bootstrappers";

/// Lengths of the two halves of a token, whose characters are `a` to `z` and `0` to `9`.
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 16;

/// The longest suffix of a group name after [`DEFAULT_GROUP`] and a colon.
const MAX_GROUP_BYTES: usize = 256;

pub(super) struct BootstrapTokenAuthenticator {
    hasher: SecretHasher,
}

impl BootstrapTokenAuthenticator {
    pub(super) fn new() -> Self {
        Self { hasher: SecretHasher::new() }
    }

    async fn judge(&self, token: &BearerToken, attempt: &Attempt<'_>) -> Outcome {
        let Some(audiences) = implicit_audiences(attempt.api_audiences, attempt.audiences) else {
            return Ok(None);
        };
        let Some((id, secret)) = halves(token.expose()) else { return Ok(None) };
        let Some(secrets) = catalog::find("", "v1", "secrets") else { return Ok(None) };
        let Some(object) = attempt.cluster.find(secrets, NAMESPACE, &format!("{NAME_PREFIX}{id}")).await?
        else {
            return Ok(None);
        };
        let found = match self.user(&object, id, secret, Time(attempt.now_s())) {
            Ok(identity) => Some(Authenticated {
                identity: Arc::new(authenticated(identity)),
                scope: CredentialScope::of(attempt.cluster),
                audiences,
            }),
            Err(why) => {
                tracing::debug!(id, why, "rejecting a bootstrap token");
                None
            }
        };
        Ok(found)
    }

    /// The user of a token by its secret object, or the reason why the token is invalid.
    fn user(&self, object: &Value, id: &str, secret: &str, now: Time) -> Result<Identity, &'static str> {
        if Meta::of(object).deletion_timestamp().is_some() {
            return Err("it is being deleted");
        }
        if view::text(object, &["type"]) != SECRET_TYPE {
            return Err("it is a secret of another type");
        }
        if !self.hasher.are_equal(&data(object, "token-secret"), secret.as_bytes()) {
            return Err("its secret is another");
        }
        if data(object, "token-id") != id.as_bytes() {
            return Err("its id is another");
        }
        if has_expired(object, now) {
            return Err("it has expired");
        }
        if data(object, "usage-bootstrap-authentication") != b"true" {
            return Err("it is not for authentication");
        }
        let groups = groups(&data(object, "auth-extra-groups")).ok_or("a group of it is none for nodes")?;
        Ok(Identity { name: format!("{USER_PREFIX}{id}"), groups, ..Identity::default() })
    }
}

impl TokenAuthenticator for BootstrapTokenAuthenticator {
    fn authenticate_token<'a>(&'a self, token: &'a BearerToken, attempt: &'a Attempt<'a>) -> Pending<'a> {
        Box::pin(self.judge(token, attempt))
    }
}

/// Splits a token into its public and its secret half.
fn halves(token: &str) -> Option<(&str, &str)> {
    let (id, secret) = token.split_once('.')?;
    let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let fits = id.len() == ID_BYTES && secret.len() == SECRET_BYTES && is_plain(id) && is_plain(secret);
    fits.then_some((id, secret))
}

/// The decoded value of a key of a secret; empty if it is absent.
fn data(object: &Value, key: &str) -> Vec<u8> {
    BASE64_STANDARD.decode(view::text(object, &["data", key])).unwrap_or_default()
}

/// Returns true if the secret has expired. An expiration that cannot be parsed has passed.
fn has_expired(object: &Value, now: Time) -> bool {
    let expiration = data(object, "expiration");
    if expiration.is_empty() {
        return false;
    }
    let time = std::str::from_utf8(&expiration).ok().and_then(|text| text.parse::<Time>().ok());
    time.is_none_or(|time| time <= now)
}

/// The default group and the groups in the secret. None if one of them is not allowed.
fn groups(extra: &[u8]) -> Option<Vec<String>> {
    let mut groups = BTreeSet::from([DEFAULT_GROUP.to_owned()]);
    if !extra.is_empty() {
        for group in std::str::from_utf8(extra).ok()?.split(',') {
            let name = group.strip_prefix(DEFAULT_GROUP)?.strip_prefix(':')?;
            let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            let body = name.bytes().all(|byte| fits(byte) || matches!(byte, b':' | b'-'));
            if !body || !name.bytes().next_back().is_some_and(fits) || name.len() > MAX_GROUP_BYTES {
                return None;
            }
            groups.insert(group.to_owned());
        }
    }
    Some(groups.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SECRET: &str = "0123456789abcdef";

    fn user(change: impl FnOnce(&mut Value)) -> Result<Identity, &'static str> {
        let encode = |text: &str| BASE64_STANDARD.encode(text);
        let mut object = json!({
            "metadata": {"name": "bootstrap-token-abcdef", "namespace": NAMESPACE},
            "type": SECRET_TYPE,
            "data": {
                "token-id": encode("abcdef"),
                "token-secret": encode(SECRET),
                "usage-bootstrap-authentication": encode("true"),
                "expiration": encode("1970-01-01T01:00:00Z"),
                "auth-extra-groups": encode("system:bootstrappers:worker,system:bootstrappers:a:b-2"),
            },
        });
        change(&mut object);
        BootstrapTokenAuthenticator::new().user(&object, "abcdef", SECRET, Time(3599))
    }

    fn with(key: &'static str, text: &'static str) -> impl FnOnce(&mut Value) {
        move |object| object["data"][key] = BASE64_STANDARD.encode(text).into()
    }

    #[test]
    fn valid_token_authenticates_a_joining_node() {
        let node = user(|_| ()).unwrap();
        assert_eq!(node.name, "system:bootstrap:abcdef");
        let groups = ["system:bootstrappers", "system:bootstrappers:a:b-2", "system:bootstrappers:worker"];
        assert_eq!(node.groups, groups);
        assert!(user(|object| drop(object["data"].as_object_mut().unwrap().remove("expiration"))).is_ok());
    }

    #[test]
    fn invalid_secret_makes_the_token_invalid() {
        assert_eq!(user(with("expiration", "1970-01-01T00:59:59Z")), Err("it has expired"));
        assert_eq!(user(with("expiration", "tomorrow")), Err("it has expired"));
        let unused = Err("it is not for authentication");
        assert_eq!(user(with("usage-bootstrap-authentication", "false")), unused);
        assert_eq!(user(with("usage-bootstrap-authentication", "True")), unused);
        assert_eq!(user(with("token-secret", "another")), Err("its secret is another"));
        assert_eq!(user(with("token-id", "fedcba")), Err("its id is another"));
        assert!(user(with("auth-extra-groups", "system:masters")).is_err());
        assert!(user(with("auth-extra-groups", "system:bootstrappers:A")).is_err());
        assert!(user(with("auth-extra-groups", "system:bootstrappers:a-")).is_err());
        assert!(user(|object| object["type"] = "Opaque".into()).is_err());
        let going = json!("1970-01-01T00:00:00Z");
        assert!(user(|object| object["metadata"]["deletionTimestamp"] = going).is_err());
        assert!(user(|object| object["data"] = Value::Null).is_err());
    }

    #[test]
    fn tokens_have_two_halves() {
        assert_eq!(halves("abcdef.0123456789abcdef"), Some(("abcdef", SECRET)));
        for other in ["", ".", "abcdef", "abcdef.0123456789abcde", "ABCDEF.0123456789abcdef"]
            .into_iter()
            .chain(["abcdef.0123456789abcdef.", "../../.0123456789abcdef", "abcde/.0123456789abcdef"])
        {
            assert_eq!(halves(other), None, "{other}");
        }
    }
}
