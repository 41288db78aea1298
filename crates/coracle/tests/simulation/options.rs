//! Command line arguments of the simulation.

use std::thread::available_parallelism;

/// Default number of seeds: about half a minute on one CPU, not optimized.
const SEEDS: u64 = 60;

/// The name of this program where `cargo test` selects by name.
const NAME: &str = "simulation";

/// The selected seeds, and options.
pub(crate) struct Chosen {
    pub(crate) first: u64,
    pub(crate) seeds: u64,
    pub(crate) threads: usize,
    /// Print every request.
    pub(crate) trace: bool,
}

impl Chosen {
    /// Parses the arguments; none if they select another test. Unknown flags are ignored, because `cargo
    /// test` passes them to all test programs.
    pub(crate) fn from_arguments(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let threads = available_parallelism().map_or(1, usize::from);
        let mut chosen = Self { first: 1, seeds: SEEDS, threads, trace: false };
        let mut is_meant = true;
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--seed" => (chosen.first, chosen.seeds) = (number(&argument, arguments.next())?, 1),
                "--seeds" => chosen.seeds = number(&argument, arguments.next())?,
                "--first" => chosen.first = number(&argument, arguments.next())?,
                "--test-threads" => {
                    chosen.threads = usize::try_from(number(&argument, arguments.next())?).unwrap().max(1);
                }
                "--trace" => chosen.trace = true,
                "--list" | "--ignored" => is_meant = false,
                "--skip" => is_meant &= !arguments.next().is_some_and(|name| NAME.contains(&name)),
                other if other.starts_with('-') => {}
                name => is_meant &= NAME.contains(name),
            }
        }
        Ok(is_meant.then_some(chosen))
    }
}

fn number(argument: &str, value: Option<String>) -> Result<u64, String> {
    let read = value.as_deref().and_then(|text| text.parse().ok());
    read.ok_or_else(|| format!("{argument} needs a number"))
}
