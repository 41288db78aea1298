//! Management of the certificates of a server, whether it runs or not.

use std::path::Path;
use std::time::Duration;

use coracle_apiserver::CredentialScope;
use coracle_base::Timestamp;

use super::authorities::{Authorities, CLUSTER, FRONT_PROXY};
use super::error::PkiError;
use super::files::{self, Batch};
use super::inventory::{self, Item};
use super::kubeconfig::Entries;
use super::leaf::{self, MAX_LIFE, Profile};
use super::rotation_requests::RotationRequests;
use super::{account_key, admin_kubeconfig, authorities, directory, kubeconfig};
use crate::config::ClusterName;

/// Certificates that can be rotated by name, other than authorities.
const LEAVES: &[&str] = &[leaf::SERVER, leaf::ADMIN, leaf::PROXY];

/// All certificates and keys in a data directory.
///
/// ```
/// let dir = tempfile::tempdir()?;
/// assert!(coracle::certs::list(dir.path()).is_err(), "no server was ever started there");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If there is no cluster, or its files cannot be read.
pub fn list(data_dir: &Path) -> Result<Vec<Item>, PkiError> {
    let dir = directory(data_dir);
    check_exists(&dir)?;
    let _locked = files::lock(&dir)?;
    inventory::list(&dir)
}

/// The certificates, keys or authorities to replace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// Their names; none means all certificates, or all authorities.
    pub names: Vec<String>,
    /// Replace authorities rather than certificates.
    pub authorities: bool,
}

impl Rotation {
    /// The names of everything to replace.
    fn resolve(&self) -> Result<Vec<String>, PkiError> {
        let families = [CLUSTER.file, FRONT_PROXY.file];
        if self.names.is_empty() {
            let all: &[&str] = if self.authorities { &families } else { LEAVES };
            return Ok(all.iter().map(ToString::to_string).collect());
        }
        for name in &self.names {
            let is_authority = families.contains(&name.as_str());
            if is_authority && !self.authorities {
                return Err(PkiError::IsAuthority { name: name.clone() });
            }
            if !is_authority && !LEAVES.contains(&name.as_str()) && name != account_key::NAME {
                let known = families.iter().chain(LEAVES).chain(&[account_key::NAME]);
                let known = known.map(ToString::to_string).collect::<Vec<_>>().join(", ");
                return Err(PkiError::UnknownName { name: name.clone(), known });
            }
        }
        Ok(self.names.clone())
    }
}

/// Records a rotation request and returns the names it covers. A running server carries it out when it is
/// notified ([`crate::certs::rotate`] does that), otherwise the next start does.
pub(crate) fn request_rotation(data_dir: &Path, rotation: &Rotation) -> Result<Vec<String>, PkiError> {
    let names = rotation.resolve()?;
    let dir = directory(data_dir);
    check_exists(&dir)?;
    let _locked = files::lock(&dir)?;
    for family in
        [CLUSTER, FRONT_PROXY].into_iter().filter(|family| names.iter().any(|name| name == family.file))
    {
        check_settled(&dir, family)?;
    }
    let mut rotation_requests = RotationRequests::load(&dir)?;
    rotation_requests.extend(names.iter().cloned());
    let mut batch = Batch::default();
    rotation_requests.store(&dir, &mut batch);
    batch.commit()?;
    Ok(names)
}

/// Only one rotation at a time: a client configured with the first authority would not trust the third.
fn check_settled(dir: &Path, family: authorities::Family) -> Result<(), PkiError> {
    match Authorities::load(dir, family)? {
        Some(found) if found.next.is_some() || found.old.is_some() => {
            Err(PkiError::Rotating { name: family.file, until: found.next_due() })
        }
        _ => Ok(()),
    }
}

/// The user of a new kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigRequest {
    /// The name of the user.
    pub user: String,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// The lifetime of the certificate.
    pub life: Duration,
    /// The URL of the server; by default that of the administrator's kubeconfig.
    pub server: Option<String>,
    /// The clusters that the certificate is valid for.
    pub scope: CredentialScope,
}

/// Creates a kubeconfig for a user, signed by the cluster's authority. It contains a private key.
///
/// # Errors
/// If the user has no name, the lifetime is too long, or there is no cluster.
pub fn create_kubeconfig(
    data_dir: &Path,
    request: &KubeconfigRequest,
    now: Timestamp,
) -> Result<String, PkiError> {
    if request.user.is_empty() || request.groups.iter().any(String::is_empty) {
        return Err(PkiError::EmptyName);
    }
    if request.life > MAX_LIFE || request.life.is_zero() {
        return Err(PkiError::Life { longest: MAX_LIFE });
    }
    let dir = directory(data_dir);
    check_exists(&dir)?;
    let _locked = files::lock(&dir)?;
    // Steps of an authority's rotation that are due are carried out first.
    let mut batch = Batch::default();
    let found = Authorities::load_or_create(&dir, CLUSTER, false, now, &mut batch)?;
    batch.commit()?;
    let admin = files::read(&admin_kubeconfig(data_dir))?;
    let server = request.server.as_deref().or_else(|| kubeconfig::server(admin.as_deref()?));
    let server = server.ok_or(PkiError::NoServer)?;
    let name = admin.as_deref().and_then(kubeconfig::cluster).map(str::to_owned);
    let name = name.unwrap_or_else(|| ClusterName::of_data_dir(data_dir).to_string());
    let (server, name) = match &request.scope {
        CredentialScope::Cluster(cluster) => {
            let server = format!("{}/clusters/{}", server.trim_end_matches('/'), cluster.id);
            // Names of servers contain no slash, so this name is unique.
            (server, format!("{name}/{}", cluster.id))
        }
        CredentialScope::DefaultCluster | CredentialScope::AllClusters => (server.to_owned(), name),
    };
    let profile = Profile::user("kubeconfig", &request.user, &request.groups, request.scope.clone());
    let leaf = profile.issue(&found.current, now, request.life, &dir)?;
    Ok(kubeconfig::text(&Entries {
        cluster: &name,
        user: &request.user,
        url: &server,
        ca: &found.bundle(),
        credential: &leaf,
    }))
}

fn check_exists(dir: &Path) -> Result<(), PkiError> {
    if dir.join("ca.crt").exists() { Ok(()) } else { Err(PkiError::NoCluster { path: dir.to_owned() }) }
}
