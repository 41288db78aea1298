//! Resource usage of pods on simulated nodes: set by rules, or a share of the requests.

use std::sync::Arc;

use coracle_meta::quantity::{Quantity, Scale};
use coracle_runtime::informer::Labels;
use coracle_runtime::{ClusterId, Informer, ObjectKey};

use crate::pods::BY_NODE;
use crate::rules::RuleLookup;
use crate::view::{Container, Node, Phase, Pod};

/// Default usage of a container, in percent of its requests.
const USUAL_PERCENT: i128 = 50;

/// Usage of a container without requests: a thousandth of a CPU, and 16 MiB.
const IDLE_NANOCORES: i128 = 1_000_000;
const IDLE_BYTES: i128 = 16 << 20;

/// CPU and memory usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// CPU in nanocores.
    pub cpu_nanocores: u64,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

/// Usage of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUsage {
    /// The name.
    pub name: String,
    /// The labels.
    pub labels: Labels,
    /// The usage.
    pub amounts: Amounts,
}

/// Usage of the running containers of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodUsage {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The labels.
    pub labels: Labels,
    /// The usage by container.
    pub containers: Vec<(String, Amounts)>,
}

/// Usage source of simulated nodes. Stateless: it computes usage from the informers' caches. Cheap to
/// clone.
#[derive(Clone)]
pub struct FakeUsage {
    pub(crate) nodes: Informer<Node>,
    pub(crate) pods: Informer<Pod>,
}

impl FakeUsage {
    /// The usage of the nodes of a cluster: the sum over their pods.
    pub fn nodes(&self, cluster: &ClusterId) -> Vec<NodeUsage> {
        let nodes = self.nodes.store().in_cluster(cluster);
        nodes.iter().filter(|node| node.is_alive()).map(|node| self.of_node(cluster, node)).collect()
    }

    /// The usage of the pods of a namespace; of all namespaces if it is empty.
    pub fn pods(&self, cluster: &ClusterId, namespace: &str) -> Vec<PodUsage> {
        let store = self.pods.store();
        let pods = if namespace.is_empty() {
            store.in_cluster(cluster)
        } else {
            store.in_namespace(cluster, namespace)
        };
        pods.iter().filter_map(|pod| self.of_pod(cluster, pod)).collect()
    }

    /// The usage of one pod.
    pub fn pod(&self, cluster: &ClusterId, namespace: &str, name: &str) -> Option<PodUsage> {
        let key = ObjectKey::namespaced(cluster.clone(), namespace, name);
        self.of_pod(cluster, &*self.pods.store().get(&key)?)
    }

    fn of_node(&self, cluster: &ClusterId, node: &Node) -> NodeUsage {
        let pods = self.pods.store().by_index(BY_NODE, cluster, node.metadata.name());
        let used = pods.iter().flat_map(|pod| containers(pod, &node.metadata.annotations));
        let amounts = used.fold(Amounts::default(), |sum, (_, used)| Amounts {
            cpu_nanocores: sum.cpu_nanocores.saturating_add(used.cpu_nanocores),
            memory_bytes: sum.memory_bytes.saturating_add(used.memory_bytes),
        });
        NodeUsage { name: node.metadata.name().to_owned(), labels: node.metadata.labels.clone(), amounts }
    }

    /// None if its node is not simulated or stopped its heartbeat, or no container runs.
    fn of_pod(&self, cluster: &ClusterId, pod: &Pod) -> Option<PodUsage> {
        let node = ObjectKey::cluster_wide(cluster.clone(), &*pod.spec.node_name);
        let node: Arc<Node> = self.nodes.store().get(&node).filter(|node| node.is_alive())?;
        let containers = containers(pod, &node.metadata.annotations);
        let metadata = &pod.metadata;
        (!containers.is_empty()).then(|| PodUsage {
            namespace: metadata.namespace().to_owned(),
            name: metadata.name().to_owned(),
            labels: metadata.labels.clone(),
            containers,
        })
    }
}

/// The usage of the running containers of a pod.
fn containers(pod: &Pod, node: &Labels) -> Vec<(String, Amounts)> {
    if pod.status.phase != Phase::Running {
        return Vec::new();
    }
    let rules = RuleLookup::new(pod, node);
    let is_running = |container: &&Container| {
        let status = pod.status.container_statuses.iter().find(|status| status.name == container.name);
        status.is_some_and(|status| status.state.running.is_some())
    };
    let running = pod.spec.containers.iter().filter(is_running);
    running.map(|container| (container.name.to_string(), amounts(container, &rules))).collect()
}

fn amounts(container: &Container, rules: &RuleLookup<'_>) -> Amounts {
    let of = |rule: &str, resource: &str, scale: Scale, idle: i128| {
        let requested = container.resources.requests.get(resource).and_then(|text| scaled(text, scale));
        let usual = requested.map_or(idle, |requested| requested * USUAL_PERCENT / 100);
        let used = rules.text(rule, &container.name).and_then(|rule| amount(rule, requested, scale));
        u64::try_from(used.unwrap_or(usual)).unwrap_or_default()
    };
    Amounts {
        cpu_nanocores: of("usage-cpu", "cpu", Scale::NANO, IDLE_NANOCORES),
        memory_bytes: of("usage-memory", "memory", Scale::ONE, IDLE_BYTES),
    }
}

/// Parses `250m`, or `80%` of the request.
fn amount(rule: &str, requested: Option<i128>, scale: Scale) -> Option<i128> {
    match rule.strip_suffix('%') {
        Some(percent) => Some(requested? * percent.parse::<i128>().ok()? / 100),
        None => scaled(rule, scale),
    }
}

fn scaled(text: &str, scale: Scale) -> Option<i128> {
    text.parse::<Quantity>().ok()?.checked_scaled_value(scale).map(Into::into)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn used(annotations: Value, requests: Value) -> Vec<(String, Amounts)> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"annotations": annotations},
            "spec": {"containers": [
                {"name": "a", "resources": {"requests": requests}},
                {"name": "b"},
                {"name": "ended"},
            ]},
            "status": {"phase": "Running", "containerStatuses": [
                {"name": "a", "state": {"running": {}}},
                {"name": "b", "state": {"running": {}}},
                {"name": "ended", "state": {"terminated": {"exitCode": 0}}},
            ]},
        }))
        .unwrap();
        containers(&pod, &Labels::default())
    }

    fn amounts(cpu_nanocores: u64, memory_bytes: u64) -> Amounts {
        Amounts { cpu_nanocores, memory_bytes }
    }

    #[test]
    fn container_uses_a_share_of_its_requests() {
        let used = used(json!({}), json!({"cpu": "200m", "memory": "1Gi"}));
        let idle = amounts(1_000_000, 16 << 20);
        assert_eq!(used, [("a".into(), amounts(100_000_000, 1 << 29)), ("b".into(), idle)]);
    }

    #[test]
    fn usage_rules_override_the_default() {
        let rules = json!({
            "fake.coracle.dev/usage-cpu": "90%",
            "fake.coracle.dev/usage-memory": "100Mi",
            "fake.coracle.dev/usage-cpu.container-b": "1500m",
        });
        let used = used(rules, json!({"cpu": "200m"}));
        let (a, b) = (amounts(180_000_000, 100 << 20), amounts(1_500_000_000, 100 << 20));
        assert_eq!(used, [("a".into(), a), ("b".into(), b)]);
    }
}
