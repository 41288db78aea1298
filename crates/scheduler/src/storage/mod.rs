//! Cache of volume-related objects, overlaid with reservations that the API server has not confirmed.

mod binder;

use std::collections::HashMap;
use std::sync::Arc;

pub(crate) use binder::{PodClaims, PodVolumes};

use crate::view::storage::{
    Claim, ClaimRef, CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, StorageClass, VolumeAttachment,
};

/// Namespace and name.
type Key = (Box<str>, Box<str>);

#[derive(Debug, Default)]
pub(crate) struct Storage {
    claims: HashMap<Key, Arc<Claim>>,
    volumes: HashMap<Box<str>, Arc<PersistentVolume>>,
    pub(crate) classes: HashMap<Box<str>, Arc<StorageClass>>,
    pub(crate) csi_nodes: HashMap<Box<str>, Arc<CsiNode>>,
    pub(crate) csi_drivers: HashMap<Box<str>, Arc<CsiDriver>>,
    pub(crate) capacities: HashMap<Key, Arc<CsiStorageCapacity>>,
    /// By node, and then by name.
    attachments: HashMap<Box<str>, HashMap<Box<str>, Arc<VolumeAttachment>>>,
    /// Claims with a reserved node, until a newer version arrives.
    assumed_claims: HashMap<Key, Arc<Claim>>,
    /// Volumes with a reserved claim, until a newer version arrives.
    assumed_volumes: HashMap<Box<str>, Arc<PersistentVolume>>,
    /// Volumes reserved for pods in their binding cycle, by the pod's UID.
    reserved: HashMap<Box<str>, Arc<PodVolumes>>,
}

impl Storage {
    pub(crate) fn claim(&self, namespace: &str, name: &str) -> Option<&Arc<Claim>> {
        let key = (namespace.into(), name.into());
        self.assumed_claims.get(&key).or_else(|| self.claims.get(&key))
    }

    pub(crate) fn volume(&self, name: &str) -> Option<&Arc<PersistentVolume>> {
        self.assumed_volumes.get(name).or_else(|| self.volumes.get(name))
    }

    /// All volumes of a StorageClass.
    fn volumes_of<'a, 'b>(
        &'a self,
        class: &'b str,
    ) -> impl Iterator<Item = &'a Arc<PersistentVolume>> + use<'a, 'b> {
        let current =
            self.volumes.iter().map(|(name, cached)| self.assumed_volumes.get(name).unwrap_or(cached));
        current.filter(move |volume| *volume.class == *class)
    }

    pub(crate) fn attachments_of(&self, node: &str) -> impl Iterator<Item = &Arc<VolumeAttachment>> {
        self.attachments.get(node).into_iter().flat_map(HashMap::values)
    }

    /// Adds, updates or removes (none) a claim.
    pub(crate) fn set_claim(&mut self, namespace: &str, name: &str, claim: Option<Arc<Claim>>) {
        let key = (namespace.into(), name.into());
        self.assumed_claims.remove(&key);
        match claim {
            Some(claim) => drop(self.claims.insert(key, claim)),
            None => drop(self.claims.remove(&key)),
        }
    }

    /// Adds, updates or removes (none) a volume.
    pub(crate) fn set_volume(&mut self, name: &str, volume: Option<Arc<PersistentVolume>>) {
        self.assumed_volumes.remove(name);
        match volume {
            Some(volume) => drop(self.volumes.insert(name.into(), volume)),
            None => drop(self.volumes.remove(name)),
        }
    }

    /// Replaces the old version of an attachment by the new one.
    pub(crate) fn set_attachment(
        &mut self,
        old: Option<&Arc<VolumeAttachment>>,
        new: Option<&Arc<VolumeAttachment>>,
    ) {
        if let Some(old) = old
            && let Some(of_node) = self.attachments.get_mut(&old.spec.node_name)
        {
            of_node.remove(&old.metadata.name);
            if of_node.is_empty() {
                self.attachments.remove(&old.spec.node_name);
            }
        }
        if let Some(new) = new {
            let of_node = self.attachments.entry(new.spec.node_name.clone()).or_default();
            of_node.insert(new.metadata.name.clone(), Arc::clone(new));
        }
    }

    /// Reserves volumes for a pod on a node.
    pub(crate) fn reserve(&mut self, pod: &str, node: &str, needed: PodVolumes) {
        for (volume, claim) in &needed.bindings {
            let owner = ClaimRef {
                namespace: claim.metadata.namespace.clone(),
                name: claim.metadata.name.clone(),
                uid: claim.metadata.uid.clone(),
            };
            let assumed = PersistentVolume { claim: Some(owner), ..(**volume).clone() };
            self.assumed_volumes.insert(volume.metadata.name.clone(), Arc::new(assumed));
        }
        for claim in &needed.provisions {
            let assumed = Claim { selected_node: Some(node.into()), ..(**claim).clone() };
            let key = (claim.metadata.namespace.clone(), claim.metadata.name.clone());
            self.assumed_claims.insert(key, Arc::new(assumed));
        }
        self.reserved.insert(pod.into(), Arc::new(needed));
    }

    /// The reservation of a pod.
    pub(crate) fn reserved(&self, pod: &str) -> Option<&Arc<PodVolumes>> {
        self.reserved.get(pod)
    }

    /// Undoes the reservation of a pod.
    pub(crate) fn unreserve(&mut self, pod: &str) {
        let Some(needed) = self.reserved.remove(pod) else { return };
        for (volume, _) in &needed.bindings {
            self.assumed_volumes.remove(&volume.metadata.name);
        }
        for claim in &needed.provisions {
            let key = (claim.metadata.namespace.clone(), claim.metadata.name.clone());
            self.assumed_claims.remove(&key);
        }
    }

    /// Drops the reservation of a pod whose volumes are bound.
    pub(crate) fn finish_binding(&mut self, pod: &str) {
        self.reserved.remove(pod);
    }
}
