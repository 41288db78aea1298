//! The `coracle` binary: arguments in, exit code out. Everything it does is done by the
//! library; what is global to a process (allocator, logger, signals) is set up here.

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

/// Many small allocations of all sizes that live long: the system's allocator fragments on them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let args = args::Args::parse();
    match logging::init(&args.log).and_then(|()| cmd::run(&args.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::report(&error),
    }
}
