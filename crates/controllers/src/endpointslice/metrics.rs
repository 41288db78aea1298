//! Metrics of endpoint slices, under Kubernetes' names (`k8s.io/endpointslice/metrics`, and
//! `pkg/controller/endpointslicemirroring/metrics`).

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_base::Metrics;
use coracle_base::metrics::{Buckets, Counters, Histogram, Histograms, Type};
use coracle_runtime::Informer;

use super::backends::{EndpointKey, PortKey, port_key};
use super::pack::{MAX_ENDPOINTS, equal_except_hints};
use super::slices::SliceChanges;
use super::{CONTROLLER, SyncError, topology};
use crate::view::{AddressType, Endpoint, EndpointPort, EndpointSlice, Service};

/// Valid values of `trafficDistribution`.
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

/// Kubernetes' buckets for endpoints changed per sync.
pub(crate) fn endpoint_buckets() -> Buckets {
    Buckets::exponential(2.0, 2.0, 15)
}

#[derive(Debug)]
pub(super) struct EndpointSliceMetrics {
    added: Arc<Histogram>,
    removed: Arc<Histogram>,
    changed: Histograms<2>,
    syncs: Counters<1>,
}

impl EndpointSliceMetrics {
    pub(super) fn new(
        metrics: &Metrics,
        slices: &Informer<EndpointSlice>,
        services: &Informer<Service>,
    ) -> Self {
        let names = SliceGauges {
            endpoints: "endpoint_slice_controller_endpoints_desired",
            slices: "endpoint_slice_controller_num_endpoint_slices",
            desired: "endpoint_slice_controller_desired_endpoint_slices",
        };
        names.declare(metrics, slices, CONTROLLER, Packing { per_slice: MAX_ENDPOINTS, keeps_empty: true });
        let services = services.store().clone();
        metrics.collected(
            "endpoint_slice_controller_services_count_by_traffic_distribution",
            Type::Gauge,
            "Number of services by traffic distribution.",
            move |samples| {
                let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
                for service in services.list().iter().filter(|service| service.selects_pods()) {
                    *counts.entry(distribution(service)).or_default() += 1;
                }
                counts.remove("");
                for (distribution, count) in counts {
                    samples.add_value(&[("traffic_distribution", distribution)], count as f64);
                }
            },
        );
        let help = "Endpoints added per service sync.";
        Self {
            added: metrics.histogram(
                "endpoint_slice_controller_endpoints_added_per_sync",
                help,
                endpoint_buckets(),
            ),
            removed: metrics.histogram(
                "endpoint_slice_controller_endpoints_removed_per_sync",
                "Endpoints removed per service sync.",
                endpoint_buckets(),
            ),
            changed: metrics.histograms(
                "endpoint_slice_controller_endpointslices_changed_per_sync",
                "Slices changed per service sync.",
                Buckets::default(),
                ["topology", "traffic_distribution"],
            ),
            syncs: metrics.counters(
                "endpoint_slice_controller_syncs",
                "Service syncs by result.",
                ["result"],
            ),
        }
    }

    /// Records the plan of a sync.
    pub(super) fn planned(&self, turnover: Turnover) {
        self.added.observe(turnover.added as f64);
        self.removed.observe(turnover.removed as f64);
    }

    /// Records the number of changed slices.
    pub(super) fn changed(&self, service: &Service, slices: usize) {
        let topology = if topology::is_wanted(service) { "Auto" } else { "Disabled" };
        self.changed.with([topology, distribution(service)]).observe(slices as f64);
    }

    /// Records the result of a sync.
    pub(super) fn synced(&self, outcome: &Result<(), SyncError>) {
        let result = match outcome {
            Ok(()) => "success",
            Err(SyncError::StaleCache(_)) => "stale",
            Err(SyncError::Write(_)) => "error",
        };
        self.syncs.with([result]).inc();
    }
}

/// The traffic distribution in effect, if it is valid.
fn distribution(service: &Service) -> &'static str {
    let wanted = service.spec.traffic_distribution.as_deref().filter(|_| !topology::is_wanted(service));
    DISTRIBUTIONS.iter().find(|known| Some(**known) == wanted).copied().unwrap_or_default()
}

/// Numbers of endpoints added, updated and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turnover {
    pub(crate) added: usize,
    pub(crate) updated: usize,
    pub(crate) removed: usize,
}

/// Identity of an endpoint within its slice.
type SliceEndpoint = (AddressType, PortKey, EndpointKey);

impl Turnover {
    /// Counts the changes. An endpoint that moves to another slice is not counted.
    pub(crate) fn of(changes: &SliceChanges) -> Self {
        let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
        let replaced = changes.update.iter().filter_map(|draft| draft.existing.as_ref());
        for slice in changes.delete.iter().chain(replaced) {
            gather(&mut before, slice.address_type, &slice.ports, &slice.endpoints);
        }
        for draft in changes.create.iter().chain(&changes.update) {
            gather(&mut after, draft.address_type, &draft.ports, &draft.endpoints);
        }
        let mut turnover = Self::default();
        for (place, endpoint) in &after {
            match before.remove(place) {
                None => turnover.added += 1,
                Some(known) => turnover.updated += usize::from(!equal_except_hints(known, endpoint)),
            }
        }
        turnover.removed = before.len();
        turnover
    }
}

fn gather<'a>(
    all: &mut BTreeMap<SliceEndpoint, &'a Endpoint>,
    address_type: AddressType,
    ports: &[EndpointPort],
    endpoints: &'a [Endpoint],
) {
    let ports = port_key(ports);
    all.extend(
        endpoints.iter().map(|endpoint| ((address_type, ports.clone(), EndpointKey::of(endpoint)), endpoint)),
    );
}

/// How a controller packs endpoints into slices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    pub(crate) per_slice: usize,
    /// True if a service without endpoints needs a slice, too.
    pub(crate) keeps_empty: bool,
}

/// Computes a gauge from all slices.
type OfSlices = fn(slices: &[Arc<EndpointSlice>], packing: Packing) -> usize;

/// Names of the gauges of a controller's slices, which are computed when they are scraped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SliceGauges {
    pub(crate) endpoints: &'static str,
    pub(crate) slices: &'static str,
    pub(crate) desired: &'static str,
}

impl SliceGauges {
    pub(crate) fn declare(
        self,
        metrics: &Metrics,
        slices: &Informer<EndpointSlice>,
        controller: &'static str,
        packing: Packing,
    ) {
        let gauge = |name, help, number: OfSlices| {
            let store = slices.store().clone();
            metrics.collected(name, Type::Gauge, help, move |samples| {
                let mut slices = store.list();
                slices.retain(|slice| slice.is_managed_by(controller));
                samples.add_value(&[], number(&slices, packing) as f64);
            });
        };
        gauge(self.endpoints, "Number of endpoints.", |slices, _| {
            slices.iter().map(|slice| slice.endpoints.len()).sum()
        });
        gauge(self.slices, "Number of slices.", |slices, _| slices.len());
        gauge(self.desired, "Number of slices if all were packed as fully as possible.", ideal);
    }
}

/// Number of endpoints by ports.
type ByPorts = BTreeMap<PortKey, usize>;

/// Minimum number of slices for the endpoints of these.
fn ideal(slices: &[Arc<EndpointSlice>], packing: Packing) -> usize {
    let mut groups: BTreeMap<(&str, AddressType), ByPorts> = BTreeMap::new();
    for slice in slices {
        // By uid, because names repeat across clusters.
        let owner = slice.metadata.owner_references.first().map_or("", |owner| &*owner.uid);
        let by_ports = groups.entry((owner, slice.address_type)).or_default();
        *by_ports.entry(port_key(&slice.ports)).or_default() += slice.endpoints.len();
    }
    let needed = |by_ports: &ByPorts| -> usize {
        let full = by_ports.values().map(|endpoints| endpoints.div_ceil(packing.per_slice)).sum::<usize>();
        full.max(usize::from(packing.keeps_empty))
    };
    groups.values().map(needed).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::slices::Draft;
    use super::*;

    fn slice(owner: &str, port: i32, ips: &[&str]) -> Arc<EndpointSlice> {
        let endpoints: Vec<Value> = ips.iter().map(|ip| json!({"addresses": [ip]})).collect();
        let slice = json!({
            "metadata": {"ownerReferences": [{"kind": "Service", "apiVersion": "v1", "uid": owner}]},
            "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "", "protocol": "TCP", "port": port}],
        });
        Arc::new(serde_json::from_value(slice).unwrap())
    }

    fn draft(existing: Option<Arc<EndpointSlice>>, port: i32, ips: &[&str]) -> Draft {
        let like = slice("u", port, ips);
        let (ports, endpoints) = (like.ports.to_vec(), like.endpoints.to_vec());
        Draft { existing, address_type: like.address_type, ports, endpoints, ..Draft::default() }
    }

    #[test]
    fn endpoint_moved_between_slices_is_not_counted() {
        let changes = SliceChanges {
            create: vec![draft(None, 80, &["10.0.0.1", "10.0.0.9"])],
            update: vec![draft(Some(slice("u", 80, &["10.0.0.2"])), 80, &["10.0.0.2", "10.0.0.3"])],
            delete: vec![slice("u", 80, &["10.0.0.1", "10.0.0.4"])],
        };
        assert_eq!(Turnover::of(&changes), Turnover { added: 2, updated: 0, removed: 1 });
        let mut other = draft(Some(slice("u", 80, &["10.0.0.2"])), 80, &["10.0.0.2"]);
        other.endpoints[0].conditions.ready = Some(true);
        let changes = SliceChanges { update: vec![other], ..SliceChanges::default() };
        assert_eq!(Turnover::of(&changes), Turnover { added: 0, updated: 1, removed: 0 });
        let ports = draft(Some(slice("u", 80, &["10.0.0.2"])), 81, &["10.0.0.2"]);
        let changes = SliceChanges { update: vec![ports], ..SliceChanges::default() };
        assert_eq!(Turnover::of(&changes), Turnover { added: 1, updated: 0, removed: 1 });
    }

    #[test]
    fn ideal_counts_the_minimum_of_slices() {
        let packing = Packing { per_slice: 2, keeps_empty: true };
        let all = [
            slice("u", 80, &["10.0.0.1"]),
            slice("u", 80, &["10.0.0.2"]),
            slice("u", 81, &["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
            slice("v", 80, &[]),
        ];
        assert_eq!(ideal(&all, packing), 4);
        assert_eq!(ideal(&all, Packing { keeps_empty: false, ..packing }), 3);
    }
}
