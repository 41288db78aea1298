//! Metrics of mirrored slices, under Kubernetes' names (`pkg/controller/endpointslicemirroring/metrics`).

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Metrics;
use coracle_base::metrics::{Buckets, Histogram};
use coracle_runtime::Informer;

use super::CONTROLLER;
use super::plan::MAX_PER_SUBSET;
use crate::endpointslice::{Packing, SliceGauges, Turnover, endpoint_buckets};
use crate::view::EndpointSlice;

#[derive(Debug)]
pub(super) struct MirroringMetrics {
    added: Arc<Histogram>,
    updated: Arc<Histogram>,
    removed: Arc<Histogram>,
    skipped: Arc<Histogram>,
    took: Arc<Histogram>,
}

impl MirroringMetrics {
    pub(super) fn new(metrics: &Metrics, slices: &Informer<EndpointSlice>) -> Self {
        let names = SliceGauges {
            endpoints: "endpoint_slice_mirroring_controller_endpoints_desired",
            slices: "endpoint_slice_mirroring_controller_num_endpoint_slices",
            desired: "endpoint_slice_mirroring_controller_desired_endpoint_slices",
        };
        let packing = Packing { per_slice: MAX_PER_SUBSET, keeps_empty: false };
        names.declare(metrics, slices, CONTROLLER, packing);
        let per_sync = |name, help| metrics.histogram(name, help, endpoint_buckets());
        Self {
            added: per_sync(
                "endpoint_slice_mirroring_controller_endpoints_added_per_sync",
                "Endpoints added per sync of Endpoints.",
            ),
            updated: per_sync(
                "endpoint_slice_mirroring_controller_endpoints_updated_per_sync",
                "Endpoints updated per sync of Endpoints.",
            ),
            removed: per_sync(
                "endpoint_slice_mirroring_controller_endpoints_removed_per_sync",
                "Endpoints removed per sync of Endpoints.",
            ),
            skipped: per_sync(
                "endpoint_slice_mirroring_controller_addresses_skipped_per_sync",
                "Addresses skipped per sync of Endpoints.",
            ),
            took: metrics.histogram(
                "endpoint_slice_mirroring_controller_endpoints_sync_duration",
                "Duration of syncs of Endpoints.",
                Buckets::exponential(0.001, 2.0, 15),
            ),
        }
    }

    /// Records the plan of a sync.
    pub(super) fn mirrored(&self, skipped: usize, turnover: Turnover) {
        self.skipped.observe(skipped as f64);
        self.added.observe(turnover.added as f64);
        self.updated.observe(turnover.updated as f64);
        self.removed.observe(turnover.removed as f64);
    }

    /// Records the duration of a sync.
    pub(super) fn took(&self, took: Duration) {
        self.took.observe_duration(took);
    }
}
