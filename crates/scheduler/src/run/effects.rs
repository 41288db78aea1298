//! What the scheduler does to the world: pods are bound, victims are sent away, people are told.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use coracle_base::{Clock, Task};
use coracle_meta::time::Time;
use coracle_runtime::{ClusterId, EventType, ObjectKey, Objects, Recorder, Reference, Written};
use futures_util::FutureExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::framework::status::shortened;
use crate::framework::{BindError, Nomination, PluginSet, Profile};
use crate::view::Pod;
use crate::world::World;

/// Why a pod is not scheduled, in its condition.
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

/// What has been done.
pub(super) enum Finished {
    /// A pod was brought to its node, or not.
    Bound { cluster: ClusterId, pod: Arc<Pod>, profile: usize, result: Result<(), BindError> },
    /// Victims were sent away. The pod is tried again.
    Preempted { cluster: ClusterId, pod: Arc<Pod>, plugins: PluginSet },
    /// People were told.
    Told,
}

/// Does it.
#[derive(Clone)]
pub(super) struct Effects {
    pub(super) pods: Objects,
    /// One for each scheduler that pods may name.
    pub(super) recorders: HashMap<Box<str>, Recorder>,
    pub(super) clock: Clock,
}

impl Effects {
    /// Brings a pod, which has its node, there.
    pub(super) fn bind(
        &self,
        world: &World,
        pod: &Arc<Pod>,
        place: usize,
        profile: &Profile,
    ) -> Task<Finished> {
        let node = &pod.node_name;
        let before: Vec<_> = (profile.plugins.iter())
            .filter_map(|enabled| Some((enabled.plugin.name(), enabled.plugin.pre_bind(world, pod, node)?)))
            .collect();
        let bind = profile
            .plugins
            .iter()
            .find_map(|enabled| Some((enabled.plugin.name(), enabled.plugin.bind(world, pod, node)?)));
        let announced = (!before.is_empty()).then(|| self.announce(world, pod));
        let (cluster, pod) = (world.cluster.clone(), Arc::clone(pod));
        Task::spawn("bind", async move {
            let result = async {
                if let Some(announced) = announced {
                    announced.await;
                }
                for (name, step) in before {
                    step.await
                        .map_err(|error| BindError(format!("running PreBind plugin \"{name}\": {error}")))?;
                }
                match bind {
                    Some((name, bind)) => bind
                        .await
                        .map_err(|error| BindError(format!("running Bind plugin \"{name}\": {error}"))),
                    None => Err(BindError("no plugin binds".to_owned())),
                }
            };
            // Whatever a plugin left half done is its own business, but its pod must not be lost.
            let result = AssertUnwindSafe(result).catch_unwind().await;
            let result = result.unwrap_or_else(|_| Err(BindError("panicked while binding".to_owned())));
            Finished::Bound { cluster, pod, profile: place, result }
        })
    }

    /// Says where a pod will run while what it needs there is still being made.
    fn announce(&self, world: &World, pod: &Pod) -> impl Future<Output = ()> + Send + 'static {
        let (pods, key) = (self.pods.clone(), world.key_of(pod));
        let status = json!({"nominatedNodeName": pod.node_name});
        let uid = pod.metadata.uid.clone();
        async move { patch_status(&pods, &key, &uid, status).await }
    }

    /// Says that a pod was bound.
    pub(super) fn bound(&self, cluster: &ClusterId, pod: &Pod) {
        let message = format!("Successfully assigned {} to {}", pod.full_name(), pod.node_name);
        self.tell(cluster, &pod.scheduler_name, pod, EventType::Normal, "Scheduled", message);
    }

    /// Says why a pod is not scheduled; what it was promised goes into its status too.
    pub(super) fn refused(
        &self,
        cluster: &ClusterId,
        pod: &Pod,
        reason: Reason,
        message: &str,
        nomination: &Nomination,
    ) -> Option<Task<Finished>> {
        let note = shortened(message);
        self.tell(cluster, &pod.scheduler_name, pod, EventType::Warning, "FailedScheduling", note);
        let status = self.unscheduled_status(pod, reason, message, nomination)?;
        let key = key_of(cluster, pod);
        let (pods, uid) = (self.pods.clone(), pod.metadata.uid.clone());
        Some(Task::spawn("pod status", async move {
            patch_status(&pods, &key, &uid, status).await;
            Finished::Told
        }))
    }

    /// Says that a pod is not scheduled because it is going.
    pub(super) fn skipped(&self, cluster: &ClusterId, pod: &Pod) {
        let message = format!("skip schedule deleting pod: {}", pod.full_name());
        self.tell(cluster, &pod.scheduler_name, pod, EventType::Warning, "FailedScheduling", message);
    }

    /// Sends victims away to make room on a node; those of less importance who were promised it lose that.
    pub(super) fn preempt(
        &self,
        cluster: &ClusterId,
        pod: &Arc<Pod>,
        plugins: PluginSet,
        victims: Vec<Arc<Pod>>,
        node: &str,
        outdone: Vec<Arc<Pod>>,
    ) -> Task<Finished> {
        let (effects, cluster, pod) = (self.clone(), cluster.clone(), Arc::clone(pod));
        let node: Box<str> = node.into();
        Task::spawn("preempt", async move {
            for other in outdone {
                let status = json!({"nominatedNodeName": null});
                patch_status(&effects.pods, &key_of(&cluster, &other), &other.metadata.uid, status).await;
            }
            for victim in victims.iter().filter(|victim| !victim.is_terminating()) {
                effects.send_away(&cluster, &pod, victim, &node).await;
            }
            Finished::Preempted { cluster, pod, plugins }
        })
    }

    async fn send_away(&self, cluster: &ClusterId, pod: &Pod, victim: &Pod, node: &str) {
        let key = key_of(cluster, victim);
        let message = format!("{}: preempting to accommodate a higher priority pod", pod.scheduler_name);
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": message,
            "observedGeneration": victim.generation, "lastProbeTime": null, "lastTransitionTime": self.now(),
        });
        patch_status(&self.pods, &key, &victim.metadata.uid, json!({"conditions": [condition]})).await;
        if let Err(error) = self.pods.delete(&key, &DeleteParams::default()).await {
            tracing::warn!(victim = %key, %error, "cannot preempt a pod");
            return;
        }
        let message = format!("Preempted by pod {} on node {node}", pod.metadata.uid);
        self.tell(cluster, &pod.scheduler_name, victim, EventType::Normal, "Preempted", message);
    }

    /// What to write into the status of a pod; none if it says so already.
    fn unscheduled_status(
        &self,
        pod: &Pod,
        reason: Reason,
        message: &str,
        nomination: &Nomination,
    ) -> Option<Value> {
        let known = pod.scheduled.as_deref();
        let was_false = known.filter(|condition| &*condition.status == "False");
        let is_news = !was_false
            .is_some_and(|condition| *condition.reason == *reason.as_str() && *condition.message == *message);
        let mut status = json!({});
        if is_news {
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
            _ if !is_news => return None,
            _ => {}
        }
        Some(status)
    }

    fn tell(
        &self,
        cluster: &ClusterId,
        scheduler: &str,
        about: &Pod,
        kind: EventType,
        reason: &'static str,
        message: String,
    ) {
        if let Some(recorder) = self.recorders.get(scheduler) {
            recorder.event(cluster, reference(about), kind, reason, message);
        }
    }

    fn now(&self) -> String {
        Time(i64::try_from(self.clock.now().as_millis() / 1000).unwrap_or(i64::MAX)).to_string()
    }
}

/// Changes the status of a pod, if it is still the same one. People are told by events as well, and the next
/// attempt says it again, so a failure is only logged.
async fn patch_status(pods: &Objects, key: &ObjectKey, uid: &str, status: Value) {
    let patch = Patch::Strategic(json!({"metadata": {"uid": uid}, "status": status}));
    if let Err(error) =
        pods.patch_subresource::<Written>(key, "status", &PatchParams::default(), &patch).await
    {
        tracing::debug!(pod = %key, %error, "cannot write the status of a pod");
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
