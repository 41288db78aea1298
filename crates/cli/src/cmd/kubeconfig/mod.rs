//! `coracle kubeconfig`: creates kubeconfigs, and merges the administrator's into the user's.

mod entries;
mod merge;

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
use crate::lifetime;

#[derive(Debug, Subcommand)]
pub(crate) enum KubeconfigCommand {
    /// Create a kubeconfig for a user, with a client certificate of the cluster.
    #[command(after_help = "\
Roles define the user's permissions; the group system:masters may do everything in its cluster. The certificate is \
valid in one cluster, and in none that is created later under the same id. Certificates cannot be revoked; use a \
short lifetime.

Examples:
  coracle kubeconfig create --user jane --group dev --out jane.kubeconfig
  coracle kubeconfig create --user ci --expires 30m > ci.kubeconfig
  coracle kubeconfig create --user jane --cluster team-a > jane.kubeconfig")]
    Create(CreateArgs),
    /// Merge the administrator's cluster, user and context into your kubeconfig.
    #[command(after_help = "\
Entries of the same names are updated if they are this cluster's, and everything else in the file stays. The names \
are those of `coracle up --name`.

Examples:
  coracle kubeconfig merge                          into $KUBECONFIG or ~/.kube/config
  coracle kubeconfig merge --use-context            and make it the current context
  coracle kubeconfig merge --data-dir ./dev         of the cluster in ./dev")]
    Merge(merge::MergeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    location: DataDirArgs,
    /// Name of the user.
    #[arg(long, value_name = "NAME")]
    user: String,
    /// Group of the user; may be repeated.
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// Lifetime of the certificate, such as 30m, 24h or 90d; at most a year.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = lifetime::parse)]
    expires: Duration,
    /// Cluster of the user. The server must run if it is not the default one.
    #[arg(long, value_name = "ID", default_value = DEFAULT_CLUSTER, value_parser = api_client::cluster_id)]
    cluster: String,
    /// URL of the server [default: that of admin.kubeconfig].
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// File to write, with mode 0600 [default: stdout].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(command: &KubeconfigCommand) -> Result<()> {
    match command {
        KubeconfigCommand::Create(args) => create(args),
        KubeconfigCommand::Merge(args) => merge::run(args),
    }
}

fn create(args: &CreateArgs) -> Result<()> {
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

/// Credential scope of a cluster. Only the running server has the uid of a cluster other than the default one.
fn scope(data_dir: &Path, cluster: &str) -> Result<CredentialScope> {
    if cluster == DEFAULT_CLUSTER {
        return Ok(CredentialScope::DefaultCluster);
    }
    let failed = || format!("cannot find the cluster {cluster}");
    runtime()?.block_on(async {
        let client = api_client::connect(&data_dir.join("admin.kubeconfig"), DEFAULT_CLUSTER).await?;
        let found = certs::cluster_reference(&client, cluster).await;
        let found = found.map_err(|error| match error {
            kube::Error::Api(_) => Error::new(error).context(failed()),
            _ => api_client::unreachable(error),
        });
        Ok(found?.into())
    })
}

/// Creates a file atomically with mode 0600. An existing file is not overwritten.
fn write_private(path: &Path, text: &str) -> Result<()> {
    let failed = || format!("cannot write {}", path.display());
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(dir).with_context(failed)?;
    file.write_all(text.as_bytes()).with_context(failed)?;
    file.as_file().sync_all().with_context(failed)?;
    file.persist_noclobber(path).map_err(|error| match error.error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            anyhow!("{} already exists: remove it, or pass another file with --out", path.display())
        }
        _ => anyhow::Error::new(error.error).context(failed()),
    })?;
    Ok(())
}
