//! `coracle store`: tools for the data of a stopped cluster.

mod check;
mod export;
mod import;
mod repair;
mod stat;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Subcommand;
use coracle::{Config, StoreConfig, storage};

use super::{print, runtime};
use crate::args::LocationArgs;
use crate::signals::Signals;

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Print revision, number of objects and size.
    #[command(after_help = "Example:\n  coracle store stat -o json | jq .revision")]
    Stat(stat::StatArgs),
    /// Verify the integrity of all data files (read-only).
    #[command(after_help = "Example:\n  coracle store check --data-dir ./data")]
    Check(LocationArgs),
    /// Copy all objects to a file.
    #[command(after_help = "Example, a move from disk to etcd:\n  coracle store export objects.export\n  \
        coracle store import objects.export --store etcd=http://10.0.0.1:2379")]
    Export(export::ExportArgs),
    /// Copy all objects from a file that `export` wrote into an empty store.
    #[command(after_help = "Example:\n  coracle store import objects.export --data-dir ./fresh")]
    Import(import::ImportArgs),
    /// Truncate the log at a corrupt record reported by `check`.
    #[command(after_help = "Example:\n  coracle store repair --truncate-at log-0000000000000001:8192\n\n\
        The truncated data is kept in files beside the log.")]
    Repair(repair::RepairArgs),
}

pub(crate) fn run(command: &StoreCommand) -> Result<()> {
    match command {
        StoreCommand::Stat(args) => stat::run(args),
        StoreCommand::Check(location) => check::run(location),
        StoreCommand::Export(args) => export::run(args),
        StoreCommand::Import(args) => import::run(args),
        StoreCommand::Repair(args) => repair::run(args),
    }
}

/// Configuration of a store whose data outlives the server; rejects the memory store.
fn persistent_config(location: &LocationArgs) -> Result<Config> {
    let config = location.config()?;
    if config.store == StoreConfig::Memory {
        bail!("the memory store has no data outside of the running server; use --store disk or etcd=URL");
    }
    Ok(config)
}

/// Data directory of a disk store, and the directory of the store in it.
fn on_disk(location: &LocationArgs) -> Result<(PathBuf, PathBuf)> {
    let config = persistent_config(location)?;
    if config.store != StoreConfig::Disk {
        bail!("this command needs the disk store; use etcdutl for etcd");
    }
    let directory = storage::directory(&config.data_dir);
    Ok((config.data_dir, directory))
}

/// Runs `work` until it ends or a signal interrupts it. Interrupted work is dropped, and its destructors clean up.
fn until_interrupted(work: impl Future<Output = Result<()>>, left_behind: &str) -> Result<()> {
    runtime()?.block_on(async {
        let mut signals = Signals::install()?;
        tokio::select! {
            // Dropped only after a signal.
            outcome = work => outcome,
            // Safe to drop: only waits.
            signal = signals.next() => bail!("interrupted by {signal}; {left_behind}"),
        }
    })
}
