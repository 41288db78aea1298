//! Kinds of certificates.k8s.io.

pub mod certificate_signing_request;
mod conditions;
pub(crate) mod pem;
mod signer_name;
