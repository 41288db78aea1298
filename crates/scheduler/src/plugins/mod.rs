//! The plugins of the default profile, one file each, and the table of them.
//!
//! `DynamicResources` will be added with the node, which has the devices it allocates.

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

use crate::config::{ConfigError, PluginConfig, ProfileConfig};
use crate::framework::profile::{EnabledPlugin, MAX_PLUGINS, Profile};
use crate::framework::{Handle, MAX_NODE_SCORE, Plugin};
use crate::registry::{PluginContext, PluginFeed, Registry};

/// Clients of the plugins that write; without them nothing is written.
#[derive(Clone, Default)]
pub(crate) struct Writers {
    pub(crate) pods: Option<Objects>,
    pub(crate) volumes: Option<VolumeWriter>,
}

/// The plugins of the default profile in kube-scheduler's order, with their default weights.
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

/// Maximum weight of a plugin; it keeps the sum of weighted scores below `i64::MAX`.
const MAX_WEIGHT: i64 = i64::MAX / MAX_NODE_SCORE / MAX_PLUGINS as i64;

/// Builds a profile from its configuration.
pub(crate) fn profile(
    config: &ProfileConfig,
    registry: &Registry,
    writers: &Writers,
    handle: &Handle,
    mut feed: Option<PluginFeed<'_>>,
) -> Result<Profile, ConfigError> {
    let is_disabled = |name: &str| config.disabled.iter().any(|disabled| disabled == name || disabled == "*");
    let (disabled, mut plugins): (Vec<_>, Vec<_>) =
        default_plugins(config, writers).into_iter().partition(|(plugin, _)| is_disabled(plugin.name()));
    for wanted in &config.enabled {
        let PluginConfig { name, weight, args } = wanted;
        let is_it = |(plugin, _): &&(Arc<dyn Plugin>, i64)| plugin.name() == name;
        if let Some(position) = plugins.iter().position(|builtin| is_it(&builtin)) {
            plugins[position].1 = weight.unwrap_or(plugins[position].1);
            continue;
        }
        if let Some((plugin, builtin)) = disabled.iter().find(is_it) {
            plugins.push((Arc::clone(plugin), weight.unwrap_or(*builtin)));
            continue;
        }
        let feed = feed.as_mut().map(PluginFeed::reborrow);
        let mut context = PluginContext { profile: &config.scheduler_name, args, handle, feed };
        let (profile, plugin) = (config.scheduler_name.clone(), name.clone());
        match registry.make(name, &mut context) {
            None => return Err(ConfigError::UnknownPlugin { profile, plugin }),
            Some(Err(source)) => return Err(ConfigError::Plugin { profile, plugin, source }),
            Some(Ok(plugin)) => plugins.push((plugin, weight.unwrap_or(1))),
        }
    }
    let weighted = plugins.into_iter().map(|(plugin, weight)| {
        let weight = config.weights.get(plugin.name()).copied().unwrap_or(weight);
        EnabledPlugin { plugin, weight }
    });
    checked(Profile {
        scheduler_name: config.scheduler_name.as_str().into(),
        plugins: weighted.collect(),
        percentage_of_nodes_to_score: config.percentage_of_nodes_to_score.unwrap_or(0),
    })
}

fn checked(profile: Profile) -> Result<Profile, ConfigError> {
    let name = || profile.scheduler_name.to_string();
    if profile.plugins.len() > MAX_PLUGINS {
        return Err(ConfigError::TooManyPlugins { profile: name(), most: MAX_PLUGINS });
    }
    match profile.plugins.iter().find(|enabled| !(0..=MAX_WEIGHT).contains(&enabled.weight)) {
        Some(EnabledPlugin { plugin, weight }) => Err(ConfigError::Weight {
            profile: name(),
            plugin: plugin.name().to_owned(),
            weight: *weight,
            most: MAX_WEIGHT,
        }),
        None => Ok(profile),
    }
}
