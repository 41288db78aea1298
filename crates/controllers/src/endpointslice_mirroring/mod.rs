//! Mirrors Endpoints that users created for a service without a selector to EndpointSlices, because kube-proxy and
//! other clients read only slices.

mod metrics;
mod plan;

use coracle_base::Clock;
use coracle_runtime::{
    Action, Change, Controller, EventType, Informer, Manager, ObjectKey, Objects, ReadYourWrites, Reconcile,
    Recorder, Reference,
};
use k8s_openapi::api::discovery::v1::EndpointSlice as WholeSlice;

use crate::endpointslice::{SliceWriter, SyncError, Turnover, owner, services_of_slice};
use crate::view::{
    EndpointSlice, Endpoints, SLICES_BY_SERVICE, Service, endpoint_slices, endpoints, services,
};
use crate::{Registration, Settings};
use metrics::MirroringMetrics;
use plan::{MAX_PER_SUBSET, Plan, may_mirror, plan};

/// Value of the managed-by label.
const CONTROLLER: &str = "endpointslicemirroring-controller.k8s.io";
/// Component of the events.
const COMPONENT: &str = "endpoint-slice-mirroring-controller";

/// Concurrent reconciles: the default of `--mirroring-concurrent-service-endpoint-syncs`.
const WORKERS: usize = 5;

pub(crate) const REGISTRATION: Registration =
    Registration { name: "endpointslice-mirroring-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let (services, endpoints) = (services(manager), endpoints(manager));
    let slices = endpoint_slices(manager);
    let writer = SliceWriter {
        slices: Objects::of::<WholeSlice>(manager.client()),
        own_writes: ReadYourWrites::default(),
        changes: manager.metrics().counters(
            "endpoint_slice_mirroring_controller_changes",
            "Slices that were created, updated and deleted.",
            ["operation"],
        ),
    };
    let reconcile = Mirroring {
        services: services.clone(),
        endpoints: endpoints.clone(),
        slices: slices.clone(),
        writer,
        recorder: manager.recorder(COMPONENT),
        clock: settings.clock.clone(),
        metrics: MirroringMetrics::new(manager.metrics(), &slices),
    };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("endpoint_slice_mirroring")
        .watches(&services, selector_added_or_removed)
        .watches(&endpoints, mirrored)
        .watches(&slices, |change| services_of_slice(change, CONTROLLER))
        .workers(WORKERS);
    manager.add(controller);
}

/// Services that were created, deleted, or whose selector was added or removed.
fn selector_added_or_removed(change: &Change<Service>) -> Option<ObjectKey> {
    let selects =
        |service: Option<&std::sync::Arc<Service>>| service.map(|service| !service.spec.selector.is_empty());
    (selects(change.old.as_ref()) != selects(change.new.as_ref())).then(|| change.key.clone())
}

/// Endpoints that are mirrored, or were before the change.
fn mirrored(change: &Change<Endpoints>) -> Option<ObjectKey> {
    let may = change.old.iter().chain(&change.new).any(|endpoints| may_mirror(endpoints));
    may.then(|| change.key.clone())
}

struct Mirroring {
    services: Informer<Service>,
    endpoints: Informer<Endpoints>,
    slices: Informer<EndpointSlice>,
    writer: SliceWriter,
    recorder: Recorder,
    clock: Clock,
    metrics: MirroringMetrics,
}

impl Reconcile for Mirroring {
    type Error = SyncError;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, SyncError> {
        let began = self.clock.uptime();
        let synced = self.sync(key).await;
        self.metrics.took(self.clock.uptime().saturating_sub(began));
        synced.map(|()| Action::AwaitChange)
    }
}

impl Mirroring {
    async fn sync(&self, key: &ObjectKey) -> Result<(), SyncError> {
        self.writer.own_writes.seen(key, &self.slices).await?;
        let (endpoints, service) = (self.endpoints.store().get(key), self.services.store().get(key));
        let service_name = format!("{}/{}", key.namespace(), key.name());
        let mut existing = self.slices.store().by_index(SLICES_BY_SERVICE, key.cluster(), &service_name);
        existing.retain(|slice| slice.is_managed_by(CONTROLLER));
        let planned = plan(endpoints.as_deref(), service.as_deref(), existing);
        let metadata = endpoints.as_ref().map(|endpoints| endpoints.metadata.clone()).unwrap_or_default();
        let about = Reference::to("v1", "Endpoints", &metadata);
        self.record_event(key, &about, &planned);
        if planned.is_mirrored {
            self.metrics.mirrored(planned.skipped, Turnover::of(&planned.changes));
        }
        self.writer.apply(key, &owner("v1", "Endpoints", &metadata), planned.changes).await?;
        Ok(())
    }

    fn record_event(&self, key: &ObjectKey, about: &Reference, plan: &Plan) {
        let Plan { invalid, skipped, .. } = *plan;
        let warn = |reason, message| {
            self.recorder.event(key.cluster(), about.clone(), EventType::Warning, reason, message);
        };
        if invalid > 0 {
            warn(
                "InvalidIPAddress",
                format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices"),
            );
        }
        if skipped > invalid {
            warn(
                "TooManyAddressesToMirror",
                format!(
                    "A max of {MAX_PER_SUBSET} addresses can be mirrored to EndpointSlices per Endpoints subset. \
                     {skipped} addresses were skipped"
                ),
            );
        }
    }
}
