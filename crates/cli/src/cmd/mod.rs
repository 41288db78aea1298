//! The commands. Each takes its parsed arguments and returns when it is done.

mod api_client;
pub(crate) mod certs;
pub(crate) mod cluster;
mod completion;
pub(crate) mod kubeconfig;
pub(crate) mod store;
pub(crate) mod token;
mod up;

use std::io::{self, Write};

use anyhow::{Context, Result};
use tokio::runtime::Runtime;

use crate::args::Command;
use crate::version;

/// Dispatches a command.
pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Up(args) | Command::Server(args) => up::run(args),
        Command::Store(command) => store::run(command),
        Command::Certs(command) => certs::run(command),
        Command::Cluster(command) => cluster::run(command),
        Command::Kubeconfig(command) => kubeconfig::run(command),
        Command::Token(command) => token::run(command),
        Command::Completion(args) => completion::run(args),
        Command::Version => print(&format!("coracle {}\n", version::TEXT)),
    }
}

/// Writes to stdout. Unlike `print!` it does not panic if stdout is closed.
fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.context("cannot write to stdout")
}

fn runtime() -> Result<Runtime> {
    Runtime::new().context("cannot start the runtime")
}
