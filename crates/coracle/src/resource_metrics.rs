//! Resource usage of nodes and pods for the metrics API: measured by simulated nodes while they run.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use coracle_apiserver::{Measured, MetricsSource, NodeUsage, PodUsage, Usage};
use coracle_base::Clock;
use coracle_fake_node::{Amounts, FakeUsage};
use coracle_runtime::ClusterId;
use coracle_runtime::informer::Labels;

/// The reported measurement window, that of the metrics-server.
const WINDOW: Duration = Duration::from_secs(15);

/// The metrics source; empty until a simulation runs.
#[derive(Clone)]
pub(crate) struct Measurements {
    clock: Clock,
    fake: Arc<RwLock<Option<FakeUsage>>>,
}

impl Measurements {
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, fake: Arc::default() }
    }

    /// Sets the source of simulated nodes; there is one simulation at a time.
    pub(crate) fn include(&self, usage: FakeUsage) {
        *self.fake.write().unwrap_or_else(PoisonError::into_inner) = Some(usage);
    }

    fn fake(&self) -> Option<FakeUsage> {
        self.fake.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn measured(&self) -> Measured {
        Measured { at: self.clock.now(), window: WINDOW }
    }

    fn of_node(&self, node: coracle_fake_node::NodeUsage) -> NodeUsage {
        let (labels, usage) = (pairs(&node.labels), usage(node.amounts));
        NodeUsage { name: node.name, labels, measured: self.measured(), usage }
    }

    fn of_pod(&self, pod: coracle_fake_node::PodUsage) -> PodUsage {
        let containers = pod.containers.into_iter().map(|(name, amounts)| (name, usage(amounts))).collect();
        let (labels, measured) = (pairs(&pod.labels), self.measured());
        PodUsage { namespace: pod.namespace, name: pod.name, labels, measured, containers }
    }
}

impl MetricsSource for Measurements {
    fn nodes(&self, cluster: &str) -> Vec<NodeUsage> {
        let nodes = self.fake().map(|fake| fake.nodes(&ClusterId::new(cluster)));
        nodes.into_iter().flatten().map(|node| self.of_node(node)).collect()
    }

    fn pods(&self, cluster: &str, namespace: &str) -> Vec<PodUsage> {
        let pods = self.fake().map(|fake| fake.pods(&ClusterId::new(cluster), namespace));
        pods.into_iter().flatten().map(|pod| self.of_pod(pod)).collect()
    }

    fn pod(&self, cluster: &str, namespace: &str, name: &str) -> Option<PodUsage> {
        let pod = self.fake()?.pod(&ClusterId::new(cluster), namespace, name)?;
        Some(self.of_pod(pod))
    }
}

fn pairs(labels: &Labels) -> Vec<(String, String)> {
    labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn usage(amounts: Amounts) -> Usage {
    Usage { cpu_nanocores: amounts.cpu_nanocores, memory_bytes: amounts.memory_bytes }
}
