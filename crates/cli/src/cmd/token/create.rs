//! `coracle token create`.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use coracle::tokens::{self, TokenRequest};
use coracle_base::Clock;

use super::{ClusterArgs, explain, print};
use crate::lifetime;

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// How long it is good, such as 30m, 24h or 7d; 0 for ever.
    #[arg(long, value_name = "SPAN", default_value = "24h", value_parser = lifetime::parse)]
    expires: Duration,
    /// What it is good for.
    #[arg(
        long,
        value_name = "USAGE[,USAGE]",
        value_delimiter = ',',
        default_values_t = TokenRequest::default().usages
    )]
    usages: Vec<String>,
    /// Further groups of whoever shows it, each beginning with system:bootstrappers:
    #[arg(long, value_name = "GROUP[,GROUP...]", value_delimiter = ',')]
    groups: Vec<String>,
    /// What it is for.
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
    /// For how many nodes it is good [default: any number].
    #[arg(long, value_name = "N")]
    usage_limit: Option<usize>,
}

pub(super) async fn run(args: &CreateArgs) -> Result<()> {
    let request = TokenRequest {
        life: Some(args.expires).filter(|life| !life.is_zero()),
        usages: args.usages.clone(),
        groups: args.groups.clone(),
        description: args.description.clone(),
        usage_limit: args.usage_limit,
    };
    let client = args.cluster.client().await?;
    let token = tokens::create(client, &request, Clock::system().now()).await.map_err(explain)?;
    print(&format!("{}\n", token.expose()))
}
