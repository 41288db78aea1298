//! The handle of a running server.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use coracle_apiserver::{
    Activity, ApiServer, ClusterInfo, ClusterReference, LimitsChange, RegistryError, UnknownCluster,
};
use coracle_base::ErrorChain;
use coracle_fake_node::NodeSummary;
use coracle_runtime::IdleReport;
use coracle_store::{Error as StoreError, RangeRequest, Store};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::data_dir::DataDirLock;
use crate::leader_election::LeaderElected;
use crate::supervise::{Components, Failure};

/// A running server. Dropped without [`Handle::shutdown`] it ends at once: acknowledged writes are kept,
/// requests in flight are cut off.
pub struct Handle {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) urls: Vec<String>,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) ready_in: Duration,
    pub(crate) nodes: NodeSummary,
    pub(crate) server: ApiServer,
    pub(crate) activity: Arc<Activity>,
    pub(crate) client: Client,
    pub(crate) controllers: LeaderElected,
    pub(crate) scheduler: LeaderElected,
    pub(crate) store: Store,
    pub(crate) components: Components,
    /// Cancelled first: the server reports not ready, but still answers.
    pub(crate) stopping: CancellationToken,
    /// Cancelled second: watches end, requests are drained, and new connections get a hint to retry.
    pub(crate) closing: CancellationToken,
    /// The last field, so that it is dropped last. None if the data directory is not used.
    pub(crate) data_dir: Option<DataDirLock>,
}

impl Handle {
    /// The listening addresses with their actual ports, in the order of the configuration.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The URL of each listening address. Unspecified addresses are replaced by the advertised one.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The administrator's kubeconfig; none without listeners.
    pub fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    /// The duration of the start.
    pub fn ready_in(&self) -> Duration {
        self.ready_in
    }

    /// The nodes of the default cluster after the start. Simulated nodes of an earlier start that
    /// [`Config::fake_nodes`](crate::Config::fake_nodes) does not name are deleted by then.
    pub fn nodes_at_start(&self) -> NodeSummary {
        self.nodes
    }

    /// Request activity, including that of the server's own controllers: for programs that free resources
    /// while the server is idle.
    pub fn activity(&self) -> Arc<Activity> {
        Arc::clone(&self.activity)
    }

    /// A client with administrator rights that calls the server in-process, without a network connection.
    /// It works until the server is shut down.
    ///
    /// Exec, attach and port-forward need a connection and do not work with it.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # use coracle::{Config, Coracle, StoreConfig};
    /// use coracle::kube::{Api, api::ListParams};
    /// use k8s_openapi::api::core::v1::Namespace;
    ///
    /// # let mut config = Config::new("/nothing/is/written/there");
    /// # config.store = StoreConfig::Memory;
    /// # config.listen.clear();
    /// let cluster = Coracle::start(config).await?;
    /// let namespaces = Api::<Namespace>::all(cluster.client());
    /// assert!(!namespaces.list(&ListParams::default()).await?.items.is_empty());
    /// cluster.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The cluster with this id, for credentials that are to be valid in it and in none that is created later
    /// under the same id.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # use coracle::{Config, Coracle, StoreConfig};
    /// # use coracle::certs::{ClusterReference, CredentialScope};
    /// # let mut config = Config::new("/nothing/is/written/there");
    /// # config.store = StoreConfig::Memory;
    /// # config.listen.clear();
    /// let cluster = Coracle::start(config).await?;
    /// let reference = cluster.cluster_reference("default")?;
    /// assert_eq!(CredentialScope::from(reference), CredentialScope::DefaultCluster);
    /// cluster.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If there is no such cluster.
    pub fn cluster_reference(&self, id: &str) -> Result<ClusterReference, UnknownCluster> {
        self.server.cluster_reference(id)
    }

    /// Creates an empty cluster, which is served at `/clusters/<id>/`. Limits that are left out are those
    /// of
    /// [`Config::cluster_limits`](crate::Config::cluster_limits).
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    /// # runtime.block_on(async {
    /// # use coracle::{Config, Coracle, StoreConfig};
    /// # use coracle::clusters::LimitsChange;
    /// # let mut config = Config::new("/nothing/is/written/there");
    /// # config.store = StoreConfig::Memory;
    /// # config.listen.clear();
    /// let server = Coracle::start(config).await?;
    /// server.create_cluster("team-a", LimitsChange::default()).await?;
    /// let ids: Vec<_> = server.clusters().await?.into_iter().map(|cluster| cluster.id).collect();
    /// assert_eq!(ids, ["default", "team-a"]);
    /// server.delete_cluster("team-a").await?;
    /// server.shutdown().await;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the id is invalid or taken, or the store fails.
    pub async fn create_cluster(&self, id: &str, limits: LimitsChange) -> Result<ClusterInfo, RegistryError> {
        self.server.registry().create_cluster(id, limits).await
    }

    /// Deletes a cluster with all of its objects, and frees everything that is cached of it. Credentials of
    /// the cluster are not valid in one that is created later under the same id.
    ///
    /// # Errors
    /// If there is no such cluster, it is the default one, or the store fails.
    pub async fn delete_cluster(&self, id: &str) -> Result<(), RegistryError> {
        self.server.delete_cluster(id).await
    }

    /// Changes the limits of a cluster, the default one included.
    ///
    /// # Errors
    /// If there is no such cluster, or the store fails.
    pub async fn set_cluster_limits(
        &self,
        id: &str,
        limits: LimitsChange,
    ) -> Result<ClusterInfo, RegistryError> {
        self.server.registry().set_cluster_limits(id, limits).await
    }

    /// All clusters of the server with their limits and usage, the default one first.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn clusters(&self) -> Result<Vec<ClusterInfo>, RegistryError> {
        self.server.registry().cluster_infos().await
    }

    /// Waits until controllers and scheduler are idle: they have seen all writes so far and have completed
    /// the resulting reconciles. For tests, which then need no sleeps. If several servers share a store and
    /// another one is the leader, it waits until this one is.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn run_until_idle(&self) -> kube::Result<IdleReport> {
        loop {
            let controllers = self.controllers.run_until_idle().await?;
            let scheduler = self.scheduler.run_until_idle().await?;
            // Nothing was written between the two.
            if controllers.revision == scheduler.revision {
                return Ok(IdleReport {
                    revision: scheduler.revision,
                    reconciles: controllers.reconciles + scheduler.reconciles,
                    delayed: controllers.delayed + scheduler.delayed,
                });
            }
        }
    }

    /// All keys in the store, of all clusters, in order. For tests that check for leftovers.
    ///
    /// # Errors
    /// If the store fails.
    #[doc(hidden)]
    pub async fn stored_keys(&self) -> Result<Vec<String>, StoreError> {
        let range = self.store.range(RangeRequest::prefix("")).await?;
        Ok(range.entries.iter().map(|entry| String::from_utf8_lossy(entry.key()).into_owned()).collect())
    }

    /// Waits until a component fails, which it should not, and returns its failure. The server should then
    /// be shut down. Cancel-safe; may be called again.
    pub async fn failed(&mut self) -> Failure {
        tokio::select! {
            // All are cancel-safe: they only wait.
            failure = self.components.first_failure() => failure,
            failure = self.controllers.failed() => failure,
            failure = self.scheduler.failed() => failure,
        }
    }

    /// Stops the server, in this order: reports not ready; stops scheduler and controllers while the API
    /// still answers them; ends all watches cleanly; answers the requests in flight, for a limited time,
    /// and new connections with a hint to retry; closes the store; unlocks the data directory. When it
    /// returns nothing is left running, and the same directory and ports may be used again.
    ///
    /// The report contains the error of closing the store, if there is one. A program that runs the cluster
    /// should then exit with a code other than zero, so that its supervisor and its operator notice.
    pub async fn shutdown(self) -> ShutdownReport {
        self.stopping.cancel();
        for elected in [self.scheduler, self.controllers] {
            elected.stop().await;
        }
        self.closing.cancel();
        self.components.ended().await;
        let store = self.store.close().await;
        if let Err(error) = &store {
            tracing::error!(error = %ErrorChain(error), "the store ended in failure");
        }
        drop(self.data_dir);
        ShutdownReport { store }
    }
}

/// The result of a shutdown.
#[derive(Debug)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// The error of closing the store: its files could no longer be written, or etcd did not respond.
    pub store: Result<(), StoreError>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("addresses", &self.addresses)
            .field("components", &self.components)
            .finish_non_exhaustive()
    }
}
