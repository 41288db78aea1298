//! What a token says, how it is written and how it is read.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use coracle_meta::field::quoted;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::signer::{SignerError, TokenSigner};

/// Clocks of two machines may differ so much.
const LEEWAY_S: i64 = 60;

/// What a token says, in the order in which it is written.
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

/// Whose token it is, and with what it ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BoundTo {
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
    /// Whoever still uses it then should be told.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) warnafter: Option<i64>,
}

/// One object among all that ever had its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ObjectRef {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub(crate) uid: String,
}

/// A token that was signed here and is valid now.
#[derive(Clone, Debug)]
pub(crate) struct Verified {
    pub(crate) claims: Claims,
    /// Those of its audiences that were asked about.
    pub(crate) audiences: Vec<String>,
}

/// Why a token is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenError {
    /// It is no token of ours.
    #[error("invalid bearer token")]
    Foreign,
    /// It says that it is ours.
    #[error("[invalid bearer token, {0}]")]
    Invalid(String),
}

impl TokenError {
    pub(crate) fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid(why.into())
    }
}

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    alg: String,
    #[serde(default)]
    kid: String,
}

/// Writes a token.
pub(crate) fn issue(signer: &dyn TokenSigner, claims: &Claims) -> Result<String, SignerError> {
    let header = json!({"alg": signer.algorithm(), "kid": signer.key_id()});
    let claims = serde_json::to_vec(claims).map_err(|_| SignerError::Sign)?;
    let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
    let message = format!("{}.{}", encode(header.to_string().as_bytes()), encode(&claims));
    let signature = signer.sign(message.as_bytes())?;
    Ok(format!("{message}.{}", encode(&signature)))
}

/// Reads a token: who signed it, for whom, and until when. What it is bound to is not looked at.
pub(crate) fn verify(
    signer: &dyn TokenSigner,
    token: &str,
    wanted: &[String],
    now_s: i64,
) -> Result<Verified, TokenError> {
    let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Foreign)?;
    let (header, payload) = message.split_once('.').ok_or(TokenError::Foreign)?;
    let header: Header = decode(header)?;
    let claims: Claims = decode(payload)?;
    if claims.iss != signer.issuer() || header.kid != signer.key_id() || header.alg != signer.algorithm() {
        return Err(TokenError::Foreign);
    }
    let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
    if !signer.verify(message.as_bytes(), &signature) {
        return Err(TokenError::invalid("go-jose/go-jose: error in cryptographic primitive"));
    }
    let audiences: Vec<String> = claims.aud.iter().filter(|name| wanted.contains(name)).cloned().collect();
    if audiences.is_empty() {
        return Err(TokenError::Invalid(format!(
            "token audiences {} is invalid for the target audiences {}",
            list(&claims.aud),
            list(wanted)
        )));
    }
    check_times(&claims, now_s)?;
    Ok(Verified { claims, audiences })
}

fn check_times(claims: &Claims, now_s: i64) -> Result<(), TokenError> {
    let problem = if now_s + LEEWAY_S < claims.nbf {
        "service account token is not valid yet"
    } else if now_s - LEEWAY_S > claims.exp {
        "service account token has expired"
    } else if now_s + LEEWAY_S < claims.iat {
        "service account token is issued in the future"
    } else {
        return Ok(());
    };
    Err(TokenError::invalid(problem))
}

fn decode<T: for<'de> Deserialize<'de>>(part: &str) -> Result<T, TokenError> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Foreign)?;
    serde_json::from_slice(&bytes).map_err(|_| TokenError::Foreign)
}

/// As Go prints it.
fn list(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| quoted(name).to_string()).collect();
    format!("[{}]", names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::super::EcdsaSigner;
    use super::*;

    const ISSUER: &str = "https://issuer.example";

    fn signer() -> EcdsaSigner {
        let pem = rcgen::KeyPair::generate().unwrap().serialize_pem();
        EcdsaSigner::from_pem(ISSUER, pem.as_bytes()).unwrap()
    }

    fn claims() -> Claims {
        Claims {
            aud: vec!["a".into(), "b".into()],
            exp: 1000,
            iat: 10,
            nbf: 10,
            iss: ISSUER.into(),
            ..Claims::default()
        }
    }

    fn reason(outcome: Result<Verified, TokenError>) -> String {
        outcome.unwrap_err().to_string()
    }

    #[test]
    fn a_token_is_known_again_for_those_it_is_for() {
        let signer = signer();
        let token = issue(&signer, &claims()).unwrap();
        let verified = verify(&signer, &token, &["b".into(), "c".into()], 500).unwrap();
        assert_eq!((verified.claims, verified.audiences), (claims(), vec!["b".to_owned()]));
        let other = reason(verify(&signer, &token, &["c".into()], 500));
        assert!(other.contains("token audiences [\"a\" \"b\"] is invalid"), "{other}");
    }

    #[test]
    fn tokens_end() {
        let signer = signer();
        let token = issue(&signer, &claims()).unwrap();
        let at = |now_s| verify(&signer, &token, &["a".into()], now_s);
        assert!(at(1060).is_ok() && at(-50).is_ok());
        assert!(reason(at(1061)).contains("has expired"));
        assert!(reason(at(-51)).contains("not valid yet"));
    }

    #[test]
    fn what_somebody_else_signed_is_not_ours() {
        let (ours, theirs) = (signer(), signer());
        let audiences = ["a".to_owned()];
        let foreign = issue(&theirs, &claims()).unwrap();
        assert_eq!(verify(&ours, &foreign, &audiences, 500).unwrap_err(), TokenError::Foreign);
        let mut forged = issue(&ours, &claims()).unwrap();
        let dot = forged.rfind('.').unwrap();
        forged.replace_range(dot.., foreign.get(foreign.rfind('.').unwrap()..).unwrap());
        assert!(reason(verify(&ours, &forged, &audiences, 500)).contains("cryptographic"));
        for nonsense in ["", ".", "..", "a.b.c", "e30.e30.", "\u{0}"] {
            assert_eq!(verify(&ours, nonsense, &audiences, 500).unwrap_err(), TokenError::Foreign);
        }
    }
}
