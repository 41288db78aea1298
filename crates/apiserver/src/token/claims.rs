//! The claims of a service account token, and how a token is issued.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::signer::{SignerError, TokenSigner};
use crate::credential_scope::{ClusterReference, CredentialScope};
use coracle_registry::DEFAULT_CLUSTER;

/// Tolerated clock difference between machines, in seconds.
pub(crate) const LEEWAY_S: i64 = 60;

/// The claims of a bound token, in the order in which they are serialized.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    #[serde(default)]
    pub(crate) aud: Vec<String>,
    #[serde(default)]
    pub(crate) exp: i64,
    #[serde(default)]
    pub(crate) iat: i64,
    #[serde(default)]
    pub(crate) iss: String,
    #[serde(default)]
    pub(crate) jti: String,
    #[serde(rename = "kubernetes.io", default)]
    pub(crate) kubernetes: BoundTo,
    #[serde(default)]
    pub(crate) nbf: i64,
    #[serde(default)]
    pub(crate) sub: String,
}

/// The account of a token, and the object that it is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BoundTo {
    /// The cluster that the token is valid for.
    #[serde(flatten)]
    pub(crate) cluster: ClusterClaims,
    #[serde(default)]
    pub(crate) namespace: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) node: Option<ObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) pod: Option<ObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) secret: Option<ObjectRef>,
    #[serde(default)]
    pub(crate) serviceaccount: ObjectRef,
    /// Requests with the token after this time are logged, because the client should have renewed it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) warnafter: Option<i64>,
}

/// The cluster that a token is valid for. Both claims are absent in tokens of the default cluster, which are as in
/// Kubernetes. All clusters share a signing key, so these claims and the issuer distinguish their tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterClaims {
    #[serde(rename = "coracle.cluster", skip_serializing_if = "Option::is_none", default)]
    id: Option<String>,
    /// The creation uid of the cluster: tokens of a deleted cluster are invalid in a later one with the same id.
    #[serde(rename = "coracle.cluster-uid", skip_serializing_if = "Option::is_none", default)]
    uid: Option<String>,
}

impl ClusterClaims {
    pub(crate) fn scope(&self) -> CredentialScope {
        let id = self.id.as_deref().unwrap_or(DEFAULT_CLUSTER);
        CredentialScope::of_cluster(id, self.uid.as_deref().unwrap_or_default())
    }
}

impl From<ClusterReference> for ClusterClaims {
    fn from(cluster: ClusterReference) -> Self {
        if cluster.is_default() {
            return Self::default();
        }
        Self { id: Some(cluster.id), uid: Some(cluster.uid) }
    }
}

/// A reference to an object by name and uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObjectRef {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub(crate) uid: String,
}

/// Why a token is not valid at a time, with kube-apiserver's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TimeError {
    #[error("service account token is not valid yet")]
    NotYet,
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is issued in the future")]
    FromTheFuture,
}

impl Claims {
    /// Checks that the token is valid at a time.
    pub(crate) fn check_times(&self, now_s: i64) -> Result<(), TimeError> {
        if now_s.saturating_add(LEEWAY_S) < self.nbf {
            Err(TimeError::NotYet)
        } else if now_s.saturating_sub(LEEWAY_S) > self.exp {
            Err(TimeError::Expired)
        } else if now_s.saturating_add(LEEWAY_S) < self.iat {
            Err(TimeError::FromTheFuture)
        } else {
            Ok(())
        }
    }
}

/// Signs claims and returns the token.
pub(crate) fn issue(signer: &dyn TokenSigner, claims: &impl Serialize) -> Result<String, SignerError> {
    let header = json!({"alg": signer.algorithm(), "kid": signer.key_id()});
    let claims = serde_json::to_vec(claims).map_err(|_| SignerError::Sign)?;
    let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let message = format!("{}.{}", encode(header.to_string().as_bytes()), encode(&claims));
    let signature = signer.sign(message.as_bytes())?;
    Ok(format!("{message}.{}", encode(&signature)))
}

#[cfg(test)]
mod tests {
    use super::super::jwt::{Jwt, SignatureError};
    use super::super::{EcdsaSigner, PublicKey};
    use super::*;

    fn pem() -> String {
        rcgen::KeyPair::generate().unwrap().serialize_pem()
    }

    fn signer(pem: &str) -> EcdsaSigner {
        EcdsaSigner::from_pem("https://issuer.example", pem.as_bytes()).unwrap()
    }

    fn claims() -> Claims {
        let aud = vec!["a".into(), "b".into()];
        Claims { aud, exp: 1000, iat: 10, nbf: 10, iss: "https://issuer.example".into(), ..Claims::default() }
    }

    fn verified(token: &str, keys: &[PublicKey]) -> Result<Claims, SignatureError> {
        let jwt = Jwt::parse(token).unwrap();
        jwt.verify(keys).map(|_| jwt.claims().unwrap())
    }

    #[test]
    fn issued_token_is_verified() {
        let signer = signer(&pem());
        let token = issue(&signer, &claims()).unwrap();
        assert_eq!(verified(&token, signer.public_keys()), Ok(claims()));
    }

    #[test]
    fn token_is_valid_between_its_times() {
        let at = |now_s| claims().check_times(now_s);
        assert_eq!((at(1060), at(-50)), (Ok(()), Ok(())));
        assert_eq!((at(1061), at(-51)), (Err(TimeError::Expired), Err(TimeError::NotYet)));
        let early = Claims { nbf: 0, iat: 500, ..claims() };
        assert_eq!(early.check_times(100), Err(TimeError::FromTheFuture));
        assert_eq!(Claims { exp: i64::MIN, ..claims() }.check_times(i64::MAX), Err(TimeError::Expired));
    }

    #[test]
    fn token_signed_by_another_key_is_rejected() {
        let (ours, theirs) = (signer(&pem()), signer(&pem()));
        let foreign = issue(&theirs, &claims()).unwrap();
        assert_eq!(verified(&foreign, ours.public_keys()), Err(SignatureError::UnknownKey));
        let mut forged = issue(&ours, &claims()).unwrap();
        let dot = forged.rfind('.').unwrap();
        forged.replace_range(dot.., foreign.get(foreign.rfind('.').unwrap()..).unwrap());
        assert_eq!(verified(&forged, ours.public_keys()), Err(SignatureError::Wrong));
        for nonsense in ["", ".", "..", "a.b.c", "e30.e30", "\u{0}", "e30.e30.e30.e30"] {
            assert!(Jwt::parse(nonsense).is_none(), "{nonsense}");
        }
    }

    #[test]
    fn tokens_of_a_retired_key_stay_valid() {
        let (old, new) = (pem(), pem());
        let token = issue(&signer(&old), &claims()).unwrap();
        let rotated = signer(&new).with_retired_key(PublicKey::from_pem(old.as_bytes()).unwrap());
        assert_eq!(verified(&token, rotated.public_keys()), Ok(claims()));
        assert_eq!(verified(&token, signer(&new).public_keys()), Err(SignatureError::UnknownKey));
        assert_eq!(rotated.key_id(), signer(&new).key_id());
    }

    #[test]
    fn public_key_is_read_from_either_half() {
        let pair = rcgen::KeyPair::generate().unwrap();
        let public = PublicKey::from_pem(pair.public_key_pem().as_bytes()).unwrap();
        assert_eq!(public, PublicKey::from_pem(pair.serialize_pem().as_bytes()).unwrap());
        assert!(PublicKey::from_pem(b"no key").is_err());
    }

    /// Generated by `openssl ecparam -name prime256v1 -genkey -noout`, for this test.
    const SEC1: &str = "\
-----BEGIN EC PRIVATE KEY-----\n\
MHcCAQEEIIRNkvBH/aYIFK0KVILilxvpEwqvqpQouq+ShEMVHN3foAoGCCqGSM49\n\
AwEHoUQDQgAEg55OWdJWdqbmCzNmblIwFUul02f44uQZNwpdLBO0VVS1GUhzE8Mx\n\
xy5JluBGiOnAC098m3sa0Ep5QPGjtRzzCQ==\n\
-----END EC PRIVATE KEY-----\n\
";
    const SEC1_PUBLIC: &str = "\
-----BEGIN PUBLIC KEY-----\n\
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEg55OWdJWdqbmCzNmblIwFUul02f4\n\
4uQZNwpdLBO0VVS1GUhzE8Mxxy5JluBGiOnAC098m3sa0Ep5QPGjtRzzCQ==\n\
-----END PUBLIC KEY-----\n\
";

    #[test]
    fn sec1_key_signs_and_is_verified_by_its_public_key() {
        let public = PublicKey::from_pem(SEC1_PUBLIC.as_bytes()).unwrap();
        assert_eq!(PublicKey::from_pem(SEC1.as_bytes()).unwrap(), public);
        let token = issue(&signer(SEC1), &claims()).unwrap();
        assert_eq!(verified(&token, &[public]), Ok(claims()));
    }
}
