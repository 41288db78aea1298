//! Tracks readiness of nodes, to record each change once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use coracle_runtime::{ObjectKey, Reference};

use crate::view::{Node, condition};

/// Change of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum NodeChange {
    None,
    /// The node was added.
    Registered(Reference),
    /// The node was deleted.
    Removed(Reference),
    /// The node was ready, and is not any more.
    NotReady(Reference),
}

/// The last observed state of each node.
#[derive(Debug, Default)]
pub(super) struct NodeTracker {
    nodes: Mutex<HashMap<ObjectKey, TrackedNode>>,
}

#[derive(Debug)]
struct TrackedNode {
    about: Reference,
    ready: bool,
    /// It became unready, and its pods are not marked yet.
    pods_to_mark: bool,
}

impl NodeTracker {
    /// Records the state of a node, `None` if it is gone, and returns the change.
    pub(super) fn observe(&self, key: &ObjectKey, node: Option<&Node>) -> NodeChange {
        let mut nodes = self.nodes();
        let Some(node) = node else {
            return nodes.remove(key).map_or(NodeChange::None, |tracked| NodeChange::Removed(tracked.about));
        };
        let about = Reference::to("v1", "Node", &node.metadata);
        let (ready, reported) = (node.is_ready(), condition(&node.status.conditions, "Ready").is_some());
        match nodes.get_mut(key).filter(|tracked| tracked.about.uid == about.uid) {
            None => {
                nodes.insert(key.clone(), TrackedNode { about: about.clone(), ready, pods_to_mark: false });
                NodeChange::Registered(about)
            }
            Some(tracked) => {
                let stopped = tracked.ready && !ready && reported;
                tracked.pods_to_mark = !ready && (tracked.pods_to_mark || stopped);
                tracked.ready = ready;
                tracked.about = about.clone();
                if stopped { NodeChange::NotReady(about) } else { NodeChange::None }
            }
        }
    }

    /// True if the pods of the node must be marked as not ready.
    pub(super) fn has_pods_to_mark(&self, key: &ObjectKey) -> bool {
        self.nodes().get(key).is_some_and(|tracked| tracked.pods_to_mark)
    }

    /// Records that the pods are marked.
    pub(super) fn marked_pods(&self, key: &ObjectKey) {
        if let Some(tracked) = self.nodes().get_mut(key) {
            tracked.pods_to_mark = false;
        }
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<ObjectKey, TrackedNode>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use coracle_runtime::ClusterId;
    use serde_json::json;

    use super::*;

    fn node(uid: &str, ready: &str) -> Node {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        let node = json!({"metadata": {"name": "n", "uid": uid}, "status": {"conditions": conditions}});
        serde_json::from_value(node).unwrap()
    }

    #[test]
    fn changes_are_reported_once() {
        let (known, key) = (NodeTracker::default(), ObjectKey::cluster_wide(ClusterId::default(), "n"));
        let about = |uid: &str| Reference::to("v1", "Node", &node(uid, "").metadata);
        let observe = |uid: &str, ready: &str| known.observe(&key, Some(&node(uid, ready)));
        assert_eq!(known.observe(&key, None), NodeChange::None);
        assert_eq!(observe("u", "True"), NodeChange::Registered(about("u")));
        assert_eq!(observe("u", "True"), NodeChange::None);
        assert!(!known.has_pods_to_mark(&key));
        assert_eq!(observe("u", "Unknown"), NodeChange::NotReady(about("u")));
        assert_eq!(observe("u", "False"), NodeChange::None);
        assert!(known.has_pods_to_mark(&key), "until the pods are marked");
        known.marked_pods(&key);
        assert_eq!(observe("u", "False"), NodeChange::None);
        assert!(!known.has_pods_to_mark(&key));
        assert_eq!(observe("u", "True"), NodeChange::None);
        assert_eq!(
            observe("v", "False"),
            NodeChange::Registered(about("v")),
            "a new node with the same name"
        );
        assert!(!known.has_pods_to_mark(&key), "a new node has no former state");
        assert_eq!(known.observe(&key, None), NodeChange::Removed(about("v")));
    }
}
