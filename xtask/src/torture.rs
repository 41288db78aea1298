//! `cargo xtask torture`: kills the server at random while clients write and watch, and verifies every acknowledged
//! write afterwards. The program is the test `torture` of the package `coracle-cli`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use clap::ValueEnum;

use crate::process::{cargo, find_program, run as run_command};
use crate::test::ensure_installed;

/// Stores to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Store {
    Disk,
    Etcd,
    Both,
}

/// Options of a run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Number of rounds, each of which kills the server, per store.
    #[arg(long, value_name = "NUMBER", default_value_t = 200)]
    rounds: u64,

    /// Stores to test.
    #[arg(long, value_enum, default_value = "both")]
    store: Store,

    /// Draw the same faults as the run that printed this seed.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Keep the directories of the run even without a violation.
    #[arg(long)]
    keep: bool,

    /// Cargo profile of the server.
    #[arg(long, value_name = "NAME", default_value = "dev")]
    profile: String,
}

/// Builds the server and runs the rounds with inherited output.
///
/// # Errors
///
/// If a guarantee was violated, or the run could not finish.
pub(crate) fn run(options: &Options) -> Result<()> {
    let etcd = match options.store {
        Store::Disk => None,
        Store::Etcd | Store::Both => {
            ensure_installed("etcd")?;
            Some(find_program("etcd").context("etcd is not installed")?)
        }
    };
    run_command(&mut command(options, etcd))
}

fn command(options: &Options, etcd: Option<PathBuf>) -> Command {
    let mut command = cargo(["test", "--package", "coracle-cli", "--test", "torture"]);
    command.args(["--profile", &options.profile, "--", "--rounds", &options.rounds.to_string()]);
    let store = options.store.to_possible_value().map(|value| value.get_name().to_owned());
    command.arg("--store").args(store);
    if let Some(seed) = options.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    if options.keep {
        command.arg("--keep");
    }
    if let Some(etcd) = etcd {
        command.arg("--etcd").arg(etcd);
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, FromArgMatches as _};

    /// Cargo arguments for a command line.
    fn arguments(line: &str, etcd: Option<&str>) -> String {
        let parser = Options::augment_args(clap::Command::new("torture").no_binary_name(true));
        let matches = parser.try_get_matches_from(line.split_whitespace()).unwrap();
        let options = Options::from_arg_matches(&matches).unwrap();
        let command = command(&options, etcd.map(PathBuf::from));
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        words.join(" ")
    }

    #[test]
    fn options_are_passed_to_the_test() {
        let cargo = "test --package coracle-cli --test torture --profile";
        assert_eq!(
            arguments("", Some("/bin/etcd")),
            format!("{cargo} dev -- --rounds 200 --store both --etcd /bin/etcd")
        );
        assert_eq!(
            arguments("--rounds 3 --store disk --seed 7 --keep --profile release", None),
            format!("{cargo} release -- --rounds 3 --store disk --seed 7 --keep")
        );
    }
}
