//! Service account tokens: signed JSON Web Tokens (RFC 7519).

mod claims;
pub(crate) mod issuer;
mod jwt;
mod legacy;
mod policy;
mod rotating;
mod signer;

pub(crate) use claims::{BoundTo, Claims, ClusterClaims, LEEWAY_S, ObjectRef, issue};
pub(crate) use jwt::Jwt;
pub(crate) use legacy::{LEGACY_ISSUER, LegacyClaims};
pub use legacy::{LegacySubject, issue_legacy};
pub use policy::TokenPolicy;
pub use rotating::RotatingSigner;
pub(crate) use signer::JsonWebKey;
pub use signer::{EcdsaSigner, PublicKey, SignerError, TokenSigner};
