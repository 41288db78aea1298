//! The nodes of `--fake-nodes`: created when a cluster starts, and deleted when it starts with fewer.

use coracle_base::Clock;
use coracle_runtime::{ClusterId, ObjectKey, Objects, Written};
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1;
use kube::Client;
use kube::api::{DeleteParams, ListParams};

use crate::node::{self, NAME_PREFIX, REGION, REGION_LABEL};
use crate::nodes::{CONFLICT, WORKERS};
use crate::options::FakeNodes;
use crate::view::Node;

/// Nodes listed per request: a response of some 2 MiB.
const PAGE_SIZE: u32 = 500;

/// Simulated nodes of an earlier start that this one does not create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surplus {
    /// They are deleted: without simulation they would become NotReady, and their pods would be evicted.
    Delete,
    /// They stay: another server of the same store may simulate them.
    Keep,
}

/// The nodes of a cluster that has started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeSummary {
    /// All nodes of the default cluster.
    pub total: usize,
    /// Nodes among them that have the annotation [`NODE`](crate::NODE).
    pub simulated: usize,
    /// Nodes of an earlier start that were deleted.
    pub deleted: usize,
}

/// Creates the nodes of the default cluster that do not exist yet, and deletes those of an earlier start that are not
/// among them.
///
/// # Errors
/// If a request fails.
pub async fn provision(
    client: &Client,
    nodes: Option<&FakeNodes>,
    surplus: Surplus,
    clock: &Clock,
) -> kube::Result<NodeSummary> {
    let objects = Objects::of::<v1::Node>(client);
    let count = nodes.map_or(0, |nodes| nodes.count);
    let mut found = Found { count, ..Found::default() };
    let params = ListParams::default().limit(PAGE_SIZE);
    objects
        .list_pages::<Node>(&any_node(), &params, |page| page.iter().for_each(|node| found.add(node)))
        .await?;
    let mut summary = NodeSummary { total: found.total, simulated: found.simulated, deleted: 0 };
    if surplus == Surplus::Delete {
        delete_nodes(&objects, &found.surplus).await?;
        summary.deleted = found.surplus.len();
    }
    let created = match nodes {
        Some(nodes) => create_nodes(client, nodes, clock).await?,
        None => 0,
    };
    summary.total = summary.total + created - summary.deleted;
    summary.simulated = summary.simulated + created - summary.deleted;
    Ok(summary)
}

/// Creates the nodes of the default cluster that do not exist yet. Returns how many it created.
///
/// # Errors
/// If a request fails.
pub async fn create_nodes(client: &Client, nodes: &FakeNodes, clock: &Clock) -> kube::Result<usize> {
    let objects = &Objects::of::<v1::Node>(client);
    let create = |number| async move {
        match objects.create::<Written>(&any_node(), &node::body(nodes, number, clock.now())).await {
            // An earlier start created it.
            Err(kube::Error::Api(status)) if status.code == CONFLICT => Ok(0),
            done => done.map(|_| 1),
        }
    };
    let created = stream::iter(0..nodes.count).map(create).buffer_unordered(WORKERS);
    created.try_fold(0, |sum, created| async move { Ok(sum + created) }).await
}

async fn delete_nodes(objects: &Objects, names: &[String]) -> kube::Result<()> {
    let delete = |name: &String| {
        let key = ObjectKey::cluster_wide(ClusterId::default(), &**name);
        async move { objects.delete(&key, &DeleteParams::default()).await }
    };
    stream::iter(names).map(delete).buffer_unordered(WORKERS).try_collect().await
}

fn any_node() -> ObjectKey {
    ObjectKey::cluster_wide(ClusterId::default(), "")
}

/// The nodes that exist before this start creates any.
#[derive(Debug, Default)]
struct Found {
    /// Nodes `fake-0` to `fake-<count - 1>` are wanted.
    count: u32,
    total: usize,
    simulated: usize,
    surplus: Vec<String>,
}

impl Found {
    fn add(&mut self, node: &Node) {
        self.total += 1;
        self.simulated += usize::from(node.is_fake());
        if created_number(node).is_some_and(|number| number >= self.count) {
            self.surplus.push(node.metadata.name().to_owned());
        }
    }
}

/// The number of a node that [`create_nodes`] created. None for a simulated node of the user, whatever its name: it lacks
/// the region.
fn created_number(node: &Node) -> Option<u32> {
    let name = node.metadata.name();
    let number: u32 = name.strip_prefix(NAME_PREFIX)?.parse().ok()?;
    let is_created = node.is_fake() && node.metadata.labels.get(REGION_LABEL) == Some(REGION);
    (is_created && name == format!("{NAME_PREFIX}{number}")).then_some(number)
}

#[cfg(test)]
mod tests {
    use coracle_base::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    fn created(number: u32) -> Value {
        node::body(&FakeNodes::new(1), number, Timestamp::from_millis(0))
    }

    #[test]
    fn only_created_nodes_beyond_the_count_are_surplus() {
        let annotated = json!({"metadata": {"name": "fake-8", "annotations": {(crate::NODE): "true"}}});
        let mut renamed = created(9);
        renamed["metadata"]["name"] = "fake-09".into();
        let mut real = created(7);
        real["metadata"]["annotations"] = json!({});
        let all = [created(0), created(1), created(2), annotated, renamed, real];
        let mut found = Found { count: 2, ..Found::default() };
        for node in all {
            found.add(&serde_json::from_value(node).unwrap());
        }
        assert_eq!((found.total, found.simulated), (6, 5));
        assert_eq!(found.surplus, ["fake-2"]);
    }
}
