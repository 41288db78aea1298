//! `coracle token list`.

use anyhow::{Context, Result};
use clap::Args;
use coracle::tokens::{self, TokenInfo};
use serde_json::{Value, json};

use super::{ClusterArgs, explain, print};
use crate::args::Output;
use crate::table::aligned;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Output format.
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    output: Output,
}

pub(super) async fn run(args: &ListArgs) -> Result<()> {
    let found = tokens::list(args.cluster.client().await?).await.map_err(explain)?;
    match args.output {
        Output::Text => print(&text(&found)),
        Output::Json => {
            let rows: Vec<Value> = found.iter().map(row).collect();
            let json = serde_json::to_string_pretty(&rows).context("cannot write the list as JSON")?;
            print(&(json + "\n"))
        }
    }
}

fn text(found: &[TokenInfo]) -> String {
    let header = ["ID", "EXPIRES", "USAGES", "GROUPS", "USED", "DESCRIPTION"].map(str::to_owned);
    let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let rows = found.iter().map(|token| {
        let used = match &token.usage_limit {
            Some(limit) => format!("{}/{limit}", token.used),
            None => "-".to_owned(),
        };
        [
            token.id.clone(),
            token.expires.clone().unwrap_or_else(|| "never".to_owned()),
            or_none(token.usages.join(",")),
            or_none(token.groups.join(",")),
            used,
            or_none(token.description.clone()),
        ]
    });
    aligned(&std::iter::once(header).chain(rows).collect::<Vec<_>>())
}

fn row(token: &TokenInfo) -> Value {
    json!({
        "id": token.id,
        "expires": token.expires,
        "usages": token.usages,
        "groups": token.groups,
        "description": token.description,
        "usageLimit": token.usage_limit,
        "used": token.used,
    })
}
