//! Errors while starting a server.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use coracle_apiserver::network::NetworkError;
use coracle_controllers::NodeCidrError;

pub use crate::pki::PkiError;
use crate::trusted_files::UntrustedFile;

/// Invalid settings. They are named as on the command line, where most of them come from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Unknown storage engine.
    #[error("invalid --store {text:?}: expected disk, memory or etcd=URL[,URL...]")]
    UnknownStore {
        /// The setting.
        text: String,
    },
    /// An invalid endpoint. The setting is not repeated as a whole, because it may contain a password.
    #[error("invalid --store: {reason}")]
    MalformedEndpoint {
        /// The endpoint, and the reason why it is invalid.
        reason: String,
    },
    /// Plain HTTP at an address that other machines can reach.
    #[error("--insecure-http needs loopback addresses only: {address} can be reached by other machines")]
    InsecureHttp {
        /// The address.
        address: SocketAddr,
    },
    /// An invalid cluster name.
    #[error(
        "invalid cluster name {text:?}: expected at most 63 of A-Z, a-z, 0-9, '.', '_' and '-', a letter or digit first"
    )]
    ClusterName {
        /// The name.
        text: String,
    },
    /// A name that is invalid in a certificate.
    #[error("{text:?} is neither a DNS name nor an IP address")]
    MalformedName {
        /// The name.
        text: String,
    },
    /// Invalid address ranges of services.
    #[error("invalid --service-cidr: {0}")]
    ServiceNetwork(#[from] NetworkError),
    /// Invalid pod address ranges of nodes.
    #[error("invalid --cluster-cidr: {0}")]
    NodeCidrs(#[from] NodeCidrError),
    /// A missing or empty token issuer.
    #[error("invalid --service-account-issuer: it cannot be empty")]
    Issuer,
    /// An empty token audience.
    #[error("invalid --api-audiences: none of them can be empty")]
    Audience,
    /// An invalid key set URL.
    #[error("invalid --service-account-jwks-uri {text:?}: expected an https URL")]
    KeySetUri {
        /// The URL.
        text: String,
    },
    /// A maximum token lifetime that is out of range.
    #[error("invalid --service-account-max-token-expiration: expected 1 hour to 2^32 seconds")]
    MaxTokenExpiration,
    /// Etcd options with another store.
    #[error("{option} needs --store etcd=URL")]
    NeedsEtcd {
        /// The option.
        option: &'static str,
    },
}

/// Why a server did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Invalid settings.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The address is in use, not local or not permitted.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// There are no serving certificates.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The serving certificates cannot be used.
    #[error("cannot serve with the certificates in the data directory")]
    Tls(#[from] coracle_apiserver::listen::TlsError),
    /// The signing key of service account tokens cannot be used.
    #[error("cannot sign tokens with the key in the data directory")]
    TokenKey(#[from] coracle_apiserver::SignerError),
    /// The shared objects could not be created.
    #[error(transparent)]
    Bootstrap(#[from] coracle_apiserver::BootstrapError),
    /// An authentication file cannot be used.
    #[error(transparent)]
    Authentication(#[from] AuthenticationError),
    /// The scheduler configuration of the embedding program is invalid.
    #[error(transparent)]
    Scheduler(#[from] coracle_scheduler::ConfigError),
    /// The thread that prepares certificates panicked.
    #[error("cannot prepare certificates")]
    Crashed(#[from] coracle_base::TaskError),
    /// The simulated nodes could not be created.
    #[error("cannot create the simulated nodes")]
    FakeNodes(#[source] Box<kube::Error>),
}

/// Why an authentication file cannot be used. Never contains the file's contents.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthenticationError {
    /// The file cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Another user could have written it.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    /// The file is not a valid token file.
    #[error("{} is no token file", .path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The error and its line.
        #[source]
        source: coracle_apiserver::TokenFileError,
    },
    /// The file does not contain a usable key.
    #[error("cannot verify tokens with the key in {}", .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The error.
        #[source]
        source: coracle_apiserver::SignerError,
    },
}

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The data directory cannot be created.
    #[error("cannot create the data directory {}", .path.display())]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Another server runs on the data directory.
    #[error(
        "the data directory {} is in use: another coracle{} is running there; stop it, or choose another directory \
         with --data-dir",
        .path.display(),
        Process(*.pid)
    )]
    DataDirInUse {
        /// The directory.
        path: PathBuf,
        /// The process of that server; none if it has not written its pid yet.
        pid: Option<u32>,
    },
    /// The data directory cannot be locked.
    #[error("cannot lock the data directory by {}", .path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Another user could have written a file or directory.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    /// A file with etcd credentials cannot be read.
    #[error("cannot read {}", .path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// This program was built without an etcd client.
    #[error("this program was built without etcd: build it with the feature `etcd`")]
    EtcdNotBuilt,
    /// The memory store cannot be opened offline.
    #[error("the memory store keeps nothing once its process has ended")]
    NothingKept,
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] coracle_store::Error),
}

/// A process ID in a message, with a leading space; nothing if it is unknown.
struct Process(Option<u32>);

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |pid| write!(f, " (pid {pid})"))
    }
}
