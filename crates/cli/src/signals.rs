//! Signal handling: SIGINT and SIGTERM stop the process; servers ignore SIGHUP.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Signal handlers. No signal is missed from the moment they are installed.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None if SIGHUP has its default action, which ends the process.
    hangup: Option<Signal>,
}

impl Signals {
    pub(crate) fn install() -> Result<Self> {
        let interrupt = handler(SignalKind::interrupt())?;
        let terminate = handler(SignalKind::terminate())?;
        Ok(Self { interrupt, terminate, hangup: None })
    }

    /// Installs handlers for a server, which also ignores SIGHUP: it keeps running when its terminal is closed.
    pub(crate) fn install_for_server() -> Result<Self> {
        Ok(Self { hangup: Some(handler(SignalKind::hangup())?), ..Self::install()? })
    }

    /// Waits for the next signal that stops the process and returns its name. Safe to drop.
    pub(crate) async fn next(&mut self) -> &'static str {
        loop {
            tokio::select! {
                // SIGHUP first, so that it is logged even if SIGTERM follows at once.
                biased;
                // Safe to drop: a signal is kept until it is received.
                () = next_hangup(&mut self.hangup) => {
                    tracing::info!("ignoring SIGHUP; Ctrl-C or SIGTERM stops the server");
                }
                // Safe to drop: a signal is kept until it is received.
                _ = self.interrupt.recv() => return "SIGINT",
                // Safe to drop: a signal is kept until it is received.
                _ = self.terminate.recv() => return "SIGTERM",
            }
        }
    }
}

fn handler(kind: SignalKind) -> Result<Signal> {
    signal(kind).context("cannot install a signal handler")
}

async fn next_hangup(hangup: &mut Option<Signal>) {
    match hangup {
        Some(hangup) => drop(hangup.recv().await),
        None => std::future::pending().await,
    }
}
