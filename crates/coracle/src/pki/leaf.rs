//! Certificates the authority signs, and whether one from an earlier start is still good.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use coracle_base::Timestamp;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType,
};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::X509Certificate;

use super::authority::{self, Authority};
use super::error::PkiError;
use super::files::{self, Access, Batch};
use super::private_key::PrivateKey;
use crate::config::SubjectName;

/// As long as kubeadm's certificates live.
const LIFE: Duration = Duration::from_hours(365 * 24);

/// The part of its life that a certificate must still have before it, or it is remade: a server
/// that is started at least every few months never shows one that expired.
const SPARE_PARTS: u32 = 3;

/// What a certificate is for.
pub(super) struct Profile<'a> {
    /// What its files are called.
    file: &'static str,
    common_name: &'static str,
    organization: Option<&'static str>,
    names: Option<&'a BTreeSet<SubjectName>>,
    purpose: ExtendedKeyUsagePurpose,
}

impl<'a> Profile<'a> {
    /// What the server shows under these names.
    pub(super) fn server(names: &'a BTreeSet<SubjectName>) -> Self {
        Self {
            file: "apiserver",
            common_name: "kube-apiserver",
            organization: None,
            names: Some(names),
            purpose: ExtendedKeyUsagePurpose::ServerAuth,
        }
    }
}

impl Profile<'static> {
    /// What an administrator shows, who may do everything: that is what the group means.
    pub(super) fn admin() -> Self {
        Self {
            file: "admin",
            common_name: "kubernetes-admin",
            organization: Some("system:masters"),
            names: None,
            purpose: ExtendedKeyUsagePurpose::ClientAuth,
        }
    }
}

/// A certificate that is good, with its key.
pub(super) struct Leaf {
    pub(super) certificate: String,
    pub(super) key: PrivateKey,
}

impl Leaf {
    /// The one in the directory, if it is there and good for some time; otherwise a new one.
    pub(super) fn load_or_issue(
        dir: &Path,
        authority: &Authority,
        profile: &Profile<'_>,
        now: Timestamp,
        batch: &mut Batch,
    ) -> Result<Self, PkiError> {
        let (certificate_path, key_path) = authority::paths(dir, profile.file);
        // Halves of a pair: a start was cut short between them.
        if let (Some(certificate), Some(key)) = (files::read(&certificate_path)?, files::read(&key_path)?) {
            let pair = authority::parse_key(&key, &key_path)?;
            let malformed =
                || PkiError::Malformed { path: certificate_path.clone(), expected: "a certificate" };
            let pem = authority::parse_pem(&certificate).ok_or_else(malformed)?;
            let parsed = authority::parse_der(&pem.contents).ok_or_else(malformed)?;
            if is_good(&parsed, &pair, authority, profile, now) {
                return Ok(Self { certificate, key: PrivateKey::new(key) });
            }
            tracing::info!(path = %certificate_path.display(), "making this certificate anew");
        }
        Self::issue(dir, authority, profile, now, batch)
    }

    fn issue(
        dir: &Path,
        authority: &Authority,
        profile: &Profile<'_>,
        now: Timestamp,
        batch: &mut Batch,
    ) -> Result<Self, PkiError> {
        let (certificate_path, key_path) = authority::paths(dir, profile.file);
        let failed = |error| authority::issue_failed(&certificate_path, error);
        // Never an old key: serial numbers are made from it.
        let pair = KeyPair::generate().map_err(failed)?;
        let signed = params(profile).and_then(|params| authority.sign(params, &pair, now, LIFE));
        let certificate = signed.map_err(failed)?;
        let key = PrivateKey::new(pair.serialize_pem());
        batch.add(key_path, key.expose().to_owned(), Access::Private);
        batch.add(certificate_path, certificate.clone(), Access::Public);
        Ok(Self { certificate, key })
    }
}

fn params(profile: &Profile<'_>) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    if let Some(organization) = profile.organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.distinguished_name.push(DnType::CommonName, profile.common_name);
    for name in profile.names.into_iter().flatten() {
        params.subject_alt_names.push(match name {
            SubjectName::Dns(name) => SanType::DnsName(name.as_str().try_into()?),
            SubjectName::Ip(ip) => SanType::IpAddress(*ip),
        });
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![profile.purpose.clone()];
    Ok(params)
}

fn is_good(
    certificate: &X509Certificate<'_>,
    key: &KeyPair,
    authority: &Authority,
    profile: &Profile<'_>,
    now: Timestamp,
) -> bool {
    authority::is_key_of(key, certificate)
        && has_time_left(certificate, now)
        && subject_fits(certificate, profile)
        && names_of(certificate).as_ref() == Some(profile.names.unwrap_or(&BTreeSet::new()))
        && authority.has_signed(certificate)
}

fn has_time_left(certificate: &X509Certificate<'_>, now: Timestamp) -> bool {
    let begins = authority::timestamp(certificate.validity().not_before.timestamp());
    let ends = authority::timestamp(certificate.validity().not_after.timestamp());
    begins <= now && ends.since(now) >= ends.since(begins) / SPARE_PARTS
}

fn subject_fits(certificate: &X509Certificate<'_>, profile: &Profile<'_>) -> bool {
    let subject = certificate.subject();
    let common_name: Vec<_> = subject.iter_common_name().map(|value| value.as_str().ok()).collect();
    let organization: Vec<_> = subject.iter_organization().map(|value| value.as_str().ok()).collect();
    common_name == [Some(profile.common_name)]
        && organization == profile.organization.map(Some).into_iter().collect::<Vec<_>>()
}

/// None if there is something among them that is no name of ours.
fn names_of(certificate: &X509Certificate<'_>) -> Option<BTreeSet<SubjectName>> {
    let extension = certificate.subject_alternative_name().ok()?;
    let names = extension.map(|extension| extension.value.general_names.as_slice()).unwrap_or_default();
    names.iter().map(subject_name).collect()
}

fn subject_name(name: &GeneralName<'_>) -> Option<SubjectName> {
    match name {
        GeneralName::DNSName(name) => Some(SubjectName::Dns((*name).to_owned())),
        GeneralName::IPAddress(bytes) => {
            let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let ip = four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            ip.ok().map(SubjectName::Ip)
        }
        _ => None,
    }
}
