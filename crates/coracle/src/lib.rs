//! An embeddable Kubernetes control plane: build a [`Config`], start it, use it, stop it.
//!
//! It installs nothing global: no logger, signal handler or allocator. Any number of servers can run in one
//! process, each with its own directory and ports.
//!
//! All listeners use TLS, and clients authenticate with certificates. The certificates and an
//! administrator's kubeconfig are kept in the data directory, even if the objects are stored elsewhere.
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
mod leader_election;
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
/// Returned by [`Handle::activity`].
pub use coracle_apiserver::Activity;
/// For [`Extensions::admission`].
pub use coracle_apiserver::admission;
/// Returned by [`Handle::nodes_at_start`].
pub use coracle_fake_node::NodeSummary;
pub use coracle_runtime::IdleReport;
/// For [`Extensions::scheduler`].
pub use coracle_scheduler as scheduler;
pub use error::{AuthenticationError, ConfigError, PkiError, StartError, StorageError};
pub use handle::{Handle, ShutdownReport};
/// The kube crate in the version of [`Handle::client`].
pub use kube;
pub use supervise::Failure;
pub use trusted_files::UntrustedFile;
