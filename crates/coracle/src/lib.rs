//! A whole Kubernetes to embed in a program: make a [`Config`], start it, use it, stop it.
//!
//! Nothing global is installed: no logger, signal handler or allocator. Any number of clusters
//! can live in one process, each with its own directory and ports.
//!
//! ```
//! # let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
//! # runtime.block_on(async {
//! use coracle::{Config, Coracle, StoreConfig};
//!
//! let mut config = Config::new("/nothing/is/written/there");
//! config.store = StoreConfig::Memory;
//! config.listen = vec!["127.0.0.1:0".parse()?];
//!
//! let cluster = Coracle::start(config).await?;
//! println!("http://{}/readyz", cluster.addresses()[0]);
//! cluster.shutdown().await;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod builder;
pub mod config;
mod error;
mod handle;
pub mod storage;
mod supervise;

pub use builder::Coracle;
pub use config::{Config, EtcdConfig, StoreConfig};
pub use error::{ConfigError, StartError, StorageError};
pub use handle::Handle;
pub use supervise::Failure;
