//! NodeVolumeLimits: the limit of attached volumes per CSI driver and node.
//!
//! In-tree volumes are not translated to those of the CSI drivers that replaced them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::cache::NodeInfo;
use crate::cluster_state::ClusterState;
use crate::framework::{About, ClusterEvent, Filter, NodeFilter, Plugin, PreFilter, Rejection};
use crate::view::Pod;

const REASON: &str = "node(s) exceed max volume count";

pub(crate) struct NodeVolumeLimits;

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        "NodeVolumeLimits"
    }

    fn pre_filter<'w>(&'w self, state: &'w ClusterState, pod: &'w Arc<Pod>) -> PreFilter<'w> {
        if claims(pod).next().is_none() {
            return PreFilter::Skip;
        }
        for name in claims(pod) {
            if state.storage.claim(pod.namespace(), name).is_none() {
                let namespace = pod.namespace();
                let reason =
                    format!("looking up PVC {namespace}/{name}: persistentvolumeclaim \"{name}\" not found");
                return PreFilter::Reject(Rejection::unresolvable(reason));
            }
        }
        let new: HashSet<_> = claims(pod).filter_map(|name| volume_of(state, pod, name)).collect();
        if new.is_empty() {
            return PreFilter::Skip;
        }
        PreFilter::Filter(Box::new(Room { state, new }))
    }

    fn wants(&self, about: About) -> bool {
        matches!(about, About::PodGone | About::Storage)
    }

    fn hint(&self, _state: &ClusterState, pod: &Pod, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::CsiNodeChanged { old, new } => {
                old.as_ref().is_none_or(|old| new.allows_more_than(old))
            }
            ClusterEvent::PodGone(gone) => gone.occupies_node() && claims(gone).next().is_some(),
            ClusterEvent::ClaimChanged { old: None, new } => {
                new.metadata.namespace == pod.metadata.namespace
                    && claims(pod).any(|name| *name == *new.metadata.name)
            }
            ClusterEvent::VolumeDetached => claims(pod).next().is_some(),
            _ => false,
        }
    }
}

fn claims(pod: &Pod) -> impl Iterator<Item = &str> {
    pod.volumes.iter().filter_map(|volume| volume.claim_name())
}

/// A volume, identified by its driver and its volume handle.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Volume {
    driver: Box<str>,
    handle: Box<str>,
}

/// The volume of a claim, bound or to be provisioned; none if no driver can have a limit for it.
fn volume_of(state: &ClusterState, pod: &Pod, name: &str) -> Option<Volume> {
    let storage = &state.storage;
    let claim = storage.claim(pod.namespace(), name)?;
    if let Some(volume) = storage.volume(&claim.volume) {
        let csi = volume.csi.as_ref()?;
        return Some(Volume { driver: csi.driver.clone(), handle: csi.volume_handle.clone() });
    }
    // A volume will be provisioned for the claim.
    let class = storage.classes.get(&claim.class)?;
    let handle = format!("unbound/{}/{name}", pod.namespace());
    Some(Volume { driver: class.provisioner.clone(), handle: handle.into() })
}

#[derive(Clone)]
struct Room<'w> {
    state: &'w ClusterState,
    new: HashSet<Volume>,
}

impl Room<'_> {
    fn attached(&self, info: &NodeInfo, node: &str) -> HashSet<Volume> {
        let of_pods =
            info.pods.iter().flat_map(|pod| claims(pod).filter_map(|name| volume_of(self.state, pod, name)));
        let storage = &self.state.storage;
        let of_attachments = storage.attachments_of(node).filter_map(|attachment| {
            let name = attachment.spec.source.persistent_volume_name.as_ref()?;
            let csi = storage.volume(name)?.csi.as_ref()?;
            Some(Volume { driver: attachment.spec.attacher.clone(), handle: csi.volume_handle.clone() })
        });
        of_pods.chain(of_attachments).collect()
    }
}

impl<'w> NodeFilter<'w> for Room<'w> {
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection> {
        let Some(node) = &info.node else { return Ok(()) };
        let Some(csi_node) = self.state.storage.csi_nodes.get(&node.metadata.name) else { return Ok(()) };
        let limited = |volume: &&Volume| csi_node.limit(&volume.driver).is_some();
        if !self.new.iter().any(|volume| limited(&volume)) {
            return Ok(());
        }
        let attached = self.attached(info, &node.metadata.name);
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for volume in attached.iter().chain(self.new.difference(&attached)) {
            *counts.entry(&volume.driver).or_default() += 1;
        }
        let is_too_much = |volume: &Volume| {
            let count = counts.get(&*volume.driver).copied().unwrap_or(0);
            csi_node.limit(&volume.driver).is_some_and(|limit| count > limit)
        };
        if self.new.difference(&attached).any(is_too_much) {
            Err(Rejection::resolvable(REASON))
        } else {
            Ok(())
        }
    }

    fn boxed(&self) -> Filter<'w> {
        Box::new(self.clone())
    }
}
