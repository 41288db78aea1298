//! Nominated pods: they wait until their victims have left the nominated node.

use std::collections::HashMap;
use std::sync::Arc;

use crate::view::Pod;

#[derive(Debug, Default)]
pub(crate) struct Nominated {
    by_node: HashMap<Box<str>, Vec<Arc<Pod>>>,
    of_pod: HashMap<Box<str>, Box<str>>,
}

impl Nominated {
    /// Nominates a pod to a node; an empty name removes the nomination.
    pub(crate) fn set(&mut self, pod: &Arc<Pod>, node: &str) {
        self.remove(&pod.metadata.uid);
        if !node.is_empty() {
            self.of_pod.insert(pod.metadata.uid.clone(), node.into());
            self.by_node.entry(node.into()).or_default().push(Arc::clone(pod));
        }
    }

    /// Removes the nomination of a pod.
    pub(crate) fn remove(&mut self, uid: &str) {
        let Some(node) = self.of_pod.remove(uid) else { return };
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|pod| *pod.metadata.uid != *uid);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }

    /// The node a pod is nominated to.
    pub(crate) fn node_of(&self, uid: &str) -> Option<&str> {
        self.of_pod.get(uid).map(|node| &**node)
    }

    /// The pods nominated to a node.
    pub(crate) fn on(&self, node: &str) -> &[Arc<Pod>] {
        self.by_node.get(node).map_or(&[], |pods| pods)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.of_pod.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_nominated_to_one_node_at_most() {
        let mut pod = Pod::default();
        pod.metadata.uid = "u".into();
        let pod = Arc::new(pod);
        let mut nominated = Nominated::default();
        nominated.set(&pod, "a");
        nominated.set(&pod, "b");
        assert!(nominated.on("a").is_empty() && nominated.on("b").len() == 1);
        assert_eq!(nominated.node_of("u"), Some("b"));
        nominated.set(&pod, "");
        assert!(nominated.is_empty() && nominated.on("b").is_empty());
    }
}
