//! Tokens of service accounts: signed claims, as RFC 7519 has them.

mod claims;
mod signer;

pub(crate) use claims::{BoundTo, Claims, ObjectRef, TokenError, Verified, issue, verify};
pub use signer::{EcdsaSigner, SignerError, TokenSigner};
