//! What a cluster is made from. Building it binds no port and touches no disk.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

pub use coracle_apiserver::ClusterLimits;
use coracle_apiserver::Limits;
pub use coracle_apiserver::network::{AddressRange, NetworkError, PortRange, ServiceNetwork};
pub use coracle_controllers::{Cidr, NodeCidrError, NodeCidrs, NodeMonitor};
pub use coracle_kubelet::fake::{FakeNodes, FakeNodesError};

use crate::authentication::Authentication;
pub use crate::cluster_name::ClusterName;
use crate::error::ConfigError;
pub use crate::subject_name::SubjectName;

/// The port Kubernetes' API is expected at.
pub const DEFAULT_PORT: u16 = 6443;

/// Settings of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The directory of all files: certificates and the kubeconfig of the administrator, and the objects of
    /// [`StoreConfig::Disk`]. It is created when the cluster starts, and locked until it has ended: one directory, one
    /// server. With no address to listen at and without [`StoreConfig::Disk`] it is not used.
    pub data_dir: PathBuf,
    /// The name in kubeconfigs; none for the name of the data directory ([`Config::cluster_name`]).
    pub name: Option<ClusterName>,
    /// Where the API is served. Port 0 picks a free one; none at all is possible.
    pub listen: Vec<SocketAddr>,
    /// Whether plain HTTP is served at the same addresses, beside TLS. Its requests need no credential and are made by
    /// the administrator, so all addresses must be of the loopback interface.
    pub insecure_http: bool,
    /// The address by which others reach this machine; by default the one it would itself send
    /// from.
    pub advertise_address: Option<IpAddr>,
    /// Further names of the server, for its certificate.
    pub tls_sans: Vec<SubjectName>,
    /// What holds the objects.
    pub store: StoreConfig,
    /// From where services get their addresses and node ports. Those that they have are kept
    /// when it changes.
    pub service_network: ServiceNetwork,
    /// By what users are recognized, beside their certificates.
    pub authentication: Authentication,
    /// How many connections there may be from one address at the same time; this machine is not counted.
    pub max_connections_per_address: usize,
    /// How much a created cluster may store for which no limits are requested.
    pub cluster_limits: ClusterLimits,
    /// Whether the controllers run here. Without them objects are stored and nothing follows from them, unless
    /// somebody else's controllers do it; only what upstream's API server does by itself is done, such as to serve
    /// custom kinds.
    pub controllers: bool,
    /// Whether pods are scheduled here.
    pub scheduler: bool,
    /// Simulated nodes, whose pods run by rule. Nodes of an earlier start beyond them are deleted. With `Some`, even of no
    /// nodes, nodes with the annotation of simulated nodes are simulated, too.
    pub fake_nodes: Option<FakeNodes>,
    /// How nodes are watched over.
    pub node_monitor: NodeMonitor,
    /// From where nodes get the addresses of their pods; none if not from here.
    pub node_cidrs: Option<NodeCidrs>,
}

impl Config {
    /// The defaults: served on the loopback interface, stored in `data_dir`.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            name: None,
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT))],
            insecure_http: false,
            advertise_address: None,
            tls_sans: Vec::new(),
            store: StoreConfig::Disk,
            service_network: ServiceNetwork::default(),
            authentication: Authentication::default(),
            max_connections_per_address: Limits::default().max_connections_per_address,
            cluster_limits: ClusterLimits::OF_CREATED_CLUSTERS,
            controllers: true,
            scheduler: true,
            fake_nodes: None,
            node_monitor: NodeMonitor::default(),
            node_cidrs: None,
        }
    }

    /// Rejects plain HTTP beside an address that other machines can reach.
    pub(crate) fn check_insecure_http(&self) -> Result<(), ConfigError> {
        let is_remote = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
        match self.listen.iter().find(is_remote) {
            Some(address) if self.insecure_http => Err(ConfigError::InsecureHttp { address: *address }),
            _ => Ok(()),
        }
    }

    /// The name in kubeconfigs.
    pub fn cluster_name(&self) -> ClusterName {
        self.name.clone().unwrap_or_else(|| ClusterName::of_data_dir(&self.data_dir))
    }
}

/// Which engine holds the objects.
///
/// ```
/// use coracle::StoreConfig;
///
/// assert_eq!("disk".parse(), Ok(StoreConfig::Disk));
/// let StoreConfig::Etcd(etcd) = "etcd=http://10.0.0.1:2379,http://10.0.0.2:2379".parse()? else { panic!() };
/// assert_eq!(etcd.endpoints.len(), 2);
/// # Ok::<(), coracle::ConfigError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StoreConfig {
    /// Files in the data directory.
    #[default]
    Disk,
    /// Nothing is kept.
    Memory,
    /// An etcd cluster run by someone else.
    Etcd(EtcdConfig),
}

/// How to reach an etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdConfig {
    /// The URLs of its members, at least one.
    pub endpoints: Vec<String>,
    /// What an encrypted connection needs.
    pub tls: Option<EtcdTls>,
    /// The user to be.
    pub user: Option<EtcdUser>,
}

/// What an encrypted connection to etcd needs, files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdTls {
    /// The authorities that may have signed the certificates of the members.
    pub ca_file: PathBuf,
    /// The certificate to show, if etcd asks for one.
    pub client_certificate: Option<ClientCertificate>,
}

/// A certificate and its key, files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate.
    pub cert_file: PathBuf,
    /// Its private key.
    pub key_file: PathBuf,
}

/// A user of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdUser {
    /// The name.
    pub name: String,
    /// A file with the password, because arguments can be seen by everyone on the machine.
    pub password_file: PathBuf,
}

impl FromStr for StoreConfig {
    type Err = ConfigError;

    /// Reads `disk`, `memory` or `etcd=URL[,URL...]`.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text.split_once('=') {
            None if text == "disk" => Ok(StoreConfig::Disk),
            None if text == "memory" => Ok(StoreConfig::Memory),
            Some(("etcd", urls)) => {
                let endpoints = endpoints(urls)?;
                Ok(StoreConfig::Etcd(EtcdConfig { endpoints, tls: None, user: None }))
            }
            _ => Err(ConfigError::UnknownStore { text: text.to_owned() }),
        }
    }
}

/// The store knows best what it can connect to.
#[cfg(feature = "etcd")]
fn endpoints(urls: &str) -> Result<Vec<String>, ConfigError> {
    let options = coracle_store::etcd::Options::parse(urls);
    options
        .map(|options| options.endpoints)
        .map_err(|error| ConfigError::MalformedEndpoint { reason: error.to_string() })
}

/// Without a client nothing is ever connected to, so there is nothing to find wrong.
#[cfg(not(feature = "etcd"))]
fn endpoints(urls: &str) -> Result<Vec<String>, ConfigError> {
    Ok(urls.split(',').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_needs_loopback_addresses() {
        let check = |insecure_http, addresses: &[&str]| {
            let listen = addresses.iter().map(|address| address.parse().unwrap()).collect();
            Config { insecure_http, listen, ..Config::new("/d") }.check_insecure_http()
        };
        assert_eq!(check(true, &["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"]), Ok(()));
        assert_eq!(check(false, &["0.0.0.0:1"]), Ok(()));
        for address in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1"] {
            let error = check(true, &["127.0.0.1:1", address]).unwrap_err().to_string();
            assert!(error.contains(address) && error.contains("loopback"), "{error}");
        }
    }

    #[test]
    fn engines_are_read() {
        assert_eq!("disk".parse(), Ok(StoreConfig::Disk));
        assert_eq!("memory".parse(), Ok(StoreConfig::Memory));
    }

    #[test]
    fn a_refusal_says_what_is_expected() {
        for text in ["foo", "", "etcd", "disk=/x", "Disk"] {
            let error = text.parse::<StoreConfig>().unwrap_err();
            let expected = format!("invalid --store {text:?}: expected disk, memory or etcd=URL[,URL...]");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[cfg(feature = "etcd")]
    #[test]
    fn endpoints_are_read() {
        let Ok(StoreConfig::Etcd(etcd)) = "etcd=http://[::1]:2379, https://b.example:2379".parse() else {
            panic!("refused")
        };
        assert_eq!(etcd.endpoints, ["http://[::1]:2379", "https://b.example:2379"]);
        let error = "etcd=http://a:2379,b:2379".parse::<StoreConfig>().unwrap_err().to_string();
        assert!(error.starts_with("invalid --store: ") && error.contains("\"b:2379\""), "{error}");
    }
}
