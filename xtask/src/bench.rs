//! The benchmarks, built as users get the program.

use anyhow::Result;
use clap::Subcommand;

use crate::process::{cargo, find_program, run as run_command};

/// Which benchmark, and what it is told.
#[derive(Subcommand)]
pub(crate) enum Benchmark {
    /// The store, against bare files and etcd.
    Store {
        /// Arguments of the benchmark.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        extra: Vec<String>,
    },
    /// Finding out who is asking.
    Authentication,
    /// Who may do what, with few roles and with many.
    Authorization,
    /// How many pods find their nodes in a second.
    Scheduler {
        /// Arguments of the benchmark.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        extra: Vec<String>,
    },
    /// How long a cluster takes to make desired state true.
    Controllers,
    /// Attacks on the API by ordinary users, and what others notice of them.
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

/// The programs of the comparison, and the flags by which they are named.
const UPSTREAM: [(&str, &str); 2] = [("etcd", "--etcd"), ("kube-apiserver", "--kube-apiserver")];

/// Runs it with our own output.
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
            run_command(benchmark_command("coracle-bench").arg("compare").args(upstream(extra)).args(extra))
        }
    }
}

/// Builds the program alone: built together with the benchmarks it would get the features those need.
fn build_coracle() -> Result<()> {
    run_command(&mut cargo(["build", "--release", "--package", "coracle-cli"]))
}

fn benchmark_command(program: &str) -> std::process::Command {
    cargo(["run", "--release", "--package", "coracle-benches", "--bin", program, "--"])
}

/// Flags for upstream's programs: both of them that are installed, or none.
fn upstream(extra: &[String]) -> Vec<String> {
    let is_given = |flag: &str| extra.iter().any(|word| word.split('=').next() == Some(flag));
    let mut flags = Vec::new();
    for (program, flag) in UPSTREAM {
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
    fn programs_that_are_named_are_not_looked_for() {
        let extra = ["--etcd=/a/etcd", "--kube-apiserver", "/b/kube-apiserver"].map(str::to_owned);
        assert!(upstream(&extra).is_empty());
    }
}
