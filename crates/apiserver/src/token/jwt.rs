//! A parsed JSON Web Token in compact form (RFC 7515). Its content is untrusted until [`Jwt::verify`] succeeds.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::signer::PublicKey;

/// Accepts trailing bits, as Go does, which then reports a wrong signature.
const ENCODING: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// A parsed token, not yet verified.
pub(crate) struct Jwt<'a> {
    header: Header,
    payload: Vec<u8>,
    /// Header and payload, as they are signed.
    message: &'a str,
    signature: Vec<u8>,
}

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    alg: String,
    #[serde(default)]
    kid: String,
}

#[derive(Deserialize)]
struct Issuer {
    #[serde(default)]
    iss: String,
}

/// Why a signature is invalid, with kube-apiserver's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignatureError {
    /// No key has the id in the token's header.
    #[error("invalid signature, no keys found")]
    UnknownKey,
    /// The signature does not match the key, or the header names another algorithm, which is rejected unseen: a token
    /// does not choose how it is verified.
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Wrong,
}

impl<'a> Jwt<'a> {
    /// Parses a token. None if it is malformed.
    pub(crate) fn parse(token: &'a str) -> Option<Self> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, payload) = message.split_once('.')?;
        let header = serde_json::from_slice(&decode(header)?).ok()?;
        Some(Self { header, payload: decode(payload)?, message, signature: decode(signature)? })
    }

    /// The `iss` claim, unverified.
    pub(crate) fn issuer(&self) -> Option<String> {
        self.claims::<Issuer>().map(|claims| claims.iss)
    }

    /// The claims, unverified.
    pub(crate) fn claims<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.payload).ok()
    }

    /// Returns the key that has signed the token.
    pub(crate) fn verify<'k>(&self, keys: &'k [PublicKey]) -> Result<&'k PublicKey, SignatureError> {
        let Header { alg, kid } = &self.header;
        let mut candidates = keys.iter().filter(|key| kid.is_empty() || key.id() == kid).peekable();
        if candidates.peek().is_none() {
            return Err(SignatureError::UnknownKey);
        }
        candidates
            .find(|key| key.algorithm() == alg && key.verify(self.message.as_bytes(), &self.signature))
            .ok_or(SignatureError::Wrong)
    }
}

fn decode(part: &str) -> Option<Vec<u8>> {
    ENCODING.decode(part).ok()
}
