//! Configuration of a server. Building it binds no port and touches no disk.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

pub use coracle_apiserver::ClusterLimits;
use coracle_apiserver::Limits;
pub use coracle_apiserver::network::{AddressRange, NetworkError, PortRange, ServiceNetwork};
pub use coracle_controllers::{Cidr, NodeCidrError, NodeCidrs, NodeMonitor};
pub use coracle_fake_node::{FakeNodes, FakeNodesError};

use crate::authentication::Authentication;
pub use crate::cluster_name::ClusterName;
use crate::error::ConfigError;
pub use crate::subject_name::SubjectName;

/// The usual port of kube-apiserver.
pub const DEFAULT_PORT: u16 = 6443;

/// Configuration of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The directory of all files: certificates, the administrator's kubeconfig, and the objects of
    /// [`StoreConfig::Disk`]. It is created at the start, and locked until the server has ended: one
    /// directory, one server. Without a listener and without [`StoreConfig::Disk`] it is not used.
    pub data_dir: PathBuf,
    /// The cluster name in kubeconfigs; none for the name of the data directory ([`Config::cluster_name`]).
    pub name: Option<ClusterName>,
    /// Addresses of the API server. Port 0 picks a free one; may be empty.
    pub listen: Vec<SocketAddr>,
    /// Serve plain HTTP at the same addresses, beside TLS. Its requests need no credential and are made by
    /// the administrator, so all addresses must be of the loopback interface.
    pub insecure_http: bool,
    /// The address by which other machines reach this one; by default the source address of packets to
    /// remote destinations.
    pub advertise_address: Option<IpAddr>,
    /// Additional names in the serving certificate.
    pub tls_sans: Vec<SubjectName>,
    /// The store.
    pub store: StoreConfig,
    /// Address ranges and node ports of services. Existing allocations are kept when they change.
    pub service_network: ServiceNetwork,
    /// Authentication settings other than client certificates.
    pub authentication: Authentication,
    /// Maximum number of concurrent connections from one remote address; connections from this machine are
    /// not limited.
    pub max_connections_per_address: usize,
    /// Default limits of created clusters.
    pub cluster_limits: ClusterLimits,
    /// Run the controllers. Without them only the controllers that are part of kube-apiserver run, such as
    /// the one that serves custom resources; nothing else is reconciled unless other controllers are run.
    pub controllers: bool,
    /// Run the scheduler.
    pub scheduler: bool,
    /// Simulated nodes, whose pods run by rule. Nodes of an earlier start beyond them are deleted. With
    /// `Some`, even of no nodes, nodes with the annotation of simulated nodes are simulated, too.
    pub fake_nodes: Option<FakeNodes>,
    /// Settings of the node lifecycle controller.
    pub node_monitor: NodeMonitor,
    /// Address ranges from which nodes get their pod CIDRs; none if they are not allocated here.
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

    /// The cluster name in kubeconfigs.
    pub fn cluster_name(&self) -> ClusterName {
        self.name.clone().unwrap_or_else(|| ClusterName::of_data_dir(&self.data_dir))
    }
}

/// The storage engine.
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
    /// In memory only.
    Memory,
    /// An external etcd cluster.
    Etcd(EtcdConfig),
}

/// Connection settings of an etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdConfig {
    /// The URLs of its members, at least one.
    pub endpoints: Vec<String>,
    /// TLS settings.
    pub tls: Option<EtcdTls>,
    /// User to authenticate as.
    pub user: Option<EtcdUser>,
}

/// TLS settings of an etcd connection, with files in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdTls {
    /// The authorities of the members' certificates.
    pub ca_file: PathBuf,
    /// The client certificate, if etcd requires one.
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

/// Credentials of an etcd user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdUser {
    /// The name.
    pub name: String,
    /// A file with the password, because arguments are visible to all users of the machine.
    pub password_file: PathBuf,
}

impl FromStr for StoreConfig {
    type Err = ConfigError;

    /// Parses `disk`, `memory` or `etcd=URL[,URL...]`.
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

/// Validated by the etcd client.
#[cfg(feature = "etcd")]
fn endpoints(urls: &str) -> Result<Vec<String>, ConfigError> {
    let options = coracle_store::etcd::Options::parse(urls);
    options
        .map(|options| options.endpoints)
        .map_err(|error| ConfigError::MalformedEndpoint { reason: error.to_string() })
}

/// Without the etcd client no connection is made, so nothing is validated.
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
    fn store_engines_are_parsed() {
        assert_eq!("disk".parse(), Ok(StoreConfig::Disk));
        assert_eq!("memory".parse(), Ok(StoreConfig::Memory));
    }

    #[test]
    fn unknown_store_is_rejected_with_the_expected_values() {
        for text in ["foo", "", "etcd", "disk=/x", "Disk"] {
            let error = text.parse::<StoreConfig>().unwrap_err();
            let expected = format!("invalid --store {text:?}: expected disk, memory or etcd=URL[,URL...]");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[cfg(feature = "etcd")]
    #[test]
    fn etcd_endpoints_are_parsed() {
        let Ok(StoreConfig::Etcd(etcd)) = "etcd=http://[::1]:2379, https://b.example:2379".parse() else {
            panic!("refused")
        };
        assert_eq!(etcd.endpoints, ["http://[::1]:2379", "https://b.example:2379"]);
        let error = "etcd=http://a:2379,b:2379".parse::<StoreConfig>().unwrap_err().to_string();
        assert!(error.starts_with("invalid --store: ") && error.contains("\"b:2379\""), "{error}");
    }
}
