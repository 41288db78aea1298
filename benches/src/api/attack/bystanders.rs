//! A user and a node that send ordinary requests while the server is under attack.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use coracle_benches::measure::{Samples, start};
use http::{Method, Request};
use serde_json::json;

use super::Site;
use crate::client::{Connection, Connector, Outgoing};
use crate::objects::{get, post};

pub(super) const USER: &str = "alice";
pub(super) const NODE: &str = "system:node:n";

/// Pause between two requests of a bystander: short enough for a thousand samples, long enough not to be a load.
const PAUSE: Duration = Duration::from_millis(5);

/// Request timeout; a request that exceeds it fails the run.
const LIMIT: Duration = Duration::from_secs(30);

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIG_MAP: &str = "/api/v1/namespaces/default/configmaps/bystander";
const NODES: &str = "/api/v1/nodes";
const NODE_STATUS: &str = "/api/v1/nodes/n/status";

/// Latencies of the user's and of the node's requests.
pub(super) struct Latencies {
    pub(super) user: Samples,
    pub(super) node: Samples,
}

pub(super) struct Bystanders {
    user: Connector,
    node: Connector,
}

/// Creates the objects that the bystanders read and write.
pub(super) async fn prepare(site: &Site) -> Result<Bystanders> {
    let (user, node) = (site.connector(USER)?, site.connector(NODE)?);
    let object = json!({"metadata": {"name": "bystander"}, "data": {"key": "value"}});
    user.connect().await?.fetch(post(CONFIG_MAPS, object.to_string())).await?;
    node.connect().await?.fetch(post(NODES, json!({"metadata": {"name": "n"}}).to_string())).await?;
    Ok(Bystanders { user, node })
}

impl Bystanders {
    /// Sends requests for the given duration.
    pub(super) async fn measure(&self, duration: Duration) -> Result<Latencies> {
        let user = requests(&self.user, duration, |number| match number % 4 {
            0 => merge_patch(CONFIG_MAP, &json!({"data": {"key": number.to_string()}})),
            _ => get(CONFIG_MAP),
        });
        let node = requests(&self.node, duration, |number| match number % 4 {
            0 => get("/api/v1/nodes/n"),
            _ => merge_patch(NODE_STATUS, &json!({"status": {"nodeInfo": {"bootID": number.to_string()}}})),
        });
        let (user, node) = tokio::try_join!(user, node)?;
        Ok(Latencies { user, node })
    }
}

/// Sends requests sequentially: the first half on one connection, the second half on a new connection each, because
/// new clients must be able to connect during an attack.
async fn requests(
    connector: &Connector,
    duration: Duration,
    request: impl Fn(u64) -> Outgoing,
) -> Result<Samples> {
    let (mut samples, begin, mut number) = (Samples::default(), start(), 0);
    let mut connection = connector.connect().await?;
    while begin.elapsed() < duration {
        let sent = start();
        if begin.elapsed() > duration / 2 {
            connection = connect(connector).await?;
        }
        let answered = tokio::time::timeout(LIMIT, connection.count(request(number))).await;
        answered.context("no response in time")??;
        samples.push(sent.elapsed());
        number += 1;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(samples)
}

async fn connect(connector: &Connector) -> Result<Connection> {
    tokio::time::timeout(LIMIT, connector.connect()).await.context("no connection in time")?
}

fn merge_patch(path: &str, patch: &serde_json::Value) -> Outgoing {
    Request::builder()
        .method(Method::PATCH)
        .uri(path)
        .header("content-type", "application/merge-patch+json")
        .body(Bytes::from(patch.to_string()))
        .expect("the parts of a request are valid")
}
