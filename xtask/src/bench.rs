//! Benchmarks, built in release mode as users get the program.

use anyhow::Result;
use clap::Subcommand;

use crate::process::{cargo, find_program, run as run_command};

/// The benchmark to run, and its arguments.
#[derive(Subcommand)]
pub(crate) enum Benchmark {
    /// The store, against bare files and etcd.
    Store {
        /// Arguments of the benchmark.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        extra: Vec<String>,
    },
    /// Authentication of requests.
    Authentication,
    /// Authorization with few and with many roles.
    Authorization,
    /// Pods that the scheduler binds per second.
    Scheduler {
        /// Arguments of the benchmark.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        extra: Vec<String>,
    },
    /// Time in which controllers reconcile a cluster.
    Controllers,
    /// Attacks on the API by ordinary users, and their effect on other users.
    Attack {
        /// Arguments of the benchmark.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        extra: Vec<String>,
    },
    /// The API, against kube-apiserver and etcd where both are installed.
    Api {
        /// Arguments of the benchmark.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        extra: Vec<String>,
    },
}

/// Programs of the comparison, and the flags that name them.
const COMPARED_PROGRAMS: [(&str, &str); 2] = [("etcd", "--etcd"), ("kube-apiserver", "--kube-apiserver")];

/// Runs the benchmark; its output is passed through.
pub(crate) fn run(benchmark: &Benchmark) -> Result<()> {
    match benchmark {
        Benchmark::Store { extra } => run_command(benchmark_command("store").args(extra)),
        Benchmark::Authentication => run_command(&mut benchmark_command("authentication")),
        Benchmark::Authorization => run_command(&mut benchmark_command("authorization")),
        Benchmark::Scheduler { extra } => run_command(benchmark_command("scheduler").args(extra)),
        Benchmark::Controllers => run_command(&mut benchmark_command("controllers")),
        Benchmark::Attack { extra } => {
            build_coracle()?;
            run_command(benchmark_command("coracle-bench").arg("attack").args(extra))
        }
        Benchmark::Api { extra } => {
            build_coracle()?;
            run_command(
                benchmark_command("coracle-bench").arg("compare").args(comparison_flags(extra)).args(extra),
            )
        }
    }
}

/// Builds the server alone: built together with the benchmarks it would get the features that they need.
fn build_coracle() -> Result<()> {
    run_command(&mut cargo(["build", "--release", "--package", "coracle-cli"]))
}

fn benchmark_command(program: &str) -> std::process::Command {
    cargo(["run", "--release", "--package", "coracle-benches", "--bin", program, "--"])
}

/// Flags for kube-apiserver and etcd if both are installed, otherwise none.
fn comparison_flags(extra: &[String]) -> Vec<String> {
    let is_given = |flag: &str| extra.iter().any(|word| word.split('=').next() == Some(flag));
    let mut flags = Vec::new();
    for (program, flag) in COMPARED_PROGRAMS {
        match find_program(program) {
            _ if is_given(flag) => {}
            Some(path) => flags.extend([flag.to_owned(), path.display().to_string()]),
            None => {
                println!(
                    "{program} is not installed, so there is nothing to compare with; name one by {flag}"
                );
                return Vec::new();
            }
        }
    }
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_given_by_flag_are_not_searched_for() {
        let extra = ["--etcd=/a/etcd", "--kube-apiserver", "/b/kube-apiserver"].map(str::to_owned);
        assert!(comparison_flags(&extra).is_empty());
    }
}
