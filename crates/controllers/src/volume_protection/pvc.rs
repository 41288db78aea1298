//! A claim that is deleted stays for as long as a pod on some node names it.
//!
//! As in upstream it does not matter whether that pod still runs: its node may not have let go of the
//! volume. A pod that has no node yet does not count, because no kubelet starts a pod whose claim is being
//! deleted.

use coracle_runtime::{Action, Change, Controller, Informer, Manager, ObjectKey, Objects, Reconcile};
use kube::api::ListParams;

use super::{Plan, carry_out, plan, unsettled};
use crate::view::{PersistentVolumeClaim, Pod, claims, index_by_claim, pods, pods_of_claim};
use crate::{Registration, Settings};

/// The finalizer this controller stands for.
const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// Pods asked for at a time.
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
        .watches(&claims, |change| unsettled(change, FINALIZER))
        .watches(&pods, released_claims);
    manager.add(controller);
}

/// Whether the kubelet is done with a pod, or was not waited for: only finalizers of others keep it.
fn is_shut_down(pod: &Pod) -> bool {
    pod.metadata.is_terminating() && pod.metadata.deletion_grace_period_seconds == Some(0)
}

/// The claims that a pod may have held until now. One that has the name of another before it does not
/// hold what that one held.
fn released_claims(change: &Change<Pod>) -> Vec<ObjectKey> {
    let (old, new) = (change.old.as_ref(), change.new.as_ref());
    let gone = old.filter(|old| new.is_none_or(|new| new.metadata.uid() != old.metadata.uid()));
    let shut_down = new.filter(|new| is_shut_down(new));
    let claims = gone.into_iter().chain(shut_down).flat_map(|pod| pod.claims());
    let key =
        |claim: Box<str>| ObjectKey::namespaced(change.key.cluster().clone(), change.key.namespace(), claim);
    claims.map(key).collect()
}

/// Whether a pod keeps a claim from going.
fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let is_it = |name: &str| *name == *claim.metadata.name();
    let is_its_own = || claim.metadata.is_controlled_by(pod.metadata.uid());
    // A pod that is shut down and stays because of the claim made for it would stay for ever.
    let has_own = || !is_shut_down(pod) && pod.own_claims().any(|name| is_it(&name)) && is_its_own();
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
        // The cache may not know yet of a pod that was there when the claim was deleted.
        if planned == Plan::LetGo && self.is_used(key, &claim).await? {
            planned = Plan::Nothing;
        }
        carry_out(planned, &self.objects, key, &claim.metadata, FINALIZER).await?;
        Ok(Action::AwaitChange)
    }
}

impl Protection {
    /// Whether a pod uses a claim, by the server's word.
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
    fn a_pod_on_a_node_holds_what_it_names() {
        let named = claim("c", json!([]));
        assert!(uses(&pod("u", "n1", None), &named));
        assert!(uses(&pod("u", "n1", Some(0)), &named), "whatever has become of it");
        assert!(!uses(&pod("u", "", None), &named), "no kubelet will start it");
        assert!(!uses(&pod("u", "n1", None), &claim("other", json!([]))));
    }

    #[test]
    fn a_pod_holds_what_was_made_for_it_until_it_is_shut_down() {
        let own = claim("p-own", json!([{"uid": "u", "controller": true}]));
        assert!(uses(&pod("u", "n1", None), &own));
        assert!(uses(&pod("u", "n1", Some(30)), &own));
        assert!(!uses(&pod("u", "n1", Some(0)), &own));
        assert!(!uses(&pod("v", "n1", None), &own), "made for one of the same name before it");
        assert!(!uses(&pod("u", "n1", None), &claim("p-own", json!([{"uid": "u"}]))), "somebody else's");
    }

    #[test]
    fn claims_are_looked_at_when_a_pod_may_have_let_go_of_them() {
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
