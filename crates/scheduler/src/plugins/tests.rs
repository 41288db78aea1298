//! All plugins, with the test cases of kube-scheduler.

mod affinity;
mod hints;
mod nodes;
mod resources;
mod spread;
mod volumes;

use super::*;
use crate::fixture::{configured, profile as default_profile};

#[test]
fn default_profile_is_that_of_kube_scheduler() {
    let profile = default_profile();
    let weights: Vec<_> = (profile.plugins.iter())
        .filter(|enabled| enabled.weight > 0)
        .map(|enabled| (enabled.plugin.name(), enabled.weight))
        .collect();
    assert_eq!(
        weights,
        [
            ("TaintToleration", 3),
            ("NodeAffinity", 2),
            ("NodeResourcesFit", 1),
            ("PodTopologySpread", 2),
            ("InterPodAffinity", 2),
            ("NodeResourcesBalancedAllocation", 1),
            ("ImageLocality", 1),
        ]
    );
    assert!(profile.plugins.len() < 64, "each has a bit in a set");
}

#[test]
fn plugins_can_be_disabled_and_reweighted() {
    let mut config = ProfileConfig::new("mine");
    config.disabled.push("ImageLocality".to_owned());
    config.weights.insert("NodeAffinity".to_owned(), 7);
    let profile = configured(&config);
    assert_eq!(&*profile.scheduler_name, "mine");
    let weight = |name: &str| {
        profile.plugins.iter().find(|enabled| enabled.plugin.name() == name).map(|enabled| enabled.weight)
    };
    assert_eq!((weight("ImageLocality"), weight("NodeAffinity")), (None, Some(7)));
}
