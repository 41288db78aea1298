//! Measures throughput and latency of creates, reads, patches, lists and watches on any Kubernetes API server.
//!
//! `coracle-bench --kubeconfig FILE` measures a running server; `coracle-bench compare` (called by `cargo xtask bench
//! api`) starts Coracle and kube-apiserver and measures both.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "figures go to stdout and progress to stderr; output of a command line program"
)]

mod attack;
mod client;
mod compare;
mod custom;
mod kubeconfig;
mod load;
mod objects;
mod report;
mod servers;
mod usage;
mod watching;
mod workload;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};

use crate::client::Connector;
use crate::kubeconfig::Kubeconfig;
use crate::load::Target;
use crate::report::{Report, tables};
use crate::usage::Processes;
use crate::workload::Workload;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Benchmark of Kubernetes API servers.
#[derive(Parser, Debug)]
#[command(name = "coracle-bench", args_conflicts_with_subcommands = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    drive: Drive,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Start servers and measure them one after the other.
    Compare(compare::Compare),
    /// Start Coracle, attack it, and measure the latency of other users.
    Attack(attack::Options),
}

/// Measure a running server.
#[derive(Args, Debug)]
struct Drive {
    /// Kubeconfig of the server.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context to use [default: the current one].
    #[arg(long)]
    context: Option<String>,
    /// Process id of the server, to report its CPU time; may be repeated.
    #[arg(long)]
    pid: Vec<u32>,
    #[command(flatten)]
    workload: workload::Options,
}

impl Drive {
    fn run(&self) -> Result<Report> {
        let path = self.kubeconfig.as_deref().context("no server given: pass --kubeconfig")?;
        let config = Kubeconfig::read(path, self.context.as_deref())?;
        let target = Target {
            name: config.server.clone(),
            connector: Connector::new(&config)?,
            processes: Processes(self.pid.clone()),
        };
        let (mut report, workload) = (Report::new(&target.name), Workload::new(&self.workload));
        workload.prepare(&target)?;
        let measured = workload.drive(&target, &mut report);
        let cleaned_up = workload.clean_up(&target).context("deleting the benchmark's objects");
        measured.and(cleaned_up).map(|()| report)
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let reports = match &arguments.command {
        Some(Command::Attack(attack)) => return attacked(attack),
        Some(Command::Compare(compare)) => compare.run(),
        None => arguments.drive.run().map(|report| vec![report]),
    };
    match reports {
        Ok(reports) => {
            print!("{}", tables(&reports));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn attacked(attack: &attack::Options) -> ExitCode {
    match attack.run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
