//! `coracle completion`: completion scripts for shells.

use anyhow::Result;
use clap::CommandFactory;

use super::print;
use crate::args::{Args, CompletionArgs};

pub(super) fn run(args: &CompletionArgs) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "coracle", &mut script);
    print(&String::from_utf8_lossy(&script))
}
