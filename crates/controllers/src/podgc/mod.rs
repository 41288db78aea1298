//! Pod garbage collector: deletes pods that no kubelet will delete: those of deleted nodes or nodes out of service,
//! unscheduled ones that are terminating, and finished ones beyond a limit.
//!
//! Kubernetes checks all pods every 20 seconds; here changes of pods and nodes trigger the checks.

mod node;
mod terminated;
mod unscheduled;

use coracle_base::metrics::Counters;
use coracle_base::{Clock, Timestamp};
use coracle_runtime::{Manager, ObjectKey, Objects, Written};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use crate::view::{Condition, Pod, nodes, pods_by_node, rfc3339};
use crate::{Registration, Settings, api_error};

pub(crate) const REGISTRATION: Registration =
    Registration { name: "pod-garbage-collector-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let (pods, nodes) = (pods_by_node(manager), nodes(manager));
    let deletion = PodDeletion {
        objects: Objects::of::<k8s_openapi::api::core::v1::Pod>(manager.client()),
        clock: settings.clock.clone(),
        deleted: manager.metrics().counters(
            "pod_gc_collector_force_delete_pods_total",
            "Force deleted pods.",
            ["namespace", "reason"],
        ),
        failed: manager.metrics().counters(
            "pod_gc_collector_force_delete_pod_errors_total",
            "Failures to force delete pods.",
            ["namespace", "reason"],
        ),
    };
    node::register(manager, &pods, &nodes, &deletion);
    terminated::register(manager, &pods, &deletion);
    unscheduled::register(manager, &pods, &deletion);
}

/// Force deletes pods.
#[derive(Clone)]
struct PodDeletion {
    objects: Objects,
    clock: Clock,
    deleted: Counters<2>,
    failed: Counters<2>,
}

impl PodDeletion {
    /// Force deletes a pod, and counts the result.
    async fn end(&self, key: &ObjectKey, pod: &Pod, cause: &Cause) -> kube::Result<()> {
        let done = self.fail_and_force_delete(key, pod, cause.disruption.as_ref()).await;
        let counters = if done.is_ok() { &self.deleted } else { &self.failed };
        counters.with([key.namespace(), cause.label]).inc();
        done
    }

    /// Sets the phase of an unfinished pod to Failed, because no kubelet will, then deletes it without grace period.
    /// `disruption` is the reason for its condition, if it gets one.
    async fn fail_and_force_delete(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        disruption: Option<&Disruption>,
    ) -> kube::Result<()> {
        if !pod.is_finished() {
            let patch = Patch::Strategic(failed(pod, disruption, self.clock.now()));
            let params = PatchParams::default();
            match self.objects.patch_subresource::<Written>(key, "status", &params, &patch).await {
                Err(error) if api_error::is_missing(&error) => return Ok(()),
                done => drop(done?),
            }
        }
        let exactly = Preconditions { uid: Some(pod.metadata.uid().to_owned()), resource_version: None };
        let params = DeleteParams { preconditions: Some(exactly), ..DeleteParams::default().grace_period(0) };
        match self.objects.delete(key, &params).await {
            // Another pod has its name now.
            Err(error) if api_error::is_conflict(&error) => Ok(()),
            done => done,
        }
    }
}

/// Why a pod is deleted.
#[derive(Debug)]
struct Cause {
    /// Value of the `reason` label.
    label: &'static str,
    /// Condition of the pod.
    disruption: Option<Disruption>,
}

/// Reason and message of the DisruptionTarget condition.
#[derive(Debug)]
struct Disruption {
    reason: &'static str,
    message: &'static str,
}

fn failed(pod: &Pod, disruption: Option<&Disruption>, now: Timestamp) -> Value {
    let generation = pod.metadata.generation;
    let mut status = json!({"phase": "Failed", "observedGeneration": generation});
    if let Some(Disruption { reason, message }) = disruption {
        let known = pod.condition("DisruptionTarget").filter(|known| known.is_true());
        let since = known.and_then(|known: &Condition| known.last_transition_time).unwrap_or(now);
        status["conditions"] = json!([{
            "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
            "observedGeneration": generation, "lastTransitionTime": rfc3339(since),
        }]);
    }
    json!({"metadata": {"uid": pod.metadata.uid()}, "status": status})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn force_deleted_pod_has_failed() {
        let metadata = json!({"uid": "u", "generation": 2});
        let pod = |conditions: Value| -> Pod {
            serde_json::from_value(json!({"metadata": metadata, "status": {"conditions": conditions}}))
                .unwrap()
        };
        let now = Timestamp::from_millis(5_000);
        let plain = json!({"metadata": {"uid": "u"}, "status": {"phase": "Failed", "observedGeneration": 2}});
        assert_eq!(failed(&pod(json!([])), None, now), plain);
        let disruption = Disruption { reason: "R", message: "m" };
        let mut condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "R", "message": "m", "observedGeneration": 2,
            "lastTransitionTime": "1970-01-01T00:00:05Z",
        });
        let marked = failed(&pod(json!([])), Some(&disruption), now);
        assert_eq!(marked["status"]["conditions"], json!([condition]));
        let known = json!([{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "1970-01-01T00:00:01Z"}]);
        condition["lastTransitionTime"] = "1970-01-01T00:00:01Z".into();
        assert_eq!(failed(&pod(known), Some(&disruption), now)["status"]["conditions"], json!([condition]));
    }
}
