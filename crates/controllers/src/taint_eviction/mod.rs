//! Pods leave nodes whose taints with the effect `NoExecute` they do not tolerate, at once or after the time
//! they tolerate them for.
//!
//! That time begins when the taint is seen here, as upstream has it, and a pod keeps it until nothing makes
//! it leave any more.

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
use crate::{Registration, Settings, refusal};
use plan::{Stay, no_execute, stay};

/// As many pods at a time as upstream (`UpdateWorkerSize`).
const WORKERS: usize = 8;

/// Upstream's limits of how late pods leave: five milliseconds to four minutes.
const DELAYS: [f64; 12] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0, 180.0, 240.0];

pub(crate) const REGISTRATION: Registration = Registration { name: "taint-eviction-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let (nodes, pods) = (nodes(manager), pods_by_node(manager));
    let leaving = Arc::new(Leaving::default());
    let reconcile = TaintEviction {
        objects: Objects::of::<k8s_openapi::api::core::v1::Pod>(manager.client()),
        node_objects: Objects::of::<k8s_openapi::api::core::v1::Node>(manager.client()),
        nodes: nodes.clone(),
        pods: pods.clone(),
        leaving: Arc::clone(&leaving),
        recorder: manager.recorder(REGISTRATION.name),
        clock: settings.clock.clone(),
        deleted: manager
            .metrics()
            .counter("taint_eviction_controller_pod_deletions_total", "Pods that had to leave a node."),
        delay: manager.metrics().histogram(
            "taint_eviction_controller_pod_deletion_duration_seconds",
            "How long after the time at which it had to leave a pod was deleted.",
            Buckets::new(&DELAYS),
        ),
    };
    let (of_pods, on_nodes) = (nodes.clone(), pods.clone());
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("noexec_taint_pod")
        .watches(&pods, move |change| concerned(change, &of_pods, &leaving))
        .watches(&nodes, move |change| on_tainted(change, &on_nodes))
        .workers(WORKERS);
    manager.add(controller);
}

/// A pod on a node that makes pods leave, or one that was to leave.
fn concerned(change: &Change<Pod>, nodes: &Informer<Node>, leaving: &Leaving) -> Option<ObjectKey> {
    let taints = |pod: &Arc<Pod>| node_taints(nodes, &change.key, pod);
    let tainted = change.new.as_ref().is_some_and(|pod| no_execute(&taints(pod)).next().is_some());
    (tainted || leaving.contains(&change.key)).then(|| change.key.clone())
}

/// The pods on a node whose taints have changed.
fn on_tainted(change: &Change<Node>, pods: &Informer<Pod>) -> Vec<ObjectKey> {
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

/// The taints of the node a pod is on.
fn node_taints(nodes: &Informer<Node>, pod_key: &ObjectKey, pod: &Pod) -> Box<[Taint]> {
    if pod.spec.node_name.is_empty() {
        return Box::default();
    }
    let key = ObjectKey::cluster_wide(pod_key.cluster().clone(), &*pod.spec.node_name);
    nodes.store().get(&key).map(|node| node.spec.taints.clone()).unwrap_or_default()
}

/// Pods that have to leave, and when.
#[derive(Debug, Default)]
struct Leaving {
    pods: Mutex<HashMap<ObjectKey, Deadline>>,
}

#[derive(Clone, Debug)]
struct Deadline {
    /// Which pod.
    about: Reference,
    at: Timestamp,
}

impl Leaving {
    fn contains(&self, key: &ObjectKey) -> bool {
        self.pods().contains_key(key)
    }

    /// When a pod has to leave: as was said when it was first to leave, or at `at`.
    fn deadline(&self, key: &ObjectKey, about: &Reference, at: Timestamp) -> Timestamp {
        let mut pods = self.pods();
        let fresh = || Deadline { about: about.clone(), at };
        let deadline = pods.entry(key.clone()).or_insert_with(fresh);
        if deadline.about.uid != about.uid {
            *deadline = fresh();
        }
        deadline.at
    }

    /// Forgets a pod; which one it was, if it was to leave.
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
    leaving: Arc<Leaving>,
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
            Stay::NotAtAll => {
                self.cancel(key);
                self.evict(key, &pod, now, now).await?;
            }
            Stay::For(time) => {
                let deadline = self.leaving.deadline(key, &about, now + time);
                if now < deadline {
                    return Ok(Action::RequeueAfter(deadline.since(now)));
                }
                self.evict(key, &pod, deadline, now).await?;
                self.leaving.forget(key);
            }
        }
        Ok(Action::AwaitChange)
    }
}

impl TaintEviction {
    /// A pod need not leave any more, or not at the time that was said.
    fn cancel(&self, key: &ObjectKey) {
        if let Some(about) = self.leaving.forget(key) {
            self.tell(key, about, &format!("Cancelling deletion of Pod {}/{}", key.namespace(), key.name()));
        }
    }

    /// Whether a pod does not tolerate the taints that its node has now. What is known of the node may be old: a taint
    /// that was taken away evicts nobody. The pods of a node that is gone are podgc's.
    async fn is_unbearable(&self, key: &ObjectKey, pod: &Pod) -> kube::Result<bool> {
        let node = ObjectKey::cluster_wide(key.cluster().clone(), &*pod.spec.node_name);
        let node: Option<Node> = self.node_objects.get(&node).await?;
        Ok(node.is_some_and(|node| stay(pod, &node.spec.taints) != Stay::Forever))
    }

    /// Deletes a pod that had to leave at `due`.
    async fn evict(&self, key: &ObjectKey, pod: &Pod, due: Timestamp, now: Timestamp) -> kube::Result<()> {
        if !self.is_unbearable(key, pod).await? {
            return Ok(());
        }
        let about = Reference::to("v1", "Pod", &pod.metadata);
        self.tell(key, about, &format!("Marking for deletion Pod {}/{}", key.namespace(), key.name()));
        let uid = pod.metadata.uid().to_owned();
        let (params, patch) = (PatchParams::default(), Patch::Strategic(disrupted(pod, now)));
        let marked = self.objects.patch_subresource::<Written>(key, "status", &params, &patch).await;
        let this_one = Preconditions { uid: Some(uid), resource_version: None };
        let deleted = match marked {
            Ok(_) => self.objects.delete(key, &DeleteParams::default().preconditions(this_one)).await,
            Err(error) => Err(error),
        };
        match deleted {
            // It is gone, or another one by now.
            Err(error) if refusal::is_outdated(&error) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => {
                self.deleted.inc();
                self.delay.observe_duration(self.clock.now().since(due));
                Ok(())
            }
        }
    }

    fn tell(&self, key: &ObjectKey, about: Reference, message: &str) {
        let (kind, reason) = (EventType::Normal, "TaintManagerEviction");
        self.recorder.event(key.cluster(), about, kind, reason, message);
    }
}

/// What whoever looks after a pod finds in its status, to tell that it did not fail by itself.
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
    fn a_deadline_is_kept_until_it_is_cancelled() {
        let (leaving, key) = (Leaving::default(), ObjectKey::namespaced(ClusterId::default(), "n", "p"));
        let at = Timestamp::from_millis;
        let about = |uid: &str| {
            let metadata = json!({"name": "p", "uid": uid});
            Reference::to("v1", "Pod", &serde_json::from_value(metadata).unwrap())
        };
        assert_eq!(leaving.deadline(&key, &about("u"), at(10)), at(10));
        assert_eq!(leaving.deadline(&key, &about("u"), at(20)), at(10));
        assert!(leaving.contains(&key));
        assert_eq!(leaving.deadline(&key, &about("v"), at(30)), at(30), "another of the same name");
        assert_eq!(leaving.forget(&key), Some(about("v")));
        assert_eq!(leaving.forget(&key), None);
        assert_eq!(leaving.deadline(&key, &about("u"), at(40)), at(40));
    }
}
