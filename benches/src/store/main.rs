//! Benchmarks of the store, run by hand: `cargo xtask bench store`.
//!
//! Each prints the ratio to a baseline measured in the same run, because machines are noisy and absolute figures are
//! not comparable. `BENCHMARKS.md` has the results.

#![expect(clippy::print_stdout, reason = "output of a command line program")]

mod child;
mod opening;
mod reading;
mod upkeep;
mod watching;
mod writing;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Benchmarks of the store.
#[derive(Parser)]
struct Arguments {
    /// Directory of the stores, on the disk to be measured.
    #[arg(long, default_value = "target/bench")]
    dir: PathBuf,
    /// Run only these benchmarks.
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Run as a child process of another benchmark.
    #[arg(long, hide = true)]
    child: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Write,
    Read,
    Open,
    Watch,
    Upkeep,
    Scopes,
}

/// Runs one benchmark on stores in its own directory.
type Run = fn(&std::path::Path);

fn main() {
    let arguments = Arguments::parse();
    if let Some(role) = &arguments.child {
        return child::run(role, &arguments.dir);
    }
    std::fs::create_dir_all(&arguments.dir).expect("the directory for the stores can be created");
    let is_selected = |part| arguments.only.is_empty() || arguments.only.contains(&part);
    let parts: [(Part, Run); 6] = [
        (Part::Write, writing::run),
        (Part::Read, reading::run),
        (Part::Open, opening::run),
        (Part::Watch, watching::run),
        (Part::Upkeep, upkeep::run),
        (Part::Scopes, reading::scopes),
    ];
    for (part, run) in parts {
        if is_selected(part) {
            let dir = tempfile::tempdir_in(&arguments.dir).expect("a directory of its own");
            run(dir.path());
        }
    }
}
