//! The log, on stderr: stdout is for what the user asked for.

use std::io::{self, IsTerminal};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// The variable that says what is logged.
const FILTER_VARIABLE: &str = "CORACLE_LOG";

/// Installs the logger of this process.
pub(crate) fn init() {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .with_env_var(FILTER_VARIABLE)
        .from_env_lossy();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
}
