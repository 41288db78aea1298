//! The command line: arguments and how they become a [`Config`].

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use coracle::config::{
    AddressRange, ClientCertificate, ClusterLimits, ClusterName, EtcdConfig, EtcdTls, EtcdUser, FakeNodes,
    PortRange, ServiceNetwork, SubjectName,
};
use coracle::{Config, ConfigError, StoreConfig};

use crate::authentication::AuthenticationArgs;
use crate::cmd::certs::CertsCommand;
use crate::cmd::cluster::ClusterCommand;
use crate::cmd::cluster::limits::{self, Limit};
use crate::cmd::kubeconfig::KubeconfigCommand;
use crate::cmd::store::StoreCommand;
use crate::cmd::token::TokenCommand;
use crate::data_dir;
use crate::logging::LogArgs;
use crate::nodes::NodeArgs;
use crate::version;

/// A whole Kubernetes in one program.
#[derive(Debug, Parser)]
#[command(name = "coracle", version = version::TEXT, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  coracle up                            start a cluster with its data in your home directory
  coracle up --fake-nodes 3             start one with simulated nodes, so that pods run
  coracle up --store memory             start one whose data is gone when it stops
  coracle kubeconfig merge              add the cluster to ~/.kube/config
  coracle kubeconfig create --user me   create a kubeconfig for another user
  coracle token create                  create a token with which a node can join
  coracle cluster create team-a         create another cluster on the same server
  coracle certs list                    list certificates and when they expire
  coracle store check                   verify data integrity
  coracle completion bash               print a completion script for bash";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a control plane in the foreground (Ctrl-C stops it).
    #[command(after_help = UP_EXAMPLES)]
    Up(ServerArgs),
    /// Start only the control plane (currently identical to `up`).
    #[command(after_help = "Example:\n  coracle server --data-dir ./data --listen 127.0.0.1:0")]
    Server(ServerArgs),
    /// Inspect, export, import or repair the data of a stopped cluster.
    #[command(subcommand)]
    Store(StoreCommand),
    /// List or rotate the certificates of a cluster.
    #[command(subcommand)]
    Certs(CertsCommand),
    /// Create, list, limit or delete clusters of a running server.
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Create and merge kubeconfig files.
    #[command(subcommand)]
    Kubeconfig(KubeconfigCommand),
    /// Manage node bootstrap tokens.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Print a completion script for a shell.
    #[command(after_help = COMPLETION_EXAMPLES)]
    Completion(CompletionArgs),
    /// Print the version.
    Version,
}

const UP_EXAMPLES: &str = "\
Examples:
  coracle up --data-dir ./data --listen 127.0.0.1:0            any free port, data in ./data
  coracle up --listen 0.0.0.0:6443 --tls-san api.example.org   for other machines, too
  coracle up --store etcd=http://10.0.0.1:2379,http://10.0.0.2:2379
  coracle up --store etcd=https://10.0.0.1:2379 --etcd-ca ca.crt
  coracle up --fake-nodes 100,cpu=8,memory=32Gi                with simulated nodes";

const COMPLETION_EXAMPLES: &str = "\
Examples:
  source <(coracle completion bash)
  coracle completion zsh > \"${fpath[1]}/_coracle\"
  coracle completion fish > ~/.config/fish/completions/coracle.fish";

#[derive(Debug, ClapArgs)]
pub(crate) struct CompletionArgs {
    /// The shell.
    pub(crate) shell: Shell,
}

/// The settings of a server.
#[derive(Debug, ClapArgs)]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    location: LocationArgs,
    /// Name of the cluster, its users and contexts in kubeconfigs [default: the name of the data directory].
    #[arg(long, value_name = "NAME")]
    name: Option<ClusterName>,
    /// Serve the API at this address; may be repeated. Port 0 picks a free port.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen_address, default_values_t = Config::new("").listen)]
    listen: Vec<SocketAddr>,
    /// Serve plain HTTP at the same addresses, which must be loopback, as the administrator and without credentials. Any
    /// process on this machine then has full access.
    #[arg(long)]
    insecure_http: bool,
    /// IP address at which other machines reach this one [default: the address of the default route].
    #[arg(long, value_name = "IP")]
    advertise_address: Option<IpAddr>,
    /// Additional subject alternative name of the server's certificate; may be repeated.
    #[arg(long, value_name = "NAME|IP")]
    tls_san: Vec<SubjectName>,
    /// IP range of services; with a comma, one of IPv4 and one of IPv6.
    #[arg(long, value_name = "CIDR[,CIDR]", value_delimiter = ',', default_values_t = ranges())]
    service_cidr: Vec<AddressRange>,
    /// Port range of services with node ports.
    #[arg(long, value_name = "FIRST-LAST", default_value_t = ServiceNetwork::default().node_ports())]
    service_node_port_range: PortRange,
    /// Maximum number of connections from one IP address, or one IPv6 network, at the same time; loopback is not
    /// limited.
    #[arg(long, value_name = "NUMBER", default_value_t = Config::new("").max_connections_per_address)]
    max_connections_per_address: usize,
    /// Default limit of the bytes that a created cluster stores, or "unlimited".
    #[arg(long, value_name = "QUANTITY", value_parser = limits::parse, default_value = "1Gi")]
    cluster_max_bytes: Limit,
    /// Default limit of the objects that a created cluster stores, or "unlimited".
    #[arg(long, value_name = "NUMBER", value_parser = limits::parse, default_value = "200000")]
    cluster_max_objects: Limit,
    /// Do not run the built-in controllers.
    #[arg(long)]
    disable_controller_manager: bool,
    /// Do not run the scheduler.
    #[arg(long)]
    disable_scheduler: bool,
    /// Run N simulated nodes, and delete simulated nodes of an earlier start beyond them. Settings, comma-separated:
    /// cpu=, memory=, pods=, zones=, taint=KEY[=VALUE]:EFFECT, missing-image=NAME.
    #[arg(long, value_name = "N[,SETTING...]")]
    fake_nodes: Option<FakeNodes>,
    #[command(flatten)]
    authentication: AuthenticationArgs,
    #[command(flatten)]
    nodes: NodeArgs,
}

/// Parses an address and a port. `localhost` is 127.0.0.1: a name with several addresses would need several listeners.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    local.as_deref().unwrap_or(text).parse().map_err(|_| {
        "expected ADDRESS:PORT, such as 127.0.0.1:6443, [::1]:6443 or 0.0.0.0:6443 (all interfaces)"
            .to_owned()
    })
}

fn ranges() -> Vec<AddressRange> {
    ServiceNetwork::default().ranges().to_vec()
}

impl ServerArgs {
    /// True if the server needs a temporary data directory: it stores objects in memory and the user passed no
    /// --data-dir. In the default directory it would overwrite the kubeconfig of the cluster there.
    pub(crate) fn needs_temporary_dir(&self) -> bool {
        self.location.data_dir.data_dir.is_none() && self.location.store_config() == Ok(StoreConfig::Memory)
    }

    /// Builds the configuration with `data_dir` in place of the user's or the default directory.
    pub(crate) fn config_in(&self, data_dir: &Path) -> Result<Config> {
        let location = Config { store: self.location.store_config()?, ..Config::new(data_dir) };
        self.apply_to(location)
    }

    pub(crate) fn config(&self) -> Result<Config> {
        self.apply_to(self.location.config()?)
    }

    fn apply_to(&self, location: Config) -> Result<Config> {
        Ok(Config {
            name: self.name.clone(),
            listen: self.listen.clone(),
            insecure_http: self.insecure_http,
            advertise_address: self.advertise_address,
            tls_sans: self.tls_san.clone(),
            service_network: ServiceNetwork::new(self.service_cidr.clone(), self.service_node_port_range)
                .map_err(ConfigError::from)?,
            authentication: self.authentication.settings()?,
            max_connections_per_address: self.max_connections_per_address,
            cluster_limits: ClusterLimits {
                max_bytes: self.cluster_max_bytes.0,
                max_objects: self.cluster_max_objects.0,
            },
            controllers: !self.disable_controller_manager,
            scheduler: !self.disable_scheduler,
            fake_nodes: self.fake_nodes.clone(),
            node_monitor: self.nodes.monitor(),
            node_cidrs: self.nodes.cidrs()?,
            ..location
        })
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DataDirArgs {
    /// Data directory [default: /var/lib/coracle for root, else $XDG_DATA_HOME/coracle or ~/.local/share/coracle].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl DataDirArgs {
    pub(crate) fn path(&self) -> Result<PathBuf> {
        match &self.data_dir {
            Some(dir) => Ok(dir.clone()),
            None => data_dir::of_user(),
        }
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct LocationArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// Store objects in files (disk), in memory (memory) or in an existing etcd cluster. With memory and without
    /// --data-dir, certificates are in a temporary directory, which is removed at shutdown.
    #[arg(long, value_name = "disk|memory|etcd=URL[,URL...]", default_value = "disk")]
    store: String,
    #[command(flatten)]
    etcd: EtcdArgs,
}

/// Credentials for etcd.
#[derive(Debug, ClapArgs)]
struct EtcdArgs {
    /// CA bundle for the certificates of etcd members (PEM).
    #[arg(long, value_name = "FILE")]
    etcd_ca: Option<PathBuf>,
    /// Client certificate for etcd (PEM).
    #[arg(long, value_name = "FILE", requires_all = ["etcd_key", "etcd_ca"])]
    etcd_cert: Option<PathBuf>,
    /// Private key of --etcd-cert (PEM).
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
    /// User name for etcd.
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    etcd_user: Option<String>,
    /// File with the password of --etcd-user.
    #[arg(long, value_name = "FILE", requires = "etcd_user")]
    etcd_password_file: Option<PathBuf>,
}

impl LocationArgs {
    pub(crate) fn config(&self) -> Result<Config> {
        let store = self.store_config()?;
        Ok(Config { store, ..Config::new(self.data_dir.path()?) })
    }

    fn store_config(&self) -> Result<StoreConfig, ConfigError> {
        let store: StoreConfig = self.store.parse()?;
        match (store, self.etcd.first_given()) {
            (StoreConfig::Etcd(etcd), _) => Ok(StoreConfig::Etcd(self.etcd.complete(etcd))),
            (_, Some(option)) => Err(ConfigError::NeedsEtcd { option }),
            (store, None) => Ok(store),
        }
    }
}

impl EtcdArgs {
    fn first_given(&self) -> Option<&'static str> {
        let given = [
            (self.etcd_ca.is_some(), "--etcd-ca"),
            (self.etcd_cert.is_some(), "--etcd-cert"),
            (self.etcd_user.is_some(), "--etcd-user"),
        ];
        given.into_iter().find_map(|(given, option)| given.then_some(option))
    }

    /// Adds credentials to the configuration of etcd. Clap has checked that certificate and key, and user and
    /// password, are given together.
    fn complete(&self, etcd: EtcdConfig) -> EtcdConfig {
        let pair = self.etcd_cert.clone().zip(self.etcd_key.clone());
        let client_certificate = pair.map(|(cert_file, key_file)| ClientCertificate { cert_file, key_file });
        let tls = self.etcd_ca.clone().map(|ca_file| EtcdTls { ca_file, client_certificate });
        let pair = self.etcd_user.clone().zip(self.etcd_password_file.clone());
        let user = pair.map(|(name, password_file)| EtcdUser { name, password_file });
        EtcdConfig { tls, user, ..etcd }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn config(line: &str) -> Result<Config> {
        let Command::Up(args) = Args::try_parse_from(line.split(' '))?.command else { panic!("not up") };
        args.config()
    }

    #[test]
    fn clap_declaration_passes_debug_assert() {
        Args::command().debug_assert();
    }

    #[test]
    fn up_without_flags_has_library_defaults() {
        assert_eq!(config("coracle up --data-dir /d").unwrap(), Config::new("/d"));
    }

    #[test]
    fn listen_flags_accumulate() {
        let config = config("coracle up --data-dir /d --listen 127.0.0.1:0 --listen [::1]:80").unwrap();
        assert_eq!(config.listen, ["127.0.0.1:0".parse().unwrap(), "[::1]:80".parse().unwrap()]);
    }

    #[test]
    fn listen_address_without_port_is_rejected_with_an_example() {
        let local = config("coracle up --data-dir /d --listen localhost:7000").unwrap().listen;
        assert_eq!(local, ["127.0.0.1:7000".parse().unwrap()]);
        for text in ["127.0.0.1", ":6443", "6443", "example.org:6443", "localhost:"] {
            let error = config(&format!("coracle up --data-dir /d --listen {text}")).unwrap_err().to_string();
            assert!(error.contains("such as 127.0.0.1:6443"), "{error}");
        }
    }

    #[test]
    fn cluster_name_defaults_to_data_directory_name() {
        assert_eq!(config("coracle up --data-dir /d/dev").unwrap().cluster_name().as_str(), "dev");
        assert_eq!(config("coracle up --data-dir /d --name test").unwrap().cluster_name().as_str(), "test");
        assert!(config("coracle up --data-dir /d --name a/b").is_err());
    }

    #[test]
    fn log_options_are_accepted_after_any_command() {
        for line in ["coracle --log-level debug up", "coracle token list --log-format json --log-level info"]
        {
            assert!(Args::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        assert!(Args::try_parse_from(["coracle", "up", "--log-format", "xml"]).is_err());
    }

    #[test]
    fn advertise_address_and_tls_sans_are_set_in_config() {
        let line = "coracle up --data-dir /d --advertise-address ::1 --tls-san a.example --tls-san 192.0.2.1";
        let config = config(line).unwrap();
        assert_eq!(config.advertise_address, Some("::1".parse().unwrap()));
        assert_eq!(config.tls_sans, ["a.example".parse().unwrap(), "192.0.2.1".parse().unwrap()]);
        assert!(self::config("coracle up --data-dir /d --tls-san a_b").is_err());
    }

    #[test]
    fn service_ranges_are_set_in_config() {
        let line =
            "coracle up --data-dir /d --service-cidr 10.0.0.0/16,fd00::/108 --service-node-port-range 1-9";
        let network = config(line).unwrap().service_network;
        assert_eq!(network.families(), ["IPv4", "IPv6"]);
        assert_eq!(network.node_ports().to_string(), "1-9");
        let twice = config("coracle up --data-dir /d --service-cidr 10.0.0.0/16,10.1.0.0/16").unwrap_err();
        assert!(twice.to_string().starts_with("invalid --service-cidr: "), "{twice}");
        assert!(config("coracle up --data-dir /d --service-cidr 10.0.0.0/31").is_err());
    }

    #[test]
    fn controllers_and_scheduler_are_disabled_by_flags() {
        let both = config("coracle up --data-dir /d").unwrap();
        assert!(both.controllers && both.scheduler);
        let bare = config("coracle up --data-dir /d --disable-controller-manager --disable-scheduler");
        let bare = bare.unwrap();
        assert!(!bare.controllers && !bare.scheduler);
    }

    #[test]
    fn server_in_memory_without_data_dir_needs_a_temporary_one() {
        for (line, expected) in [
            ("coracle up --store memory", true),
            ("coracle up --store memory --data-dir /d", false),
            ("coracle up", false),
            ("coracle up --store etcd=http://a:1", false),
            ("coracle up --store memory --etcd-ca /ca", false),
        ] {
            let Command::Up(args) = Args::try_parse_from(line.split(' ')).unwrap().command else { panic!() };
            assert_eq!(args.needs_temporary_dir(), expected, "{line}");
        }
    }

    #[test]
    fn fake_nodes_flag_is_set_in_config() {
        let nodes = config("coracle up --data-dir /d --fake-nodes 5,cpu=2").unwrap().fake_nodes.unwrap();
        assert_eq!((nodes.count, &*nodes.cpu), (5, "2"));
        assert!(config("coracle up --data-dir /d --fake-nodes many").is_err());
    }

    #[test]
    fn etcd_credentials_without_etcd_or_counterpart_are_rejected() {
        let error = config("coracle up --data-dir /d --etcd-ca /ca").unwrap_err();
        assert_eq!(error.to_string(), "--etcd-ca needs --store etcd=URL");
        assert!(config("coracle up --data-dir /d --store etcd=http://a:1 --etcd-user me").is_err());
        assert!(
            config("coracle up --data-dir /d --store etcd=http://a:1 --etcd-ca /ca --etcd-key /k").is_err()
        );
    }

    #[test]
    fn etcd_credentials_are_set_in_config() {
        let config = config(
            "coracle up --data-dir /d --store etcd=https://a:1 --etcd-ca /ca --etcd-cert /c --etcd-key /k \
             --etcd-user me --etcd-password-file /p",
        );
        let StoreConfig::Etcd(etcd) = config.unwrap().store else { panic!("not etcd") };
        let tls = etcd.tls.unwrap();
        assert_eq!(tls.ca_file, PathBuf::from("/ca"));
        assert_eq!(tls.client_certificate.unwrap().key_file, PathBuf::from("/k"));
        assert_eq!(etcd.user.unwrap().name, "me");
    }
}
