//! Evicts pods from nodes with `NoExecute` taints that they do not tolerate, at once or after the tolerated time.
//!
//! The time begins when the taint is observed here, as in Kubernetes, and a pod keeps its deadline until no taint
//! evicts it any more.

mod plan;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_base::metrics::{Buckets, Counter, Histogram};
use coracle_base::{Clock, Timestamp};
use coracle_runtime::{
    Action, Change, Controller, EventType, Informer, Manager, ObjectKey, Objects, Reconcile, Recorder,
    Reference, Written,
};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use crate::view::{Node, PODS_BY_NODE, Pod, Taint, nodes, pods_by_node, rfc3339};
use crate::{Registration, Settings, api_error};
use plan::{Stay, no_execute, stay};

/// Concurrent reconciles: Kubernetes' `UpdateWorkerSize`.
const WORKERS: usize = 8;

/// Kubernetes' buckets for the delay of evictions: five milliseconds to four minutes.
const DELAYS: [f64; 12] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0];

pub(crate) const REGISTRATION: Registration = Registration { name: "taint-eviction-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let (nodes, pods) = (nodes(manager), pods_by_node(manager));
    let deadlines = Arc::new(Deadlines::default());
    let reconcile = TaintEviction {
        objects: Objects::of::<k8s_openapi::api::core::v1::Pod>(manager.client()),
        node_objects: Objects::of::<k8s_openapi::api::core::v1::Node>(manager.client()),
        nodes: nodes.clone(),
        pods: pods.clone(),
        deadlines: Arc::clone(&deadlines),
        recorder: manager.recorder(REGISTRATION.name),
        clock: settings.clock.clone(),
        deleted: manager
            .metrics()
            .counter("taint_eviction_controller_pod_deletions_total", "Pods evicted from nodes."),
        delay: manager.metrics().histogram(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            "Delay between the time at which a pod had to be evicted and its deletion.",
            Buckets::new(&DELAYS),
        ),
    };
    let (of_pods, on_nodes) = (nodes.clone(), pods.clone());
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("noexec_taint_pod")
        .watches(&pods, move |change| pod_to_check(change, &of_pods, &deadlines))
        .watches(&nodes, move |change| pods_on_node(change, &on_nodes))
        .workers(WORKERS);
    manager.add(controller);
}

/// Pods on nodes with eviction taints, and pods with a deadline.
fn pod_to_check(change: &Change<Pod>, nodes: &Informer<Node>, deadlines: &Deadlines) -> Option<ObjectKey> {
    let taints = |pod: &Arc<Pod>| node_taints(nodes, &change.key, pod);
    let tainted = change.new.as_ref().is_some_and(|pod| no_execute(&taints(pod)).next().is_some());
    (tainted || deadlines.contains(&change.key)).then(|| change.key.clone())
}

/// Pods on a node whose eviction taints have changed.
fn pods_on_node(change: &Change<Node>, pods: &Informer<Pod>) -> Vec<ObjectKey> {
    let taints = |node: Option<&Arc<Node>>| -> Vec<Taint> {
        node.map(|node| no_execute(&node.spec.taints).cloned().collect()).unwrap_or_default()
    };
    if taints(change.old.as_ref()) == taints(change.new.as_ref()) {
        return Vec::new();
    }
    let cluster = change.key.cluster();
    let key =
        |pod: Arc<Pod>| ObjectKey::namespaced(cluster.clone(), pod.metadata.namespace(), pod.metadata.name());
    pods.store().by_index(PODS_BY_NODE, cluster, change.key.name()).into_iter().map(key).collect()
}

/// Taints of the pod's node.
fn node_taints(nodes: &Informer<Node>, pod_key: &ObjectKey, pod: &Pod) -> Box<[Taint]> {
    if pod.spec.node_name.is_empty() {
        return Box::default();
    }
    let key = ObjectKey::cluster_wide(pod_key.cluster().clone(), &*pod.spec.node_name);
    nodes.store().get(&key).map(|node| node.spec.taints.clone()).unwrap_or_default()
}

/// Deadlines of pods that are to be evicted.
#[derive(Debug, Default)]
struct Deadlines {
    pods: Mutex<HashMap<ObjectKey, Deadline>>,
}

#[derive(Clone, Debug)]
struct Deadline {
    /// The pod.
    about: Reference,
    at: Timestamp,
}

impl Deadlines {
    fn contains(&self, key: &ObjectKey) -> bool {
        self.pods().contains_key(key)
    }

    /// Deadline of a pod: the one set earlier, or `at`.
    fn deadline(&self, key: &ObjectKey, about: &Reference, at: Timestamp) -> Timestamp {
        let mut pods = self.pods();
        let fresh = || Deadline { about: about.clone(), at };
        let deadline = pods.entry(key.clone()).or_insert_with(fresh);
        if deadline.about.uid != about.uid {
            *deadline = fresh();
        }
        deadline.at
    }

    /// Removes a deadline, and returns the pod if it had one.
    fn forget(&self, key: &ObjectKey) -> Option<Reference> {
        self.pods().remove(key).map(|deadline| deadline.about)
    }

    fn pods(&self) -> MutexGuard<'_, HashMap<ObjectKey, Deadline>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct TaintEviction {
    objects: Objects,
    node_objects: Objects,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    deadlines: Arc<Deadlines>,
    recorder: Recorder,
    clock: Clock,
    deleted: Arc<Counter>,
    delay: Arc<Histogram>,
}

impl Reconcile for TaintEviction {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let Some(pod) = self.pods.store().get(key) else {
            self.cancel(key);
            return Ok(Action::AwaitChange);
        };
        let (now, about) = (self.clock.now(), Reference::to("v1", "Pod", &pod.metadata));
        match stay(&pod, &node_taints(&self.nodes, key, &pod)) {
            Stay::Forever => self.cancel(key),
            Stay::Evicted => {
                self.cancel(key);
                self.evict(key, &pod, now, now).await?;
            }
            Stay::For(time) => {
                let deadline = self.deadlines.deadline(key, &about, now + time);
                if now < deadline {
                    return Ok(Action::RequeueAfter(deadline.since(now)));
                }
                self.evict(key, &pod, deadline, now).await?;
                self.deadlines.forget(key);
            }
        }
        Ok(Action::AwaitChange)
    }
}

impl TaintEviction {
    /// Cancels the deadline of a pod.
    fn cancel(&self, key: &ObjectKey) {
        if let Some(about) = self.deadlines.forget(key) {
            self.record_event(
                key,
                about,
                &format!("Cancelling deletion of Pod {}/{}", key.namespace(), key.name()),
            );
        }
    }

    /// True if a pod does not tolerate the current taints of its node. The cached node may be outdated, and a taint
    /// that was removed must not evict pods. Pods of deleted nodes are left to the pod garbage collector.
    async fn is_still_evicted(&self, key: &ObjectKey, pod: &Pod) -> kube::Result<bool> {
        let node = ObjectKey::cluster_wide(key.cluster().clone(), &*pod.spec.node_name);
        let node: Option<Node> = self.node_objects.get(&node).await?;
        Ok(node.is_some_and(|node| stay(pod, &node.spec.taints) != Stay::Forever))
    }

    /// Deletes a pod that had to be evicted at `due`.
    async fn evict(&self, key: &ObjectKey, pod: &Pod, due: Timestamp, now: Timestamp) -> kube::Result<()> {
        if !self.is_still_evicted(key, pod).await? {
            return Ok(());
        }
        let about = Reference::to("v1", "Pod", &pod.metadata);
        self.record_event(
            key,
            about,
            &format!("Marking for deletion Pod {}/{}", key.namespace(), key.name()),
        );
        let uid = pod.metadata.uid().to_owned();
        let (params, patch) = (PatchParams::default(), Patch::Strategic(disrupted(pod, now)));
        let marked = self.objects.patch_subresource::<Written>(key, "status", &params, &patch).await;
        let this_one = Preconditions { uid: Some(uid), resource_version: None };
        let deleted = match marked {
            Ok(_) => self.objects.delete(key, &DeleteParams::default().preconditions(this_one)).await,
            Err(error) => Err(error),
        };
        match deleted {
            // It is gone or replaced.
            Err(error) if api_error::is_outdated(&error) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                self.deleted.inc();
                self.delay.observe_duration(self.clock.now().since(due));
                Ok(())
            }
        }
    }

    fn record_event(&self, key: &ObjectKey, about: Reference, message: &str) {
        let (kind, reason) = (EventType::Normal, "TaintManagerEviction");
        self.recorder.event(key.cluster(), about, kind, reason, message);
    }
}

/// The DisruptionTarget condition, by which the pod's controller sees that the pod did not fail by itself.
fn disrupted(pod: &Pod, now: Timestamp) -> Value {
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "observedGeneration": pod.metadata.generation,
        "lastTransitionTime": rfc3339(now),
    });
    json!({"metadata": {"uid": pod.metadata.uid()}, "status": {"conditions": [condition]}})
}

#[cfg(test)]
mod tests {
    use coracle_runtime::ClusterId;

    use super::*;

    #[test]
    fn deadline_is_kept_until_cancelled() {
        let (deadlines, key) = (Deadlines::default(), ObjectKey::namespaced(ClusterId::default(), "n", "p"));
        let at = Timestamp::from_millis;
        let about = |uid: &str| {
            let metadata = json!({"name": "p", "uid": uid});
            Reference::to("v1", "Pod", &serde_json::from_value(metadata).unwrap())
        };
        assert_eq!(deadlines.deadline(&key, &about("u"), at(10)), at(10));
        assert_eq!(deadlines.deadline(&key, &about("u"), at(20)), at(10));
        assert!(deadlines.contains(&key));
        assert_eq!(deadlines.deadline(&key, &about("v"), at(30)), at(30), "a new pod with the same name");
        assert_eq!(deadlines.forget(&key), Some(about("v")));
        assert_eq!(deadlines.forget(&key), None);
        assert_eq!(deadlines.deadline(&key, &about("u"), at(40)), at(40));
    }
}
