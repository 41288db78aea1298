//! Maps changes to the claims and volumes to reconcile. There is no periodic resync.

use std::sync::Arc;

use coracle_runtime::informer::Store;
use coracle_runtime::{Change, ClusterId, Informer, ObjectKey};

use super::annotations::{class_of_claim, class_of_volume, is_bind_completed};
use crate::view::{
    PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, index_by_claim, pods_of_claim,
};

/// Index of unbound claims, by class.
const UNBOUND_BY_CLASS: &str = "unboundClass";

/// Index of claims, by the volume that they name.
const BY_VOLUME: &str = "volumeName";

/// Index of volumes, by the claims that they name, as `namespace/name`.
const BY_CLAIM: &str = "persistentVolumeClaim";

pub(super) fn add_indexes(
    claims: &Informer<PersistentVolumeClaim>,
    volumes: &Informer<PersistentVolume>,
    pods: &Informer<Pod>,
) {
    claims.store().add_index(UNBOUND_BY_CLASS, |claim| {
        let is_unbound = !is_bind_completed(claim);
        is_unbound.then(|| class_of_claim(claim).to_owned()).into_iter().collect()
    });
    claims.store().add_index(BY_VOLUME, |claim| {
        let name = &claim.spec.volume_name;
        (!name.is_empty()).then(|| name.to_string()).into_iter().collect()
    });
    volumes.store().add_index(BY_CLAIM, |volume| {
        let bound = volume.spec.claim_ref.as_ref();
        bound.map(|bound| format!("{}/{}", bound.namespace, bound.name)).into_iter().collect()
    });
    index_by_claim(pods);
}

/// Names of the unscheduled pods that use a claim.
pub(super) fn waiting_pods(pods: &Informer<Pod>, claim: &ObjectKey) -> Vec<String> {
    let pods = pods_of_claim(pods, claim);
    let is_waiting = |pod: &&Arc<Pod>| !pod.is_finished() && pod.spec.node_name.is_empty();
    pods.iter().filter(is_waiting).map(|pod| pod.metadata.name().to_owned()).collect()
}

/// The claim itself, the volumes it names or named, and those bound to it or reserved for it.
pub(super) fn by_claim(
    change: &Change<PersistentVolumeClaim>,
    volumes: &Store<PersistentVolume>,
) -> Vec<ObjectKey> {
    let (key, cluster) = (&change.key, change.key.cluster());
    let volume = |name: &str| ObjectKey::cluster_wide(cluster.clone(), name);
    let bound = volumes.by_index(BY_CLAIM, cluster, &format!("{}/{}", key.namespace(), key.name()));
    let named = [&change.old, &change.new].into_iter().flatten().map(|claim| &claim.spec.volume_name);
    let mut keys: Vec<_> = named.filter(|name| !name.is_empty()).map(|name| volume(name)).collect();
    keys.extend(bound.iter().map(|bound| volume(bound.metadata.name())));
    keys.sort();
    keys.dedup();
    // A deleted claim needs no reconcile, but its volumes do.
    keys.extend(change.new.is_some().then(|| key.clone()));
    keys
}

/// The volume itself, the claims that name it or that it names, and those that it might match.
pub(super) fn by_volume(
    change: &Change<PersistentVolume>,
    claims: &Store<PersistentVolumeClaim>,
) -> Vec<ObjectKey> {
    let cluster = change.key.cluster();
    let mut keys = vec![change.key.clone()];
    for bound in
        [&change.old, &change.new].into_iter().flatten().filter_map(|volume| volume.spec.claim_ref.as_ref())
    {
        keys.push(ObjectKey::namespaced(cluster.clone(), &*bound.namespace, &*bound.name));
    }
    let mut to_enqueue = claims.by_index(BY_VOLUME, cluster, change.key.name());
    if let Some(free) = change.new.as_ref().filter(|volume| volume.spec.claim_ref.is_none()) {
        to_enqueue.extend(claims.by_index(UNBOUND_BY_CLASS, cluster, class_of_volume(free)));
    }
    keys.extend(to_enqueue.iter().map(|claim| key_of(change.key.cluster(), claim)));
    keys.sort();
    keys.dedup();
    keys
}

/// Claims that wait for this class, or for a default class.
pub(super) fn by_class(
    change: &Change<StorageClass>,
    claims: &Store<PersistentVolumeClaim>,
) -> Vec<ObjectKey> {
    let cluster = change.key.cluster();
    let mut to_enqueue = claims.by_index(UNBOUND_BY_CLASS, cluster, change.key.name());
    to_enqueue.extend(claims.by_index(UNBOUND_BY_CLASS, cluster, ""));
    to_enqueue.iter().map(|claim| key_of(cluster, claim)).collect()
}

/// Unbound claims of a pod that was added, deleted or scheduled.
pub(super) fn by_pod(change: &Change<Pod>, claims: &Store<PersistentVolumeClaim>) -> Vec<ObjectKey> {
    let (old, new) = (change.old.as_ref(), change.new.as_ref());
    let node = |pod: Option<&Arc<Pod>>| pod.map(|pod| pod.spec.node_name.clone());
    if node(old) == node(new) {
        return Vec::new();
    }
    let claim = |name| ObjectKey::namespaced(change.key.cluster().clone(), change.key.namespace(), name);
    let is_unbound = |key: &ObjectKey| claims.get(key).is_some_and(|claim| !is_bind_completed(&claim));
    let used = new.or(old).into_iter().flat_map(|pod| pod.claims());
    used.map(claim).filter(is_unbound).collect()
}

fn key_of(cluster: &ClusterId, claim: &PersistentVolumeClaim) -> ObjectKey {
    ObjectKey::namespaced(cluster.clone(), claim.metadata.namespace(), claim.metadata.name())
}
