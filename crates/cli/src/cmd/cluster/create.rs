//! `coracle cluster create`.

use anyhow::Result;
use clap::Args;
use coracle::clusters;

use super::limits::LimitArgs;
use super::{ServerArgs, api_client, explain, print};

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// Id of the cluster; its API is served at /clusters/ID.
    #[arg(value_name = "ID", value_parser = api_client::cluster_id)]
    id: String,
    #[command(flatten)]
    limits: LimitArgs,
}

pub(super) async fn run(args: &CreateArgs) -> Result<()> {
    let client = args.server.client().await?;
    let created = clusters::create(&client, &args.id, &args.limits.change()).await.map_err(explain)?;
    let id = &created.id;
    print(&format!(
        "created: {id}\n\
         Next, create a kubeconfig for its administrator and use it:\n  \
         coracle kubeconfig create --user admin --group system:masters --cluster {id} --out {id}.kubeconfig\n  \
         kubectl --kubeconfig {id}.kubeconfig get namespaces\n"
    ))
}
