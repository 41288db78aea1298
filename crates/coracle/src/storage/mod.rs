//! Opening of stores: for a server, and for tools that work on a store while no server runs on it.

#[cfg(feature = "etcd")]
mod credentials;

use std::path::{Path, PathBuf};

pub use coracle_store::disk::{FileReport, Repaired, Report, Torn, TruncateAt, WayOut, check, repair};
pub use coracle_store::transfer::{Transferred, export, import};
pub use coracle_store::{Error as StoreError, Progress, Put, Revision, Stats, Store};
use coracle_store::{disk, memory};

use crate::config::{Config, EtcdConfig, StoreConfig};
use crate::data_dir;
use crate::error::StorageError;

/// The directory of the disk store within a data directory.
pub fn directory(data_dir: &Path) -> PathBuf {
    data_dir.join("store")
}

/// Opens the store of a server, which is created if needed.
pub(crate) async fn open(config: &Config) -> Result<Store, StorageError> {
    match &config.store {
        StoreConfig::Disk => {
            data_dir::prepare_store(&config.data_dir, &directory(&config.data_dir)).await?;
            Ok(disk::open(&directory(&config.data_dir), disk::Options::default()).await?)
        }
        StoreConfig::Memory => Ok(memory::open(memory::Options::default())),
        StoreConfig::Etcd(etcd) => connect(etcd).await,
    }
}

/// Opens an existing store, to read or copy from it.
///
/// # Errors
/// If there is none, if a server runs on it, or for [`StoreConfig::Memory`].
pub async fn open_existing(config: &Config) -> Result<Store, StorageError> {
    match &config.store {
        StoreConfig::Disk => {
            Ok(disk::open_existing(&directory(&config.data_dir), disk::Options::default()).await?)
        }
        StoreConfig::Memory => Err(StorageError::NothingKept),
        StoreConfig::Etcd(etcd) => connect(etcd).await,
    }
}

/// Opens a store to copy into, which is created if needed.
///
/// # Errors
/// If a server runs on it, or for [`StoreConfig::Memory`].
pub async fn open_or_create(config: &Config) -> Result<Store, StorageError> {
    match &config.store {
        StoreConfig::Memory => Err(StorageError::NothingKept),
        StoreConfig::Disk | StoreConfig::Etcd(_) => open(config).await,
    }
}

#[cfg(not(feature = "etcd"))]
async fn connect(_etcd: &EtcdConfig) -> Result<Store, StorageError> {
    Err(StorageError::EtcdNotBuilt)
}

#[cfg(feature = "etcd")]
async fn connect(etcd: &EtcdConfig) -> Result<Store, StorageError> {
    let options = credentials::etcd_options(etcd).await?;
    Ok(coracle_store::etcd::connect(options).await?)
}
