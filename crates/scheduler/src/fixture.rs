//! Test fixtures: nodes, pods and other objects in the JSON form the API server sends.

use std::sync::Arc;

use coracle_base::Rng;
use coracle_base::metrics::Metrics;
use serde_json::{Value, json};

use crate::cluster_state::ClusterState;
use crate::config::{ProfileConfig, detached_handle};
use crate::cycle::{CycleState, Outcome, Trace, schedule};
use crate::framework::{PreFilter, PreScore, Profile};
use crate::metrics::SchedulerMetrics;
use crate::plugins::{self, Writers};
use crate::registry::Registry;
use crate::view::{Node, Pod};

/// Merges `over` into `under`, key by key.
pub(crate) fn merged(mut under: Value, over: Value) -> Value {
    match (&mut under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                let existing = under.remove(&key).unwrap_or(Value::Null);
                under.insert(key, merged(existing, value));
            }
        }
        (under, over) => *under = over,
    }
    under
}

/// A node with 4 CPUs, merged with `more`.
pub(crate) fn node(name: &str, more: Value) -> Arc<Node> {
    let plain = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    });
    Arc::new(serde_json::from_value(merged(plain, more)).unwrap())
}

/// A node with the label `zone`.
pub(crate) fn zoned(name: &str, zone: &str) -> Arc<Node> {
    node(name, json!({"metadata": {"labels": {"zone": zone}}}))
}

/// A pod in the namespace `ns`, merged with `more`.
pub(crate) fn pod(name: &str, more: Value) -> Arc<Pod> {
    let plain = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name},
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "web:1"}]},
    });
    Arc::new(serde_json::from_value(merged(plain, more)).unwrap())
}

/// A pod spec that requests this much CPU.
pub(crate) fn wanting(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "image": "web:1", "resources": {"requests": {"cpu": cpu}}}]})
}

/// A pod assigned to a node.
pub(crate) fn placed(name: &str, node: &str, more: Value) -> Arc<Pod> {
    pod(name, merged(json!({"spec": {"nodeName": node}}), more))
}

/// Cluster state with these nodes and pods.
pub(crate) fn cluster_state(nodes: &[Arc<Node>], pods: &[Arc<Pod>]) -> ClusterState {
    let mut state = ClusterState::default();
    nodes.iter().for_each(|node| state.cache.set_node(node));
    for pod in pods {
        state.cache.set_pod(pod);
    }
    state
}

/// The default profile without clients.
pub(crate) fn profile() -> Profile {
    configured(&ProfileConfig::new("default-scheduler"))
}

/// A profile without clients.
pub(crate) fn configured(config: &ProfileConfig) -> Profile {
    plugins::profile(config, &Registry::default(), &Writers::default(), &detached_handle(), None).unwrap()
}

/// Metrics that are not exposed.
pub(crate) fn metrics() -> Arc<SchedulerMetrics> {
    Arc::new(SchedulerMetrics::new(&Metrics::default(), &[profile()]))
}

/// The default profile reduced to one plugin.
pub(crate) fn only(plugin: &str) -> Profile {
    let mut profile = profile();
    profile.plugins.retain(|enabled| enabled.plugin.name() == plugin);
    assert_eq!(profile.plugins.len(), 1, "there is no {plugin}");
    profile
}

pub(crate) fn cycle_state() -> CycleState {
    CycleState::new(Rng::seeded(1))
}

/// One plugin's filter results for each node: the reason, or an empty string if the pod fits.
pub(crate) fn refusals(plugin: &str, state: &mut ClusterState, pod: &Arc<Pod>) -> Vec<String> {
    let profile = only(plugin);
    let plugin = &profile.plugins[0].plugin;
    plugin.prepare(state, pod);
    let order = state.cache.order().to_vec();
    let all = |reason: String| vec![reason; order.len()];
    match plugin.pre_filter(state, pod) {
        PreFilter::Skip => all(String::new()),
        PreFilter::Reject(rejection) => all(rejection.to_string()),
        PreFilter::Filter(filter) | PreFilter::Only(_, filter) => {
            let results = order.iter().map(|index| filter.filter(state.cache.info(*index)));
            results
                .map(|answer| answer.err().map(|rejection| rejection.to_string()).unwrap_or_default())
                .collect()
        }
    }
}

/// One plugin's normalized scores for each node; none if PreScore returns Skip.
pub(crate) fn scores(plugin: &str, state: &mut ClusterState, pod: &Arc<Pod>) -> Option<Vec<i64>> {
    let profile = only(plugin);
    let plugin = &profile.plugins[0].plugin;
    plugin.prepare(state, pod);
    let order = state.cache.order().to_vec();
    let PreScore::Score(scorer) = plugin.pre_score(state, pod, &order) else { return None };
    let mut scores: Vec<_> = order.iter().map(|index| scorer.score(state.cache.info(*index))).collect();
    scorer.normalize(&mut scores);
    Some(scores)
}

/// The node the default profile chooses for a pod, or the diagnosis.
pub(crate) fn decide(state: &mut ClusterState, pod: &Arc<Pod>) -> Result<String, String> {
    match schedule(&profile(), state, pod, &mut cycle_state(), &mut Trace::default()) {
        Outcome::Fits(node) => Ok(node.to_string()),
        Outcome::Refused(diagnosis, _) => Err(diagnosis.to_string()),
        Outcome::NoNodes => Err("no nodes".to_owned()),
        Outcome::Failed(message) => Err(message),
    }
}
