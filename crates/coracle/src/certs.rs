//! Management of certificates and keys: listing, rotation, and kubeconfigs for further users. Works on the
//! data directory, whether the server runs or not.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub use coracle_apiserver::{ClusterReference, CredentialScope, UnknownCluster};
use kube::Client;

use crate::clusters::{self, ClusterInfo};
pub use crate::pki::{Item, KubeconfigRequest, Role, Rotation, create_kubeconfig, list};
use crate::pki::{PkiError, request_rotation};
use crate::rotation::{RESPONSE_TIMEOUT, socket_path};

/// The result of [`rotate`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rotated {
    /// The names of the certificates, keys and authorities to replace.
    pub names: Vec<String>,
    /// True if the running server has replaced them; otherwise its next start does.
    pub done: bool,
}

/// Replaces certificates, keys or authorities: at once if the server runs, otherwise when it starts.
/// Blocks.
///
/// # Errors
/// If a name is unknown, there is no cluster, an authority is being replaced already, or the running server
/// fails to do it.
pub fn rotate(data_dir: &Path, rotation: &Rotation) -> Result<Rotated, PkiError> {
    let names = request_rotation(data_dir, rotation)?;
    let path = socket_path(data_dir);
    let done = match request_reload(&path) {
        Ok(response) if response.trim() == "ok" => true,
        Ok(response) => return Err(PkiError::Server { message: response.trim().to_owned() }),
        // Nothing listens, so the server does not run.
        Err(error) if is_not_running(&error) => false,
        Err(source) => return Err(PkiError::Io { operation: "reach the server at", path, source }),
    };
    Ok(Rotated { names, done })
}

/// Requests the current cluster with an id from a running server, for credentials that are to be valid in
/// it. The client needs the operator's credential, and its paths are those of the server.
///
/// # Errors
/// If there is no such cluster, the client is not the operator's, or the server does not answer.
pub async fn cluster_reference(client: &Client, id: &str) -> Result<ClusterReference, kube::Error> {
    if id == ClusterReference::default_cluster().id {
        return Ok(ClusterReference::default_cluster());
    }
    let ClusterInfo { id, uid, .. } = clusters::get(client, id).await?;
    Ok(ClusterReference { id, uid })
}

fn is_not_running(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn request_reload(path: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}
