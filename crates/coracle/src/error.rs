//! What can go wrong on the way to a running cluster.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use coracle_apiserver::network::NetworkError;
use coracle_controllers::NodeCidrError;

pub use crate::pki::PkiError;
use crate::trusted_files::UntrustedFile;

/// Settings that make no sense. Named as on the command line, where most of them come from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No such engine.
    #[error("invalid --store {text:?}: expected disk, memory or etcd=URL[,URL...]")]
    UnknownStore {
        /// What was given.
        text: String,
    },
    /// An endpoint that cannot be one. What was given is not repeated whole: it may hold a
    /// password.
    #[error("invalid --store: {reason}")]
    MalformedEndpoint {
        /// Which endpoint, and what is wrong with it.
        reason: String,
    },
    /// Plain HTTP at an address that other machines can reach.
    #[error("--insecure-http needs loopback addresses only: {address} can be reached by other machines")]
    InsecureHttp {
        /// The address.
        address: SocketAddr,
    },
    /// A name that kubeconfigs cannot have.
    #[error(
        "invalid cluster name {text:?}: expected at most 63 of A-Z, a-z, 0-9, '.', '_' and '-', a letter or digit first"
    )]
    ClusterName {
        /// The name.
        text: String,
    },
    /// A name no certificate can have.
    #[error("{text:?} is neither a DNS name nor an IP address")]
    MalformedName {
        /// What was given.
        text: String,
    },
    /// Ranges that services cannot have.
    #[error("invalid --service-cidr: {0}")]
    ServiceNetwork(#[from] NetworkError),
    /// Ranges that nodes cannot have.
    #[error("invalid --cluster-cidr: {0}")]
    NodeCidrs(#[from] NodeCidrError),
    /// Nobody to vouch for tokens.
    #[error("invalid --service-account-issuer: it cannot be empty")]
    Issuer,
    /// A server without a name.
    #[error("invalid --api-audiences: none of them can be empty")]
    Audience,
    /// A place for keys that cannot be one.
    #[error("invalid --service-account-jwks-uri {text:?}: expected an https URL")]
    KeySetUri {
        /// What was given.
        text: String,
    },
    /// Tokens that would end too early or never.
    #[error("invalid --service-account-max-token-expiration: expected 1 hour to 2^32 seconds")]
    MaxTokenExpiration,
    /// Credentials for etcd, and no etcd.
    #[error("{option} needs --store etcd=URL")]
    NeedsEtcd {
        /// The option that makes no sense.
        option: &'static str,
    },
}

/// Why a cluster did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Settings that contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The address is taken, not ours or forbidden.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The store does not open.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// There are no certificates to serve with.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// There are, and they cannot be used.
    #[error("cannot serve with the certificates in the data directory")]
    Tls(#[from] coracle_apiserver::listen::TlsError),
    /// The key of the service accounts cannot be used.
    #[error("cannot sign tokens with the key in the data directory")]
    TokenKey(#[from] coracle_apiserver::SignerError),
    /// What every cluster has could not be made.
    #[error(transparent)]
    Bootstrap(#[from] coracle_apiserver::BootstrapError),
    /// A file by which users are recognized is of no use.
    #[error(transparent)]
    Authentication(#[from] AuthenticationError),
    /// Pods cannot be scheduled as the embedding program says.
    #[error(transparent)]
    Scheduler(#[from] coracle_scheduler::ConfigError),
    /// The thread that looks for certificates panicked.
    #[error("cannot look for certificates")]
    Crashed(#[from] coracle_base::TaskError),
    /// The simulated nodes cannot be made.
    #[error("cannot make the simulated nodes")]
    FakeNodes(#[source] Box<kube::Error>),
}

/// Why a file by which users are recognized is of no use. Never says what stands in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthenticationError {
    /// It cannot be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Another user could have written it.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    /// It is no file of tokens.
    #[error("{} is no token file", .path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        #[source]
        source: coracle_apiserver::TokenFileError,
    },
    /// It is no key.
    #[error("cannot verify tokens with the key in {}", .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: coracle_apiserver::SignerError,
    },
}

/// Why a store did not open.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The data directory cannot be made.
    #[error("cannot create the data directory {}", .path.display())]
    DataDir {
        /// The directory.
        path: PathBuf,
        /// What the system said.
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
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// Another user could have written a file or directory.
    #[error(transparent)]
    Untrusted(#[from] UntrustedFile),
    /// A file with credentials cannot be read.
    #[error("cannot read {}", .path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// This program has no etcd client.
    #[error("this program was built without etcd: build it with the feature `etcd`")]
    EtcdNotBuilt,
    /// There is nothing to open, since nothing is kept.
    #[error("the memory store keeps nothing once its process has ended")]
    NothingKept,
    /// The store itself says no.
    #[error(transparent)]
    Store(#[from] coracle_store::Error),
}

/// A process in the middle of a message, with a space before it; nothing if it is unknown.
struct Process(Option<u32>);

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |pid| write!(f, " (pid {pid})"))
    }
}
