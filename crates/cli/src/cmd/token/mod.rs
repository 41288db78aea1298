//! `coracle token`: manages bootstrap tokens, with which nodes join.

mod create;
mod list;

use std::path::PathBuf;

use anyhow::{Error, Result};
use clap::{Args, Subcommand};
use coracle::tokens::{self, TokenError};
use kube::Client;

use super::api_client::{self, DEFAULT_CLUSTER};
use super::{print, runtime};
use crate::args::DataDirArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a bootstrap token and print it (it cannot be shown again).
    #[command(after_help = "\
Examples:
  coracle token create                                for a day, for any number of nodes
  coracle token create --expires 1h --usage-limit 3   for three nodes within the hour
  coracle token create --cluster team-a               for nodes of another cluster")]
    Create(create::CreateArgs),
    /// List bootstrap tokens without their secrets.
    #[command(after_help = "Example:\n  coracle token list -o json")]
    List(list::ListArgs),
    /// Delete a token. Nodes that have already joined with it are unaffected.
    #[command(after_help = "Example:\n  coracle token delete abcdef")]
    Delete(DeleteArgs),
}

/// The cluster whose tokens are managed, and the credential.
#[derive(Debug, Args)]
pub(super) struct ClusterArgs {
    #[command(flatten)]
    location: DataDirArgs,
    /// Kubeconfig of an administrator [default: admin.kubeconfig in the data directory].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Cluster of the server that the tokens belong to.
    #[arg(long, value_name = "ID", default_value = DEFAULT_CLUSTER, value_parser = api_client::cluster_id)]
    cluster: String,
}

impl ClusterArgs {
    /// Returns a client of the running cluster.
    async fn client(&self) -> Result<Client> {
        let path = match &self.kubeconfig {
            Some(path) => path.clone(),
            None => self.location.path()?.join("admin.kubeconfig"),
        };
        api_client::connect(&path, &self.cluster).await
    }
}

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Id of the token: the part before its dot.
    #[arg(value_name = "ID")]
    id: String,
}

pub(crate) fn run(command: &TokenCommand) -> Result<()> {
    runtime()?.block_on(async {
        match command {
            TokenCommand::Create(args) => create::run(args).await,
            TokenCommand::List(args) => list::run(args).await,
            TokenCommand::Delete(args) => {
                let client = args.cluster.client().await?;
                tokens::delete(client, &args.id).await.map_err(explain)?;
                print(&format!("deleted: {}\n", args.id))
            }
        }
    })
}

/// Adds advice to an error if the server cannot be reached.
fn explain(error: TokenError) -> Error {
    match error {
        TokenError::Api(cause) if !matches!(cause, kube::Error::Api(_)) => api_client::unreachable(cause),
        error => Error::new(error),
    }
}
