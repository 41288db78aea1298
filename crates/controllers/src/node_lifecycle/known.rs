//! What was last known of each node, so that people are told of changes once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use coracle_runtime::{ObjectKey, Reference};

use crate::view::{Node, condition};

/// What is new of a node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum News {
    None,
    /// It is here now.
    Registered(Reference),
    /// It is gone.
    Removed(Reference),
    /// It was ready, and is not any more.
    NotReady(Reference),
}

/// The nodes that are known.
#[derive(Debug, Default)]
pub(super) struct Known {
    nodes: Mutex<HashMap<ObjectKey, Seen>>,
}

#[derive(Debug)]
struct Seen {
    about: Reference,
    ready: bool,
    /// It stopped being ready, and its pods have not been told.
    pods_to_mark: bool,
}

impl Known {
    /// Notes how a node is; none if it is gone. What is new about it.
    pub(super) fn observe(&self, key: &ObjectKey, node: Option<&Node>) -> News {
        let mut nodes = self.nodes();
        let Some(node) = node else {
            return nodes.remove(key).map_or(News::None, |seen| News::Removed(seen.about));
        };
        let about = Reference::to("v1", "Node", &node.metadata);
        let (ready, said) = (node.is_ready(), condition(&node.status.conditions, "Ready").is_some());
        match nodes.get_mut(key).filter(|seen| seen.about.uid == about.uid) {
            None => {
                nodes.insert(key.clone(), Seen { about: about.clone(), ready, pods_to_mark: false });
                News::Registered(about)
            }
            Some(seen) => {
                let stopped = seen.ready && !ready && said;
                seen.pods_to_mark = !ready && (seen.pods_to_mark || stopped);
                seen.ready = ready;
                seen.about = about.clone();
                if stopped { News::NotReady(about) } else { News::None }
            }
        }
    }

    /// Whether the pods of a node have to be told that it is not ready.
    pub(super) fn has_pods_to_mark(&self, key: &ObjectKey) -> bool {
        self.nodes().get(key).is_some_and(|seen| seen.pods_to_mark)
    }

    /// Notes that they have been told.
    pub(super) fn marked_pods(&self, key: &ObjectKey) {
        if let Some(seen) = self.nodes().get_mut(key) {
            seen.pods_to_mark = false;
        }
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<ObjectKey, Seen>> {
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
    fn people_are_told_of_changes_once() {
        let (known, key) = (Known::default(), ObjectKey::cluster_wide(ClusterId::default(), "n"));
        let about = |uid: &str| Reference::to("v1", "Node", &node(uid, "").metadata);
        let observe = |uid: &str, ready: &str| known.observe(&key, Some(&node(uid, ready)));
        assert_eq!(known.observe(&key, None), News::None);
        assert_eq!(observe("u", "True"), News::Registered(about("u")));
        assert_eq!(observe("u", "True"), News::None);
        assert!(!known.has_pods_to_mark(&key));
        assert_eq!(observe("u", "Unknown"), News::NotReady(about("u")));
        assert_eq!(observe("u", "False"), News::None);
        assert!(known.has_pods_to_mark(&key), "until that is done");
        known.marked_pods(&key);
        assert_eq!(observe("u", "False"), News::None);
        assert!(!known.has_pods_to_mark(&key));
        assert_eq!(observe("u", "True"), News::None);
        assert_eq!(observe("v", "False"), News::Registered(about("v")), "another of the same name");
        assert!(!known.has_pods_to_mark(&key), "nothing is known of what it was before");
        assert_eq!(known.observe(&key, None), News::Removed(about("v")));
    }
}
