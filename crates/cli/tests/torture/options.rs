//! The arguments of the torture test.

use std::path::PathBuf;

use crate::plan::Engine;

/// Rounds without `--rounds`: few, to keep `cargo test` fast.
const DEFAULT_ROUNDS: u64 = 3;

/// Name of this test when `cargo test` filters by name.
const NAME: &str = "torture";

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) rounds: u64,
    /// None for a random seed.
    pub(crate) seed: Option<u64>,
    pub(crate) engines: Vec<Engine>,
    pub(crate) etcd: PathBuf,
    /// Keep the directories even without a violation.
    pub(crate) keep: bool,
    /// True to finish with a round on a store that loses writes, which must be detected.
    pub(crate) tests_itself: bool,
}

impl Options {
    /// Returns None if the arguments select another test. Flags of the standard harness are ignored, because `cargo
    /// test` passes them to all test programs.
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Self {
            rounds: DEFAULT_ROUNDS,
            seed: None,
            engines: vec![Engine::Disk],
            etcd: PathBuf::from("etcd"),
            keep: false,
            tests_itself: true,
        };
        let (mut arguments, mut is_selected) = (arguments, true);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--rounds" => {
                    (options.rounds, options.tests_itself) = (number(&argument, &value()?)?, false);
                }
                "--seed" => options.seed = Some(number(&argument, &value()?)?),
                "--store" => options.engines = engines(&value()?)?,
                "--etcd" => options.etcd = value()?.into(),
                "--keep" => options.keep = true,
                "--list" | "--ignored" => is_selected = false,
                "--skip" => is_selected &= !NAME.contains(&value()?),
                other if other.starts_with('-') => {}
                name => is_selected &= NAME.contains(name),
            }
        }
        Ok(is_selected.then_some(options))
    }
}

fn number(argument: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{argument} needs a number, not {value:?}"))
}

fn engines(value: &str) -> Result<Vec<Engine>, String> {
    match value {
        "disk" => Ok(vec![Engine::Disk]),
        "etcd" => Ok(vec![Engine::Etcd]),
        "both" => Ok(vec![Engine::Disk, Engine::Etcd]),
        _ => Err(format!("--store needs disk, etcd or both, not {value:?}")),
    }
}
