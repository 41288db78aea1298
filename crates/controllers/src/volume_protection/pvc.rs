//! A claim that is deleted stays for as long as a pod on some node names it.
//!
//! As in upstream it does not matter whether that pod still runs: its node may not have let go of the
//! volume. A pod that has no node yet does not count, because no kubelet starts a pod whose claim is being
//! deleted.

use coracle_runtime::informer::View;
use coracle_runtime::{Action, Change, Controller, Informer, Manager, ObjectKey, Reconcile, Selection};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod as WholePod};
use kube::api::ListParams;
use kube::core::request::Request;
use kube::{Api, Client, Resource};
use serde::Deserialize;

use super::objects::{Claim, Pod, Protected};
use super::{Plan, carry_out, plan, unsettled};
use crate::{Registration, Settings};

/// The finalizer this controller stands for.
const FINALIZER: &str = "kubernetes.io/pvc-protection";

/// Pods asked for at a time.
const PAGE: u32 = 500;

/// Pods on nodes by the claims they may use, as `namespace/name`.
const BY_CLAIM: &str = "claim";

pub(crate) const REGISTRATION: Registration =
    Registration { name: "persistentvolumeclaim-protection-controller", register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let (claims, pods) = (informer(manager), manager.informer(Selection::of::<WholePod>()));
    pods.store().add_index(BY_CLAIM, held_claims);
    let reconcile =
        Protection { client: manager.client().clone(), claims: claims.clone(), pods: pods.clone() };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .watches(&claims, |change| unsettled(change, FINALIZER))
        .watches(&pods, released_claims);
    manager.add(controller);
}

/// All claims.
pub(super) fn informer(manager: &mut Manager) -> Informer<Claim> {
    manager.informer(Selection::of::<PersistentVolumeClaim>())
}

fn held_claims(pod: &Pod) -> Vec<String> {
    let claims = pod.all_claims().filter(|_| pod.is_scheduled);
    claims.map(|claim| format!("{}/{claim}", pod.metadata().namespace)).collect()
}

/// The claims that a pod may have held until now. One that has the name of another before it does not
/// hold what that one held.
fn released_claims(change: &Change<Pod>) -> Vec<ObjectKey> {
    let (old, new) = (change.old.as_ref(), change.new.as_ref());
    let gone = old.filter(|old| new.is_none_or(|new| new.uid != old.uid));
    let shut_down = new.filter(|new| new.is_shut_down);
    let claims = gone.into_iter().chain(shut_down).flat_map(|pod| pod.all_claims());
    let key = |claim| ObjectKey::namespaced(change.key.cluster().clone(), change.key.namespace(), claim);
    claims.map(key).collect()
}

/// Whether a pod of the same namespace keeps a claim from going.
fn uses(pod: &Pod, claim: &Claim) -> bool {
    let has = |names: &[Box<str>]| names.contains(&claim.metadata().name);
    let is_its_own = || claim.controller.as_ref() == Some(&pod.uid);
    // A pod that is shut down and stays because of the claim made for it would stay for ever.
    let has_own = || !pod.is_shut_down && has(&pod.ephemeral_claims) && is_its_own();
    pod.is_scheduled && (has(&pod.claims) || has_own())
}

struct Protection {
    client: Client,
    claims: Informer<Claim>,
    pods: Informer<Pod>,
}

impl Reconcile for Protection {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let Some(claim) = self.claims.store().get(key) else { return Ok(Action::AwaitChange) };
        let known = || {
            let claim = format!("{}/{}", key.namespace(), key.name());
            self.pods.store().by_index(BY_CLAIM, key.cluster(), &claim)
        };
        let mut planned = plan(claim.protected(), FINALIZER, || known().iter().any(|pod| uses(pod, &claim)));
        // The cache may not know yet of a pod that was there when the claim was deleted.
        if planned == Plan::LetGo && self.is_used(key.namespace(), &claim).await? {
            planned = Plan::Nothing;
        }
        let api = Api::<PersistentVolumeClaim>::namespaced(self.client.clone(), key.namespace());
        carry_out(planned, &api, claim.protected(), FINALIZER).await?;
        Ok(Action::AwaitChange)
    }
}

#[derive(Deserialize)]
struct Pods {
    #[serde(default)]
    metadata: PageMetadata,
    items: Vec<Pod>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PageMetadata {
    r#continue: String,
}

impl Protection {
    /// Whether a pod uses a claim, by the server's word.
    async fn is_used(&self, namespace: &str, claim: &Claim) -> Result<bool, kube::Error> {
        let pods = Request::new(WholePod::url_path(&(), Some(namespace)));
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let request = pods.list(&params).map_err(kube::Error::BuildRequest)?;
            let page: Pods = self.client.request(request).await?;
            if page.items.iter().any(|pod| uses(pod, claim)) {
                return Ok(true);
            }
            if page.metadata.r#continue.is_empty() {
                return Ok(false);
            }
            params.continue_token = Some(page.metadata.r#continue);
        }
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

    fn claim(name: &str, owners: Value) -> Claim {
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

    #[test]
    fn pods_are_found_by_what_they_may_hold() {
        assert_eq!(held_claims(&pod("u", "n1", None)), ["n/c", "n/p-own"]);
        assert!(held_claims(&pod("u", "", None)).is_empty());
    }
}
