//! The authority of a cluster, which signs everything else.

use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_base::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use x509_parser::pem::{Pem, parse_x509_pem};
use x509_parser::prelude::X509Certificate;

use super::error::PkiError;
use super::files::{self, Access, Batch};

/// As long as kubeadm's authority lives: long enough that nobody waits for its end, and it
/// cannot be replaced without touching every client.
const LIFE: Duration = Duration::from_hours(10 * 365 * 24);

/// Certificates are valid from a little before they are made, for clocks that are behind.
const BACKDATE: Duration = Duration::from_mins(5);

/// The authority, able to sign.
pub(super) struct Authority {
    pem: String,
    der: Vec<u8>,
    expires: Timestamp,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// The one in the directory, which is made if there is none.
    pub(super) fn load_or_make(dir: &Path, now: Timestamp, batch: &mut Batch) -> Result<Self, PkiError> {
        let (certificate_path, key_path) = paths(dir, "ca");
        let authority = match (files::read(&certificate_path)?, files::read(&key_path)?) {
            (Some(pem), Some(key)) => Self::new(pem, parse_key(&key, &key_path)?, dir)?,
            // A first start that was cut short, or an authority to be renewed.
            (None, Some(key)) => Self::make(parse_key(&key, &key_path)?, dir, now, batch)?,
            (None, None) => Self::make(make_key(&key_path, batch)?, dir, now, batch)?,
            (Some(_), None) => {
                return Err(PkiError::KeyMissing { certificate: certificate_path, key: key_path });
            }
        };
        if authority.expires <= now {
            return Err(PkiError::Expired { path: certificate_path });
        }
        Ok(authority)
    }

    /// The certificate in PEM.
    pub(super) fn certificate(&self) -> &str {
        &self.pem
    }

    /// The certificate in PEM.
    pub(super) fn into_certificate(self) -> String {
        self.pem
    }

    /// Signs what `params` describe, for `life` and not longer than the authority itself lives.
    pub(super) fn sign(
        &self,
        mut params: CertificateParams,
        key: &KeyPair,
        now: Timestamp,
        life: Duration,
    ) -> Result<String, rcgen::Error> {
        valid(&mut params, now, (now + life).min(self.expires));
        params.use_authority_key_identifier_extension = true;
        Ok(params.signed_by(key, &self.issuer)?.pem())
    }

    /// Whether it has signed this certificate.
    pub(super) fn has_signed(&self, certificate: &X509Certificate<'_>) -> bool {
        let own = parse_der(&self.der);
        own.is_some_and(|own| {
            certificate.issuer() == own.subject()
                && certificate.verify_signature(Some(own.public_key())).is_ok()
        })
    }

    fn new(pem: String, key: KeyPair, dir: &Path) -> Result<Self, PkiError> {
        let (certificate_path, key_path) = paths(dir, "ca");
        let malformed = || PkiError::Malformed {
            path: certificate_path.clone(),
            expected: "the certificate of an authority",
        };
        let der = parse_pem(&pem).ok_or_else(malformed)?.contents;
        let certificate = parse_der(&der).filter(|certificate| certificate.is_ca()).ok_or_else(malformed)?;
        if !is_key_of(&key, &certificate) {
            return Err(PkiError::Mismatch { certificate: certificate_path, key: key_path });
        }
        let expires = timestamp(certificate.validity().not_after.timestamp());
        let issuer = Issuer::from_ca_cert_pem(&pem, key).map_err(|_| malformed())?;
        Ok(Self { pem, der, expires, issuer })
    }

    fn make(key: KeyPair, dir: &Path, now: Timestamp, batch: &mut Batch) -> Result<Self, PkiError> {
        let (path, _) = paths(dir, "ca");
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "coracle");
        // It signs servers and clients, never other authorities.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        valid(&mut params, now, now + LIFE);
        let made = params.self_signed(&key).map_err(|error| issue_failed(&path, error))?;
        let pem = made.pem();
        tracing::info!(path = %path.display(), "making a certificate authority");
        batch.add(path, pem.clone(), Access::Public);
        Self::new(pem, key, dir)
    }
}

/// A new private key. It is stored before the certificate: alone it can be used again, which
/// cannot be said of a certificate alone.
fn make_key(path: &Path, batch: &mut Batch) -> Result<KeyPair, PkiError> {
    let key = KeyPair::generate().map_err(|error| issue_failed(path, error))?;
    batch.add(path.to_owned(), key.serialize_pem(), Access::Private);
    Ok(key)
}

/// Where the certificate and the key of that name lie.
pub(super) fn paths(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
    (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")))
}

/// The parser's own words are left out: they may repeat what it read.
pub(super) fn parse_key(pem: &str, path: &Path) -> Result<KeyPair, PkiError> {
    let malformed = |_| PkiError::Malformed { path: path.to_owned(), expected: "a private key" };
    KeyPair::from_pem(pem).map_err(malformed)
}

/// The first certificate in a text.
pub(super) fn parse_pem(text: &str) -> Option<Pem> {
    let (_, pem) = parse_x509_pem(text.as_bytes()).ok()?;
    (pem.label == "CERTIFICATE").then_some(pem)
}

pub(super) fn parse_der(der: &[u8]) -> Option<X509Certificate<'_>> {
    x509_parser::parse_x509_certificate(der).ok().map(|(_, certificate)| certificate)
}

pub(super) fn is_key_of(key: &KeyPair, certificate: &X509Certificate<'_>) -> bool {
    key.public_key_raw() == &*certificate.public_key().subject_public_key.data
}

/// A time in a certificate, which counts seconds. Before the epoch there was no certificate.
pub(super) fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_millis(u64::try_from(seconds).unwrap_or_default().saturating_mul(1000))
}

pub(super) fn issue_failed(path: &Path, error: rcgen::Error) -> PkiError {
    PkiError::Issue { path: path.to_owned(), source: error.into() }
}

fn valid(params: &mut CertificateParams, now: Timestamp, until: Timestamp) {
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_millis((now - BACKDATE).as_millis());
    params.not_after = epoch + Duration::from_millis(until.as_millis());
}
