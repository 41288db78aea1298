//! Sets an annotation of nodes with the time for which kubelets may cache secrets and config maps, depending on the
//! size of the cluster.
//!
//! The ranges overlap, so that a small change of a cluster's size does not change all of its nodes.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use coracle_runtime::{
    Action, Change, ClusterId, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Written,
};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::view::{Node, nodes};
use crate::{Registration, Settings, api_error};

const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

/// Minimum and maximum number of nodes, and the time in seconds.
const STEPS: [(usize, usize, u32); 5] =
    [(0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, usize::MAX, 300)];

pub(crate) const REGISTRATION: Registration = Registration { name: "ttl-controller", register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let (nodes, sizes) = (nodes(manager), Arc::new(Sizes::default()));
    let reconcile = Ttl {
        objects: Objects::of::<k8s_openapi::api::core::v1::Node>(manager.client()),
        nodes: nodes.clone(),
        sizes: Arc::clone(&sizes),
    };
    let all = nodes.clone();
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("ttlcontroller")
        .watches(&nodes, move |change| nodes_to_update(change, &sizes, &all));
    manager.add(controller);
}

/// A node with a wrong annotation, or all nodes of a cluster that has crossed a threshold.
fn nodes_to_update(change: &Change<Node>, sizes: &Sizes, nodes: &Informer<Node>) -> Vec<ObjectKey> {
    let cluster = change.key.cluster();
    let crossed_threshold = match (&change.old, &change.new) {
        (None, Some(_)) => sizes.grow(cluster),
        (Some(_), None) => sizes.shrink(cluster),
        _ => false,
    };
    if crossed_threshold {
        let all = nodes.store().in_cluster(cluster).into_iter();
        return all.map(|node| ObjectKey::cluster_wide(cluster.clone(), node.metadata.name())).collect();
    }
    let wrong = change.new.as_ref().is_some_and(|node| !is_right(node, sizes.seconds(cluster)));
    wrong.then(|| change.key.clone()).into_iter().collect()
}

fn is_right(node: &Node, seconds: u32) -> bool {
    node.metadata.annotations.get(ANNOTATION).is_some_and(|text| text.parse() == Ok(seconds))
}

/// Sizes of clusters.
#[derive(Debug, Default)]
struct Sizes {
    clusters: Mutex<HashMap<ClusterId, Size>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Size {
    nodes: usize,
    step: usize,
}

impl Sizes {
    /// Adds a node. True if the time changes for all nodes.
    fn grow(&self, cluster: &ClusterId) -> bool {
        self.change(cluster, |size| {
            size.nodes += 1;
            let up = size.nodes > STEPS[size.step].1;
            size.step += usize::from(up);
            up
        })
    }

    /// Removes a node. True if the time changes for all nodes.
    fn shrink(&self, cluster: &ClusterId) -> bool {
        self.change(cluster, |size| {
            size.nodes = size.nodes.saturating_sub(1);
            let down = size.nodes < STEPS[size.step].0;
            size.step -= usize::from(down);
            down
        })
    }

    /// Cache time for the nodes of a cluster.
    fn seconds(&self, cluster: &ClusterId) -> u32 {
        let clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        STEPS[clusters.get(cluster).map_or(0, |size| size.step)].2
    }

    fn change(&self, cluster: &ClusterId, change: impl FnOnce(&mut Size) -> bool) -> bool {
        let mut clusters = self.clusters.lock().unwrap_or_else(PoisonError::into_inner);
        let size = clusters.entry(cluster.clone()).or_default();
        let crossed_threshold = change(size);
        if size.nodes == 0 {
            clusters.remove(cluster);
        }
        crossed_threshold
    }
}

struct Ttl {
    objects: Objects,
    nodes: Informer<Node>,
    sizes: Arc<Sizes>,
}

impl Reconcile for Ttl {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let seconds = self.sizes.seconds(key.cluster());
        let Some(_wrong) = self.nodes.store().get(key).filter(|node| !is_right(node, seconds)) else {
            return Ok(Action::AwaitChange);
        };
        let patch = Patch::Merge(json!({"metadata": {"annotations": {ANNOTATION: seconds.to_string()}}}));
        match self.objects.patch::<Written>(key, &PatchParams::default(), &patch).await {
            Err(error) if !api_error::is_missing(&error) => Err(error),
            _ => Ok(Action::AwaitChange),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_hysteresis() {
        let (sizes, cluster) = (Sizes::default(), ClusterId::default());
        let to = |count: usize| {
            let mut steps = 0;
            loop {
                let now = sizes.clusters.lock().unwrap().get(&cluster).map_or(0, |size| size.nodes);
                steps += usize::from(match now.cmp(&count) {
                    std::cmp::Ordering::Less => sizes.grow(&cluster),
                    std::cmp::Ordering::Equal => return (steps, sizes.seconds(&cluster)),
                    std::cmp::Ordering::Greater => sizes.shrink(&cluster),
                });
            }
        };
        assert_eq!(to(100), (0, 0));
        assert_eq!(to(101), (1, 15));
        assert_eq!(to(90), (0, 15));
        assert_eq!(to(89), (1, 0));
        assert_eq!(to(5000), (4, 300));
        assert_eq!(to(1800), (0, 300));
        assert_eq!(to(0), (4, 0));
        assert_eq!(sizes.seconds(&ClusterId::new("other")), 0);
    }

    #[test]
    fn annotation_must_equal_the_time() {
        let node = |text: &str| -> Node {
            serde_json::from_value(json!({"metadata": {"annotations": {ANNOTATION: text}}})).unwrap()
        };
        assert!(is_right(&node("15"), 15) && !is_right(&node("0"), 15) && !is_right(&node("x"), 0));
        assert!(!is_right(&Node::default(), 0));
    }
}
