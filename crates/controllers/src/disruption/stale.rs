//! Removes stale DisruptionTarget conditions.
//!
//! A component that disrupts a pod first sets this condition. If the pod is not being deleted some time later, the
//! disruption did not happen, and the condition is reset: it would mislead controllers that count failures.

use std::time::Duration;

use coracle_base::{Clock, Timestamp};
use coracle_runtime::{Action, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Written};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::api_error;
use crate::view::{Pod, rfc3339};

/// Name of the controller in logs.
const NAME: &str = "disruption-controller-stale-pods";

/// How long a deletion may take to begin; Kubernetes' `stalePodDisruptionTimeout`.
const TIMEOUT: Duration = Duration::from_secs(120);

const TARGET: &str = "DisruptionTarget";

/// Reason of a kubelet that terminates a pod, which may take any time.
const BY_KUBELET: &str = "TerminationByKubelet";

pub(super) fn register(manager: &mut Manager, pods: &Informer<Pod>, clock: &Clock) {
    let objects = Objects::of::<k8s_openapi::api::core::v1::Pod>(manager.client());
    let reconcile = Stale { objects, pods: pods.clone(), clock: clock.clone() };
    let controller =
        Controller::new(NAME, reconcile).queue_name("stale_pod_disruption").watches(pods, |change| {
            change.new.as_ref().and_then(|pod| stale_at(pod)).map(|_| change.key.clone())
        });
    manager.add(controller);
}

/// When the pod's condition becomes stale, if it has one that can.
fn stale_at(pod: &Pod) -> Option<Timestamp> {
    if pod.metadata.is_terminating() || pod.is_finished() {
        return None;
    }
    let target = pod.condition(TARGET).filter(|target| target.is_true() && &*target.reason != BY_KUBELET)?;
    Some(target.last_transition_time.unwrap_or_default() + TIMEOUT)
}

/// A patch that resets the condition, and fails if the pod has changed.
fn reset_condition(pod: &Pod, now: Timestamp) -> Value {
    let condition = json!({
        "type": TARGET, "status": "False", "observedGeneration": pod.metadata.generation, "reason": null,
        "message": null, "lastProbeTime": null, "lastTransitionTime": rfc3339(now),
    });
    let metadata = json!({"uid": pod.metadata.uid(), "resourceVersion": pod.metadata.resource_version()});
    json!({"metadata": metadata, "status": {"conditions": [condition]}})
}

struct Stale {
    objects: Objects,
    pods: Informer<Pod>,
    clock: Clock,
}

impl Reconcile for Stale {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let pod = self.pods.store().get(key);
        let Some((pod, at)) = pod.and_then(|pod| stale_at(&pod).map(|at| (pod, at))) else {
            return Ok(Action::AwaitChange);
        };
        let now = self.clock.now();
        let wait = at.since(now);
        if !wait.is_zero() {
            return Ok(Action::RequeueAfter(wait));
        }
        let patch = Patch::Strategic(reset_condition(&pod, now));
        let params = PatchParams::default();
        match self.objects.patch_subresource::<Written>(key, "status", &params, &patch).await {
            Err(error) if !api_error::is_missing(&error) && !api_error::is_conflict(&error) => Err(error),
            _ => Ok(Action::AwaitChange),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_disruption_target_is_reset() {
        let stale = |phase: &str, status: &str, reason: &str, deletion: Option<&str>| {
            let condition = json!({
                "type": TARGET, "status": status, "reason": reason, "lastTransitionTime": "1970-01-01T00:01:00Z",
            });
            let status = json!({"phase": phase, "conditions": [condition]});
            let pod = json!({"metadata": {"deletionTimestamp": deletion}, "status": status});
            stale_at(&serde_json::from_value(pod).unwrap()).map(Timestamp::as_millis)
        };
        assert_eq!(stale("Running", "True", "EvictionByEvictionAPI", None), Some(180_000));
        assert_eq!(stale("Running", "False", "EvictionByEvictionAPI", None), None);
        assert_eq!(stale("Running", "True", BY_KUBELET, None), None);
        assert_eq!(stale("Failed", "True", "EvictionByEvictionAPI", None), None);
        assert_eq!(stale("Running", "True", "EvictionByEvictionAPI", Some("1970-01-01T00:01:00Z")), None);
        assert_eq!(stale_at(&Pod::default()), None);
    }
}
