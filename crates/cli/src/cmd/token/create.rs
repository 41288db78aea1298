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
    /// Lifetime, such as 30m, 24h or 7d; 0 for a token that never expires.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = lifetime::parse)]
    expires: Duration,
    /// Uses that the token is valid for.
    #[arg(
        long,
        value_name = "USAGE[,USAGE]",
        value_delimiter = ',',
        default_values_t = TokenRequest::default().usages
    )]
    usages: Vec<String>,
    /// Extra groups of users who authenticate with the token, each with the prefix system:bootstrappers:
    #[arg(long, value_name = "GROUP[,GROUP...]", value_delimiter = ',')]
    groups: Vec<String>,
    /// Description, for humans.
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
    /// Maximum number of nodes that may join with the token [default: unlimited].
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
