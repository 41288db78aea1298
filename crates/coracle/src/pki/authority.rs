//! A certificate authority: a certificate and its key.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use coracle_base::Timestamp;
use rcgen::{KeyPair, PublicKeyData};
use x509_parser::extensions::ParsedExtension;
use x509_parser::pem::Pem;
use x509_parser::prelude::X509Certificate;

use super::certificate::{
    self, COMMON_NAME, CertificateError, DIGITAL_SIGNATURE, KEY_CERT_SIGN, Signer, Template,
};
use super::error::PkiError;
use super::private_key::{self, PrivateKey};

/// The lifetime of kubeadm's authority: so long that most clusters never reach its end.
pub(super) const LIFE: Duration = Duration::from_hours(10 * 365 * 24);

/// How long before their creation certificates become valid, for clocks that are behind.
pub(super) const BACKDATE: Duration = Duration::from_mins(5);

pub(super) struct Authority {
    pem: String,
    der: Vec<u8>,
    created_at: Timestamp,
    expires: Timestamp,
    /// The subject in DER.
    name: Vec<u8>,
    /// The subject key identifier.
    key_id: Option<Vec<u8>>,
    key: KeyPair,
}

impl Authority {
    /// The authority with this certificate and key. None if the certificate is not one of an authority.
    pub(super) fn new(der: Vec<u8>, key: KeyPair) -> Option<Self> {
        let certificate = parse_der(&der).filter(|certificate| certificate.is_ca())?;
        let created_at = timestamp(certificate.validity().not_before.timestamp()) + BACKDATE;
        let expires = timestamp(certificate.validity().not_after.timestamp());
        let name = certificate.subject().as_raw().to_vec();
        let key_id =
            certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
                _ => None,
            });
        Some(Self { pem: certificate::pem("CERTIFICATE", &der), created_at, expires, name, key_id, key, der })
    }

    /// Creates an authority with this name. The path is for error messages.
    pub(super) fn create(
        common_name: String,
        key: KeyPair,
        now: Timestamp,
        path: &Path,
    ) -> Result<Self, PkiError> {
        let template = Template {
            subject: vec![(COMMON_NAME, common_name)],
            names: Vec::new(),
            usages: BTreeSet::from([DIGITAL_SIGNATURE, KEY_CERT_SIGN]),
            extended_usages: Vec::new(),
            not_before: now - BACKDATE,
            not_after: now + LIFE,
            is_authority: true,
            scope: None,
        };
        let signer = Signer { name: None, key_id: None, key: &key };
        let der = certificate::signed(&template, &key.subject_public_key_info(), &signer)
            .map_err(|error| issue_failed(path, error))?;
        tracing::info!(path = %path.display(), "generating certificate authority");
        let malformed = PkiError::Malformed { path: path.to_owned(), expected: AN_AUTHORITY };
        Self::new(der, key).ok_or(malformed)
    }

    /// The certificate in PEM.
    pub(super) fn certificate(&self) -> &str {
        &self.pem
    }

    /// The time of its creation.
    pub(super) fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// The time of its expiry, and that of everything it signed.
    pub(super) fn expires(&self) -> Timestamp {
        self.expires
    }

    /// True if both have the same key.
    pub(super) fn has_key_of(&self, other: &Authority) -> bool {
        self.key.public_key_raw() == other.key.public_key_raw()
    }

    /// The private key, for its file.
    pub(super) fn key(&self) -> PrivateKey {
        PrivateKey::of(&self.key)
    }

    /// Signs a certificate as described by `template` for a public key, given as `SubjectPublicKeyInfo`. It
    /// expires with the authority at the latest.
    pub(super) fn sign(
        &self,
        template: &Template<'_>,
        public_key: &[u8],
    ) -> Result<String, CertificateError> {
        let template = Template { not_after: template.not_after.min(self.expires), ..template.clone() };
        let signer = Signer { name: Some(&self.name), key_id: self.key_id.as_deref(), key: &self.key };
        let der = certificate::signed(&template, public_key, &signer)?;
        Ok(certificate::pem("CERTIFICATE", &der))
    }

    /// True if it signed this certificate.
    pub(super) fn has_signed(&self, certificate: &X509Certificate<'_>) -> bool {
        let own = parse_der(&self.der);
        own.is_some_and(|own| {
            certificate.issuer() == own.subject()
                && certificate.verify_signature(Some(own.public_key())).is_ok()
        })
    }
}

/// Expected contents of an authority's file, for its error.
pub(super) const AN_AUTHORITY: &str = "the certificate of an authority";

/// The parser's message is left out, because it may repeat parts of the key.
pub(super) fn parse_key(pem: &str, path: &Path) -> Result<KeyPair, PkiError> {
    let malformed = || PkiError::Malformed { path: path.to_owned(), expected: "a private key" };
    private_key::parse(pem).ok_or_else(malformed)
}

/// All certificates in a PEM file, in DER. None if there is none, or anything else.
pub(super) fn parse_pem(text: &str) -> Option<Vec<Vec<u8>>> {
    let found: Vec<Pem> = Pem::iter_from_buffer(text.as_bytes()).collect::<Result<_, _>>().ok()?;
    let all_fit = !found.is_empty() && found.iter().all(|pem| pem.label == "CERTIFICATE");
    all_fit.then(|| found.into_iter().map(|pem| pem.contents).collect())
}

pub(super) fn parse_der(der: &[u8]) -> Option<X509Certificate<'_>> {
    let (rest, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    rest.is_empty().then_some(certificate)
}

pub(super) fn is_key_of(key: &KeyPair, certificate: &X509Certificate<'_>) -> bool {
    key.public_key_raw() == &*certificate.public_key().subject_public_key.data
}

/// A time in a certificate, in seconds. Certificates before the epoch do not occur.
pub(super) fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_millis(u64::try_from(seconds).unwrap_or_default().saturating_mul(1000))
}

pub(super) fn issue_failed(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> PkiError {
    PkiError::Issue { path: path.to_owned(), source: Box::new(error) }
}
