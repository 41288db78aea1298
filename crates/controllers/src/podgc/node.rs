//! Deletes pods of deleted nodes, and terminating pods on nodes that are out of service.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_base::Timestamp;
use coracle_runtime::informer::PartialObject;
use coracle_runtime::{Action, Change, Controller, Informer, Manager, ObjectKey, Objects, Reconcile};
use futures_util::StreamExt;
use futures_util::stream::iter;

use super::{Cause, Disruption, PodDeletion};
use crate::pod_control::MAX_IN_FLIGHT;
use crate::view::{Node, PODS_BY_NODE, Pod};

/// Name of the controller in logs.
const NAME: &str = "pod-garbage-collector-nodes";

/// How long a node may be missing before its pods are deleted; the informer may not have seen a new node yet.
const QUARANTINE: Duration = Duration::from_secs(40);

/// Taint that users set on nodes that are shut down.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

const NODE_GONE: Cause = Cause {
    label: "orphaned",
    disruption: Some(Disruption { reason: "DeletionByPodGC", message: "PodGC: node no longer exists" }),
};

const NODE_OUT_OF_SERVICE: Cause = Cause { label: "out-of-service", disruption: None };

pub(super) fn register(
    manager: &mut Manager,
    pods: &Informer<Pod>,
    nodes: &Informer<Node>,
    deletion: &PodDeletion,
) {
    let reconcile = Nodes {
        objects: Objects::of::<k8s_openapi::api::core::v1::Node>(manager.client()),
        pods: pods.clone(),
        nodes: nodes.clone(),
        deletion: deletion.clone(),
        missing: Mutex::default(),
    };
    let known = nodes.clone();
    let controller = Controller::new(NAME, reconcile)
        .queue_name("orphaned_pods_nodes")
        .watches(nodes, |change| is_relevant(change).then(|| change.key.clone()))
        .watches(pods, move |change| node_of(change, &known));
    manager.add(controller);
}

/// True for nodes that were added, deleted, or are out of service.
fn is_relevant(change: &Change<Node>) -> bool {
    change.old.is_none() || change.new.as_ref().is_none_or(|node| is_out_of_service(node))
}

fn is_out_of_service(node: &Node) -> bool {
    !node.is_ready() && node.spec.taints.iter().any(|taint| &*taint.key == OUT_OF_SERVICE)
}

/// Node of a pod, if the node is missing or out of service.
fn node_of(change: &Change<Pod>, nodes: &Informer<Node>) -> Option<ObjectKey> {
    let pod = change.new.as_ref().filter(|pod| !pod.spec.node_name.is_empty())?;
    let key = ObjectKey::cluster_wide(change.key.cluster().clone(), &*pod.spec.node_name);
    let node = nodes.store().get(&key);
    let node_is_gone = node.is_none_or(|node| pod.metadata.is_terminating() && is_out_of_service(&node));
    node_is_gone.then_some(key)
}

/// Next step for the pods of a node.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Nothing,
    /// The node has been missing for a short time only.
    Wait(Duration),
    /// The node has been missing for too long: delete its pods, if it does not exist on the server either.
    DeleteAll,
    /// Delete the terminating pods.
    DeleteTerminating,
}

fn plan(node: Option<&Node>, has_pods: bool, missing_since: Timestamp, now: Timestamp) -> Plan {
    match node {
        _ if !has_pods => Plan::Nothing,
        Some(node) if is_out_of_service(node) => Plan::DeleteTerminating,
        Some(_) => Plan::Nothing,
        None => {
            let wait = (missing_since + QUARANTINE).since(now);
            if wait.is_zero() { Plan::DeleteAll } else { Plan::Wait(wait) }
        }
    }
}

struct Nodes {
    objects: Objects,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    deletion: PodDeletion,
    /// When nodes with pods were first seen missing.
    missing: Mutex<HashMap<ObjectKey, Timestamp>>,
}

impl Nodes {
    fn missing(&self) -> MutexGuard<'_, HashMap<ObjectKey, Timestamp>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn end(&self, node: &ObjectKey, pods: Vec<Arc<Pod>>, why: &Cause) -> kube::Result<()> {
        let deletions = pods.into_iter().map(|pod| async move {
            let cluster = node.cluster().clone();
            let key = ObjectKey::namespaced(cluster, pod.metadata.namespace(), pod.metadata.name());
            self.deletion.end(&key, &pod, why).await
        });
        let done: Vec<_> = iter(deletions).buffer_unordered(MAX_IN_FLIGHT).collect().await;
        done.into_iter().collect()
    }
}

impl Reconcile for Nodes {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let (node, now) = (self.nodes.store().get(key), self.deletion.clock.now());
        let mut pods = self.pods.store().by_index(PODS_BY_NODE, key.cluster(), key.name());
        let missing_since = if node.is_none() && !pods.is_empty() {
            *self.missing().entry(key.clone()).or_insert(now)
        } else {
            self.missing().remove(key);
            now
        };
        match plan(node.as_deref(), !pods.is_empty(), missing_since, now) {
            Plan::Nothing => {}
            Plan::Wait(wait) => return Ok(Action::RequeueAfter(wait)),
            Plan::DeleteTerminating => {
                pods.retain(|pod| pod.metadata.is_terminating());
                self.end(key, pods, &NODE_OUT_OF_SERVICE).await?;
            }
            Plan::DeleteAll => {
                let found: Option<PartialObject> = self.objects.get(key).await?;
                // If it exists, the informer will see it soon.
                if found.is_none() {
                    self.end(key, pods, &NODE_GONE).await?;
                }
            }
        }
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(ready: &str, taint: &str) -> Node {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        let taints = json!([{"key": taint, "effect": "NoExecute"}]);
        serde_json::from_value(json!({"spec": {"taints": taints}, "status": {"conditions": conditions}}))
            .unwrap()
    }

    #[test]
    fn pods_are_deleted_with_their_node() {
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1000);
        assert_eq!(plan(None, false, at(0), at(100)), Plan::Nothing);
        assert_eq!(plan(None, true, at(100), at(100)), Plan::Wait(QUARANTINE));
        assert_eq!(plan(None, true, at(100), at(130)), Plan::Wait(Duration::from_secs(10)));
        assert_eq!(plan(None, true, at(100), at(140)), Plan::DeleteAll);
        let down = node("Unknown", OUT_OF_SERVICE);
        assert_eq!(plan(Some(&down), true, at(0), at(100)), Plan::DeleteTerminating);
        assert_eq!(plan(Some(&down), false, at(0), at(100)), Plan::Nothing);
        assert_eq!(plan(Some(&node("True", OUT_OF_SERVICE)), true, at(0), at(100)), Plan::Nothing);
        assert_eq!(plan(Some(&node("False", "other")), true, at(0), at(100)), Plan::Nothing);
    }
}
