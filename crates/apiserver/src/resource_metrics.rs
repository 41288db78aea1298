//! Resource usage of nodes and pods, as served by `metrics.k8s.io`.
//!
//! The server does not measure; the embedder provides a [`MetricsSource`].

use std::fmt;
use std::time::Duration;

use coracle_base::Timestamp;

/// Provides the resource usage of nodes and pods. Called for each request, so it should return cached measurements.
pub trait MetricsSource: Send + Sync {
    /// Resource usage of the nodes of a cluster, sorted by name.
    fn nodes(&self, cluster: &str) -> Vec<NodeUsage>;

    /// Resource usage of the pods of a namespace, sorted by name; of all namespaces if `namespace` is empty.
    fn pods(&self, cluster: &str, namespace: &str) -> Vec<PodUsage>;

    /// Resource usage of one pod; None if it was not measured.
    fn pod(&self, cluster: &str, namespace: &str, name: &str) -> Option<PodUsage> {
        self.pods(cluster, namespace).into_iter().find(|pod| pod.name == name)
    }
}

impl fmt::Debug for dyn MetricsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricsSource")
    }
}

/// An amount of used resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU usage in billionths of a core.
    pub cpu_nanocores: u64,
    /// Working set: bytes that cannot be reclaimed.
    pub memory_bytes: u64,
}

/// The time interval of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The end of the interval.
    pub at: Timestamp,
    /// The length of the interval.
    pub window: Duration,
}

/// Resource usage of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUsage {
    /// Name of the node.
    pub name: String,
    /// Labels of the node, for label selectors.
    pub labels: Vec<(String, String)>,
    /// When the usage was measured.
    pub measured: Measured,
    /// The measured usage.
    pub usage: Usage,
}

/// Resource usage of the containers of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodUsage {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// Labels of the pod, for label selectors.
    pub labels: Vec<(String, String)>,
    /// When the usage was measured.
    pub measured: Measured,
    /// The measured usage of each container, by its name.
    pub containers: Vec<(String, Usage)>,
}
