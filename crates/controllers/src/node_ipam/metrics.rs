//! What is counted of blocks of addresses, under upstream's names (`pkg/controller/nodeipam/ipam/cidrset`).

use std::sync::{Arc, Mutex, PoisonError};

use coracle_base::Metrics;
use coracle_base::metrics::{Buckets, Counter, Counters, Histogram, Histograms, Type};

use super::pool::Pool;
use crate::cidr::Cidr;

/// What is counted of all ranges.
#[derive(Debug)]
pub(super) struct CidrMetrics {
    allocations: Counters<1>,
    releases: Counters<1>,
    tries: Histograms<1>,
}

/// What is counted of one range.
#[derive(Debug)]
pub(super) struct RangeMetrics {
    pub(super) allocations: Arc<Counter>,
    pub(super) releases: Arc<Counter>,
    /// How many blocks were looked at in vain before a free one was found.
    pub(super) tries: Arc<Histogram>,
}

impl CidrMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            allocations: metrics.counters(
                "node_ipam_controller_cidrset_cidrs_allocations_total",
                "Blocks that nodes got.",
                ["clusterCIDR"],
            ),
            releases: metrics.counters(
                "node_ipam_controller_cidrset_cidrs_releases_total",
                "Blocks that nodes gave back.",
                ["clusterCIDR"],
            ),
            tries: metrics.histograms(
                "node_ipam_controller_cidrset_allocation_tries_per_request",
                "Blocks that were looked at before a free one was found.",
                Buckets::exponential(1.0, 5.0, 5),
                ["clusterCIDR"],
            ),
        }
    }

    pub(super) fn of(&self, range: &Cidr) -> RangeMetrics {
        let label = range.to_string();
        RangeMetrics {
            allocations: self.allocations.with([&label]),
            releases: self.releases.with([&label]),
            tries: self.tries.with([&label]),
        }
    }
}

/// What is told of a range: by how many of its blocks are taken, and how many there are.
type OfRange = fn(used: f64, all: f64) -> f64;

/// Tells how many blocks there are, and what part of them nodes have: in the cluster that has most of them, for
/// every cluster has all of a range.
pub(super) fn tell_usage(metrics: &Metrics, pool: &Arc<Mutex<Pool>>) {
    // One of the names is misspelled; it is the one that dashboards know.
    let of_range: [(_, _, OfRange); 2] = [
        ("node_ipam_controller_cirdset_max_cidrs", "Blocks there are.", |_, all| all),
        ("node_ipam_controller_cidrset_usage_cidrs", "What part of them is taken.", |used, all| used / all),
    ];
    for (name, help, number) in of_range {
        let pool = Arc::clone(pool);
        metrics.collected(name, Type::Gauge, help, move |samples| {
            let pool = pool.lock().unwrap_or_else(PoisonError::into_inner);
            for (range, used, all) in pool.usage() {
                let label = range.to_string();
                samples.add_value(&[("clusterCIDR", &label)], number(used as f64, all as f64));
            }
        });
    }
}
