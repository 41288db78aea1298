//! A running cluster, as its owner sees it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_store::Store;
use tokio_util::sync::CancellationToken;

use crate::supervise::{Components, Failure};

/// A running cluster. Dropped without [`Handle::shutdown`] it ends at once: what was
/// acknowledged is kept, requests in flight are cut off.
#[derive(Debug)]
pub struct Handle {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) urls: Vec<String>,
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) ready_in: Duration,
    pub(crate) store: Store,
    pub(crate) components: Components,
    /// Cancelled first: the cluster is not ready any more, but still answers.
    pub(crate) stopping: CancellationToken,
    /// Cancelled second: nothing more is accepted.
    pub(crate) closing: CancellationToken,
}

impl Handle {
    /// Where the API is served, with the ports that were picked, in the order of the config.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where clients find the API, one for each address. Addresses that mean all interfaces are
    /// replaced by the one that is advertised.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// The file with which an administrator gets in; none if nothing listens.
    pub fn kubeconfig(&self) -> Option<&Path> {
        self.kubeconfig.as_deref()
    }

    /// How long it took to start.
    pub fn ready_in(&self) -> Duration {
        self.ready_in
    }

    /// Waits until the cluster fails, which it should not, and says why. It then wants to be
    /// shut down. May be dropped and asked again.
    pub async fn failed(&mut self) -> Failure {
        self.components.first_failure().await
    }

    /// Stops the cluster: reports not ready, accepts nothing more, answers what is in flight
    /// (for a limited time), closes the store. When it returns nothing is left running, and the
    /// same directory and ports may be used again.
    pub async fn shutdown(self) {
        self.stopping.cancel();
        self.closing.cancel();
        self.components.ended().await;
        self.store.close().await;
    }
}
