//! What is done with the certificates of a cluster by hand, whether it runs or not.

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
use super::marker::Wishes;
use super::{account_key, admin_kubeconfig, authorities, directory, kubeconfig};
use crate::config::ClusterName;

/// What can be replaced by name, authorities aside.
const LEAVES: &[&str] = &[leaf::SERVER, leaf::ADMIN, leaf::PROXY];

/// All certificates and keys of the cluster in a data directory.
///
/// ```
/// let dir = tempfile::tempdir()?;
/// assert!(coracle::certs::list(dir.path()).is_err(), "nothing was ever started there");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// If there is no cluster, or its files cannot be read.
pub fn list(data_dir: &Path) -> Result<Vec<Item>, PkiError> {
    let dir = directory(data_dir);
    existing(&dir)?;
    let _locked = files::lock(&dir)?;
    inventory::list(&dir)
}

/// What is to be replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    /// By name; none means all certificates, or all authorities.
    pub names: Vec<String>,
    /// Authorities rather than certificates.
    pub authorities: bool,
}

impl Rotation {
    /// The names of everything that is meant.
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

/// Notes what is to be replaced, and says what that is. A server that runs does it when it is told to look
/// ([`crate::certs::rotate`] does that), any other when it starts.
pub(crate) fn request_rotation(data_dir: &Path, rotation: &Rotation) -> Result<Vec<String>, PkiError> {
    let names = rotation.resolve()?;
    let dir = directory(data_dir);
    existing(&dir)?;
    let _locked = files::lock(&dir)?;
    for family in
        [CLUSTER, FRONT_PROXY].into_iter().filter(|family| names.iter().any(|name| name == family.file))
    {
        check_settled(&dir, family)?;
    }
    let mut wishes = Wishes::load(&dir)?;
    wishes.extend(names.iter().cloned());
    let mut batch = Batch::default();
    wishes.store(&dir, &mut batch);
    batch.commit()?;
    Ok(names)
}

/// One succession at a time: who was set up under the first would not know the third.
fn check_settled(dir: &Path, family: authorities::Family) -> Result<(), PkiError> {
    match Authorities::load(dir, family)? {
        Some(found) if found.next.is_some() || found.old.is_some() => {
            Err(PkiError::Rotating { name: family.file, until: found.next_due() })
        }
        _ => Ok(()),
    }
}

/// A user who is to get in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigRequest {
    /// The name of the user.
    pub user: String,
    /// The groups the user is in.
    pub groups: Vec<String>,
    /// For how long.
    pub life: Duration,
    /// Where the server is; by default where the administrator finds it.
    pub server: Option<String>,
    /// The clusters that the certificate is valid for.
    pub scope: CredentialScope,
}

/// A kubeconfig for a user, signed by the cluster's authority. It holds a private key.
///
/// # Errors
/// If the user has no name, the time is too long, or there is no cluster.
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
    existing(&dir)?;
    let _locked = files::lock(&dir)?;
    // Moved on first, because what an authority signs after its time is not waited for.
    let mut batch = Batch::default();
    let found = Authorities::load_or_make(&dir, CLUSTER, false, now, &mut batch)?;
    batch.commit()?;
    let admin = files::read(&admin_kubeconfig(data_dir))?;
    let server = request.server.as_deref().or_else(|| kubeconfig::server(admin.as_deref()?));
    let server = server.ok_or(PkiError::NoServer)?;
    let name = admin.as_deref().and_then(kubeconfig::cluster).map(str::to_owned);
    let name = name.unwrap_or_else(|| ClusterName::of_data_dir(data_dir).to_string());
    let (server, name) = match &request.scope {
        CredentialScope::Cluster(cluster) => {
            let server = format!("{}/clusters/{}", server.trim_end_matches('/'), cluster.id);
            // No name of a server has a slash, so this is the name of no other.
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

fn existing(dir: &Path) -> Result<(), PkiError> {
    if dir.join("ca.crt").exists() { Ok(()) } else { Err(PkiError::NoCluster { path: dir.to_owned() }) }
}
