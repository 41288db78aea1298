//! The key that tokens are signed with.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// What stands before the point of a P-256 public key in its DER form (RFC 5480).
const P256_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// Signs tokens, and knows its signatures again.
pub trait TokenSigner: Send + Sync {
    /// Who vouches for the tokens; also their audience where none is asked for.
    fn issuer(&self) -> &str;

    /// The name of the algorithm in a token's header.
    fn algorithm(&self) -> &'static str;

    /// The name of the key in a token's header.
    fn key_id(&self) -> &str;

    /// Signs a message.
    ///
    /// # Errors
    /// If the key cannot be used.
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignerError>;

    /// Whether this is a signature of the message by the key.
    fn verify(&self, message: &[u8], signature: &[u8]) -> bool;
}

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SignerError {
    /// There is no key in PEM.
    #[error("no private key in PEM")]
    Pem,
    /// The key is not one for ES256.
    #[error("not a P-256 key in PKCS #8")]
    Key,
    /// The signature could not be made.
    #[error("cannot sign")]
    Sign,
}

/// ES256: ECDSA on P-256 with SHA-256.
pub struct EcdsaSigner {
    issuer: String,
    key_id: String,
    key: EcdsaKeyPair,
    random: SystemRandom,
}

impl EcdsaSigner {
    /// A signer with a key in PKCS #8, in PEM.
    ///
    /// # Errors
    /// If there is no such key.
    pub fn from_pem(issuer: impl Into<String>, pem: &[u8]) -> Result<Self, SignerError> {
        let der = PrivateKeyDer::from_pem_slice(pem).map_err(|_| SignerError::Pem)?;
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_der(), &random)
            .map_err(|_| SignerError::Key)?;
        let mut public = P256_PREFIX.to_vec();
        public.extend_from_slice(key.public_key().as_ref());
        let digest = ring::digest::digest(&ring::digest::SHA256, &public);
        let key_id = BASE64_URL_SAFE_NO_PAD.encode(digest);
        Ok(Self { issuer: issuer.into(), key_id, key, random })
    }
}

impl TokenSigner for EcdsaSigner {
    fn issuer(&self) -> &str {
        &self.issuer
    }

    fn algorithm(&self) -> &'static str {
        "ES256"
    }

    fn key_id(&self) -> &str {
        &self.key_id
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, SignerError> {
        let signature = self.key.sign(&self.random, message).map_err(|_| SignerError::Sign)?;
        Ok(signature.as_ref().to_vec())
    }

    fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key().as_ref());
        public.verify(message, signature).is_ok()
    }
}
