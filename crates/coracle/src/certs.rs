//! The certificates and keys of a cluster, for those who look after them: what there is, replacing it,
//! and kubeconfigs for further users. Works on the data directory, whether the cluster runs or not.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;

pub use coracle_apiserver::{ClusterReference, CredentialScope, UnknownCluster};
use kube::Client;

use crate::clusters::{self, ClusterInfo};
pub use crate::pki::{Item, KubeconfigRequest, Role, Rotation, create_kubeconfig, list};
use crate::pki::{PkiError, request_rotation};
use crate::rotation::{ASKED_LIMIT, socket_path};

/// What came of [`rotate`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rotated {
    /// The names of what is replaced.
    pub names: Vec<String>,
    /// Whether that is done: the cluster runs and has done it. Otherwise its next start does it.
    pub done: bool,
}

/// Has certificates, keys or authorities replaced: at once if the cluster runs, otherwise when it starts.
/// Blocks.
///
/// # Errors
/// If a name is unknown, there is no cluster, an authority is being replaced already, or the running
/// cluster cannot do it.
pub fn rotate(data_dir: &Path, rotation: &Rotation) -> Result<Rotated, PkiError> {
    let names = request_rotation(data_dir, rotation)?;
    let path = socket_path(data_dir);
    let done = match ask(&path) {
        Ok(answer) if answer.trim() == "ok" => true,
        Ok(answer) => return Err(PkiError::Server { message: answer.trim().to_owned() }),
        // Nobody listens: it does not run.
        Err(error) if is_nobody(&error) => false,
        Err(source) => return Err(PkiError::Io { operation: "reach the server at", path, source }),
    };
    Ok(Rotated { names, done })
}

/// Asks a running server which cluster has an id now, for credentials that are to be valid in it. The client needs the
/// operator's credential, and its paths are those of the server.
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

fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn ask(path: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(ASKED_LIMIT))?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
