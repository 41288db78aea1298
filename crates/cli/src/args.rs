//! What can be written on the command line, and what it means.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use coracle::config::{
    AddressRange, ClientCertificate, ClusterLimits, EtcdConfig, EtcdTls, EtcdUser, FakeNodes, PortRange,
    ServiceNetwork, SubjectName,
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
use crate::nodes::NodeArgs;

/// A whole Kubernetes in one program.
#[derive(Debug, Parser)]
#[command(name = "coracle", version, arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  coracle up                            start a cluster that keeps its data in your home
  coracle up --store memory             start one that keeps nothing
  coracle kubeconfig create --user me   let somebody else in
  coracle token create                  let a node join
  coracle cluster create team-a         create another cluster on the same server
  coracle certs list                    see which certificates there are, and when they end
  coracle store check                   look whether the data is in good order

The variable CORACLE_LOG says what is logged, such as `debug` or `info,coracle_store=debug`.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a cluster here and now, and stop it by Ctrl-C.
    #[command(after_help = UP_EXAMPLES)]
    Up(ServerArgs),
    /// Start a server of a cluster; the same as `up` as long as there are no nodes.
    #[command(after_help = UP_EXAMPLES)]
    Server(ServerArgs),
    /// Look at, copy or repair the data of a cluster that does not run.
    #[command(subcommand)]
    Store(StoreCommand),
    /// Look at the certificates of a cluster, or replace them.
    #[command(subcommand)]
    Certs(CertsCommand),
    /// Create, list, limit or delete clusters of a running server.
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Let further users in.
    #[command(subcommand)]
    Kubeconfig(KubeconfigCommand),
    /// Look after the tokens by which nodes join.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Print the version.
    Version,
}

const UP_EXAMPLES: &str = "\
Examples:
  coracle up --data-dir ./data --listen 127.0.0.1:0      any free port, data in ./data
  coracle up --listen 0.0.0.0:6443 --tls-san api.example.org   for other machines too
  coracle up --store etcd=http://10.0.0.1:2379,http://10.0.0.2:2379
  coracle up --store etcd=https://10.0.0.1:2379 --etcd-ca ca.crt
  coracle up --fake-nodes 100,cpu=8,memory=32Gi      with nodes that only pretend to run pods";

/// The settings of a server.
#[derive(Debug, ClapArgs)]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    location: LocationArgs,
    /// Serve the API at this address; may be given more than once. Port 0 picks a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_values_t = Config::new("").listen)]
    listen: Vec<SocketAddr>,
    /// The address by which others reach this machine [default: the one it would itself send
    /// from].
    #[arg(long, value_name = "IP")]
    advertise_address: Option<IpAddr>,
    /// A further name or address the server's certificate is for; may be given more than once.
    #[arg(long, value_name = "NAME|IP")]
    tls_san: Vec<SubjectName>,
    /// Give services addresses of this range; with a comma, one of IPv4 and one of IPv6.
    #[arg(long, value_name = "CIDR[,CIDR]", value_delimiter = ',', default_values_t = ranges())]
    service_cidr: Vec<AddressRange>,
    /// Give services node ports of this range.
    #[arg(long, value_name = "FIRST-LAST", default_value_t = ServiceNetwork::default().node_ports())]
    service_node_port_range: PortRange,
    /// Take no more connections from one address, or one network of IPv6, at the same time. Connections
    /// from this machine are not counted.
    #[arg(long, value_name = "NUMBER", default_value_t = Config::new("").max_connections_per_address)]
    max_connections_per_address: usize,
    /// Let a created cluster store this many bytes unless it is created with another limit; or "unlimited".
    #[arg(long, value_name = "QUANTITY", value_parser = limits::parse, default_value = "1Gi")]
    cluster_max_bytes: Limit,
    /// Let a created cluster store this many objects unless it is created with another limit; or "unlimited".
    #[arg(long, value_name = "NUMBER", value_parser = limits::parse, default_value = "200000")]
    cluster_max_objects: Limit,
    /// Run no controllers: nothing is made of what is stored, unless by controllers of your own.
    #[arg(long)]
    disable_controller_manager: bool,
    /// Do not schedule pods.
    #[arg(long)]
    disable_scheduler: bool,
    /// Simulate so many nodes, whose pods run by rule; they are as given after a comma: cpu=, memory=,
    /// pods=, zones=, taint=KEY[=VALUE]:EFFECT, missing-image=NAME.
    #[arg(long, value_name = "NUMBER[,SETTING...]")]
    fake_nodes: Option<FakeNodes>,
    #[command(flatten)]
    authentication: AuthenticationArgs,
    #[command(flatten)]
    nodes: NodeArgs,
}

fn ranges() -> Vec<AddressRange> {
    ServiceNetwork::default().ranges().to_vec()
}

impl ServerArgs {
    /// Whether the server gets a directory of its own: its objects are in memory, and the user named no directory. In the
    /// default directory it would replace the kubeconfig of the cluster there.
    pub(crate) fn needs_temporary_dir(&self) -> bool {
        self.location.data_dir.data_dir.is_none() && self.location.store_config() == Ok(StoreConfig::Memory)
    }

    /// The settings, with `data_dir` instead of the directory that the user named or the default.
    pub(crate) fn config_in(&self, data_dir: &Path) -> Result<Config> {
        let location = Config { store: self.location.store_config()?, ..Config::new(data_dir) };
        self.apply_to(location)
    }

    pub(crate) fn config(&self) -> Result<Config> {
        self.apply_to(self.location.config()?)
    }

    fn apply_to(&self, location: Config) -> Result<Config> {
        Ok(Config {
            listen: self.listen.clone(),
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

/// The form of what is printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

/// Where the files of a cluster are.
#[derive(Debug, ClapArgs)]
pub(crate) struct DataDirArgs {
    /// The directory everything is kept in [default: /var/lib/coracle for root, else
    /// $XDG_DATA_HOME/coracle or ~/.local/share/coracle].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl DataDirArgs {
    /// The directory.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        match &self.data_dir {
            Some(dir) => Ok(dir.clone()),
            None => data_dir::of_user(),
        }
    }
}

/// Where the data of a cluster is.
#[derive(Debug, ClapArgs)]
pub(crate) struct LocationArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// Store the objects in files (disk), in memory only (memory), or in an etcd cluster. A server in memory without
    /// --data-dir keeps its certificates in a temporary directory, which it removes when it stops.
    #[arg(long, value_name = "disk|memory|etcd=URL[,URL...]", default_value = "disk")]
    store: String,
    #[command(flatten)]
    etcd: EtcdArgs,
}

/// What an etcd may ask for.
#[derive(Debug, ClapArgs)]
struct EtcdArgs {
    /// Trust the members of etcd whose certificates these authorities signed (PEM).
    #[arg(long, value_name = "FILE")]
    etcd_ca: Option<PathBuf>,
    /// Show this certificate to etcd (PEM).
    #[arg(long, value_name = "FILE", requires_all = ["etcd_key", "etcd_ca"])]
    etcd_cert: Option<PathBuf>,
    /// The private key of that certificate (PEM).
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,
    /// Log in to etcd as this user.
    #[arg(long, value_name = "NAME", requires = "etcd_password_file")]
    etcd_user: Option<String>,
    /// A file that holds the password of that user.
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

    /// Options that need each other come together, so what lacks its other half was not given.
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
    fn the_declaration_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_those_of_the_library() {
        assert_eq!(config("coracle up --data-dir /d").unwrap(), Config::new("/d"));
    }

    #[test]
    fn addresses_add_up() {
        let config = config("coracle up --data-dir /d --listen 127.0.0.1:0 --listen [::1]:80").unwrap();
        assert_eq!(config.listen, ["127.0.0.1:0".parse().unwrap(), "[::1]:80".parse().unwrap()]);
    }

    #[test]
    fn names_reach_the_config() {
        let line = "coracle up --data-dir /d --advertise-address ::1 --tls-san a.example --tls-san 192.0.2.1";
        let config = config(line).unwrap();
        assert_eq!(config.advertise_address, Some("::1".parse().unwrap()));
        assert_eq!(config.tls_sans, ["a.example".parse().unwrap(), "192.0.2.1".parse().unwrap()]);
        assert!(self::config("coracle up --data-dir /d --tls-san a_b").is_err());
    }

    #[test]
    fn ranges_reach_the_config() {
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
    fn controllers_and_scheduler_can_be_left_out() {
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
    fn simulated_nodes_reach_the_config() {
        let nodes = config("coracle up --data-dir /d --fake-nodes 5,cpu=2").unwrap().fake_nodes.unwrap();
        assert_eq!((nodes.count, &*nodes.cpu), (5, "2"));
        assert!(config("coracle up --data-dir /d --fake-nodes many").is_err());
    }

    #[test]
    fn credentials_need_an_etcd_and_their_other_half() {
        let error = config("coracle up --data-dir /d --etcd-ca /ca").unwrap_err();
        assert_eq!(error.to_string(), "--etcd-ca needs --store etcd=URL");
        assert!(config("coracle up --data-dir /d --store etcd=http://a:1 --etcd-user me").is_err());
        assert!(
            config("coracle up --data-dir /d --store etcd=http://a:1 --etcd-ca /ca --etcd-key /k").is_err()
        );
    }

    #[test]
    fn credentials_reach_the_config() {
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
