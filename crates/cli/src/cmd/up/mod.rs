//! `coracle up`: runs a cluster until a signal or its own failure ends it.

mod announcement;

use std::io;
use std::path::Path;

use anyhow::{Context, Error, Result, anyhow, bail};
use coracle::storage::StoreError;
use coracle::{Config, Coracle, StartError, StorageError};
use tempfile::TempDir;

use self::announcement::Announcement;
use super::{print, runtime};
use crate::args::ServerArgs;
use crate::data_dir;
use crate::failure::Advice;
use crate::pages;
use crate::signals::Signals;

pub(crate) fn run(args: &ServerArgs) -> Result<()> {
    let temporary = if args.needs_temporary_dir() { Some(data_dir::temporary()?) } else { None };
    let config = match &temporary {
        Some(dir) => args.config_in(dir.path())?,
        None => args.config()?,
    };
    let runtime = runtime()?;
    let outcome = runtime.block_on(serve(config));
    // After an orderly shutdown no task is left to wait for, and after a second signal the user does not want to
    // wait.
    runtime.shutdown_background();
    if let Some(dir) = temporary {
        remove(dir);
    }
    outcome
}

fn remove(temporary: TempDir) {
    let path = temporary.path().to_owned();
    if let Err(error) = temporary.close() {
        tracing::warn!(path = %path.display(), %error, "cannot remove the temporary directory");
    }
}

async fn serve(config: Config) -> Result<()> {
    let mut signals = Signals::install_for_server()?;
    let started_with = config.clone();
    let mut cluster = tokio::select! {
        // Safe to drop: no task stays running, and all written data is complete.
        started = Coracle::start(config) => started.map_err(|error| explain(error, &started_with.data_dir))?,
        // Safe to drop: only waits.
        signal = signals.next() => {
            tracing::info!(signal, "stopped before the cluster was ready");
            return Ok(());
        }
    };
    if started_with.insecure_http {
        warn_of_plain_http();
    }
    announce(&Announcement {
        ready_in: cluster.ready_in(),
        urls: cluster.urls(),
        kubeconfig: cluster.kubeconfig(),
        config: &started_with,
        nodes: cluster.nodes_at_start(),
    });
    let activity = cluster.activity();
    let outcome = tokio::select! {
        // Safe to drop: only waits.
        signal = signals.next() => {
            tracing::info!(signal, "shutting down (press Ctrl-C again to force)");
            Ok(())
        }
        // Safe to drop: cancel-safe, and may be called again.
        failure = cluster.failed() => Err(Error::new(failure)),
        // Safe to drop: only waits.
        never = pages::release_when_idle(&activity) => match never {},
    };
    let report = tokio::select! {
        // Dropped only after a second signal.
        report = cluster.shutdown() => report,
        // Safe to drop: only waits.
        signal = signals.next() => bail!("a second signal ({signal}) interrupted the shutdown"),
    };
    // The error that stopped the cluster takes precedence; that of the store is in the log.
    outcome?;
    report.store.context("the store failed")?;
    tracing::info!("shutdown complete");
    Ok(())
}

/// Warns about plain HTTP on every start, because the flag is easily forgotten in a script.
fn warn_of_plain_http() {
    tracing::warn!(
        "--insecure-http: plain HTTP needs no credential, so any process on this machine is administrator of the cluster"
    );
}

fn announce(announcement: &Announcement<'_>) {
    // The cluster keeps serving if stdout is closed.
    if let Err(error) = print(&announcement.text()) {
        tracing::warn!(error = format!("{error:#}"), "cannot announce that the cluster is ready");
    }
}

/// Adds advice to an error at startup.
fn explain(error: StartError, data_dir: &Path) -> Error {
    match error {
        StartError::Storage(StorageError::Store(StoreError::Damaged { .. })) => {
            let check = format!("coracle store check --data-dir {}", data_dir.display());
            anyhow!("{error}; for repair instructions, run: {check}")
        }
        StartError::Listen { ref source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
            let advice = "is another coracle running? --listen 127.0.0.1:0 picks a free port";
            Error::new(error).context(Advice(advice.to_owned()))
        }
        StartError::Config(error) => Error::new(error),
        _ => Error::new(error),
    }
}
