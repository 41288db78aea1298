//! Who measures what nodes and pods use, as `metrics.k8s.io` tells it.
//!
//! The server knows nobody who measures: that is handed in, as everything is that comes from nodes.

use std::fmt;
use std::time::Duration;

use coracle_base::Timestamp;

/// Who measures. Asked for each request, so it had better know.
pub trait MetricsSource: Send + Sync {
    /// What the nodes of a cluster use, in the order of their names.
    fn nodes(&self, cluster: &str) -> Vec<NodeUsage>;

    /// What the pods of a cluster use, in the order of their names; those of all namespaces if it is empty.
    fn pods(&self, cluster: &str, namespace: &str) -> Vec<PodUsage>;

    /// What one pod uses; none if nobody measured it.
    fn pod(&self, cluster: &str, namespace: &str, name: &str) -> Option<PodUsage> {
        self.pods(cluster, namespace).into_iter().find(|pod| pod.name == name)
    }
}

impl fmt::Debug for dyn MetricsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MetricsSource")
    }
}

/// How much of the resources is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Billionths of a processor.
    pub cpu_nanocores: u64,
    /// Bytes that cannot be taken away.
    pub memory_bytes: u64,
}

/// When something was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The end of the measurement.
    pub at: Timestamp,
    /// How long it took.
    pub window: Duration,
}

/// What a node uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeUsage {
    /// Its name.
    pub name: String,
    /// Its labels, by which it may be selected.
    pub labels: Vec<(String, String)>,
    /// When that was measured.
    pub measured: Measured,
    /// How much it was.
    pub usage: Usage,
}

/// What the containers of a pod use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodUsage {
    /// Where it is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its labels, by which it may be selected.
    pub labels: Vec<(String, String)>,
    /// When that was measured.
    pub measured: Measured,
    /// How much it was, by the name of the container.
    pub containers: Vec<(String, Usage)>,
}
