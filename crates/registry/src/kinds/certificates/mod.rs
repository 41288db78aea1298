//! Kinds of certificates.k8s.io.

pub mod certificate_signing_request;
mod conditions;
mod pem;
mod signer_name;
