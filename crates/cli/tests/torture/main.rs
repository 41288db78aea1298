//! Kills a real server at random while clients write and watch: afterwards every acknowledged write must be stored,
//! and every watch must resume without a gap.
//!
//! `cargo xtask torture --rounds 200` runs it on disk and etcd; `cargo test` runs a few rounds on disk. The seed
//! determines when and how the server ends, but not the interleaving of requests.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a test with its own main reports for itself")]

#[path = "../support/connection.rs"]
mod connection;
mod model;
mod objects;
mod options;
mod plan;
mod processes;
mod run;
mod tally;
#[path = "../support/tls_config.rs"]
mod tls_config;
mod verifier;
mod watcher;
mod writer;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use coracle_base::Rng;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use model::Rule;
use options::Options;
use plan::Engine;
use run::{Failure, Run};

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    let seed = options.seed.unwrap_or_else(|| Rng::from_entropy().below(1 << 32));
    eprintln!("torture: {} rounds, seed {seed}", options.rounds);
    let mut is_clean = true;
    for engine in &options.engines {
        match torture(*engine, &options, seed) {
            Ok(passed) => is_clean &= passed,
            Err(error) => {
                eprintln!("error: {}: {error:#}", engine.name());
                is_clean = false;
            }
        }
    }
    if options.tests_itself
        && let Err(error) = find_lost_writes(&options, seed)
    {
        eprintln!("error: {error:#}");
        is_clean = false;
    }
    if is_clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one round on a store that loses acknowledged writes, and fails unless the loss is detected.
fn find_lost_writes(options: &Options, seed: u64) -> Result<()> {
    let dir = TempDir::with_prefix("torture-").context("no temporary directory")?;
    let mut run = Run::new(Engine::Disk, options, seed, dir.path())?;
    match runtime()?.block_on(run.round_losing_writes()) {
        Err(Failure::Violations(found))
            if found.iter().any(|violation| violation.rule == Rule::Durability) =>
        {
            println!("disk that loses writes: {} violations found, as expected", found.len());
            Ok(())
        }
        other => bail!("lost writes were not found: {other:?}, {}", run.tally),
    }
}

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Runs one engine; returns true if there was no violation.
fn torture(engine: Engine, options: &Options, seed: u64) -> Result<bool> {
    let dir = TempDir::with_prefix("torture-").context("no temporary directory")?;
    let mut run = Run::new(engine, options, seed, dir.path())?;
    let progress = |tally: &tally::Tally| eprintln!("{}: {tally} so far", engine.name());
    let outcome = runtime()?.block_on(run.rounds(options.rounds, progress));
    let violations = match outcome {
        Ok(()) => Vec::new(),
        Err(Failure::Violations(violations)) => violations,
        Err(Failure::Broken(error)) => {
            let round = run.tally.rounds;
            return Err(error.context(format!("round {round}, seed {seed}; see {}", dir.keep().display())));
        }
    };
    for violation in &violations {
        println!("violation: {}, seed {seed}, round {}: {violation}", engine.name(), run.tally.rounds);
    }
    if options.keep || !violations.is_empty() {
        println!("{}: the directory is {}", engine.name(), dir.keep().display());
    }
    eprintln!("{}: {}", engine.name(), run.tally.details());
    println!("{}: {}, {} violations", engine.name(), run.tally, violations.len());
    Ok(violations.is_empty())
}
