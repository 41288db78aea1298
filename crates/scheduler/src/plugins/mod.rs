//! The rules of the default profile, one file each, and the table of them.
//!
//! `DynamicResources` comes with the node, which has the devices it is about.

mod balanced_allocation;
mod default_binder;
mod default_preemption;
mod image_locality;
mod inter_pod_affinity;
mod node_affinity;
mod node_declared_features;
mod node_name;
mod node_ports;
mod node_resources_fit;
mod node_unschedulable;
mod node_volume_limits;
mod pod_topology_spread;
mod scheduling_gates;
mod taint_toleration;
#[cfg(test)]
mod tests;
mod volume_binding;
mod volume_restrictions;
mod volume_zone;

use std::sync::Arc;

use coracle_runtime::Objects;

pub(crate) use volume_binding::VolumeWriter;

use crate::config::ProfileConfig;
use crate::framework::Plugin;
use crate::framework::profile::{Enabled, Profile};

/// What plugins that write need; nothing is written without it.
#[derive(Clone, Default)]
pub(crate) struct Writers {
    pub(crate) pods: Option<Objects>,
    pub(crate) volumes: Option<VolumeWriter>,
}

/// The plugins of the default profile in upstream's order, each with what it weighs there.
fn default_plugins(config: &ProfileConfig, writers: &Writers) -> Vec<(Arc<dyn Plugin>, i64)> {
    let affinity = inter_pod_affinity::InterPodAffinity::new(config.hard_pod_affinity_weight);
    vec![
        (Arc::new(scheduling_gates::SchedulingGates), 0),
        (Arc::new(node_unschedulable::NodeUnschedulable), 0),
        (Arc::new(node_name::NodeName), 0),
        (Arc::new(taint_toleration::TaintToleration), 3),
        (Arc::new(node_affinity::NodeAffinity), 2),
        (Arc::new(node_ports::NodePorts), 0),
        (Arc::new(node_resources_fit::NodeResourcesFit), 1),
        (Arc::new(volume_restrictions::VolumeRestrictions), 0),
        (Arc::new(node_volume_limits::NodeVolumeLimits), 0),
        (Arc::new(volume_binding::VolumeBinding::new(writers.volumes.clone())), 0),
        (Arc::new(volume_zone::VolumeZone), 0),
        (Arc::new(pod_topology_spread::PodTopologySpread::new()), 2),
        (Arc::new(affinity), 2),
        (Arc::new(default_preemption::DefaultPreemption), 0),
        (Arc::new(balanced_allocation::NodeResourcesBalancedAllocation), 1),
        (Arc::new(image_locality::ImageLocality), 1),
        (Arc::new(default_binder::DefaultBinder::new(writers.pods.clone())), 0),
        (Arc::new(node_declared_features::NodeDeclaredFeatures), 0),
    ]
}

/// A profile as it was asked for.
pub(crate) fn profile(config: &ProfileConfig, writers: &Writers) -> Profile {
    let plugins = default_plugins(config, writers).into_iter();
    let enabled = plugins.filter(|(plugin, _)| !config.disabled.iter().any(|name| name == plugin.name()));
    let weighed = enabled.map(|(plugin, weight)| {
        let weight = config.weights.get(plugin.name()).copied().unwrap_or(weight);
        Enabled { plugin, weight }
    });
    Profile {
        scheduler_name: config.scheduler_name.as_str().into(),
        plugins: weighed.collect(),
        percentage_of_nodes_to_score: config.percentage_of_nodes_to_score.unwrap_or(0),
    }
}
