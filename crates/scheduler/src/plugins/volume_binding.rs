//! VolumeBinding: checks that a pod's volumes are reachable from the node, and binds or provisions volumes
//! of claims that wait for the first consumer.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Clock;
use coracle_runtime::{ClusterId, Informer, ObjectKey, Objects, Written};
use k8s_openapi::api::core::v1 as core;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::cache::NodeInfo;
use crate::cluster_state::ClusterState;
use crate::framework::{
    About, BindError, ClusterEvent, Filter, NodeFilter, Plugin, PreBind, PreFilter, Rejection,
};
use crate::storage::{PodClaims, PodVolumes, Storage};
use crate::view::storage::{Claim, PersistentVolume, SELECTED_NODE};
use crate::view::{Node, Pod};

const UNBOUND: &str = "pod has unbound immediate PersistentVolumeClaims";
/// Annotation of a volume whose claim was chosen by the binder and not by the volume's creator.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// How long binding and provisioning may take before the pod is rescheduled: kube-scheduler's default.
const BIND_TIMEOUT: Duration = Duration::from_secs(600);

pub(crate) struct VolumeBinding {
    /// None in a simulation, where nothing is written.
    writer: Option<VolumeWriter>,
}

/// Writes volume bindings, and waits for the PersistentVolume controller to complete them.
#[derive(Clone)]
pub(crate) struct VolumeWriter {
    clock: Clock,
    claims: Objects,
    volumes: Objects,
    claim_informer: Informer<Claim>,
    volume_informer: Informer<PersistentVolume>,
}

impl VolumeBinding {
    pub(crate) fn new(writer: Option<VolumeWriter>) -> Self {
        Self { writer }
    }
}

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn pre_filter<'w>(&'w self, state: &'w ClusterState, pod: &'w Arc<Pod>) -> PreFilter<'w> {
        match state.storage.claims_of(pod) {
            Err(reason) => PreFilter::Reject(Rejection::unresolvable(reason)),
            Ok(None) => PreFilter::Skip,
            Ok(Some(claims)) if !claims.immediate.is_empty() => {
                PreFilter::Reject(Rejection::unresolvable(UNBOUND))
            }
            Ok(Some(claims)) => {
                PreFilter::Filter(Box::new(Reachable { storage: &state.storage, claims: Arc::new(claims) }))
            }
        }
    }

    fn reserve(&self, state: &mut ClusterState, pod: &Arc<Pod>, node: &str) -> Result<(), Rejection> {
        let Ok(Some(claims)) = state.storage.claims_of(pod) else { return Ok(()) };
        let Some(node) = state.cache.find(node).and_then(|info| info.node.clone()) else { return Ok(()) };
        let needed = state.storage.volumes_on(&claims, &node)?;
        if !needed.is_empty() {
            state.storage.reserve(&pod.metadata.uid, &node.metadata.name, needed);
        }
        Ok(())
    }

    fn unreserve(&self, state: &mut ClusterState, pod: &Pod, _node: &str) {
        state.storage.unreserve(&pod.metadata.uid);
    }

    fn pre_bind(&self, state: &ClusterState, pod: &Arc<Pod>, node: &str) -> Option<PreBind> {
        let writer = self.writer.clone()?;
        let claims = state.storage.claims_of(pod).ok().flatten()?;
        let needed = state.storage.reserved(&pod.metadata.uid).map(Arc::clone);
        let node = state.cache.find(node)?.node.clone()?;
        let cluster = state.cluster.clone();
        let steps = async move {
            writer.check_bound(&cluster, &claims.bound).await?;
            match &needed {
                Some(needed) => writer.bind(&cluster, needed, &node).await,
                None => Ok(()),
            }
        };
        Some(PreBind::new(steps).parallel())
    }

    fn post_bind(&self, state: &mut ClusterState, pod: &Pod, _node: &str) {
        state.storage.finish_binding(&pod.metadata.uid);
    }

    fn wants(&self, about: About) -> bool {
        matches!(about, About::Node | About::Storage)
    }

    fn hint(&self, _state: &ClusterState, pod: &Pod, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) | ClusterEvent::VolumeChanged { .. } => true,
            ClusterEvent::NodeChanged { changes, .. } => changes.labels,
            ClusterEvent::ClassChanged { old, new } => {
                old.as_ref().is_none_or(|old| old.allowed_topologies != new.allowed_topologies)
            }
            ClusterEvent::ClaimChanged { new, .. } => {
                let mut names = pod.volumes.iter().filter_map(|volume| volume.claim_name());
                new.metadata.namespace == pod.metadata.namespace
                    && names.any(|name| *name == *new.metadata.name)
            }
            ClusterEvent::CsiNodeChanged { old, .. } => old.is_none(),
            ClusterEvent::CapacityChanged { old, new } => {
                old.as_ref().is_none_or(|old| new.largest.is_some() && new.largest > old.largest)
            }
            ClusterEvent::CsiDriverChanged { old, new } => {
                old.spec.storage_capacity == Some(true) && new.spec.storage_capacity != Some(true)
            }
            _ => false,
        }
    }
}

#[derive(Clone)]
struct Reachable<'w> {
    storage: &'w Storage,
    claims: Arc<PodClaims>,
}

impl<'w> NodeFilter<'w> for Reachable<'w> {
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection> {
        let Some(node) = &info.node else { return Ok(()) };
        self.storage.volumes_on(&self.claims, node).map(drop)
    }

    fn boxed(&self) -> Filter<'w> {
        Box::new(self.clone())
    }
}

impl VolumeWriter {
    pub(crate) fn new(
        client: &Client,
        clock: Clock,
        claim_informer: Informer<Claim>,
        volume_informer: Informer<PersistentVolume>,
    ) -> Self {
        let claims = Objects::of::<core::PersistentVolumeClaim>(client);
        let volumes = Objects::of::<core::PersistentVolume>(client);
        Self { clock, claims, volumes, claim_informer, volume_informer }
    }

    /// Fails if a claim that is bound in the informer's cache no longer exists on the server. A claim that
    /// was deleted and created again waits for the node of its pod, and would wait for ever if the pod were
    /// bound without it.
    async fn check_bound(&self, cluster: &ClusterId, bound: &[Arc<Claim>]) -> Result<(), BindError> {
        for claim in bound {
            let found = self.claims.get::<Written>(&claim_key(cluster, claim)).await;
            let found = found.map_err(|error| BindError(error.to_string()))?;
            if found.is_none_or(|found| found.metadata.uid != claim.metadata.uid) {
                let name = &claim.metadata.name;
                return Err(BindError(format!(
                    "binding volumes: persistentvolumeclaim \"{name}\" was deleted or created again"
                )));
            }
        }
        Ok(())
    }

    /// Writes the reserved bindings and waits until they are complete.
    async fn bind(&self, cluster: &ClusterId, needed: &PodVolumes, node: &Node) -> Result<(), BindError> {
        for (volume, claim) in &needed.bindings {
            let key = ObjectKey::cluster_wide(cluster.clone(), &*volume.metadata.name);
            self.write(&self.volumes, &key, claim_ref(volume, claim)).await?;
        }
        for claim in &needed.provisions {
            let patch = json!({"metadata": {
                "resourceVersion": claim.metadata.resource_version,
                "annotations": {SELECTED_NODE: node.metadata.name},
            }});
            self.write(&self.claims, &claim_key(cluster, claim), patch).await?;
        }
        let deadline = self.clock.now() + BIND_TIMEOUT;
        let late = || BindError("binding volumes: context deadline exceeded".to_owned());
        tokio::select! {
            // Both are cancel-safe: they only wait.
            biased;
            bound = self.bound(cluster, needed, node) => bound,
            () = self.clock.sleep_until(deadline) => Err(late()),
        }
    }

    async fn write(&self, objects: &Objects, key: &ObjectKey, patch: Value) -> Result<(), BindError> {
        let answer = objects.patch::<Written>(key, &PatchParams::default(), &Patch::Merge(patch)).await;
        answer.map(drop).map_err(|error| BindError(error.to_string()))
    }

    /// Waits until all claims are bound.
    async fn bound(&self, cluster: &ClusterId, needed: &PodVolumes, node: &Node) -> Result<(), BindError> {
        let (mut claims, mut volumes) = (self.claim_informer.changes(), self.volume_informer.changes());
        loop {
            if self.is_bound(cluster, needed, node)? {
                return Ok(());
            }
            tokio::select! {
                // Both are cancel-safe: they only wait.
                biased;
                () = claims.next() => {}
                () = volumes.next() => {}
            }
        }
    }

    fn is_bound(&self, cluster: &ClusterId, needed: &PodVolumes, node: &Node) -> Result<bool, BindError> {
        let (mut all, mut waiting) =
            (needed.bindings.iter().map(|(_, claim)| claim).chain(&needed.provisions), false);
        all.try_for_each(|wanted| {
            let name = &wanted.metadata.name;
            let Some(claim) = self.claim_informer.store().get(&claim_key(cluster, wanted)) else {
                return Err(BindError(format!(
                    "binding volumes: persistentvolumeclaim \"{name}\" not found"
                )));
            };
            let is_newer = claim.metadata.resource_version != wanted.metadata.resource_version;
            let is_provision = wanted.selected_node.is_some()
                || needed.provisions.iter().any(|one| Arc::ptr_eq(one, wanted));
            if is_provision && is_newer && claim.selected_node.as_ref() != Some(&node.metadata.name) {
                return Err(BindError(format!("binding volumes: provisioning failed for PVC \"{name}\"")));
            }
            waiting |= !claim.is_bound();
            self.check_reachable(cluster, &claim, node)
        })?;
        Ok(!waiting)
    }

    fn check_reachable(&self, cluster: &ClusterId, claim: &Claim, node: &Node) -> Result<(), BindError> {
        let key = ObjectKey::cluster_wide(cluster.clone(), &*claim.volume);
        match self.volume_informer.store().get(&key) {
            Some(volume) if !volume.is_reachable(&node.labels) => Err(BindError(format!(
                "binding volumes: pv \"{}\" node affinity doesn't match node \"{}\"",
                claim.volume, node.metadata.name
            ))),
            _ => Ok(()),
        }
    }
}

fn claim_key(cluster: &ClusterId, claim: &Claim) -> ObjectKey {
    ObjectKey::namespaced(cluster.clone(), &*claim.metadata.namespace, &*claim.metadata.name)
}

/// A patch that binds a volume to a claim.
fn claim_ref(volume: &PersistentVolume, claim: &Claim) -> Value {
    let mut patch = json!({
        "metadata": {"resourceVersion": volume.metadata.resource_version},
        "spec": {"claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.metadata.namespace,
            "name": claim.metadata.name,
            "uid": claim.metadata.uid,
            "resourceVersion": claim.metadata.resource_version,
        }},
    });
    if !volume.is_of(claim) {
        patch["metadata"]["annotations"] = json!({BOUND_BY_CONTROLLER: "yes"});
    }
    patch
}
