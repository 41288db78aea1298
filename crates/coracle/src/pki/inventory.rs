//! What certificates and keys there are, for those who look after them.

use std::path::Path;

use coracle_base::Timestamp;
use x509_parser::extensions::{ExtendedKeyUsage, GeneralName};
use x509_parser::prelude::X509Certificate;

use super::authorities::{Authorities, CLUSTER, FRONT_PROXY, Family};
use super::authority::{self, Authority};
use super::error::PkiError;
use super::{account_key, files, leaf, schedule};

/// One certificate or key of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// What it is called, also by [`crate::certs::rotate`].
    pub name: String,
    /// What it is, or which of several.
    pub role: Role,
    /// Whose it is; empty for a key.
    pub subject: String,
    /// Other names of the subject.
    pub names: Vec<String>,
    /// What it may be used for, as the API of Kubernetes calls that.
    pub usages: Vec<String>,
    /// Who signed it; empty for a key.
    pub signer: String,
    /// When it ends; none for a key, which does not.
    pub expires: Option<Timestamp>,
    /// When the server does something about it by itself: replaces it, has it sign, or drops it.
    pub due: Option<Timestamp>,
}

/// What an [`Item`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Signs others.
    Authority,
    /// Is trusted, and will sign.
    NextAuthority,
    /// Is trusted, and signed until its successor did.
    OldAuthority,
    /// Is shown by a server.
    Server,
    /// Is shown by a client.
    Client,
    /// Signs tokens.
    TokenKey,
}

/// Everything in the directory. What is not there yet is left out.
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
        // What comes next happens to the one that comes or goes, if there is one.
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
