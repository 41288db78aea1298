//! The `coracle` binary: parses arguments, calls the library, returns an exit code. Process-wide settings (allocator,
//! logger, signals) are made here.

mod args;
mod authentication;
mod cmd;
mod data_dir;
mod duration;
mod failure;
mod lifetime;
mod logging;
mod nodes;
mod pages;
mod progress;
mod shell;
mod signals;
mod table;
mod version;

use std::process::ExitCode;

use clap::Parser;

/// The system allocator fragments under many small, long-lived allocations of all sizes.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = args::Args::parse();
    match logging::init(&args.log).and_then(|()| cmd::run(&args.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
