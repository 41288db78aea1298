//! The certificates of a cluster: its authorities, what its server shows, what its administrator
//! shows; and the key of its service accounts. Made on the first start, found again on later ones,
//! replaced before they expire.
//!
//! They lie in `pki` below the data directory, under the names kubeadm uses where it has one. The files
//! are all there is to know: whoever wants something replaced notes that in a file, and what is due
//! follows from what the certificates say.

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
mod marker;
mod names;
mod private_key;
mod request;
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

pub(crate) use account_key::{AccountKeys, passing as passing_account_keys};
use authorities::{Authorities, CLUSTER, FRONT_PROXY};
use authority::Authority;
pub use error::PkiError;
use files::Batch;
pub use inventory::{Item, Role};
use kubeconfig::Entries;
use leaf::{Leaf, Profile};
pub(crate) use manage::request_rotation;
pub use manage::{KubeconfigRequest, Rotation, create_kubeconfig, list};
use marker::Wishes;
pub(crate) use names::host_name;
pub(crate) use private_key::PrivateKey;
pub(crate) use request::RequestError;

use crate::advertise;
use crate::config::Config;
use crate::trusted_files::Secrecy;

/// Who the administrator is, and the group whose members may do everything.
const ADMINISTRATOR: &str = "kubernetes-admin";
const MASTERS: &str = "system:masters";

/// Who a server is when it asks another for its clients, as kubeadm has it.
pub(crate) const FRONT_PROXY_CLIENT: &str = "front-proxy-client";

/// What a server that asks for certificates needs, all in PEM.
#[derive(Debug)]
pub(crate) struct Credentials {
    /// The authorities of the cluster.
    pub(crate) ca: String,
    /// The authorities of proxies.
    pub(crate) front_proxy_ca: String,
    /// Authorities that were trusted until now.
    pub(crate) withdrawn: Vec<String>,
    /// What the server shows.
    pub(crate) server_certificate: String,
    pub(crate) server_key: PrivateKey,
    /// What the tokens of service accounts are signed with.
    pub(crate) account_keys: AccountKeys,
    /// What signs certificates for clients that ask for one.
    pub(crate) client_signer: ClientSigner,
    /// The file an administrator uses.
    pub(crate) kubeconfig: PathBuf,
    /// The address by which others reach this machine.
    pub(crate) advertised: IpAddr,
    /// Where clients find the server, in the order of the config.
    pub(crate) urls: Vec<String>,
    /// When something of this is to be replaced.
    pub(crate) due: Timestamp,
}

/// Signs what clients and nodes ask for.
pub(crate) struct ClientSigner(Authority);

impl ClientSigner {
    /// The certificate for a request in DER, in PEM, valid for the clusters of `scope`.
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

/// The file of the administrator within a data directory.
fn admin_kubeconfig(data_dir: &Path) -> PathBuf {
    data_dir.join("admin.kubeconfig")
}

/// Makes sure that everything is there and in order for a server that listens at `addresses`, and does
/// what was wished for. Blocks. Whoever else prepares the same directory waits.
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
    let wishes = Wishes::load(&dir)?;

    let mut batch = Batch::default();
    let authorities = |family: authorities::Family, batch: &mut Batch| {
        Authorities::load_or_make(&dir, family, wishes.contain(family.file), now, batch)
    };
    let cluster = authorities(CLUSTER, &mut batch)?;
    let front_proxy = authorities(FRONT_PROXY, &mut batch)?;
    let mut leaf = |profile: Profile<'_>, signer: &Authority| {
        let rotate = wishes.contain(profile.file);
        Leaf::load_or_issue(&dir, signer, &profile, rotate, now, &mut batch)
    };
    let server = leaf(Profile::server(&names), cluster.for_servers())?;
    let masters = [MASTERS.to_owned()];
    let admin = leaf(
        Profile::user(leaf::ADMIN, ADMINISTRATOR, &masters, CredentialScope::AllClusters),
        &cluster.current,
    )?;
    let proxy = leaf(Profile::front_proxy_client(), &front_proxy.current)?;
    let account_keys = account_key::load_or_make(&dir, wishes.contain(account_key::NAME), now, &mut batch)?;

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
    Wishes::fulfil(&dir, &mut batch);
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
