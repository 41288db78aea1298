//! Limits the number of finished pods, which are kept for inspection.

use std::sync::Arc;

use coracle_runtime::{Action, Change, ClusterId, Controller, Informer, Manager, ObjectKey, Reconcile};
use futures_util::StreamExt;
use futures_util::stream::iter;

use super::{Cause, PodDeletion};
use crate::pod_control::MAX_IN_FLIGHT;
use crate::view::{Phase, Pod};

/// Name of the controller in logs.
const NAME: &str = "pod-garbage-collector-terminated";

/// Number of finished pods kept per cluster: the default of `--terminated-pod-gc-threshold`.
const MAX_TERMINATED: usize = 12_500;

const TOO_MANY: Cause = Cause { label: "terminated", disruption: None };

/// Index of all finished pods, under one value.
const BY_END: &str = "terminated";

/// Name of the key that stands for all pods of a cluster.
const ALL: &str = "all";

pub(super) fn register(manager: &mut Manager, pods: &Informer<Pod>, deletion: &PodDeletion) {
    pods.store().add_index(BY_END, |pod| pod.is_finished().then(|| ALL.to_owned()).into_iter().collect());
    let reconcile = Terminated { pods: pods.clone(), deletion: deletion.clone() };
    let known = pods.clone();
    let controller = Controller::new(NAME, reconcile).watches(pods, move |change| too_many(change, &known));
    manager.add(controller);
}

/// The cluster's key, if one more finished pod exceeds the limit.
fn too_many(change: &Change<Pod>, pods: &Informer<Pod>) -> Option<ObjectKey> {
    let cluster = change.key.cluster();
    let ended = change.new.as_ref().is_some_and(|pod| pod.is_finished());
    (ended && pods.store().count_by_index(BY_END, cluster, ALL) > MAX_TERMINATED)
        .then(|| ObjectKey::cluster_wide(cluster.clone(), ALL))
}

/// Pods beyond the limit: evicted ones first, whose owners have replaced them, then the oldest.
fn plan(mut pods: Vec<Arc<Pod>>, limit: usize) -> Vec<Arc<Pod>> {
    let is_evicted = |pod: &Pod| pod.status.phase == Phase::Failed && &*pod.status.reason == "Evicted";
    pods.retain(|pod| pod.is_finished());
    let surplus = pods.len().saturating_sub(limit);
    if surplus > 0 {
        pods.sort_by_key(|pod| {
            let name = pod.metadata.name().to_owned();
            (!is_evicted(pod), pod.metadata.creation_timestamp, name)
        });
    }
    pods.truncate(surplus);
    pods
}

struct Terminated {
    pods: Informer<Pod>,
    deletion: PodDeletion,
}

impl Terminated {
    async fn end(&self, cluster: &ClusterId, pod: &Pod) -> kube::Result<()> {
        let key = ObjectKey::namespaced(cluster.clone(), pod.metadata.namespace(), pod.metadata.name());
        self.deletion.end(&key, pod, &TOO_MANY).await
    }
}

impl Reconcile for Terminated {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let pods = self.pods.store().by_index(BY_END, key.cluster(), ALL);
        let deletions = plan(pods, MAX_TERMINATED)
            .into_iter()
            .map(|pod| async move { self.end(key.cluster(), &pod).await });
        let done: Vec<_> = iter(deletions).buffer_unordered(MAX_IN_FLIGHT).collect().await;
        done.into_iter().collect::<Result<(), _>>().map(|()| Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn evicted_and_oldest_pods_are_deleted() {
        let pod = |name: &str, phase: &str, reason: &str, second: u32| -> Arc<Pod> {
            let created = format!("2026-01-01T00:00:{second:02}Z");
            let metadata = json!({"name": name, "creationTimestamp": created});
            Arc::new(
                serde_json::from_value(
                    json!({"metadata": metadata, "status": {"phase": phase, "reason": reason}}),
                )
                .unwrap(),
            )
        };
        let pods = vec![
            pod("young", "Succeeded", "", 30),
            pod("old", "Failed", "", 10),
            pod("twin", "Failed", "", 10),
            pod("evicted", "Failed", "Evicted", 40),
            pod("runs", "Running", "", 1),
        ];
        let names = |limit: usize| -> Vec<String> {
            plan(pods.clone(), limit).iter().map(|pod| pod.metadata.name().to_owned()).collect()
        };
        assert_eq!(names(4), [""; 0]);
        assert_eq!(names(3), ["evicted"]);
        assert_eq!(names(1), ["evicted", "old", "twin"]);
    }
}
