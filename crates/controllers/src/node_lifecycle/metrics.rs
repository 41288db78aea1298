//! Metrics of nodes, under Kubernetes' names (`pkg/controller/nodelifecycle`). There is no duration of checking all
//! nodes, because they are checked one by one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coracle_base::Metrics;
use coracle_base::metrics::{Buckets, Counters, Histogram, Type};

use super::zones::{Zones, zone_of};
use crate::view::Node;

#[derive(Debug)]
pub(super) struct NodeMetrics {
    evictions: Counters<1>,
    took: Arc<Histogram>,
}

/// Computes a gauge of a zone from its ready and unready nodes.
type OfZone = fn(ready: f64, not_ready: f64) -> f64;

const ZONES: [(&str, &str, OfZone); 3] = [
    ("node_collector_zone_health", "Percentage of ready nodes in the zone.", |ready, not_ready| {
        100.0 * ready / (ready + not_ready)
    }),
    ("node_collector_zone_size", "Nodes in the zone.", |ready, not_ready| ready + not_ready),
    ("node_collector_unhealthy_nodes_in_zone", "Unready nodes in the zone.", |_, not_ready| not_ready),
];

impl NodeMetrics {
    pub(super) fn new(metrics: &Metrics, zones: &Arc<Mutex<Zones>>) -> Self {
        for (name, help, number) in ZONES {
            let zones = Arc::clone(zones);
            metrics.collected(name, Type::Gauge, help, move |samples| {
                let zones = zones.lock().unwrap_or_else(PoisonError::into_inner);
                for (zone, (ready, not_ready)) in zones.tally() {
                    samples.add_value(&[("zone", zone)], number(ready as f64, not_ready as f64));
                }
            });
        }
        Self {
            evictions: metrics.counters(
                "node_collector_evictions_total",
                "Nodes from which pods were evicted.",
                ["zone"],
            ),
            took: metrics.histogram(
                "node_collector_update_node_health_duration_seconds",
                "Duration of node health checks.",
                Buckets::exponential(0.001, 4.0, 8),
            ),
        }
    }

    /// Initializes the counter of the node's zone.
    pub(super) fn registered(&self, node: &Node) {
        self.evictions.with([&zone_of(node)]).add(0);
    }

    /// Records that pods are evicted from a node.
    pub(super) fn evicted(&self, node: &Node) {
        self.evictions.with([&zone_of(node)]).inc();
    }

    /// Records the duration of a check.
    pub(super) fn took(&self, took: Duration) {
        self.took.observe_duration(took);
    }
}

#[cfg(test)]
mod tests {
    use coracle_runtime::{ClusterId, ObjectKey};
    use serde_json::json;

    use super::super::NodeMonitor;
    use super::*;

    #[test]
    fn zone_metrics_are_reported() {
        let (metrics, zones) = (Metrics::default(), Arc::<Mutex<Zones>>::default());
        let counted = NodeMetrics::new(&metrics, &zones);
        for (name, status) in [("a", "True"), ("b", "True"), ("c", "True"), ("d", "False")] {
            let node: Node = serde_json::from_value(json!({
                "metadata": {"labels": {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}},
                "status": {"conditions": [{"type": "Ready", "status": status}]},
            }))
            .unwrap();
            let key = ObjectKey::cluster_wide(ClusterId::default(), name);
            zones.lock().unwrap().observe(&key, Some(&node), &NodeMonitor::default());
            counted.registered(&node);
        }
        let text = metrics.text();
        for line in [
            "node_collector_zone_size{zone=\"r:\0:z\"} 4",
            "node_collector_zone_health{zone=\"r:\0:z\"} 75",
            "node_collector_unhealthy_nodes_in_zone{zone=\"r:\0:z\"} 1",
            "node_collector_evictions_total{zone=\"r:\0:z\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line:?} in {text}");
        }
    }
}
