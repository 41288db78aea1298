//! Assembly: from a [`Config`] to a running cluster.

use std::net::SocketAddr;

use coracle_apiserver::{ApiServer, HealthChecks, Limits, Server};
use coracle_base::{Clock, Task};
use coracle_store::Store;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::error::StartError;
use crate::handle::Handle;
use crate::storage;
use crate::supervise::Components;

/// The key the health check reads. No object lies there, for all keys of objects have a slash.
const HEALTH_KEY: &str = "health";

/// A cluster in this process.
#[derive(Debug)]
pub struct Coracle;

impl Coracle {
    /// Starts a cluster and returns when it is ready. Needs a tokio runtime, which must not end
    /// before [`Handle::shutdown`].
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
    /// If an address is not to be had or the store does not open; nothing is left running then.
    pub async fn start(config: Config) -> Result<Handle, StartError> {
        let clock = Clock::system();
        let began = clock.now();
        // Before the store is opened, which may take long: an address in use should not.
        let (listeners, addresses) = bind(&config.listen).await?;
        let store = storage::open(&config).await?;

        let stopping = CancellationToken::new();
        let closing = CancellationToken::new();
        let service = ApiServer::new(health(&store, &stopping));
        let server = Server::new(service, Limits::default());
        let serve = |listener| Task::spawn("listener", server.clone().serve(listener, closing.clone()));
        let components = Components::new(listeners.into_iter().map(serve).collect());
        let ready_in = clock.now().since(began);
        Ok(Handle { addresses, ready_in, store, components, stopping, closing })
    }
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

fn health(store: &Store, stopping: &CancellationToken) -> HealthChecks {
    let mut health = HealthChecks::new(stopping.clone());
    let store = store.clone();
    health.register("store", move || {
        let store = store.clone();
        async move { store.get(HEALTH_KEY).await.map(drop).map_err(|error| error.to_string()) }
    });
    health
}
