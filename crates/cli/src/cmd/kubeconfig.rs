//! `coracle kubeconfig`: how further users get in.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow};
use clap::{Args, Subcommand};
use coracle::certs::{self, CredentialScope, KubeconfigRequest};
use coracle_base::Clock;
use tempfile::NamedTempFile;

use super::api_client::{self, DEFAULT_CLUSTER};
use super::{print, runtime};
use crate::args::DataDirArgs;
use crate::failure::Advice;
use crate::lifetime;

#[derive(Debug, Subcommand)]
pub(crate) enum KubeconfigCommand {
    /// Make a kubeconfig for a user, with a certificate of the cluster's authority.
    #[command(after_help = "\
Roles define the user's permissions; the group system:masters may do everything in its cluster. The certificate is
valid in one cluster, and in none that is created later under the same id. A certificate cannot be taken back, so
let it be short.

Examples:
  coracle kubeconfig create --user jane --group dev --out jane.kubeconfig
  coracle kubeconfig create --user ci --expires 30m > ci.kubeconfig
  coracle kubeconfig create --user jane --cluster team-a > jane.kubeconfig")]
    Create(CreateArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    location: DataDirArgs,
    /// The name of the user.
    #[arg(long, value_name = "NAME")]
    user: String,
    /// A group the user is in; may be given more than once.
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// How long it is good, such as 30m, 24h or 90d; a year at most.
    #[arg(long, value_name = "SPAN", default_value = "24h", value_parser = lifetime::parse)]
    expires: Duration,
    /// The cluster that the user is let into. The server must run if it is not the default one.
    #[arg(long, value_name = "ID", default_value = DEFAULT_CLUSTER, value_parser = api_client::cluster_id)]
    cluster: String,
    /// Where the server is [default: what admin.kubeconfig says].
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The file to write, for its owner only [default: stdout].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(command: &KubeconfigCommand) -> Result<()> {
    let KubeconfigCommand::Create(args) = command;
    let data_dir = args.location.path()?;
    let request = KubeconfigRequest {
        user: args.user.clone(),
        groups: args.groups.clone(),
        life: args.expires,
        server: args.server.clone(),
        scope: scope(&data_dir, &args.cluster)?,
    };
    let text = certs::create_kubeconfig(&data_dir, &request, Clock::system().now())?;
    match &args.out {
        None => print(&text),
        Some(path) => write_private(path, &text),
    }
}

/// The scope of credentials of a cluster. The running server has the uid of any but the default one.
fn scope(data_dir: &Path, cluster: &str) -> Result<CredentialScope> {
    if cluster == DEFAULT_CLUSTER {
        return Ok(CredentialScope::DefaultCluster);
    }
    let failed = || format!("cannot find the cluster {cluster}");
    runtime()?.block_on(async {
        let client = api_client::connect(&data_dir.join("admin.kubeconfig"), DEFAULT_CLUSTER).await?;
        let found = certs::cluster_reference(&client, cluster).await;
        let found = found.map_err(|error| match error {
            kube::Error::Api(_) => Error::new(error),
            _ => Error::new(error).context(Advice("is the cluster running? coracle up starts it".to_owned())),
        });
        Ok(found.with_context(failed)?.into())
    })
}

/// Whole or not at all, and readable for nobody else from the first byte on. What is there is kept.
fn write_private(path: &Path, text: &str) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(dir).with_context(failed)?;
    file.write_all(text.as_bytes()).with_context(failed)?;
    file.as_file().sync_all().with_context(failed)?;
    file.persist_noclobber(path).map_err(|error| match error.error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            anyhow!("{} exists already: remove it, or name another file by --out", path.display())
        }
        _ => anyhow::Error::new(error.error).context(failed()),
    })?;
    Ok(())
}
