//! Command line arguments of the simulation.

use std::thread::available_parallelism;

/// Default number of seeds: about half a minute on one CPU, not optimized.
const SEEDS: u64 = 60;

/// The name of this program where `cargo test` selects by name.
const NAME: &str = "simulation";

/// The selected seeds, and options.
pub(crate) struct Options {
    pub(crate) first: u64,
    pub(crate) seeds: u64,
    pub(crate) threads: usize,
    /// Print every request.
    pub(crate) trace: bool,
}

impl Options {
    /// Parses the arguments; none if they select another test. Unknown flags are ignored, because `cargo
    /// test` passes them to all test programs.
    pub(crate) fn from_arguments(arguments: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let threads = available_parallelism().map_or(1, usize::from);
        let mut options = Self { first: 1, seeds: SEEDS, threads, trace: false };
        let mut is_selected = true;
        let mut arguments = arguments;
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--seed" => (options.first, options.seeds) = (number(&argument, arguments.next())?, 1),
                "--seeds" => options.seeds = number(&argument, arguments.next())?,
                "--first" => options.first = number(&argument, arguments.next())?,
                "--test-threads" => {
                    options.threads = usize::try_from(number(&argument, arguments.next())?).unwrap().max(1);
                }
                "--trace" => options.trace = true,
                "--list" | "--ignored" => is_selected = false,
                "--skip" => is_selected &= !arguments.next().is_some_and(|name| NAME.contains(&name)),
                other if other.starts_with('-') => {}
                name => is_selected &= NAME.contains(name),
            }
        }
        Ok(is_selected.then_some(options))
    }
}

fn number(argument: &str, value: Option<String>) -> Result<u64, String> {
    let read = value.as_deref().and_then(|text| text.parse().ok());
    read.ok_or_else(|| format!("{argument} needs a number"))
}
