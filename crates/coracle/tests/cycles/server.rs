//! The server that the cycles run on.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use coracle::config::ServiceNetwork;
use coracle::kube::Client;
use coracle::{Config, Coracle, Handle, StoreConfig};
use tempfile::TempDir;

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(60);

/// 14 addresses, so that a few leaked ones exhaust the range.
const SERVICE_CIDR: &str = "10.0.0.0/28";

/// For the same reason.
const NODE_PORTS: &str = "30000-30003";

/// A running server with all controllers, which does not listen.
pub(crate) struct Server {
    handle: Handle,
    dir: TempDir,
}

impl Server {
    pub(crate) async fn start(store: StoreConfig) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (range, ports) = (SERVICE_CIDR.parse().unwrap(), NODE_PORTS.parse().unwrap());
        let service_network = ServiceNetwork::new(vec![range], ports).unwrap();
        let mut config = Config { store, service_network, ..Config::new(dir.path()) };
        config.listen.clear();
        Self { handle: Coracle::start(config).await.unwrap(), dir }
    }

    pub(crate) fn client(&self) -> Client {
        self.handle.client()
    }

    /// Waits until controllers and scheduler are idle.
    pub(crate) async fn idle(&self) {
        let idle = tokio::time::timeout(LIMIT, self.handle.run_until_idle()).await;
        idle.expect("the controllers become idle").unwrap();
    }

    /// The keys in the store when all controllers are idle.
    pub(crate) async fn keys(&self) -> BTreeSet<String> {
        self.idle().await;
        self.handle.stored_keys().await.unwrap().into_iter().collect()
    }

    /// Stops the server, and returns the names of the files it leaves, without numbers that grow with the
    /// log.
    pub(crate) async fn stop(self) -> BTreeSet<String> {
        let report = self.handle.shutdown().await;
        report.store.unwrap();
        let mut files = BTreeSet::new();
        collect_files(self.dir.path(), self.dir.path(), &mut files);
        files
    }
}

fn collect_files(root: &Path, dir: &Path, files: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_files(root, &path, files);
        } else {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            files.insert(name.trim_end_matches(|letter: char| letter.is_ascii_hexdigit()).to_owned());
        }
    }
}
