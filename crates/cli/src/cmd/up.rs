//! `coracle up`: a cluster, until a signal or its own failure ends it.

use std::path::{self, Path};

use anyhow::{Context, Error, Result, anyhow, bail};
use coracle::storage::StoreError;
use coracle::{Config, Coracle, Handle, StartError, StorageError};
use tempfile::TempDir;

use super::{print, runtime};
use crate::args::ServerArgs;
use crate::data_dir;
use crate::pages;
use crate::shell;
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
    let mut signals = Signals::install()?;
    let data_dir = config.data_dir.clone();
    let mut cluster = tokio::select! {
        // Safe to drop: nothing is left running, and what is written is whole.
        started = Coracle::start(config) => started.map_err(|error| explain(error, &data_dir))?,
        // Safe to drop: only waits.
        signal = signals.next() => {
            tracing::info!(signal, "stopped before it was ready");
            return Ok(());
        }
    };
    announce(&cluster);
    let activity = cluster.activity();
    let outcome = tokio::select! {
        // Safe to drop: only waits.
        signal = signals.next() => {
            tracing::info!(signal, "shutting down; a second signal ends it at once");
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
    tracing::info!("shut down in order");
    Ok(())
}

/// Tells the user where the cluster is and what to do next.
fn announce(cluster: &Handle) {
    let urls = cluster.urls().join(", ");
    let mut text = format!("ready in {} ms at {urls}\n", cluster.ready_in().as_millis());
    if let Some(kubeconfig) = cluster.kubeconfig() {
        // Good in any directory, for it may be pasted elsewhere.
        let path = path::absolute(kubeconfig).unwrap_or_else(|_| kubeconfig.to_owned());
        text.push_str(&format!("export KUBECONFIG={}\n", shell::quoted(&path.to_string_lossy())));
    }
    // A cluster is of use also to those who do not listen.
    if let Err(error) = print(&text) {
        tracing::warn!(error = format!("{error:#}"), "cannot say that it is ready");
    }
}

/// Damage is the one failure that needs a look before it can be mended.
fn explain(error: StartError, data_dir: &Path) -> Error {
    let damaged = matches!(error, StartError::Storage(StorageError::Store(StoreError::Damaged { .. })));
    if damaged {
        let check = format!("coracle store check --data-dir {}", data_dir.display());
        anyhow!("{error}; for what to do, run: {check}")
    } else {
        Error::new(error)
    }
}
