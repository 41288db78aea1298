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
    // After an orderly shutdown nothing is left to wait for; after a second signal nothing
    // should be waited for.
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
        // Safe to drop: nothing is left running, and what is written is whole.
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
        // Safe to drop: may be asked again.
        failure = cluster.failed() => Err(Error::new(failure)),
        // Safe to drop: only waits.
        never = pages::give_back_when_quiet(&activity) => match never {},
    };
    let report = tokio::select! {
        // Dropped only when the user insists.
        report = cluster.shutdown() => report,
        // Safe to drop: only waits.
        signal = signals.next() => bail!("a second signal ({signal}) cut the shutdown short"),
    };
    // Why it stopped matters more than how the store ended, which is in the log.
    outcome?;
    report.store.context("the store ended in failure")?;
    tracing::info!("shutdown complete");
    Ok(())
}

/// Warns of plain HTTP on every start: it is easy to forget in a script.
fn warn_of_plain_http() {
    tracing::warn!(
        "--insecure-http: plain HTTP needs no credential, so any process on this machine is administrator of the cluster"
    );
}

fn announce(announcement: &Announcement<'_>) {
    // The cluster serves also if stdout is closed.
    if let Err(error) = print(&announcement.text()) {
        tracing::warn!(error = format!("{error:#}"), "cannot announce that the cluster is ready");
    }
}

/// Adds what to do about a failure to start.
fn explain(error: StartError, data_dir: &Path) -> Error {
    match error {
        StartError::Storage(StorageError::Store(StoreError::Damaged { .. })) => {
            let check = format!("coracle store check --data-dir {}", data_dir.display());
            anyhow!("{error}; for what to do, run: {check}")
        }
        StartError::Listen { ref source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
            let advice = "is another coracle running? --listen 127.0.0.1:0 picks a free port";
            Error::new(error).context(Advice(advice.to_owned()))
        }
        StartError::Config(error) => Error::new(error),
        _ => Error::new(error),
    }
}
