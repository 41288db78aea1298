//! `coracle certs rotate`: new certificates, before their time.

use anyhow::Result;
use clap::Args;
use coracle::certs::{self, Rotation};

use super::super::print;
use crate::args::DataDirArgs;

#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    #[command(flatten)]
    location: DataDirArgs,
    /// Replace authorities, in steps in which nobody is cut off.
    #[arg(long)]
    ca: bool,
    /// What to replace, as `coracle certs list` calls it [default: all].
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(super) fn run(args: &RotateArgs) -> Result<()> {
    let rotation = Rotation { names: args.names.clone(), authorities: args.ca };
    let rotated = certs::rotate(&args.location.path()?, &rotation)?;
    let names = rotated.names.join(", ");
    let mut text = match (rotated.done, args.ca) {
        (true, false) => format!("replaced: {names}\n"),
        (true, true) => format!("begun: {names}\n"),
        (false, _) => format!("noted; the cluster does not run, its next start replaces: {names}\n"),
    };
    if args.ca {
        text.push_str("coracle certs list says which step is due when.\n");
    }
    print(&text)
}
