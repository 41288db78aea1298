//! `coracle token`: what nodes join with.

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
    /// Delete a token. Nodes that have joined with it stay.
    #[command(after_help = "Example:\n  coracle token delete abcdef")]
    Delete(DeleteArgs),
}

/// Which cluster, and as whom.
#[derive(Debug, Args)]
pub(super) struct ClusterArgs {
    #[command(flatten)]
    location: DataDirArgs,
    /// The file to get in with [default: admin.kubeconfig in the data directory].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The cluster of the server whose tokens are meant.
    #[arg(long, value_name = "ID", default_value = DEFAULT_CLUSTER, value_parser = api_client::cluster_id)]
    cluster: String,
}

impl ClusterArgs {
    /// A client of the cluster, which must run.
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
    /// The id of the token, which is what stands before its dot.
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

/// Adds what to do if the server does not answer.
fn explain(error: TokenError) -> Error {
    match error {
        TokenError::Api(cause) if !matches!(cause, kube::Error::Api(_)) => api_client::unreachable(cause),
        error => Error::new(error),
    }
}
