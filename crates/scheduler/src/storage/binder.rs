//! Selection of volumes for the claims of a pod on a node.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use super::Storage;
use crate::framework::Rejection;
use crate::view::storage::{Claim, PersistentVolume, PodVolume, StorageClass};
use crate::view::{Node, Pod};

const BIND_CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";
const NODE_CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";
const NOT_ENOUGH_SPACE: &str = "node(s) did not have enough free storage";
const VOLUME_GONE: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";

/// The claims of a pod by binding state.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodClaims {
    pub(crate) bound: Vec<Arc<Claim>>,
    /// Unbound, of a class with `WaitForFirstConsumer`.
    pub(crate) delayed: Vec<Arc<Claim>>,
    /// Unbound, although their class binds immediately.
    pub(crate) immediate: Vec<Arc<Claim>>,
}

/// Bindings and provisioning that a pod requires on a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodVolumes {
    /// Existing volumes with the claims to bind to them.
    pub(crate) bindings: Vec<(Arc<PersistentVolume>, Arc<Claim>)>,
    /// Claims for which a volume has to be provisioned.
    pub(crate) provisions: Vec<Arc<Claim>>,
}

impl PodVolumes {
    pub(crate) fn is_empty(&self) -> bool {
        self.bindings.is_empty() && self.provisions.is_empty()
    }
}

impl Storage {
    /// The claims of a pod; none if it has no volumes with claims.
    ///
    /// The error is the reason why a claim cannot be used, as published in the pod's condition.
    pub(crate) fn claims_of(&self, pod: &Pod) -> Result<Option<PodClaims>, String> {
        let mut claims = PodClaims::default();
        let mut has_any = false;
        for volume in &pod.volumes {
            let Some(name) = volume.claim_name() else { continue };
            has_any = true;
            let claim = self.usable_claim(pod, volume, name)?;
            let class = self.classes.get(&claim.class);
            if claim.is_bound() {
                claims.bound.push(claim);
            } else if claim.volume.is_empty() && class.is_some_and(|class| class.waits()) {
                claims.delayed.push(claim);
            } else {
                claims.immediate.push(claim);
            }
        }
        Ok(has_any.then_some(claims))
    }

    fn usable_claim(&self, pod: &Pod, volume: &PodVolume, name: &str) -> Result<Arc<Claim>, String> {
        let is_ephemeral = matches!(volume, PodVolume::Ephemeral(_));
        let Some(claim) = self.claim(pod.namespace(), name) else {
            return Err(if is_ephemeral {
                format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
                )
            } else {
                format!("persistentvolumeclaim \"{name}\" not found")
            });
        };
        if claim.is_lost {
            let volume = &claim.volume;
            return Err(format!(
                "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
            ));
        }
        if claim.is_terminating() {
            return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
        }
        if is_ephemeral && claim.owner_pod.as_deref() != Some(&*pod.metadata.uid) {
            return Err(format!(
                "PVC {}/{name} was not created for pod {} (pod is not owner)",
                pod.namespace(),
                pod.full_name()
            ));
        }
        Ok(Arc::clone(claim))
    }

    /// The bindings and provisioning required for a pod with these claims on a node.
    pub(crate) fn volumes_on(&self, claims: &PodClaims, node: &Node) -> Result<PodVolumes, Rejection> {
        let reachable = self.check_bound(claims, node);
        let found = self.find_for(&claims.delayed, node);
        match (reachable, found) {
            (Ok(()), found) => found,
            (Err(rejection), Ok(_)) => Err(rejection),
            // The reasons of bound claims come first, except for a missing volume.
            (Err(first), Err(second)) if first.first == VOLUME_GONE => Err(second.and(first.first)),
            (Err(first), Err(second)) => Err(first.and(second.first)),
        }
    }

    fn check_bound(&self, claims: &PodClaims, node: &Node) -> Result<(), Rejection> {
        for claim in &claims.bound {
            let Some(volume) = self.volume(&claim.volume) else {
                return Err(Rejection::unresolvable(VOLUME_GONE));
            };
            if !volume.is_reachable(&node.labels) {
                return Err(Rejection::unresolvable(NODE_CONFLICT));
            }
        }
        Ok(())
    }

    fn find_for(&self, claims: &[Arc<Claim>], node: &Node) -> Result<PodVolumes, Rejection> {
        let mut needed = PodVolumes::default();
        let mut to_match = Vec::new();
        for claim in claims {
            match &claim.selected_node {
                Some(selected) if *selected != node.metadata.name => {
                    return Err(Rejection::unresolvable(BIND_CONFLICT));
                }
                Some(_) => needed.provisions.push(Arc::clone(claim)),
                None => to_match.push(claim),
            }
        }
        // The smallest claim first, so that large volumes are left for large claims.
        to_match.sort_by_key(|claim| claim.bytes);
        let mut chosen = HashSet::new();
        for claim in to_match {
            match self.smallest_match(claim, node, &chosen) {
                Some(volume) => {
                    chosen.insert(volume.metadata.name.clone());
                    needed.bindings.push((Arc::clone(volume), Arc::clone(claim)));
                }
                None => needed.provisions.push(Arc::clone(claim)),
            }
        }
        for claim in &needed.provisions {
            self.check_provision(claim, node)?;
        }
        Ok(needed)
    }

    /// The smallest volume that satisfies a claim, or the one pre-bound to it.
    fn smallest_match(
        &self,
        claim: &Claim,
        node: &Node,
        chosen: &HashSet<Box<str>>,
    ) -> Option<&Arc<PersistentVolume>> {
        let usable = |volume: &&Arc<PersistentVolume>| {
            !chosen.contains(&volume.metadata.name)
                && (volume.claim.is_none() || volume.is_of(claim))
                && volume.bytes >= claim.bytes
                && volume.is_block == claim.is_block
                && volume.attributes_class == claim.attributes_class
                && volume.metadata.deletion_timestamp.is_none()
        };
        let volumes = || self.volumes_of(&claim.class).filter(usable);
        if let Some(prebound) = volumes().find(|volume| volume.is_of(claim)) {
            return prebound.is_reachable(&node.labels).then_some(prebound);
        }
        let free = volumes().filter(|volume| {
            volume.is_available
                && claim.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels))
                && volume.is_reachable(&node.labels)
                && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
        });
        free.min_by(|one, other| by_size(one, other))
    }

    /// Checks that a volume for a claim can be provisioned in the topology of a node.
    fn check_provision(&self, claim: &Claim, node: &Node) -> Result<(), Rejection> {
        let class = self
            .classes
            .get(&claim.class)
            .filter(|class| class.is_provisioned() && class.allows(&node.labels));
        let Some(class) = class else { return Err(Rejection::unresolvable(BIND_CONFLICT)) };
        if self.has_room(claim, class, node) {
            Ok(())
        } else {
            Err(Rejection::unresolvable(NOT_ENOUGH_SPACE))
        }
    }

    fn has_room(&self, claim: &Claim, class: &StorageClass, node: &Node) -> bool {
        let driver = self.csi_drivers.get(&class.provisioner);
        if claim.bytes == 0 || driver.is_none_or(|driver| driver.spec.storage_capacity != Some(true)) {
            return true;
        }
        self.capacities.values().any(|capacity| {
            capacity.class == class.metadata.name
                && capacity.largest.is_some_and(|largest| largest >= claim.bytes)
                && capacity.nodes.as_ref().is_some_and(|nodes| nodes.matches(&node.labels))
        })
    }
}

/// By size, and by name for a deterministic result.
fn by_size(one: &PersistentVolume, other: &PersistentVolume) -> Ordering {
    one.bytes.cmp(&other.bytes).then_with(|| one.metadata.name.cmp(&other.metadata.name))
}
