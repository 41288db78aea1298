//! Metrics of CIDR blocks, under Kubernetes' names (`pkg/controller/nodeipam/ipam/cidrset`).

use std::sync::{Arc, Mutex, PoisonError};

use coracle_base::Metrics;
use coracle_base::metrics::{Buckets, Counter, Counters, Histogram, Histograms, Type};

use super::pool::Pool;
use crate::cidr::Cidr;

/// Metrics of all ranges.
#[derive(Debug)]
pub(super) struct CidrMetrics {
    allocations: Counters<1>,
    releases: Counters<1>,
    tries: Histograms<1>,
}

/// Metrics of one range.
#[derive(Debug)]
pub(super) struct RangeMetrics {
    pub(super) allocations: Arc<Counter>,
    pub(super) releases: Arc<Counter>,
    /// Number of used blocks that were skipped before a free one was found.
    pub(super) tries: Arc<Histogram>,
}

impl CidrMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        Self {
            allocations: metrics.counters(
                "node_ipam_controller_cidrset_cidrs_allocations_total",
                "CIDR blocks allocated to nodes.",
                ["clusterCIDR"],
            ),
            releases: metrics.counters(
                "node_ipam_controller_cidrset_cidrs_releases_total",
                "CIDR blocks released by nodes.",
                ["clusterCIDR"],
            ),
            tries: metrics.histograms(
                "node_ipam_controller_cidrset_allocation_tries_per_request",
                "Used CIDR blocks skipped per allocation.",
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

/// Computes a gauge of a range from its used blocks and all blocks.
type OfRange = fn(used: f64, all: f64) -> f64;

/// Declares the number of blocks and the part in use, in the cluster with the largest usage, because every cluster
/// has the whole range.
pub(super) fn declare_usage(metrics: &Metrics, pool: &Arc<Mutex<Pool>>) {
    // One of the names is misspelled in Kubernetes, and dashboards use that name.
    let of_range: [(_, _, OfRange); 2] = [
        ("node_ipam_controller_cirdset_max_cidrs", "Number of CIDR blocks.", |_, all| all),
        ("node_ipam_controller_cidrset_usage_cidrs", "Part of the CIDR blocks in use.", |used, all| {
            used / all
        }),
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
