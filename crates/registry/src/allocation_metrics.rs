//! Metrics of allocated addresses and node ports, with kube-apiserver's names
//! (`pkg/registry/core/service/ipallocator` and `portallocator`).

use std::time::Duration;

use coracle_base::metrics::{Buckets, Counters, Histograms, Metrics};

/// An allocation for the metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MeteredAllocation {
    pub(crate) source: AllocationSource,
    /// Whether the client has requested this address or port.
    pub(crate) is_requested: bool,
}

/// The range from which a value is allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AllocationSource {
    /// A range of addresses, in CIDR notation.
    Addresses(String),
    NodePorts,
}

pub(crate) struct AllocationMetrics {
    registry: Metrics,
    addresses: Counters<2>,
    address_errors: Counters<2>,
    address_duration: Histograms<1>,
    ports: Counters<1>,
    port_errors: Counters<1>,
}

impl Default for AllocationMetrics {
    fn default() -> Self {
        let registry = Metrics::default();
        Self {
            addresses: registry.counters(
                "kube_apiserver_clusterip_allocator_allocation_total",
                "Allocated addresses, by range and by whether the client requested the address.",
                ["cidr", "scope"],
            ),
            address_errors: registry.counters(
                "kube_apiserver_clusterip_allocator_allocation_errors_total",
                "Addresses that could not be allocated, by range and by whether the client requested the address.",
                ["cidr", "scope"],
            ),
            address_duration: registry.histograms(
                "kube_apiserver_clusterip_allocator_allocation_duration_seconds",
                "Duration of choosing an address, by range.",
                Buckets::default(),
                ["cidr"],
            ),
            ports: registry.counters(
                "kube_apiserver_nodeport_allocator_allocation_total",
                "Allocated node ports, by whether the client requested the port.",
                ["scope"],
            ),
            port_errors: registry.counters(
                "kube_apiserver_nodeport_allocator_allocation_errors_total",
                "Node ports that could not be allocated, by whether the client requested the port.",
                ["scope"],
            ),
            registry,
        }
    }
}

impl AllocationMetrics {
    pub(crate) fn registry(&self) -> &Metrics {
        &self.registry
    }

    /// Counts the allocations of a committed write. `took` is the duration of choosing all of them.
    pub(crate) fn note(&self, allocations: &[MeteredAllocation], took: Duration) {
        let each = took / u32::try_from(allocations.len().max(1)).unwrap_or(u32::MAX);
        for MeteredAllocation { source, is_requested } in allocations {
            match source {
                AllocationSource::Addresses(cidr) => {
                    self.addresses.with([cidr, scope(*is_requested)]).inc();
                    self.address_duration.with([cidr]).observe_duration(each);
                }
                AllocationSource::NodePorts => self.ports.with([scope(*is_requested)]).inc(),
            }
        }
    }

    /// Counts an allocation that failed.
    pub(crate) fn note_failure(&self, MeteredAllocation { source, is_requested }: &MeteredAllocation) {
        match source {
            AllocationSource::Addresses(cidr) => self.address_errors.with([cidr, scope(*is_requested)]).inc(),
            AllocationSource::NodePorts => self.port_errors.with([scope(*is_requested)]).inc(),
        }
    }
}

fn scope(is_requested: bool) -> &'static str {
    if is_requested { "static" } else { "dynamic" }
}
