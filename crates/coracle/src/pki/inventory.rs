//! Inventory of certificates and keys.

use std::path::Path;

use coracle_base::Timestamp;
use x509_parser::extensions::{ExtendedKeyUsage, GeneralName};
use x509_parser::prelude::X509Certificate;

use super::authorities::{Authorities, CLUSTER, FRONT_PROXY, Family};
use super::authority::{self, Authority};
use super::error::PkiError;
use super::{account_key, files, leaf, schedule};

/// A certificate or key of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// The name, as for [`crate::certs::rotate`].
    pub name: String,
    /// Its role.
    pub role: Role,
    /// The subject; empty for a key.
    pub subject: String,
    /// The subject alternative names.
    pub names: Vec<String>,
    /// The key usages, in the terms of Kubernetes' certificates API.
    pub usages: Vec<String>,
    /// The issuer; empty for a key.
    pub signer: String,
    /// The expiry; none for a key, which does not expire.
    pub expires: Option<Timestamp>,
    /// The time at which the server replaces, promotes or drops it.
    pub due: Option<Timestamp>,
}

/// The role of an [`Item`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Authority that signs.
    Authority,
    /// Authority that is trusted and will sign.
    NextAuthority,
    /// Authority that is trusted and no longer signs client certificates.
    OldAuthority,
    /// Serving certificate.
    Server,
    /// Client certificate.
    Client,
    /// Signing key of tokens.
    TokenKey,
}

/// Everything in the directory. Missing files are left out.
pub(super) fn list(dir: &Path) -> Result<Vec<Item>, PkiError> {
    let mut items = Vec::new();
    for family in [CLUSTER, FRONT_PROXY] {
        if let Some(found) = Authorities::load(dir, family)? {
            items.extend(of_family(family, &found));
        }
    }
    for (name, role) in
        [(leaf::SERVER, Role::Server), (leaf::ADMIN, Role::Client), (leaf::PROXY, Role::Client)]
    {
        items.extend(of_leaf(dir, name, role)?);
    }
    if dir.join(format!("{}.key", account_key::NAME)).exists() {
        items.push(Item { name: account_key::NAME.to_owned(), ..nothing(Role::TokenKey) });
    }
    Ok(items)
}

fn nothing(role: Role) -> Item {
    Item {
        name: String::new(),
        role,
        subject: String::new(),
        names: Vec::new(),
        usages: Vec::new(),
        signer: String::new(),
        expires: None,
        due: None,
    }
}

fn of_family(family: Family, found: &Authorities) -> Vec<Item> {
    let each = [
        (Some(&found.current), Role::Authority),
        (found.next.as_ref(), Role::NextAuthority),
        (found.old.as_ref(), Role::OldAuthority),
    ];
    let item = |(authority, role): (Option<&Authority>, Role)| {
        let der = authority::parse_pem(authority?.certificate())?.into_iter().next()?;
        let mut item = described(&authority::parse_der(&der)?, role);
        item.name = family.file.to_owned();
        // During a rotation, the next step applies to the successor or the predecessor.
        let waits = role != Role::Authority || (found.next.is_none() && found.old.is_none());
        item.due = waits.then(|| found.next_due());
        Some(item)
    };
    each.into_iter().filter_map(item).collect()
}

fn of_leaf(dir: &Path, name: &str, role: Role) -> Result<Option<Item>, PkiError> {
    let (path, _) = leaf::paths(dir, name);
    let Some(text) = files::read(&path)? else { return Ok(None) };
    let malformed = || PkiError::Malformed { path: path.clone(), expected: "a certificate" };
    let der = authority::parse_pem(&text).and_then(|found| found.into_iter().next()).ok_or_else(malformed)?;
    let certificate = authority::parse_der(&der).ok_or_else(malformed)?;
    let due = Some(schedule::of(&certificate).due());
    Ok(Some(Item { name: name.to_owned(), due, ..described(&certificate, role) }))
}

fn described(certificate: &X509Certificate<'_>, role: Role) -> Item {
    let names = certificate.subject_alternative_name().ok().flatten();
    let names = names.map(|extension| extension.value.general_names.as_slice()).unwrap_or_default();
    Item {
        subject: certificate.subject().to_string(),
        names: names.iter().filter_map(name).collect(),
        usages: usages(certificate),
        signer: certificate.issuer().to_string(),
        expires: Some(schedule::of(certificate).ends),
        ..nothing(role)
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(text) | GeneralName::RFC822Name(text) | GeneralName::URI(text) => {
            Some((*text).to_owned())
        }
        GeneralName::IPAddress(bytes) => leaf::ip(bytes).map(|ip| ip.to_string()),
        _ => None,
    }
}

fn usages(certificate: &X509Certificate<'_>) -> Vec<String> {
    let key = certificate.key_usage().ok().flatten().map(|extension| extension.value);
    let extended = certificate.extended_key_usage().ok().flatten().map(|extension| extension.value);
    let extended = |has: fn(&ExtendedKeyUsage<'_>) -> bool| extended.is_some_and(has);
    let all = [
        (key.is_some_and(|usage| usage.digital_signature()), "digital signature"),
        (key.is_some_and(|usage| usage.key_encipherment()), "key encipherment"),
        (key.is_some_and(|usage| usage.key_cert_sign()), "cert sign"),
        (extended(|usage| usage.server_auth), "server auth"),
        (extended(|usage| usage.client_auth), "client auth"),
    ];
    all.into_iter().filter(|(has, _)| *has).map(|(_, name)| name.to_owned()).collect()
}
