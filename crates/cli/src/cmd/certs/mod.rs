//! `coracle certs`: the certificates and keys of a cluster.

mod list;
mod rotate;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum CertsCommand {
    /// Print what there is, who signed it and when it ends.
    #[command(after_help = "Example:\n  coracle certs list -o json | jq '.[] | {name, expires}'")]
    List(list::ListArgs),
    /// Replace certificates now; a running cluster does that by itself before they expire.
    #[command(after_help = ROTATE_HELP)]
    Rotate(rotate::RotateArgs),
}

const ROTATE_HELP: &str = "\
Without names all certificates are replaced: at once if the cluster runs, without a restart, and
otherwise when it starts. The name `sa` is the key that tokens of service accounts are signed with;
tokens of the old one stay good for a year.

With --ca the authorities are replaced. A new one is trusted beside the old one for an hour before it
signs, and the old one is trusted until everything it signed has expired, which is a year. Kubeconfigs
and nodes go on working all the time.

Examples:
  coracle certs rotate                  replace all certificates
  coracle certs rotate apiserver        replace what the server shows
  coracle certs rotate --ca             begin to replace the authorities";

pub(crate) fn run(command: &CertsCommand) -> Result<()> {
    match command {
        CertsCommand::List(args) => list::run(args),
        CertsCommand::Rotate(args) => rotate::run(args),
    }
}
