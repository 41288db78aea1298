//! The signals that ask this process to end.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both of them, from the moment this was made: none that comes later is missed.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    pub(crate) fn install() -> Result<Self> {
        let install = |kind| signal(kind).context("cannot listen for signals");
        let interrupt = install(SignalKind::interrupt())?;
        let terminate = install(SignalKind::terminate())?;
        Ok(Self { interrupt, terminate })
    }

    /// The name of the next one. Safe to drop.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            // Safe to drop: a signal is kept until it is received.
            _ = self.interrupt.recv() => "SIGINT",
            // Safe to drop: a signal is kept until it is received.
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}
