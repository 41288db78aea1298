//! Protects claims that a scheduled pod names.
//!
//! As in Kubernetes it does not matter whether the pod is still running: its node may not have unmounted the volume.
//! An unscheduled pod does not count, because no kubelet starts a pod whose claim is terminating.

use coracle_runtime::{Action, Change, Controller, Informer, Manager, ObjectKey, Objects, Reconcile};
use kube::api::ListParams;

use super::{Plan, apply, needs_finalizer_change, plan};
use crate::view::{PersistentVolumeClaim, Pod, claims, index_by_claim, pods, pods_of_claim};
use crate::{Registration, Settings};

/// Finalizer of this controller.
const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// Page size of lists of pods.
const PAGE: u32 = 500;

pub(crate) const REGISTRATION: Registration =
    Registration { name: "persistentvolumeclaim-protection-controller", register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let (claims, pods) = (claims(manager), pods(manager));
    index_by_claim(&pods);
    let reconcile = Protection {
        objects: Objects::of::<k8s_openapi::api::core::v1::PersistentVolumeClaim>(manager.client()),
        pod_objects: Objects::of::<k8s_openapi::api::core::v1::Pod>(manager.client()),
        claims: claims.clone(),
        pods: pods.clone(),
    };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("pvcprotection")
        .watches(&claims, |change| needs_finalizer_change(change, FINALIZER))
        .watches(&pods, released_claims);
    manager.add(controller);
}

/// True if the kubelet has finished the pod, or the deletion did not wait for it: only finalizers keep the pod.
fn is_stopped(pod: &Pod) -> bool {
    pod.metadata.is_terminating() && pod.metadata.deletion_grace_period_seconds == Some(0)
}

/// Claims that a pod may have used until this change. A new pod of the same name does not use the claims of the
/// former one.
fn released_claims(change: &Change<Pod>) -> Vec<ObjectKey> {
    let (old, new) = (change.old.as_ref(), change.new.as_ref());
    let gone = old.filter(|old| new.is_none_or(|new| new.metadata.uid() != old.metadata.uid()));
    let shut_down = new.filter(|new| is_stopped(new));
    let claims = gone.into_iter().chain(shut_down).flat_map(|pod| pod.claims());
    let key =
        |claim: Box<str>| ObjectKey::namespaced(change.key.cluster().clone(), change.key.namespace(), claim);
    claims.map(key).collect()
}

/// True if the pod uses the claim.
fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let is_it = |name: &str| *name == *claim.metadata.name();
    let is_its_own = || claim.metadata.is_controlled_by(pod.metadata.uid());
    // Otherwise a finished pod that is kept because of its own claim would stay forever.
    let has_own = || !is_stopped(pod) && pod.own_claims().any(|name| is_it(&name)) && is_its_own();
    !pod.spec.node_name.is_empty() && (pod.named_claims().any(is_it) || has_own())
}

struct Protection {
    objects: Objects,
    pod_objects: Objects,
    claims: Informer<PersistentVolumeClaim>,
    pods: Informer<Pod>,
}

impl Reconcile for Protection {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let Some(claim) = self.claims.store().get(key) else { return Ok(Action::AwaitChange) };
        let is_used = || pods_of_claim(&self.pods, key).iter().any(|pod| uses(pod, &claim));
        let mut planned = plan(&claim.metadata, FINALIZER, is_used);
        // The cache may lack a pod that existed when the claim was deleted.
        if planned == Plan::RemoveFinalizer && self.is_used(key, &claim).await? {
            planned = Plan::Nothing;
        }
        apply(planned, &self.objects, key, &claim.metadata, FINALIZER).await?;
        Ok(Action::AwaitChange)
    }
}

impl Protection {
    /// True if a pod on the server uses the claim.
    async fn is_used(&self, key: &ObjectKey, claim: &PersistentVolumeClaim) -> Result<bool, kube::Error> {
        let (mut is_used, params) = (false, ListParams::default().limit(PAGE));
        let look = |page: Vec<Pod>| is_used |= page.iter().any(|pod| uses(pod, claim));
        self.pod_objects.list_pages(key, &params, look).await?;
        Ok(is_used)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use coracle_runtime::ClusterId;
    use serde_json::{Value, json};

    use super::*;

    fn pod(uid: &str, node: &str, grace_s: Option<i64>) -> Pod {
        let mut metadata = json!({"name": "p", "namespace": "n", "uid": uid});
        if let Some(grace_s) = grace_s {
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            metadata["deletionGracePeriodSeconds"] = grace_s.into();
        }
        let volumes = json!([
            {"name": "data", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "own", "ephemeral": {}},
        ]);
        let spec = json!({"nodeName": node, "volumes": volumes});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn claim(name: &str, owners: Value) -> PersistentVolumeClaim {
        let metadata = json!({"name": name, "namespace": "n", "ownerReferences": owners});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn scheduled_pod_uses_named_claims() {
        let named = claim("c", json!([]));
        assert!(uses(&pod("u", "n1", None), &named));
        assert!(uses(&pod("u", "n1", Some(0)), &named), "even if it is stopped");
        assert!(!uses(&pod("u", "", None), &named), "no kubelet will start it");
        assert!(!uses(&pod("u", "n1", None), &claim("other", json!([]))));
    }

    #[test]
    fn pod_uses_its_own_claims_until_stopped() {
        let own = claim("p-own", json!([{"uid": "u", "controller": true}]));
        assert!(uses(&pod("u", "n1", None), &own));
        assert!(uses(&pod("u", "n1", Some(30)), &own));
        assert!(!uses(&pod("u", "n1", Some(0)), &own));
        assert!(!uses(&pod("v", "n1", None), &own), "created for a former pod of the same name");
        assert!(
            !uses(&pod("u", "n1", None), &claim("p-own", json!([{"uid": "u"}]))),
            "the claim is not owned by the pod"
        );
    }

    #[test]
    fn claims_are_enqueued_when_a_pod_stops_using_them() {
        let released = |old: Option<Pod>, new: Option<Pod>| {
            let key = ObjectKey::namespaced(ClusterId::default(), "n", "p");
            let change = Change { key, old: old.map(Arc::new), new: new.map(Arc::new) };
            released_claims(&change).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let (both, none) = (["n/c", "n/p-own"], [""; 0]);
        let running = || Some(pod("u", "n1", None));
        assert_eq!(released(None, running()), none);
        assert_eq!(released(running(), Some(pod("u", "n1", Some(30)))), none);
        assert_eq!(released(running(), Some(pod("u", "n1", Some(0)))), both);
        assert_eq!(released(running(), Some(pod("v", "n1", None))), both);
        assert_eq!(released(running(), None), both);
    }
}
