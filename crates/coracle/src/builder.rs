//! Assembly of a server from its [`Config`].

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use coracle_apiserver::admission::Plugin;
use coracle_apiserver::listen::{PlainOrTlsListener, TlsListener};
use coracle_apiserver::{ApiServer, Endpoint, Limits, Registry, RotatingSigner, Server, ServerInfo};
use coracle_base::{Backoff, Clock, ErrorChain, Rng, Task};
use coracle_controllers::{NodeCidrs, Settings, Trust};
use coracle_store::Store;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::authentication::{self, LoadedAuthentication};
use crate::config::{Config, StoreConfig};
use crate::data_dir;
use crate::error::StartError;
use crate::handle::Handle;
use crate::health;
use crate::in_process;
use crate::leader_election::{self, LeaderElected, Replica};
use crate::pki;
use crate::resource_metrics::Measurements;
use crate::rotation::{CurrentSigner, Rotation, Socket};
use crate::signing;
use crate::simulated_nodes::{self, RuleWarnings, SimulatedLogs, Simulation};
use crate::storage;
use crate::supervise::Components;

/// Initial and maximum backoff before cluster events of a failed store are followed again, as in informers.
const FIRST_RETRY: Duration = Duration::from_millis(800);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// Extensions by an embedding program.
#[derive(Clone, Default)]
pub struct Extensions {
    /// Admission plugins, which run after the built-in plugins and before policies and quotas.
    pub admission: Vec<Arc<dyn Plugin>>,
    /// Configuration of the scheduler with additional plugins.
    pub scheduler: coracle_scheduler::Config,
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.admission.iter().map(|plugin| plugin.name()).collect();
        f.debug_struct("Extensions").field("admission", &names).field("scheduler", &self.scheduler).finish()
    }
}

/// Starts servers in this process.
#[derive(Debug)]
pub struct Coracle;

impl Coracle {
    /// Starts a server and returns when it is ready. Needs a tokio runtime, which must not end before
    /// [`Handle::shutdown`].
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # let mut config = coracle::Config::new("/nothing/is/written/there");
    /// # config.store = coracle::StoreConfig::Memory;
    /// # config.listen.clear();
    /// let cluster = coracle::Coracle::start(config).await?;
    /// println!("ready in {} ms", cluster.ready_in().as_millis());
    /// cluster.shutdown().await;
    /// # Ok::<(), coracle::StartError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If an address cannot be bound, another server uses the data directory, the store cannot be opened,
    /// or there are no serving certificates; nothing is left running then.
    pub async fn start(config: Config) -> Result<Handle, StartError> {
        Self::start_with(config, Extensions::default()).await
    }

    /// Like [`Coracle::start`], with extensions of the embedding program.
    ///
    /// # Errors
    /// As for [`Coracle::start`].
    pub async fn start_with(config: Config, extensions: Extensions) -> Result<Handle, StartError> {
        extensions.scheduler.check()?;
        config.check_insecure_http()?;
        let clock = Clock::system();
        let began = clock.now();
        // Before the store is opened, which may take long, so that an address in use is reported at once.
        let (listeners, addresses) = bind(&config.listen).await?;
        // Before anything in the directory is read or written: a second server, whatever its store, must
        // not touch the certificates and the kubeconfig of the first.
        let data_dir =
            if uses_data_dir(&config) { Some(data_dir::lock(&config.data_dir).await?) } else { None };
        let store = storage::open(&config).await?;
        let network = config.service_network.clone();
        let (node_monitor, node_cidrs) = (config.node_monitor.clone(), node_cidrs(&config));
        let max_connections_per_address = config.max_connections_per_address;
        let cluster_limits = config.cluster_limits;
        let insecure_http = config.insecure_http;
        let fake_nodes = config.fake_nodes.clone();
        let (controllers, scheduler) = (config.controllers, config.scheduler);
        // Disk and memory stores are exclusive to this process.
        let shares_store = matches!(config.store, StoreConfig::Etcd(_));
        let secured = match Secured::prepare(config, listeners, &addresses, &clock).await {
            Ok(secured) => secured,
            Err(error) => {
                close_unstarted(&store).await;
                return Err(error);
            }
        };

        let stopping = CancellationToken::new();
        let closing = CancellationToken::new();
        let registry = Registry::new(store.clone(), clock.clone(), Rng::from_entropy())
            .with_service_network(network)
            .with_default_limits(cluster_limits);
        let replica = shares_store.then(|| Replica::new(&registry.new_uid()));
        let measurements = Measurements::new(clock.clone());
        let rule_warnings = fake_nodes.is_some().then(|| Arc::new(RuleWarnings) as Arc<dyn Plugin>);
        let address = secured.urls.first().and_then(|url| url.strip_prefix("https://"));
        let service = ApiServer::new(health::checks(&store, &stopping), registry, clock.clone())
            .with_authentication(
                &secured.authentication.config,
                secured.token_signer.clone(),
                secured.authentication.policy_at(secured.urls.first().map(String::as_str)),
            )
            .with_external_address(address.map(str::to_owned))
            .with_plugins(extensions.admission.into_iter().chain(rule_warnings))
            .with_simulated_nodes(Arc::new(SimulatedLogs))
            .with_shutdown(closing.clone())
            .with_metrics_source(Arc::new(measurements.clone()));
        if let Err(error) = service.bootstrap(&secured.site).await {
            close_unstarted(&store).await;
            return Err(error.into());
        }
        let limits = Limits { max_connections_per_address, ..Limits::default() };
        let server = Server::new(service.clone(), limits).with_metrics(&service);
        let serve = |listener| {
            let (server, closing) = (server.clone(), closing.clone());
            if insecure_http {
                let listener = PlainOrTlsListener::new(listener, in_process::ADMINISTRATOR.identity());
                return Task::spawn("listener", server.serve(listener, closing));
            }
            Task::spawn("listener", server.serve(listener, closing))
        };
        let token_writer = Some(signing::token_writer(&service, secured.token_signer.clone()));
        let Secured { listeners, urls, kubeconfig, trust, signer, rotation, .. } = secured;
        let mut running: Vec<_> = listeners.into_iter().map(serve).collect();
        running
            .extend(rotation.map(|(rotation, socket)| {
                Task::spawn("certificates", rotation.run(socket, closing.clone()))
            }));
        running.extend(shares_store.then(|| follow_clusters(&service, &closing)));
        let components = Components::new(running);
        let ready_in = clock.now().since(began);
        // After the readiness time is taken: clients need not wait for the nodes.
        let nodes = simulated_nodes::provision(&service, fake_nodes.as_ref(), shares_store, &clock).await;
        let nodes = match nodes {
            Ok(nodes) => nodes,
            Err(error) => {
                closing.cancel();
                components.ended().await;
                close_unstarted(&store).await;
                return Err(StartError::FakeNodes(Box::new(error)));
            }
        };
        let simulation = fake_nodes.map(|_| Simulation::new(&service, clock.clone(), measurements));
        let scheduler =
            start_scheduler(&service, scheduler.then_some(extensions.scheduler), &clock, replica.as_ref());
        let signer = signer.map(|signer| signing::certificate_signer(&service, signer));
        let settings = Settings { clock, trust, signer, token_writer, node_monitor, node_cidrs };
        let controllers = start_controllers(&service, controllers, settings, simulation, replica.as_ref());
        let manager_metrics = [controllers.manager_metrics(), scheduler.manager_metrics()];
        service.add_metrics(move || leader_election::metrics(&manager_metrics));
        let activity = service.activity();
        let client = in_process::client(service.clone(), in_process::ADMINISTRATOR);
        Ok(Handle {
            addresses,
            urls,
            kubeconfig,
            ready_in,
            nodes,
            server: service,
            activity,
            client,
            controllers,
            scheduler,
            store,
            components,
            stopping,
            closing,
            data_dir,
        })
    }
}

/// A server with listeners keeps its certificates in the data directory, even if the objects are stored
/// elsewhere.
fn uses_data_dir(config: &Config) -> bool {
    !config.listen.is_empty() || config.store == StoreConfig::Disk
}

/// The pod address ranges of nodes, without those of services.
fn node_cidrs(config: &Config) -> Option<NodeCidrs> {
    let of_services =
        config.service_network.ranges().iter().filter_map(|range| range.to_string().parse().ok());
    Some(config.node_cidrs.clone()?.without(of_services.collect()))
}

/// Runs the controllers of all clusters if they are enabled, otherwise only those that belong to
/// kube-apiserver. The latter may run in several servers at once, so they do not take part in leader
/// election.
fn start_controllers(
    server: &ApiServer,
    are_wanted: bool,
    settings: Settings,
    simulation: Option<Simulation>,
    replica: Option<&Replica>,
) -> LeaderElected {
    let component = (server, in_process::CONTROLLERS);
    let clock = settings.clock.clone();
    let replica = replica.filter(|_| are_wanted || simulation.is_some());
    LeaderElected::start("kube-controller-manager", component, &clock, replica, move |manager, fence| {
        if are_wanted {
            coracle_controllers::register(manager, &settings);
        } else {
            coracle_controllers::register_api_server(manager, &settings);
        }
        if let Some(simulation) = &simulation {
            simulation.register(manager, fence);
        }
    })
}

/// Runs the scheduler of all clusters if it is enabled; otherwise takes no part in leader election.
fn start_scheduler(
    server: &ApiServer,
    wanted: Option<coracle_scheduler::Config>,
    clock: &Clock,
    replica: Option<&Replica>,
) -> LeaderElected {
    let component = (server, in_process::SCHEDULER);
    let its_clock = clock.clone();
    let replica = replica.filter(|_| wanted.is_some());
    LeaderElected::start("kube-scheduler", component, clock, replica, move |manager, _fence| {
        if let Some(config) = &wanted
            && let Err(error) = coracle_scheduler::register(manager, config, &its_clock)
        {
            // The configuration was checked before, so only a plugin factory that fails when it is called
            // again gets here.
            tracing::error!(%error, "cannot start the scheduler");
        }
    })
}

/// TLS listeners with the data clients need to connect to them, and the signer of service account tokens.
struct Secured {
    authentication: Arc<LoadedAuthentication>,
    token_signer: Arc<RotatingSigner>,
    listeners: Vec<TlsListener>,
    urls: Vec<String>,
    kubeconfig: Option<PathBuf>,
    /// Data about this server in shared objects.
    site: ServerInfo,
    /// The currently trusted authorities.
    trust: Option<watch::Receiver<Trust>>,
    /// The signer of certificate signing requests.
    signer: Option<Arc<CurrentSigner>>,
    /// The task that renews certificates.
    rotation: Option<(Rotation, Option<Socket>)>,
}

impl Secured {
    /// Prepares certificates. Without listeners none are needed, and nothing is written.
    async fn prepare(
        config: Config,
        listeners: Vec<TcpListener>,
        addresses: &[SocketAddr],
        clock: &Clock,
    ) -> Result<Self, StartError> {
        let settings = config.authentication.clone();
        let reading = move || authentication::load(&settings);
        let authentication = Arc::new(Task::spawn_blocking("authentication", reading).await??);
        if listeners.is_empty() {
            return Self::without_listeners(authentication);
        }
        let port = addresses.first().map(SocketAddr::port);
        let (addresses, now) = (addresses.to_vec(), clock.now());
        let (wanted, at) = (config.clone(), addresses.clone());
        let prepared = Task::spawn_blocking("pki", move || pki::prepare(&wanted, &at, now)).await??;
        let endpoint = port.and_then(|port| Endpoint::new(SocketAddr::new(prepared.advertised, port)));
        let front_proxy = authentication.front_proxy_data(&prepared.front_proxy_ca);
        let site = ServerInfo { endpoint, client_ca: Some(prepared.ca.clone()), front_proxy };
        let (urls, kubeconfig) = (prepared.urls.clone(), Some(prepared.kubeconfig.clone()));
        let socket = Socket::open(&config.data_dir);
        let loaded = Arc::clone(&authentication);
        let (rotation, parts) = Rotation::new(config, addresses, clock.clone(), loaded, prepared)?;
        Ok(Self {
            authentication,
            token_signer: parts.tokens,
            listeners: listeners.into_iter().map(|listener| parts.tls.listener(listener)).collect(),
            urls,
            kubeconfig,
            site,
            trust: Some(parts.trust),
            signer: Some(parts.signer),
            rotation: Some((rotation, socket)),
        })
    }

    fn without_listeners(authentication: Arc<LoadedAuthentication>) -> Result<Self, StartError> {
        let signer = authentication.signer(&pki::ephemeral_account_keys()?)?;
        Ok(Self {
            authentication,
            token_signer: Arc::new(RotatingSigner::new(signer)),
            listeners: Vec::new(),
            urls: Vec::new(),
            kubeconfig: None,
            site: ServerInfo::default(),
            trust: None,
            signer: None,
            rotation: None,
        })
    }
}

/// Frees the caches of clusters that other servers on the same store delete.
fn follow_clusters(service: &ApiServer, closing: &CancellationToken) -> Task<()> {
    let (service, closing) = (service.clone(), closing.clone());
    let backoff = Backoff::new(FIRST_RETRY, LAST_RETRY, Rng::from_entropy());
    Task::spawn("clusters", async move {
        closing.run_until_cancelled(service.follow_clusters(backoff)).await;
    })
}

async fn bind(addresses: &[SocketAddr]) -> Result<(Vec<TcpListener>, Vec<SocketAddr>), StartError> {
    let (mut listeners, mut bound) = (Vec::new(), Vec::new());
    for address in addresses.iter().copied() {
        let failed = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        bound.push(listener.local_addr().map_err(failed)?);
        listeners.push(listener);
    }
    Ok((listeners, bound))
}

/// Closes the store of a server that failed to start for another reason.
async fn close_unstarted(store: &Store) {
    if let Err(error) = store.close().await {
        tracing::error!(error = %ErrorChain(&error), "the store ended in failure");
    }
}
