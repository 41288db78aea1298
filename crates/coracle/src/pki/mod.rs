//! The PKI of a server: its authorities, the serving certificate, the administrator's client certificate,
//! and the signing key of service account tokens. Created on the first start, loaded on later ones, and
//! renewed before they expire.
//!
//! The files are in `pki` below the data directory, under kubeadm's names where it has one. They are the
//! only state: rotation requests are noted in a file, and what is due follows from the validity of the
//! certificates.

mod account_key;
mod authorities;
mod authority;
mod certificate;
mod der;
mod error;
mod files;
mod inventory;
mod kubeconfig;
mod leaf;
mod manage;
mod names;
mod private_key;
mod request;
mod rotation_requests;
mod schedule;
#[cfg(test)]
mod succession_tests;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_apiserver::CredentialScope;
use coracle_base::Timestamp;

pub(crate) use account_key::{AccountKeys, ephemeral as ephemeral_account_keys};
use authorities::{Authorities, CLUSTER, FRONT_PROXY};
use authority::Authority;
pub use error::PkiError;
use files::Batch;
pub use inventory::{Item, Role};
use kubeconfig::Entries;
use leaf::{Leaf, Profile};
pub(crate) use manage::request_rotation;
pub use manage::{KubeconfigRequest, Rotation, create_kubeconfig, list};
pub(crate) use names::host_name;
pub(crate) use private_key::PrivateKey;
pub(crate) use request::RequestError;
use rotation_requests::RotationRequests;

use crate::advertise;
use crate::config::Config;
use crate::trusted_files::Secrecy;

/// User name of the administrator, and the group with all permissions.
const ADMINISTRATOR: &str = "kubernetes-admin";
const MASTERS: &str = "system:masters";

/// User name of a server that acts as a front proxy, as in kubeadm.
pub(crate) const FRONT_PROXY_CLIENT: &str = "front-proxy-client";

/// Credentials of a listening server, all in PEM.
#[derive(Debug)]
pub(crate) struct Credentials {
    /// The authorities of the cluster.
    pub(crate) ca: String,
    /// The authorities of front proxies.
    pub(crate) front_proxy_ca: String,
    /// Authorities that are no longer trusted as of now.
    pub(crate) withdrawn: Vec<String>,
    /// The serving certificate.
    pub(crate) server_certificate: String,
    pub(crate) server_key: PrivateKey,
    /// Signing and verification keys of service account tokens.
    pub(crate) account_keys: AccountKeys,
    /// The signer of certificate signing requests.
    pub(crate) client_signer: ClientSigner,
    /// The administrator's kubeconfig.
    pub(crate) kubeconfig: PathBuf,
    /// The address by which other machines reach this one.
    pub(crate) advertised: IpAddr,
    /// The URLs of the server, in the order of the configuration.
    pub(crate) urls: Vec<String>,
    /// The time of the next renewal.
    pub(crate) due: Timestamp,
}

/// Signs the certificate requests of clients and nodes.
pub(crate) struct ClientSigner(Authority);

impl ClientSigner {
    /// Signs a request in DER. Returns the certificate in PEM, valid for the clusters of `scope`.
    pub(crate) fn sign(
        &self,
        request: &[u8],
        scope: CredentialScope,
        usages: &[String],
        life: Duration,
        now: Timestamp,
    ) -> Result<String, RequestError> {
        request::sign(&self.0, request, scope, usages, life, now)
    }
}

impl fmt::Debug for ClientSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientSigner(..)")
    }
}

/// The directory of the certificates within a data directory.
pub(crate) fn directory(data_dir: &Path) -> PathBuf {
    data_dir.join("pki")
}

/// The administrator's kubeconfig within a data directory.
fn admin_kubeconfig(data_dir: &Path) -> PathBuf {
    data_dir.join("admin.kubeconfig")
}

/// Creates, renews and loads all credentials of a server that listens at `addresses`, and carries out
/// rotation requests. Blocks, also while another process prepares the same directory.
pub(crate) fn prepare(
    config: &Config,
    addresses: &[SocketAddr],
    now: Timestamp,
) -> Result<Credentials, PkiError> {
    let dir = directory(&config.data_dir);
    files::create_private_dir(&dir)?;
    let _locked = files::lock(&dir)?;
    let advertised = config.advertise_address.unwrap_or_else(advertise::main_address);
    let names = names::of_server(config, advertised);
    let rotation_requests = RotationRequests::load(&dir)?;

    let mut batch = Batch::default();
    let authorities = |family: authorities::Family, batch: &mut Batch| {
        Authorities::load_or_create(&dir, family, rotation_requests.contains(family.file), now, batch)
    };
    let cluster = authorities(CLUSTER, &mut batch)?;
    let front_proxy = authorities(FRONT_PROXY, &mut batch)?;
    let mut leaf = |profile: Profile<'_>, signer: &Authority| {
        let rotate = rotation_requests.contains(profile.file);
        Leaf::load_or_issue(&dir, signer, &profile, rotate, now, &mut batch)
    };
    let server = leaf(Profile::server(&names), cluster.for_servers())?;
    let masters = [MASTERS.to_owned()];
    let admin = leaf(
        Profile::user(leaf::ADMIN, ADMINISTRATOR, &masters, CredentialScope::AllClusters),
        &cluster.current,
    )?;
    let proxy = leaf(Profile::front_proxy_client(), &front_proxy.current)?;
    let account_keys =
        account_key::load_or_create(&dir, rotation_requests.contains(account_key::NAME), now, &mut batch)?;

    let reachable = addresses.iter().map(|address| advertise::reachable(*address, advertised));
    let urls: Vec<String> = reachable.map(|address| format!("https://{address}")).collect();
    let kubeconfig = admin_kubeconfig(&config.data_dir);
    if let Some(url) = urls.first() {
        let text = kubeconfig::text(&Entries {
            cluster: config.cluster_name().as_str(),
            user: ADMINISTRATOR,
            url,
            ca: &cluster.bundle(),
            credential: &admin,
        });
        if files::read(&kubeconfig)?.as_deref() != Some(text.as_str()) {
            batch.add(kubeconfig.clone(), text, Secrecy::Private);
        }
    }
    RotationRequests::remove_file(&dir, &mut batch);
    batch.commit()?;
    let due = [cluster.next_due(), front_proxy.next_due(), server.due, admin.due, proxy.due];
    let due = due.into_iter().chain(account_keys.due).min().unwrap_or(now);
    Ok(Credentials {
        ca: cluster.bundle(),
        front_proxy_ca: front_proxy.bundle(),
        withdrawn: cluster.withdrawn.into_iter().chain(front_proxy.withdrawn).collect(),
        server_certificate: server.certificate,
        server_key: server.key,
        account_keys,
        client_signer: ClientSigner(cluster.current),
        kubeconfig,
        advertised,
        urls,
        due,
    })
}
