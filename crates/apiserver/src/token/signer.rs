//! Keys of service account tokens: the signing key, and the public keys that verify.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use serde::Serialize;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer};
use x509_parser::asn1_rs::{Any, FromDer, Tag};

/// The DER encoding of a P-256 public key up to its point (RFC 5480).
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// An uncompressed point of P-256: a format byte and two coordinates.
const POINT_BYTES: usize = 65;

/// The context tag of the public key in an `ECPrivateKey`.
const SEC1_PUBLIC_KEY: u32 = 1;

/// The JWS name of the algorithm.
const ES256: &str = "ES256";

/// Signs tokens, and provides the public keys that verify them.
pub trait TokenSigner: Send + Sync {
    /// The issuer of tokens; also their audience if none is requested.
    fn issuer(&self) -> &str;

    /// The `alg` of a token's header.
    fn algorithm(&self) -> &'static str;

    /// The `kid` of a token's header.
    fn key_id(&self) -> &str;

    /// Signs a message.
    ///
    /// # Errors
    /// If signing fails.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignerError>;

    /// The keys that verify tokens: the current one, and former ones as long as their tokens should stay valid.
    fn public_keys(&self) -> &[PublicKey];

    /// The current signer. It stays the same as long as the reference is held, even if the key is replaced meanwhile.
    fn current(&self) -> &dyn TokenSigner;
}

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignerError {
    /// The PEM contains no private key.
    #[error("no private key in PEM")]
    Pem,
    /// The key is not suitable for ES256.
    #[error("not a P-256 key in PKCS #8 or SEC 1")]
    Key,
    /// The PEM contains no public key for ES256.
    #[error("not a P-256 public key in PEM")]
    PublicKey,
    /// Signing failed.
    #[error("cannot sign")]
    Sign,
    /// The key was replaced too often.
    #[error("the key was replaced as often as it can be without a restart")]
    Worn,
}

/// A public key that verifies tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    id: String,
    point: Vec<u8>,
}

impl PublicKey {
    /// Reads a public key in PEM, or the public half of a private one.
    ///
    /// # Errors
    /// If there is no key for ES256.
    pub fn from_pem(pem: &[u8]) -> Result<Self, SignerError> {
        if let Ok(der) = PrivateKeyDer::from_pem_slice(pem) {
            return Ok(Self::of(&key_pair(&der, &SystemRandom::new())?));
        }
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).map_err(|_| SignerError::PublicKey)?;
        let point = der.strip_prefix(P256_PREFIX.as_slice()).ok_or(SignerError::PublicKey)?;
        if point.len() == POINT_BYTES { Ok(Self::of_point(point)) } else { Err(SignerError::PublicKey) }
    }

    fn of(pair: &EcdsaKeyPair) -> Self {
        Self::of_point(pair.public_key().as_ref())
    }

    fn of_point(point: &[u8]) -> Self {
        let der = [P256_PREFIX.as_slice(), point].concat();
        let id = BASE64_URL_SAFE_NO_PAD.encode(ring::digest::digest(&ring::digest::SHA256, &der));
        Self { id, point: point.to_vec() }
    }

    /// The key id in headers of tokens, derived from the key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The JWS name of its algorithm.
    pub(crate) fn algorithm(&self) -> &'static str {
        ES256
    }

    /// Verifies a signature of a message.
    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.point).verify(message, signature).is_ok()
    }

    /// The key as a JSON Web Key.
    pub(crate) fn jwk(&self) -> JsonWebKey<'_> {
        let (x, y) = self.point[1..].split_at(POINT_BYTES / 2);
        let encode = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        JsonWebKey {
            usage: "sig",
            kty: "EC",
            kid: &self.id,
            crv: "P-256",
            alg: ES256,
            x: encode(x),
            y: encode(y),
        }
    }
}

/// A JSON Web Key (RFC 7517), its members in kube-apiserver's order.
#[derive(Debug, Serialize)]
pub(crate) struct JsonWebKey<'a> {
    #[serde(rename = "use")]
    usage: &'static str,
    kty: &'static str,
    kid: &'a str,
    crv: &'static str,
    alg: &'static str,
    x: String,
    y: String,
}

/// ES256: ECDSA on P-256 with SHA-256.
pub struct EcdsaSigner {
    issuer: String,
    key: EcdsaKeyPair,
    random: SystemRandom,
    /// The public key of `key` first.
    public_keys: Vec<PublicKey>,
}

impl EcdsaSigner {
    /// Creates a signer with a private key in PKCS #8 or SEC 1, in PEM.
    ///
    /// # Errors
    /// If there is no such key.
    pub fn from_pem(issuer: impl Into<String>, pem: &[u8]) -> Result<Self, SignerError> {
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| SignerError::Pem)?;
        let random = SystemRandom::new();
        let key = key_pair(&der, &random)?;
        let public_keys = vec![PublicKey::of(&key)];
        Ok(Self { issuer: issuer.into(), key, random, public_keys })
    }

    /// Adds a former key, which only verifies.
    #[must_use]
    pub fn with_retired_key(mut self, key: PublicKey) -> Self {
        if !self.public_keys.contains(&key) {
            self.public_keys.push(key);
        }
        self
    }
}

fn key_pair(der: &PrivateKeyDer<'_>, random: &SystemRandom) -> Result<EcdsaKeyPair, SignerError> {
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pair = match der {
        PrivateKeyDer::Sec1(der) => {
            let (scalar, point) = sec1_parts(der.secret_sec1_der()).ok_or(SignerError::Key)?;
            EcdsaKeyPair::from_private_key_and_public_key(algorithm, scalar, point, random)
        }
        der => EcdsaKeyPair::from_pkcs8(algorithm, der.secret_der(), random),
    };
    pair.map_err(|_| SignerError::Key)
}

/// The private scalar and the public point of an `ECPrivateKey` (RFC 5915).
fn sec1_parts(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, whole) = Any::from_der(der).ok()?;
    let (rest, _version) = Any::from_der(whole.data).ok()?;
    let (mut rest, scalar) = Any::from_der(rest).ok()?;
    while let Ok((after, part)) = Any::from_der(rest) {
        if part.header.tag() == Tag(SEC1_PUBLIC_KEY) {
            let (_, bits) = Any::from_der(part.data).ok()?;
            // A bit string begins with the number of its unused bits.
            return Some((scalar.data, bits.data.strip_prefix(&[0])?));
        }
        rest = after;
    }
    None
}

impl TokenSigner for EcdsaSigner {
    fn issuer(&self) -> &str {
        &self.issuer
    }

    fn algorithm(&self) -> &'static str {
        ES256
    }

    fn key_id(&self) -> &str {
        self.public_keys[0].id()
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignerError> {
        let signature = self.key.sign(&self.random, message).map_err(|_| SignerError::Sign)?;
        Ok(signature.as_ref().to_vec())
    }

    fn public_keys(&self) -> &[PublicKey] {
        &self.public_keys
    }

    fn current(&self) -> &dyn TokenSigner {
        self
    }
}

impl fmt::Debug for EcdsaSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EcdsaSigner").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}
