//! `coracle certs rotate`: rotates certificates before they are due.

use anyhow::Result;
use clap::Args;
use coracle::certs::{self, Rotation};

use super::super::print;
use crate::args::DataDirArgs;

#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    #[command(flatten)]
    location: DataDirArgs,
    /// Rotate the certificate authorities without interrupting clients.
    #[arg(long)]
    ca: bool,
    /// Names in the output of `coracle certs list` [default: all].
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(super) fn run(args: &RotateArgs) -> Result<()> {
    let rotation = Rotation { names: args.names.clone(), authorities: args.ca };
    let rotated = certs::rotate(&args.location.path()?, &rotation)?;
    let names = rotated.names.join(", ");
    let mut text = match (rotated.done, args.ca) {
        (true, false) => format!("rotated: {names}\n"),
        (true, true) => format!("rotation started: {names}\n"),
        (false, _) => {
            format!("cluster is not running; certificates will be rotated at the next start: {names}\n")
        }
    };
    if args.ca {
        text.push_str("coracle certs list shows when the next step is due.\n");
    }
    print(&text)
}
