//! VolumeZone: volumes whose labels restrict them to zones or regions.

use std::sync::Arc;

use crate::cache::NodeInfo;
use crate::cluster_state::ClusterState;
use crate::framework::{About, ClusterEvent, Filter, NodeFilter, Plugin, PreFilter, Rejection};
use crate::view::Pod;
use crate::view::node::{REGION, ZONE};
use crate::view::storage::{PersistentVolume, PodVolume};

const REASON: &str = "node(s) had no available volume zone";

/// The labels, each with the stable label that replaces it.
const LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", ZONE),
    ("failure-domain.beta.kubernetes.io/region", REGION),
    (ZONE, ZONE),
    (REGION, REGION),
];

/// Separator between the zones of a volume that is in several.
const BETWEEN_ZONES: &str = "__";

pub(crate) struct VolumeZone;

/// A label that the node must have, with one of the given values.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ZoneRequirement {
    label: &'static str,
    stable_label: &'static str,
    values: Box<str>,
}

impl Plugin for VolumeZone {
    fn name(&self) -> &'static str {
        "VolumeZone"
    }

    fn pre_filter<'w>(&'w self, state: &'w ClusterState, pod: &'w Arc<Pod>) -> PreFilter<'w> {
        let mut requirements = Vec::new();
        for volume in &pod.volumes {
            let PodVolume::Claim(name) = volume else { continue };
            match requirements_of_claim(state, pod, name) {
                Ok(of_claim) => requirements.extend(of_claim),
                Err(reason) => return PreFilter::Reject(Rejection::unresolvable(reason)),
            }
        }
        if requirements.is_empty() {
            PreFilter::Skip
        } else {
            PreFilter::Filter(Box::new(InZone { requirements }))
        }
    }

    fn wants(&self, about: About) -> bool {
        matches!(about, About::Node | About::Storage)
    }

    fn hint(&self, _state: &ClusterState, pod: &Pod, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::NodeChanged { changes, .. } => changes.labels,
            ClusterEvent::ClassChanged { old: None, new } => new.waits(),
            ClusterEvent::ClaimChanged { new, .. } => {
                let names = pod.volumes.iter().filter_map(|volume| volume.claim_name());
                new.metadata.namespace == pod.metadata.namespace
                    && names.into_iter().any(|name| *name == *new.metadata.name)
            }
            ClusterEvent::VolumeChanged { old, new } => {
                old.as_ref().is_none_or(|old| requirements(old) != requirements(new))
            }
            _ => false,
        }
    }
}

fn requirements_of_claim(
    state: &ClusterState,
    pod: &Pod,
    name: &str,
) -> Result<Vec<ZoneRequirement>, String> {
    let storage = &state.storage;
    let Some(claim) = storage.claim(pod.namespace(), name) else {
        return Err(format!("persistentvolumeclaim \"{name}\" not found"));
    };
    if claim.volume.is_empty() {
        if claim.class.is_empty() {
            return Err("PersistentVolumeClaim had no pv name and storageClass name".to_owned());
        }
        return match storage.classes.get(&claim.class) {
            None => Err(format!("storageclass.storage.k8s.io \"{}\" not found", claim.class)),
            Some(class) if class.waits() => Ok(Vec::new()),
            Some(class) if class.binding_mode.is_none() => {
                Err(format!("VolumeBindingMode not set for StorageClass \"{}\"", claim.class))
            }
            Some(_) => Err("PersistentVolume had no name".to_owned()),
        };
    }
    let volume = storage.volume(&claim.volume);
    volume
        .map(|volume| requirements(volume))
        .ok_or_else(|| format!("persistentvolume \"{}\" not found", claim.volume))
}

fn requirements(volume: &PersistentVolume) -> Vec<ZoneRequirement> {
    let labelled = |(label, stable_label): &(&'static str, &'static str)| {
        let values = volume
            .labels
            .get(label)
            .filter(|values| values.split(BETWEEN_ZONES).all(|one| !one.trim().is_empty()))?;
        Some(ZoneRequirement { label, stable_label, values: values.into() })
    };
    LABELS.iter().filter_map(labelled).collect()
}

#[derive(Clone)]
struct InZone {
    requirements: Vec<ZoneRequirement>,
}

impl<'w> NodeFilter<'w> for InZone {
    fn filter(&self, info: &NodeInfo) -> Result<(), Rejection> {
        let Some(node) = &info.node else { return Ok(()) };
        // A node without any of these labels counts as being in a cluster of one zone.
        if !LABELS.iter().any(|(label, _)| node.labels.contains_key(label)) {
            return Ok(());
        }
        let is_met = |requirement: &ZoneRequirement| {
            let found =
                node.labels.get(requirement.label).or_else(|| node.labels.get(requirement.stable_label));
            found.is_some_and(|found| {
                requirement.values.split(BETWEEN_ZONES).any(|value| value.trim() == found)
            })
        };
        if self.requirements.iter().all(is_met) { Ok(()) } else { Err(Rejection::unresolvable(REASON)) }
    }

    fn boxed(&self) -> Filter<'w> {
        Box::new(self.clone())
    }
}
