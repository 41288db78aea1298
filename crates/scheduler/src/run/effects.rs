//! Writes to the API server: bindings, evictions, status updates and events.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::{Clock, Task};
use coracle_meta::time::Time;
use coracle_runtime::{
    ClusterId, EventType, EventsRecorder, ObjectKey, Objects, Occurrence, Reference, Written,
};
use futures_util::FutureExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::bind_steps::BindSteps;
use super::binding::{PreBinding, Started};
use super::cluster::Cluster;
use crate::cluster_state::ClusterState;
use crate::framework::status::shortened;
use crate::framework::{BindError, Nomination, PluginSet};
use crate::view::Pod;

/// Reason of the pod's `PodScheduled` condition.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reason {
    Unschedulable,
    SchedulerError,
}

impl Reason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::SchedulerError => "SchedulerError",
        }
    }
}

/// Result of a task.
pub(super) enum Finished {
    /// A binding cycle ended.
    Bound {
        cluster: ClusterId,
        pod: Arc<Pod>,
        profile: usize,
        /// True if the nominated node was written to the pod's status.
        was_announced: bool,
        started: Started,
        result: Result<(), BindError>,
    },
    /// Victims were deleted, as far as possible. The pod is retried.
    Preempted { cluster: ClusterId, pod: Arc<Pod>, plugins: PluginSet, succeeded: bool, took: Duration },
    /// A status update or event was written.
    Published,
}

/// A scheduling failure to publish.
pub(super) struct Refused<'a> {
    /// The latest cached version.
    pub(super) pod: &'a Pod,
    pub(super) reason: Reason,
    pub(super) message: &'a str,
    /// Change of the nominated node.
    pub(super) nomination: &'a Nomination,
}

/// Victims to evict for a pod.
pub(super) struct Preemption {
    pub(super) pod: Arc<Pod>,
    /// Plugins that rejected the pod.
    pub(super) plugins: PluginSet,
    pub(super) victims: Vec<Arc<Pod>>,
    pub(super) node: Box<str>,
    /// Pods of lower priority that lose their nomination to the node.
    pub(super) displaced: Vec<Arc<Pod>>,
}

/// The clients of the API server. Cheap to clone.
#[derive(Clone)]
pub(super) struct Effects {
    pub(super) pods: Objects,
    /// By scheduler name.
    pub(super) recorders: HashMap<Box<str>, EventsRecorder>,
    pub(super) clock: Clock,
}

impl Effects {
    /// Starts the binding cycle of a pod with a chosen node. If the pod has PreBind steps, also returns the
    /// handle to cancel them.
    pub(super) fn bind(
        &self,
        cluster: &Cluster,
        pod: &Arc<Pod>,
        profile: usize,
        announced: Option<Task<()>>,
        started: Started,
    ) -> (Task<Finished>, Option<PreBinding>) {
        let steps = BindSteps::new(cluster, pod, profile, started.is_sampled);
        let pre_binding = steps.has_to_prepare().then(PreBinding::default);
        let announces = announced.is_none() && pre_binding.is_some();
        let announcing = announces.then(|| self.announce(&cluster.state, pod));
        let was_announced = announced.is_some() || announces;
        let guard = pre_binding.clone();
        let (cluster, pod) = (cluster.state.cluster.clone(), Arc::clone(pod));
        let task = Task::spawn("bind", async move {
            if let Some(announced) = announced {
                // It fails only if it panicked, and then nothing was written.
                drop(announced.await);
            }
            if let Some(announcing) = announcing {
                announcing.await;
            }
            // A panic of a plugin must not lose the pod.
            let result = AssertUnwindSafe(steps.run(guard)).catch_unwind().await;
            let result = result.unwrap_or_else(|_| Err(BindError::new("panicked while binding")));
            Finished::Bound { cluster, pod, profile, was_announced, started, result }
        });
        (task, pre_binding)
    }

    /// Writes the nominated node to the pod's status, for pods that wait or have PreBind steps.
    pub(super) fn announce(
        &self,
        state: &ClusterState,
        pod: &Pod,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (pods, key) = (self.pods.clone(), state.key_of(pod));
        let status = json!({"nominatedNodeName": pod.node_name});
        let uid = pod.metadata.uid.clone();
        async move { patch_status(&pods, &key, &uid, status).await }
    }

    /// Records the `Scheduled` event.
    pub(super) fn bound(&self, cluster: &ClusterId, pod: &Pod) {
        let message = format!("Successfully assigned {} to {}", pod.full_name(), pod.node_name);
        self.record_event(cluster, pod, EventType::Normal, "Scheduled", "Binding", message);
    }

    /// Publishes why a pod is not scheduled, and its nominated node, by event and condition.
    pub(super) fn refused(&self, cluster: &ClusterId, refused: Refused<'_>) -> Option<Task<Finished>> {
        let Refused { pod, reason, message, nomination } = refused;
        self.record_event(
            cluster,
            pod,
            EventType::Warning,
            "FailedScheduling",
            "Scheduling",
            shortened(message),
        );
        let status = self.unscheduled_status(pod, reason, message, nomination)?;
        let key = key_of(cluster, pod);
        let (pods, uid) = (self.pods.clone(), pod.metadata.uid.clone());
        Some(Task::spawn("pod status", async move {
            patch_status(&pods, &key, &uid, status).await;
            Finished::Published
        }))
    }

    /// Like [`Self::refused`], for a pod that waited for Permit plugins. The status is written after the
    /// announcement; that of a deleted pod is not written.
    pub(super) fn refused_after(
        &self,
        cluster: &ClusterId,
        refused: Refused<'_>,
        is_gone: bool,
        announced: Task<()>,
        node: &str,
    ) -> Option<Task<Finished>> {
        let Refused { pod, reason, message, nomination } = refused;
        self.record_event(
            cluster,
            pod,
            EventType::Warning,
            "FailedScheduling",
            "Scheduling",
            shortened(message),
        );
        if is_gone {
            return None;
        }
        let status = self.unscheduled_status(&pod.nominated_to(node), reason, message, nomination)?;
        let key = key_of(cluster, pod);
        let (pods, uid) = (self.pods.clone(), pod.metadata.uid.clone());
        Some(Task::spawn("pod status", async move {
            // The announcement must not overwrite this status.
            drop(announced.await);
            patch_status(&pods, &key, &uid, status).await;
            Finished::Published
        }))
    }

    /// Records that a terminating pod is not scheduled.
    pub(super) fn skipped(&self, cluster: &ClusterId, pod: &Pod) {
        let message = format!("skip schedule deleting pod: {}", pod.full_name());
        self.record_event(cluster, pod, EventType::Warning, "FailedScheduling", "Scheduling", message);
    }

    /// Evicts victims from a node and removes the nominations of pods with lower priority.
    pub(super) fn preempt(&self, cluster: &ClusterId, preemption: Preemption) -> Task<Finished> {
        let Preemption { pod, plugins, victims, node, displaced } = preemption;
        let (effects, cluster, began) = (self.clone(), cluster.clone(), self.clock.uptime());
        Task::spawn("preempt", async move {
            for other in displaced {
                let status = json!({"nominatedNodeName": null});
                patch_status(&effects.pods, &key_of(&cluster, &other), &other.metadata.uid, status).await;
            }
            let mut succeeded = true;
            for victim in victims {
                succeeded &= effects.evict(&cluster, &pod, &victim, &node).await;
            }
            let took = effects.clock.uptime().saturating_sub(began);
            Finished::Preempted { cluster, pod, plugins, succeeded, took }
        })
    }

    async fn evict(&self, cluster: &ClusterId, pod: &Pod, victim: &Pod, node: &str) -> bool {
        let key = key_of(cluster, victim);
        let message = format!("{}: preempting to accommodate a higher priority pod", pod.scheduler_name);
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": message,
            "observedGeneration": victim.generation, "lastProbeTime": null, "lastTransitionTime": self.now(),
        });
        patch_status(&self.pods, &key, &victim.metadata.uid, json!({"conditions": [condition]})).await;
        if let Err(error) = self.pods.delete(&key, &DeleteParams::default()).await {
            tracing::warn!(victim = %key, %error, "cannot delete a preemption victim");
            return false;
        }
        self.preempted(cluster, pod, victim, node, "");
        true
    }

    /// Records the `Preempted` event of a victim; `how` is appended to the message.
    pub(super) fn preempted(&self, cluster: &ClusterId, pod: &Pod, victim: &Pod, node: &str, how: &str) {
        let note = format!("Preempted by pod {} on node {node}{how}", pod.metadata.uid);
        let occurrence = Occurrence {
            regarding: reference(victim),
            related: Some(reference(pod)),
            kind: EventType::Normal,
            reason: "Preempted",
            action: "Preempting",
            note,
        };
        self.record(cluster, &pod.scheduler_name, occurrence);
    }

    /// The status patch for an unscheduled pod; none if the status is up to date.
    fn unscheduled_status(
        &self,
        pod: &Pod,
        reason: Reason,
        message: &str,
        nomination: &Nomination,
    ) -> Option<Value> {
        let condition = pod.scheduled.as_deref();
        let was_false = condition.filter(|condition| &*condition.status == "False");
        let is_new = !was_false
            .is_some_and(|condition| *condition.reason == *reason.as_str() && *condition.message == *message);
        let mut status = json!({});
        if is_new {
            let since = was_false.and_then(|condition| condition.last_transition_time.as_deref());
            status["conditions"] = json!([{
                "type": "PodScheduled", "status": "False", "reason": reason.as_str(), "message": message,
                "observedGeneration": pod.generation, "lastProbeTime": null,
                "lastTransitionTime": since.map_or_else(|| self.now(), str::to_owned),
            }]);
        }
        match nomination {
            Nomination::Clear if !pod.nominated_node.is_empty() => status["nominatedNodeName"] = Value::Null,
            Nomination::Node(node) if *node != pod.nominated_node => {
                status["nominatedNodeName"] = json!(node)
            }
            _ if !is_new => return None,
            _ => {}
        }
        Some(status)
    }

    fn record_event(
        &self,
        cluster: &ClusterId,
        about: &Pod,
        kind: EventType,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        let occurrence =
            Occurrence { regarding: reference(about), related: None, kind, reason, action, note };
        self.record(cluster, &about.scheduler_name, occurrence);
    }

    fn record(&self, cluster: &ClusterId, scheduler: &str, occurrence: Occurrence) {
        if let Some(recorder) = self.recorders.get(scheduler) {
            recorder.event(cluster, occurrence);
        }
    }

    fn now(&self) -> String {
        Time(i64::try_from(self.clock.now().as_millis() / 1000).unwrap_or(i64::MAX)).to_string()
    }
}

/// Patches the status of a pod unless it was replaced by another pod of the same name. A failure is only
/// logged: the event carries the same message, and the next attempt writes the status again.
async fn patch_status(pods: &Objects, key: &ObjectKey, uid: &str, status: Value) {
    let patch = Patch::Strategic(json!({"metadata": {"uid": uid}, "status": status}));
    if let Err(error) =
        pods.patch_subresource::<Written>(key, "status", &PatchParams::default(), &patch).await
    {
        tracing::debug!(pod = %key, %error, "cannot patch the status of a pod");
    }
}

fn key_of(cluster: &ClusterId, pod: &Pod) -> ObjectKey {
    ObjectKey::namespaced(cluster.clone(), &*pod.metadata.namespace, &*pod.metadata.name)
}

fn reference(pod: &Pod) -> Reference {
    let metadata = &pod.metadata;
    Reference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone(),
        uid: metadata.uid.clone(),
        resource_version: metadata.resource_version.clone(),
    }
}
