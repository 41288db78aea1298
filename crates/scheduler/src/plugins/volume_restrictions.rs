//! VolumeRestrictions: disks that one node may use only once or read-only, and claims with
//! ReadWriteOncePod.

use std::sync::Arc;

use crate::cache::NodeInfo;
use crate::cluster_state::ClusterState;
use crate::framework::{About, ClusterEvent, Filter, NodeFilter, Plugin, PreFilter, Rejection};
use crate::view::Pod;
use crate::view::storage::{Disk, PodVolume};

const DISK_CONFLICT: &str = "node(s) had no available disk";
const ONE_POD_ONLY: &str = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod";
const READ_WRITE_ONCE_POD: &str = "ReadWriteOncePod";

pub(crate) struct VolumeRestrictions;

impl Plugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        "VolumeRestrictions"
    }

    fn pre_filter<'w>(&'w self, state: &'w ClusterState, pod: &'w Arc<Pod>) -> PreFilter<'w> {
        let mut exclusive = Vec::new();
        for name in pod.volumes.iter().filter_map(plain_claim) {
            let Some(claim) = state.storage.claim(pod.namespace(), name) else {
                let reason = format!("persistentvolumeclaim \"{name}\" not found");
                return PreFilter::Reject(Rejection::unresolvable(reason));
            };
            if claim.access_modes.iter().any(|mode| &**mode == READ_WRITE_ONCE_POD) {
                exclusive.push(name);
            }
        }
        let taken = exclusive.iter().filter(|name| state.cache.is_claim_used(pod.namespace(), name)).count();
        if taken == 0 && disks(pod).next().is_none() {
            return PreFilter::Skip;
        }
        let taken = i64::try_from(taken).unwrap_or(i64::MAX);
        PreFilter::Filter(Box::new(Usable { pod, exclusive, taken }))
    }

    fn wants(&self, about: About) -> bool {
        matches!(about, About::Node | About::PodGone | About::Storage)
    }

    fn hint(&self, _state: &ClusterState, pod: &Pod, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::ClaimChanged { old: None, new } => {
                new.metadata.namespace == pod.metadata.namespace
                    && pod.volumes.iter().filter_map(plain_claim).any(|name| *name == *new.metadata.name)
            }
            ClusterEvent::PodGone(gone) => gone.namespace() == pod.namespace() && shares_a_volume(pod, gone),
            _ => false,
        }
    }
}

fn plain_claim(volume: &PodVolume) -> Option<&str> {
    if let PodVolume::Claim(name) = volume { Some(name) } else { None }
}

fn disks(pod: &Pod) -> impl Iterator<Item = &Disk> {
    pod.volumes.iter().filter_map(|volume| if let PodVolume::Disk(disk) = volume { Some(disk) } else { None })
}

fn conflict(pod: &Pod, other: &Pod) -> bool {
    disks(pod).any(|disk| disks(other).any(|used| disk.conflicts_with(used)))
}

fn shares_a_volume(pod: &Pod, other: &Pod) -> bool {
    let used = |name: &str| other.volumes.iter().filter_map(plain_claim).any(|other| other == name);
    conflict(pod, other) || pod.volumes.iter().filter_map(plain_claim).any(used)
}

#[derive(Clone)]
struct Usable<'w> {
    pod: &'w Pod,
    /// Claims with ReadWriteOncePod.
    exclusive: Vec<&'w str>,
    /// Number of them that are in use.
    taken: i64,
}

impl Usable<'_> {
    fn uses(&self, other: &Pod) -> i64 {
        if other.namespace() != self.pod.namespace() {
            return 0;
        }
        let claims = other.volumes.iter().filter_map(plain_claim);
        i64::try_from(claims.filter(|name| self.exclusive.contains(name)).count()).unwrap_or(i64::MAX)
    }
}

impl<'w> NodeFilter<'w> for Usable<'w> {
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection> {
        if info.pods.iter().any(|other| conflict(self.pod, other)) {
            return Err(Rejection::resolvable(DISK_CONFLICT));
        }
        if self.taken > 0 { Err(Rejection::resolvable(ONE_POD_ONLY)) } else { Ok(()) }
    }

    fn add_pod(&mut self, pod: &Pod, _info: &NodeInfo) {
        self.taken += self.uses(pod);
    }

    fn remove_pod(&mut self, pod: &Pod, _info: &NodeInfo) {
        self.taken -= self.uses(pod);
    }

    fn boxed(&self) -> Filter<'w> {
        Box::new(self.clone())
    }
}
