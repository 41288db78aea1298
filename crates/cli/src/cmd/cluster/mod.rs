//! `coracle cluster`: manages the clusters of a server.

mod create;
mod delete;
pub(crate) mod limits;
mod list;

use std::path::PathBuf;

use anyhow::{Error, Result};
use clap::{Args, Subcommand};
use kube::Client;

use super::api_client::{self, DEFAULT_CLUSTER};
use super::{print, runtime};
use crate::args::DataDirArgs;
use crate::failure::Advice;

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Create an empty cluster.
    #[command(after_help = "\
Examples:
  coracle cluster create team-a
  coracle cluster create team-a --max-bytes 256Mi --max-objects 10000")]
    Create(create::CreateArgs),
    /// List the clusters with their limits and usage.
    #[command(after_help = "Example:\n  coracle cluster list -o json")]
    List(list::ListArgs),
    /// Change the storage limits of a cluster.
    #[command(after_help = "\
Examples:
  coracle cluster set-limits team-a --max-bytes 2Gi
  coracle cluster set-limits default --max-objects unlimited")]
    SetLimits(limits::SetLimitsArgs),
    /// Delete a cluster and all of its objects. Its credentials become permanently invalid.
    #[command(after_help = "Example:\n  coracle cluster delete team-a --yes")]
    Delete(delete::DeleteArgs),
}

/// The server and the operator's credential.
#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    #[command(flatten)]
    location: DataDirArgs,
    /// The operator's kubeconfig [default: admin.kubeconfig in the data directory].
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl ServerArgs {
    /// Returns a client of the running server.
    async fn client(&self) -> Result<Client> {
        let path = match &self.kubeconfig {
            Some(path) => path.clone(),
            None => self.location.path()?.join("admin.kubeconfig"),
        };
        api_client::connect(&path, DEFAULT_CLUSTER).await
    }
}

pub(crate) fn run(command: &ClusterCommand) -> Result<()> {
    runtime()?.block_on(async {
        match command {
            ClusterCommand::Create(args) => create::run(args).await,
            ClusterCommand::List(args) => list::run(args).await,
            ClusterCommand::SetLimits(args) => limits::run(args).await,
            ClusterCommand::Delete(args) => delete::run(args).await,
        }
    })
}

/// Adds advice to an error of the admin API.
fn explain(error: kube::Error) -> Error {
    let advice = match &error {
        kube::Error::Api(status) => match status.code {
            401 | 403 => {
                "the admin API needs the operator's credential: pass admin.kubeconfig of the server's data \
                          directory with --kubeconfig"
            }
            404 => "coracle cluster list shows the clusters there are",
            409 => "choose another id, or delete the existing cluster first",
            _ => return Error::new(error),
        },
        _ => return api_client::unreachable(error),
    };
    Error::new(error).context(Advice(advice.to_owned()))
}
