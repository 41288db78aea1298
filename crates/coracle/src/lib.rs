//! A whole Kubernetes to embed in a program: make a [`Config`], start it, use it, stop it.
//!
//! Nothing global is installed: no logger, signal handler or allocator. Any number of clusters
//! can live in one process, each with its own directory and ports.
//!
//! What listens is encrypted, and clients prove by certificates who they are. Those, and a
//! kubeconfig for the administrator, lie in the data directory, also if the objects do not.
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! use coracle::{Config, Coracle, StoreConfig};
//!
//! # let dir = tempfile::tempdir()?;
//! # let data_dir = dir.path();
//! let mut config = Config::new(data_dir);
//! config.store = StoreConfig::Memory;
//! config.listen = vec!["127.0.0.1:0".parse()?];
//!
//! let cluster = Coracle::start(config).await?;
//! println!("{} is at {}", cluster.kubeconfig().expect("it listens").display(), cluster.urls()[0]);
//! cluster.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod advertise;
pub mod authentication;
mod builder;
pub mod certs;
mod cluster_name;
pub mod clusters;
pub mod config;
mod data_dir;
mod error;
mod handle;
mod health;
mod in_process;
mod managed;
mod pki;
mod resource_metrics;
mod rotation;
mod signing;
mod simulated_nodes;
pub mod storage;
mod subject_name;
mod supervise;
pub mod tokens;
mod trusted_files;

pub use builder::{Coracle, Extensions};
pub use config::{Config, EtcdConfig, StoreConfig};
/// What [`Handle::activity`] tells.
pub use coracle_apiserver::Activity;
/// What [`Extensions::admission`] is made of.
pub use coracle_apiserver::admission;
/// The nodes that [`Handle::nodes_at_start`] counts.
pub use coracle_kubelet::fake::NodeSummary;
pub use coracle_runtime::IdleReport;
/// What [`Extensions::scheduler`] is made of.
pub use coracle_scheduler as scheduler;
pub use error::{AuthenticationError, ConfigError, PkiError, StartError, StorageError};
pub use handle::{Handle, ShutdownReport};
/// The crate of [`Handle::client`], in the version that fits.
pub use kube;
pub use supervise::Failure;
pub use trusted_files::UntrustedFile;
