//! Simulation of the whole control plane under faults, on a clock that advances only while all tasks wait.
//!
//! One run is an in-memory server with controllers, scheduler and simulated nodes. Their requests fail, get
//! lost, meet conflicts or lose their responses; their watches break off; they are disconnected, stopped,
//! killed and restarted; the clock jumps. Meanwhile users change their objects: each namespace of the run
//! has a scenario of its own. Then the faults end, and the last desired state must be reached and stay.
//! Invariants are checked over the whole history, which a client without faults has watched from the
//! beginning.
//!
//! A run is determined by its seed. `cargo test -p coracle --test simulation -- --seeds 1000` runs more
//! seeds than `cargo test` does, and `-- --seed 7 --trace` repeats one and prints every request.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![expect(clippy::print_stderr, reason = "a test with its own harness reports its progress")]

mod control_plane;
mod faults;
mod history;
mod line;
mod options;
mod resource_metrics;
mod rules;
mod run;
mod scenario;
mod state;
mod users;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use options::Options;
use run::Outcome;

/// The allocator of the binary, because much of a run is allocation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let options = match Options::from_arguments(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    run::remember_panics();
    if !options.trace && !is_repeatable(&options) {
        return ExitCode::FAILURE;
    }
    let failed = run_all(&options);
    eprintln!("simulation: {} seeds from {}, {failed} failed", options.seeds, options.first);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs all seeds on several threads. Returns the number of failures.
fn run_all(options: &Options) -> u64 {
    let (next, failed) = (AtomicU64::new(options.first), AtomicU64::new(0));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= options.first + options.seeds {
                return;
            }
            let outcome = run::simulate(seed, options.trace);
            if !outcome.violations.is_empty() {
                failed.fetch_add(1, Ordering::Relaxed);
                report(seed, &outcome);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads {
            scope.spawn(work);
        }
    });
    failed.into_inner()
}

fn report(seed: u64, outcome: &Outcome) {
    eprintln!(
        "seed {seed} failed; again, with every request:\n    \
         cargo test -p coracle --test simulation -- --seed {seed} --trace\n  {}",
        outcome.violations.join("\n  ")
    );
}

/// Checks that a seed leads to the same run twice; otherwise a failing seed could not be debugged.
fn is_repeatable(options: &Options) -> bool {
    let run = || run::simulate(options.first, false);
    let (one, other) = (run(), run());
    let same = one.digest == other.digest;
    if !same {
        eprintln!(
            "seed {} is not the same twice: {:x} after {} requests, {:x} after {}",
            options.first, one.digest, one.requests, other.digest, other.requests
        );
    }
    same
}
