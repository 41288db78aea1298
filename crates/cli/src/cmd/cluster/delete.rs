//! `coracle cluster delete`.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Context, Result, bail};
use clap::Args;
use coracle::clusters;

use super::{ServerArgs, api_client, explain, print};

#[derive(Debug, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Id of the cluster.
    #[arg(value_name = "ID", value_parser = api_client::cluster_id)]
    id: String,
    /// Do not prompt for confirmation.
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(args: &DeleteArgs) -> Result<()> {
    let client = args.server.client().await?;
    let found = clusters::get(&client, &args.id).await.map_err(explain)?;
    if !args.yes && !confirmed(&args.id, found.usage.objects)? {
        bail!("not deleted: {}", args.id);
    }
    clusters::delete(&client, &args.id).await.map_err(explain)?;
    print(&format!("deleted: {}\n", args.id))
}

/// Prompts for confirmation on stderr.
fn confirmed(id: &str, objects: u64) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("deleting {id} deletes its {objects} objects permanently: pass --yes to confirm");
    }
    let mut stderr = io::stderr();
    let question = format!("Delete the cluster {id} with its {objects} objects for good? [y/N] ");
    stderr
        .write_all(question.as_bytes())
        .and_then(|()| stderr.flush())
        .context("cannot prompt for confirmation")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the confirmation")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
