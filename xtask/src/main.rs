//! The build commands of the workspace, run as `cargo xtask <command>`.
//!
//! Each command is a module. The checks and suites of a command are data in its module, so that CI and a developer's
//! machine run the same.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "output of a command line program")]

mod bench;
mod ci;
mod process;
mod summary;
mod test;
mod tidy;
mod torture;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Build commands of the Coracle workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run everything CI runs, stopping at the first failure.
    Ci(test::Options),
    /// Run all tests, and list the suites that were skipped.
    Test(test::Options),
    /// Check the repository's rules that the compiler does not check.
    Tidy,
    /// Kill the server at random, and check that no acknowledged write is lost and no watch has a gap.
    Torture(torture::Options),
    /// Run a benchmark in release mode.
    #[command(subcommand)]
    Bench(bench::Benchmark),
}

fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Ci(options) => Ok(ci::run(&options).report()),
        Command::Test(options) => Ok(test::run(&options)?.report()),
        Command::Tidy => tidy::run().map(|()| ExitCode::SUCCESS),
        Command::Torture(options) => torture::run(&options).map(|()| ExitCode::SUCCESS),
        Command::Bench(benchmark) => bench::run(&benchmark).map(|()| ExitCode::SUCCESS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_well_formed() {
        Args::command().debug_assert();
    }

    #[test]
    fn test_passes_arguments_after_dashes_on() {
        let args =
            Args::try_parse_from(["xtask", "test", "--without", "etcd", "--", "watch", "--", "--nocapture"])
                .unwrap();
        let Command::Test(options) = args.command else { panic!("parsed as another command") };
        assert_eq!(options.without, ["etcd"]);
        assert_eq!(options.extra, ["watch", "--", "--nocapture"]);
    }

    #[test]
    fn test_without_unknown_package_is_rejected() {
        assert!(Args::try_parse_from(["xtask", "test", "--without", "etdc"]).is_err());
    }

    #[test]
    fn bench_takes_flags_of_the_benchmark() {
        let args = Args::try_parse_from(["xtask", "bench", "api", "--seconds", "10"]).unwrap();
        let Command::Bench(bench::Benchmark::Api { extra }) = args.command else { panic!("another command") };
        assert_eq!(extra, ["--seconds", "10"]);
        assert!(Args::try_parse_from(["xtask", "bench"]).is_err());
    }
}
