//! A user and a node that use the server as usual while others attack it.

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

/// Between two requests of a bystander: often enough for a thousand samples, and no load of its own.
const PAUSE: Duration = Duration::from_millis(5);

/// No request may take longer; a bystander that is not served fails the run.
const LIMIT: Duration = Duration::from_secs(30);

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CONFIG_MAP: &str = "/api/v1/namespaces/default/configmaps/bystander";
const NODES: &str = "/api/v1/nodes";
const NODE_STATUS: &str = "/api/v1/nodes/n/status";

/// How long the requests of both took.
pub(super) struct Latencies {
    pub(super) user: Samples,
    pub(super) node: Samples,
}

pub(super) struct Bystanders {
    user: Connector,
    node: Connector,
}

/// Creates what the bystanders read and write.
pub(super) async fn prepare(site: &Site) -> Result<Bystanders> {
    let (user, node) = (site.connector(USER)?, site.connector(NODE)?);
    let object = json!({"metadata": {"name": "bystander"}, "data": {"key": "value"}});
    user.connect().await?.fetch(post(CONFIG_MAPS, object.to_string())).await?;
    node.connect().await?.fetch(post(NODES, json!({"metadata": {"name": "n"}}).to_string())).await?;
    Ok(Bystanders { user, node })
}

impl Bystanders {
    /// Sends requests for some time.
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

/// Sends one request after the other. The first half on one connection, the second on a new one for each, because
/// new clients must get in during an attack, too.
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
