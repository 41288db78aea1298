//! `cargo xtask test`: runs every suite that can run here, then lists the suites that ran and that were skipped.
//!
//! Requirements and suites are tables in the modules below. Everything that can be rejected (a missing package, a
//! broken kubectl) is checked before the first suite starts; after that a failing suite does not stop the others.
//! Cargo's output is passed through.

mod apt;
mod java_clients;
mod kubectl;
mod real_clients;
mod requirements;
mod suites;

use std::path::PathBuf;

use anyhow::Result;
use clap::builder::PossibleValuesParser;

use crate::process;
use crate::summary::Summary;
pub(crate) use requirements::ensure_installed;
use suites::{Environment, Prepared, SUITES, Suite};

/// Options of a test run.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Skip the suites that need this system package; may be repeated.
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(requirements::names()))]
    pub(crate) without: Vec<String>,

    /// kubectl to test with, instead of the one in PATH.
    #[arg(long, value_name = "PATH")]
    pub(crate) kubectl: Option<PathBuf>,

    /// Also run the suites that download client libraries.
    #[arg(long)]
    pub(crate) real_clients: bool,

    /// Arguments for each `cargo test`; a second `--` separates those of the test programs.
    #[arg(last = true, value_name = "ARGS")]
    pub(crate) extra: Vec<String>,
}

/// Runs every suite that can run.
///
/// # Errors
///
/// If a required package is missing that the user must install or exclude; no suite has run then.
pub(crate) fn run(options: &Options) -> Result<Summary> {
    let mut summary = Summary::default();
    let selected = without_excluded(options, &mut summary);
    requirements::ensure(&selected)?;
    for (suite, environment) in prepare(&selected, options, &mut summary)? {
        summary.step(suite.name, || run_suite(suite, &environment, &options.extra));
    }
    Ok(summary)
}

fn without_excluded(options: &Options, summary: &mut Summary) -> Vec<&'static Suite> {
    let mut selected = Vec::new();
    for suite in SUITES {
        let excluded = requirements::of(suite.name)
            .find(|needed| options.without.iter().any(|name| name == needed.name));
        match excluded {
            Some(needed) => summary.skip(suite.name, format!("--without {}", needed.name)),
            None => selected.push(suite),
        }
    }
    selected
}

fn prepare(
    selected: &[&'static Suite],
    options: &Options,
    summary: &mut Summary,
) -> Result<Vec<(&'static Suite, Environment)>> {
    let mut ready = Vec::new();
    for suite in selected {
        match (suite.prepare)(options)? {
            Prepared::Ready(environment) => ready.push((*suite, environment)),
            Prepared::Skipped(reason) => summary.skip(suite.name, reason),
        }
    }
    Ok(ready)
}

fn run_suite(suite: &Suite, environment: &Environment, extra: &[String]) -> Result<()> {
    let mut command = process::cargo(["test"]);
    command.args(suite.cargo_args).args(extra).envs(environment.iter().map(|(name, value)| (*name, value)));
    process::run(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_skips_only_suites_that_need_the_package() {
        let mut summary = Summary::default();
        let options = Options { without: vec!["etcd".to_owned()], ..Options::default() };
        let selected = without_excluded(&options, &mut summary);
        assert!(selected.iter().any(|suite| suite.name == "workspace"));
        assert!(!selected.iter().any(|suite| suite.name == "etcd"));
        assert_eq!(summary.skipped().len(), 1);
        assert_eq!(summary.skipped()[0].reason, "--without etcd");
    }

    #[test]
    fn suite_that_cannot_be_prepared_is_skipped_with_reason() {
        static ABSENT: Suite = Suite {
            name: "absent",
            cargo_args: &[],
            prepare: |_| Ok(Prepared::Skipped("nothing to run".to_owned())),
        };
        let mut summary = Summary::default();
        let ready = prepare(&[&ABSENT], &Options::default(), &mut summary).unwrap();
        assert!(ready.is_empty());
        assert_eq!(summary.skipped()[0].reason, "nothing to run");
    }
}
