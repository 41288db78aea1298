//! The certificates of a cluster: its authority, what its server shows, what its administrator
//! shows; and the key of its service accounts. Made on the first start, found again on later ones, remade before they expire.
//!
//! They lie in `pki` below the data directory, under the names kubeadm uses where it has one.

mod account_key;
mod authority;
mod error;
mod files;
mod kubeconfig;
mod leaf;
mod names;
mod private_key;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use coracle_base::Timestamp;

pub(crate) use account_key::passing as passing_account_key;
use authority::Authority;
pub use error::PkiError;
use files::Batch;
use leaf::{Leaf, Profile};
pub(crate) use private_key::PrivateKey;

use crate::advertise;
use crate::config::Config;

/// What a server that asks for certificates needs, all in PEM.
#[derive(Debug)]
pub(crate) struct Credentials {
    /// The authority of the cluster.
    pub(crate) ca: String,
    /// What the server shows.
    pub(crate) server_certificate: String,
    pub(crate) server_key: PrivateKey,
    /// What the tokens of service accounts are signed with.
    pub(crate) account_key: PrivateKey,
    /// The file an administrator uses.
    pub(crate) kubeconfig: PathBuf,
    /// The address by which others reach this machine.
    pub(crate) advertised: IpAddr,
    /// Where clients find the server, in the order of the config.
    pub(crate) urls: Vec<String>,
}

/// The directory of the certificates within a data directory.
fn directory(data_dir: &Path) -> PathBuf {
    data_dir.join("pki")
}

/// Makes sure that everything is there and in order for a server that listens at `addresses`.
/// Blocks. Whoever else prepares the same directory waits.
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

    let mut batch = Batch::default();
    let authority = Authority::load_or_make(&dir, now, &mut batch)?;
    let server = Leaf::load_or_issue(&dir, &authority, &Profile::server(&names), now, &mut batch)?;
    let admin = Leaf::load_or_issue(&dir, &authority, &Profile::admin(), now, &mut batch)?;
    let account_key = account_key::load_or_make(&dir, &mut batch)?;

    let reachable = addresses.iter().map(|address| advertise::reachable(*address, advertised));
    let urls: Vec<String> = reachable.map(|address| format!("https://{address}")).collect();
    let kubeconfig = config.data_dir.join("admin.kubeconfig");
    if let Some(url) = urls.first() {
        kubeconfig::write(&kubeconfig, url, &authority, &admin, &mut batch)?;
    }
    batch.commit()?;
    Ok(Credentials {
        ca: authority.into_certificate(),
        server_certificate: server.certificate,
        server_key: server.key,
        account_key,
        kubeconfig,
        advertised,
        urls,
    })
}
