//! Pods that somebody meant to disrupt and then did not.
//!
//! Who disrupts a pod says so in a condition first. If the pod is not being deleted some time after that, it
//! will not be, and the condition is taken back: what counts failures would be misled by it.

use std::time::Duration;

use coracle_base::{Clock, Timestamp};
use coracle_runtime::{Action, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Written};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::refusal;
use crate::view::{Pod, rfc3339};

/// The name in logs.
const NAME: &str = "disruption-controller-stale-pods";

/// How long a deletion may take to begin, as upstream's `stalePodDisruptionTimeout`.
const TIMEOUT: Duration = Duration::from_secs(120);

const TARGET: &str = "DisruptionTarget";

/// The reason of a node that ends a pod; that may take any time.
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

/// When the condition of a pod will be stale, if it has one that may become so.
fn stale_at(pod: &Pod) -> Option<Timestamp> {
    if pod.metadata.is_terminating() || pod.is_finished() {
        return None;
    }
    let target = pod.condition(TARGET).filter(|target| target.is_true() && &*target.reason != BY_KUBELET)?;
    Some(target.last_transition_time.unwrap_or_default() + TIMEOUT)
}

/// Takes the condition back, if the pod is still as it was.
fn taking_back(pod: &Pod, now: Timestamp) -> Value {
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
        let patch = Patch::Strategic(taking_back(&pod, now));
        let params = PatchParams::default();
        match self.objects.patch_subresource::<Written>(key, "status", &params, &patch).await {
            Err(error) if !refusal::is_missing(&error) && !refusal::is_conflict(&error) => Err(error),
            _ => Ok(Action::AwaitChange),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disruption_that_does_not_come_is_taken_back() {
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
