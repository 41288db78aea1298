//! `coracle certs`: the certificates and keys of a cluster.

mod list;
mod rotate;

use anyhow::Result;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum CertsCommand {
    /// List certificates and keys, their issuers and when they expire.
    #[command(after_help = "Example:\n  coracle certs list -o json | jq '.[] | {name, expires}'")]
    List(list::ListArgs),
    /// Rotate certificates now; a running cluster rotates them before they expire.
    #[command(after_help = ROTATE_HELP)]
    Rotate(rotate::RotateArgs),
}

// Paragraphs are single lines: clap wraps them to the width of the terminal.
const ROTATE_HELP: &str = "\
Without names all certificates are rotated: at once if the cluster runs, without a restart, and otherwise when it \
starts. The name `sa` is the key that signs service account tokens; tokens of the previous key stay valid for a year.

With --ca the certificate authorities are rotated. A new CA is trusted beside the old one for an hour before it signs, \
and the old one is trusted until everything it signed has expired, which is a year. Kubeconfigs and nodes stay valid.

Examples:
  coracle certs rotate                  rotate all certificates
  coracle certs rotate apiserver        rotate the server's certificate
  coracle certs rotate --ca             begin to rotate the CAs";

pub(crate) fn run(command: &CertsCommand) -> Result<()> {
    match command {
        CertsCommand::List(args) => list::run(args),
        CertsCommand::Rotate(args) => rotate::run(args),
    }
}
