//! A signed token in its compact form (RFC 7515), taken apart. Nothing it says is true before
//! [`Jwt::verify`] has said so.

use base64::Engine as _;
use base64::alphabet::URL_SAFE;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::signer::PublicKey;

/// Go does not mind bits that are left over, and says then that a signature is wrong.
const ENCODING: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// A token that may be anybody's.
pub(crate) struct Jwt<'a> {
    header: Header,
    payload: Vec<u8>,
    /// Header and payload as they are signed.
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

/// Why a signature is not good, in upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignatureError {
    /// No key has the name that the token says.
    #[error("invalid signature, no keys found")]
    UnknownKey,
    /// The key did not make it; or another algorithm did, which is never looked at: a token does
    /// not choose how it is verified.
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Wrong,
}

impl<'a> Jwt<'a> {
    /// Takes a token apart. None if it is no such token.
    pub(crate) fn parse(token: &'a str) -> Option<Self> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, payload) = message.split_once('.')?;
        let header = serde_json::from_slice(&decode(header)?).ok()?;
        Some(Self { header, payload: decode(payload)?, message, signature: decode(signature)? })
    }

    /// Who is said to vouch for it.
    pub(crate) fn issuer(&self) -> Option<String> {
        self.claims::<Issuer>().map(|claims| claims.iss)
    }

    /// What it says.
    pub(crate) fn claims<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_slice(&self.payload).ok()
    }

    /// The one of these keys that has signed it.
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
