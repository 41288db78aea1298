//! Certificates signed by an authority of this server, and whether those of an earlier start are still
//! valid.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_apiserver::CredentialScope;
use coracle_base::Timestamp;
use rcgen::{KeyPair, PublicKeyData};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::X509Certificate;

use super::authority::{self, Authority, BACKDATE};
use super::certificate::{
    AlternativeName, CLIENT_AUTH, COMMON_NAME, DIGITAL_SIGNATURE, ORGANIZATION, SERVER_AUTH, Template,
};
use super::error::PkiError;
use super::files::{self, Batch};
use super::private_key::PrivateKey;
use super::{FRONT_PROXY_CLIENT, schedule};
use crate::config::SubjectName;
use crate::trusted_files::Secrecy;

/// The lifetime of kubeadm's certificates.
const LIFE: Duration = Duration::from_hours(365 * 24);

/// Maximum lifetime of signed certificates, which bounds the time until an authority can be dropped.
pub(super) const MAX_LIFE: Duration = Duration::from_hours(365 * 24);

/// The contents of a certificate.
pub(super) struct Profile<'a> {
    /// Base name of its files.
    pub(super) file: &'static str,
    common_name: &'a str,
    organizations: &'a [String],
    names: Option<&'a BTreeSet<SubjectName>>,
    purpose: &'static [u32],
    /// The clusters that a client certificate is valid for.
    scope: Option<CredentialScope>,
}

/// Base name of the files of the serving certificate.
pub(super) const SERVER: &str = "apiserver";

/// Base name of the files of the administrator's certificate.
pub(super) const ADMIN: &str = "admin";

/// Base name of the files of the front proxy client certificate.
pub(super) const PROXY: &str = "front-proxy-client";

impl<'a> Profile<'a> {
    /// The serving certificate, for these names.
    pub(super) fn server(names: &'a BTreeSet<SubjectName>) -> Self {
        Self {
            file: SERVER,
            common_name: "kube-apiserver",
            organizations: &[],
            names: Some(names),
            purpose: SERVER_AUTH,
            scope: None,
        }
    }

    /// The client certificate of a user in these groups.
    pub(super) fn user(
        file: &'static str,
        name: &'a str,
        groups: &'a [String],
        scope: CredentialScope,
    ) -> Self {
        let (purpose, scope) = (CLIENT_AUTH, Some(scope));
        Self { file, common_name: name, organizations: groups, names: None, purpose, scope }
    }

    /// A client certificate without a scope, as versions before scopes issued it.
    #[cfg(test)]
    pub(super) fn unscoped_user(file: &'static str, name: &'a str, groups: &'a [String]) -> Self {
        Self { scope: None, ..Self::user(file, name, groups, CredentialScope::DefaultCluster) }
    }

    /// The certificate that this server presents to extension API servers. It is no client of its own API, so
    /// it needs no scope.
    pub(super) fn front_proxy_client() -> Self {
        Self {
            file: PROXY,
            common_name: FRONT_PROXY_CLIENT,
            organizations: &[],
            names: None,
            purpose: CLIENT_AUTH,
            scope: None,
        }
    }

    fn template(&self, now: Timestamp, life: Duration) -> Template<'static> {
        let organizations = self.organizations.iter().map(|group| (ORGANIZATION, group.clone()));
        let names = self.names.into_iter().flatten().map(|name| match name {
            SubjectName::Dns(name) => AlternativeName::Dns(name.clone()),
            SubjectName::Ip(ip) => AlternativeName::Ip(*ip),
        });
        Template {
            subject: organizations.chain([(COMMON_NAME, self.common_name.to_owned())]).collect(),
            names: names.collect(),
            usages: BTreeSet::from([DIGITAL_SIGNATURE]),
            extended_usages: vec![self.purpose],
            not_before: now - BACKDATE,
            not_after: now + life,
            is_authority: false,
            scope: self.scope.clone(),
        }
    }

    /// Issues a certificate with a new key, without writing files.
    pub(super) fn issue(
        &self,
        signer: &Authority,
        now: Timestamp,
        life: Duration,
        path: &Path,
    ) -> Result<Leaf, PkiError> {
        let pair = KeyPair::generate().map_err(|error| authority::issue_failed(path, error))?;
        let certificate = signer
            .sign(&self.template(now, life), &pair.subject_public_key_info())
            .map_err(|error| authority::issue_failed(path, error))?;
        let due = schedule::of_pem(&certificate).map_or(now + life, |schedule| schedule.due());
        Ok(Leaf { certificate, key: PrivateKey::of(&pair), due })
    }
}

/// A valid certificate with its key.
pub(super) struct Leaf {
    pub(super) certificate: String,
    pub(super) key: PrivateKey,
    /// The time at which it should be renewed.
    pub(super) due: Timestamp,
}

impl Leaf {
    /// Loads the certificate in the directory if it is valid and signed by `signer`; otherwise, or if
    /// `rotate` is set, issues a new one.
    pub(super) fn load_or_issue(
        dir: &Path,
        signer: &Authority,
        profile: &Profile<'_>,
        rotate: bool,
        now: Timestamp,
        batch: &mut Batch,
    ) -> Result<Self, PkiError> {
        let (certificate_path, key_path) = paths(dir, profile.file);
        // One half is missing if an earlier start was interrupted between them.
        if let (Some(certificate), Some(key)) = (files::read(&certificate_path)?, files::read(&key_path)?) {
            let pair = authority::parse_key(&key, &key_path)?;
            let malformed =
                || PkiError::Malformed { path: certificate_path.clone(), expected: "a certificate" };
            let found = authority::parse_pem(&certificate).ok_or_else(malformed)?;
            let der = found.into_iter().next().ok_or_else(malformed)?;
            let parsed = authority::parse_der(&der).ok_or_else(malformed)?;
            let due = schedule::of(&parsed).due();
            if !rotate && now < due && is_good(&parsed, &pair, signer, profile, now) {
                // The file may be of an earlier version, which wrote PKCS #8; the kubeconfig gets SEC 1
                // even then.
                return Ok(Self { certificate, key: PrivateKey::of(&pair), due });
            }
            tracing::info!(path = %certificate_path.display(), "renewing certificate");
        }
        let leaf = profile.issue(signer, now, LIFE, &certificate_path)?;
        batch.add(key_path, leaf.key.expose().to_owned(), Secrecy::Private);
        batch.add(certificate_path, leaf.certificate.clone(), Secrecy::Public);
        Ok(leaf)
    }
}

/// The files of a certificate and its key.
pub(super) fn paths(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
    (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")))
}

fn is_good(
    certificate: &X509Certificate<'_>,
    key: &KeyPair,
    signer: &Authority,
    profile: &Profile<'_>,
    now: Timestamp,
) -> bool {
    authority::is_key_of(key, certificate)
        && schedule::of(certificate).begins <= now
        && subject_fits(certificate, profile)
        && names_of(certificate).as_ref() == Some(profile.names.unwrap_or(&BTreeSet::new()))
        && scope_fits(certificate, profile)
        && signer.has_signed(certificate)
}

/// True if a certificate has the scope of the profile. An administrator's certificate of an earlier version
/// has no extension, and is issued anew.
fn scope_fits(certificate: &X509Certificate<'_>, profile: &Profile<'_>) -> bool {
    profile
        .scope
        .as_ref()
        .is_none_or(|scope| CredentialScope::of_certificate(certificate).as_ref() == Ok(scope))
}

fn subject_fits(certificate: &X509Certificate<'_>, profile: &Profile<'_>) -> bool {
    let subject = certificate.subject();
    let common_name: Vec<_> = subject.iter_common_name().map(|value| value.as_str().ok()).collect();
    let organizations: Vec<_> = subject.iter_organization().map(|value| value.as_str().ok()).collect();
    common_name == [Some(profile.common_name)]
        && organizations == profile.organizations.iter().map(|group| Some(group.as_str())).collect::<Vec<_>>()
}

/// None if there is a name of another type among them.
fn names_of(certificate: &X509Certificate<'_>) -> Option<BTreeSet<SubjectName>> {
    let extension = certificate.subject_alternative_name().ok()?;
    let names = extension.map(|extension| extension.value.general_names.as_slice()).unwrap_or_default();
    names.iter().map(subject_name).collect()
}

fn subject_name(name: &GeneralName<'_>) -> Option<SubjectName> {
    match name {
        GeneralName::DNSName(name) => Some(SubjectName::Dns((*name).to_owned())),
        GeneralName::IPAddress(bytes) => ip(bytes).map(SubjectName::Ip),
        _ => None,
    }
}

/// Decodes an IP address in a certificate.
pub(super) fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}
