//! What is counted of slices, under upstream's names (`k8s.io/endpointslice/metrics`, and
//! `pkg/controller/endpointslicemirroring/metrics`).

use std::collections::BTreeMap;
use std::sync::Arc;

use coracle_base::Metrics;
use coracle_base::metrics::{Buckets, Counters, Histogram, Histograms, Type};
use coracle_runtime::Informer;

use super::backends::{EndpointKey, PortKey, port_key};
use super::pack::{MAX_ENDPOINTS, says_the_same};
use super::slices::SliceChanges;
use super::{CONTROLLER, SyncError, topology};
use crate::view::{AddressType, Endpoint, EndpointPort, EndpointSlice, Service};

/// The values of `trafficDistribution` that mean something.
const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

/// Upstream's limits of how many endpoints one look changes.
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
            "Services that want their traffic to stay near, by how.",
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
        let help = "How many endpoints a look at a service added.";
        Self {
            added: metrics.histogram(
                "endpoint_slice_controller_endpoints_added_per_sync",
                help,
                endpoint_buckets(),
            ),
            removed: metrics.histogram(
                "endpoint_slice_controller_endpoints_removed_per_sync",
                "How many endpoints a look at a service removed.",
                endpoint_buckets(),
            ),
            changed: metrics.histograms(
                "endpoint_slice_controller_endpointslices_changed_per_sync",
                "How many slices a look at a service changed.",
                Buckets::default(),
                ["topology", "traffic_distribution"],
            ),
            syncs: metrics.counters(
                "endpoint_slice_controller_syncs",
                "Looks at services, by how they ended.",
                ["result"],
            ),
        }
    }

    /// It was decided what to do about a service.
    pub(super) fn planned(&self, turnover: Turnover) {
        self.added.observe(turnover.added as f64);
        self.removed.observe(turnover.removed as f64);
    }

    /// So many slices were changed.
    pub(super) fn changed(&self, service: &Service, slices: usize) {
        let topology = if topology::is_wanted(service) { "Auto" } else { "Disabled" };
        self.changed.with([topology, distribution(service)]).observe(slices as f64);
    }

    /// A look is over.
    pub(super) fn synced(&self, outcome: &Result<(), SyncError>) {
        let result = match outcome {
            Ok(()) => "success",
            Err(SyncError::StaleCache(_)) => "stale",
            Err(SyncError::Write(_)) => "error",
        };
        self.syncs.with([result]).inc();
    }
}

/// How traffic is to stay near, as far as that is known and heeded.
fn distribution(service: &Service) -> &'static str {
    let wanted = service.spec.traffic_distribution.as_deref().filter(|_| !topology::is_wanted(service));
    DISTRIBUTIONS.iter().find(|known| Some(**known) == wanted).copied().unwrap_or_default()
}

/// How many endpoints come, change and go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turnover {
    pub(crate) added: usize,
    pub(crate) updated: usize,
    pub(crate) removed: usize,
}

/// By what an endpoint in a slice is known.
type Place = (AddressType, PortKey, EndpointKey);

impl Turnover {
    /// What these changes come to. What only moves from one slice to another stays.
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
                Some(known) => turnover.updated += usize::from(!says_the_same(known, endpoint)),
            }
        }
        turnover.removed = before.len();
        turnover
    }
}

fn gather<'a>(
    all: &mut BTreeMap<Place, &'a Endpoint>,
    address_type: AddressType,
    ports: &[EndpointPort],
    endpoints: &'a [Endpoint],
) {
    let ports = port_key(ports);
    all.extend(
        endpoints.iter().map(|endpoint| ((address_type, ports.clone(), EndpointKey::of(endpoint)), endpoint)),
    );
}

/// How a controller packs endpoints.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packing {
    pub(crate) per_slice: usize,
    /// Whether nothing needs a slice, too.
    pub(crate) keeps_empty: bool,
}

/// What is told of slices.
type OfSlices = fn(slices: &[Arc<EndpointSlice>], packing: Packing) -> usize;

/// What is told of the slices of a controller when somebody asks, by name.
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
        gauge(self.endpoints, "Endpoints there are.", |slices, _| {
            slices.iter().map(|slice| slice.endpoints.len()).sum()
        });
        gauge(self.slices, "Slices there are.", |slices, _| slices.len());
        gauge(self.desired, "Slices there would be if all were as full as they can be.", ideal);
    }
}

/// How many endpoints have the same ports.
type ByPorts = BTreeMap<PortKey, usize>;

/// How few slices could hold the endpoints of these.
fn ideal(slices: &[Arc<EndpointSlice>], packing: Packing) -> usize {
    let mut groups: BTreeMap<(&str, AddressType), ByPorts> = BTreeMap::new();
    for slice in slices {
        // Owners have identities, names are the same in many clusters.
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
    fn what_moves_from_slice_to_slice_stays() {
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
    fn slices_could_be_fewer() {
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
