//! `coracle cluster list`.

use anyhow::{Context, Result};
use clap::Args;
use coracle::clusters::{self, ClusterInfo};

use super::limits::text as limit_text;
use super::{ServerArgs, explain, print};
use crate::args::Output;
use crate::table::aligned;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

pub(super) async fn run(args: &ListArgs) -> Result<()> {
    let found = clusters::list(&args.server.client().await?).await.map_err(explain)?;
    match args.output {
        Output::Text => print(&text(&found)),
        Output::Json => {
            let json = serde_json::to_string_pretty(&found).context("cannot write the list as JSON")?;
            print(&(json + "\n"))
        }
    }
}

fn text(found: &[ClusterInfo]) -> String {
    let header =
        ["ID", "CREATED", "OBJECTS", "MAX-OBJECTS", "BYTES", "MAX-BYTES", "STATUS"].map(str::to_owned);
    let rows = found.iter().map(|cluster| {
        [
            cluster.id.clone(),
            cluster.created_at.to_string(),
            cluster.usage.objects.to_string(),
            limit_text(cluster.limits.max_objects),
            cluster.usage.bytes.to_string(),
            limit_text(cluster.limits.max_bytes),
            if cluster.deleting { "Deleting" } else { "Active" }.to_owned(),
        ]
    });
    aligned(&std::iter::once(header).chain(rows).collect::<Vec<_>>())
}
