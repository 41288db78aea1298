//! Maintains EndpointSlices for every service with a selector.
//!
//! Each sync computes the [`backends`] of the service from scratch and compares them with its slices; [`plan`]
//! changes as few slices as possible, because every change is sent to every node.

mod backends;
mod hints;
mod metrics;
mod pack;
mod plan;
mod slices;
mod topology;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_runtime::{
    Action, Change, Controller, EventType, Informer, Manager, ObjectKey, Objects, ReadYourWrites, Reconcile,
    Recorder, Reference,
};
use k8s_openapi::api::discovery::v1::EndpointSlice as WholeSlice;

use crate::service_pods::{TriggerTimes, selected_pods, services_of};
use crate::view::{
    EndpointSlice, Node, PODS_BY_NODE, Pod, SERVICE_NAME, SLICES_BY_SERVICE, Service, endpoint_slices, nodes,
    pods_by_node, services,
};
use crate::{Registration, Settings};
pub(crate) use backends::{EndpointKey, EndpointSet, PortKey, port_key, type_of};
use metrics::EndpointSliceMetrics;
pub(crate) use metrics::{Packing, SliceGauges, Turnover, endpoint_buckets};
pub(crate) use pack::equal_except_hints;
use plan::{Input, Plan, plan};
pub(crate) use slices::{Draft, SliceChanges, SliceWriter, labels_with, owner};

/// Value of the managed-by label.
const CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// Component of the events.
const COMPONENT: &str = "endpoint-slice-controller";

/// Concurrent reconciles: the default of `--concurrent-service-endpoint-syncs`.
const WORKERS: usize = 5;

pub(crate) const REGISTRATION: Registration = Registration { name: "endpointslice-controller", register };

fn register(manager: &mut Manager, _settings: &Settings) {
    let (services, pods) = (services(manager), pods_by_node(manager));
    let (nodes, slices) = (nodes(manager), endpoint_slices(manager));
    let writer = SliceWriter {
        slices: Objects::of::<WholeSlice>(manager.client()),
        own_writes: ReadYourWrites::default(),
        changes: manager.metrics().counters(
            "endpoint_slice_controller_changes",
            "Slices that were created, updated and deleted.",
            ["operation"],
        ),
    };
    let reconcile = EndpointSlices {
        services: services.clone(),
        pods: pods.clone(),
        nodes: nodes.clone(),
        slices: slices.clone(),
        writer,
        trigger_times: TriggerTimes::default(),
        with_topology_hints: Mutex::default(),
        recorder: manager.recorder(COMPONENT),
        metrics: EndpointSliceMetrics::new(manager.metrics(), &slices, &services),
    };
    let (of_pods, of_nodes, on_nodes) = (services.clone(), services.clone(), pods.clone());
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("endpoint_slice")
        .watches(&services, |change| [change.key.clone()])
        .watches(&pods, move |change| services_of(change, of_pods.store()))
        .watches(&slices, |change| services_of_slice(change, CONTROLLER))
        .watches(&nodes, move |change| services_on(change, &on_nodes, &of_nodes))
        .workers(WORKERS);
    manager.add(controller);
}

/// The services of slices that this manager manages, or did before the change.
pub(crate) fn services_of_slice(change: &Change<EndpointSlice>, manager: &str) -> Vec<ObjectKey> {
    let managed = |slice: &&Arc<EndpointSlice>| slice.is_managed_by(manager);
    if !change.old.iter().chain(&change.new).any(|slice| managed(&slice)) {
        return Vec::new();
    }
    let service = |slice: &Arc<EndpointSlice>| {
        let name = slice.metadata.labels.get(SERVICE_NAME)?;
        Some(ObjectKey::namespaced(change.key.cluster().clone(), change.key.namespace(), name))
    };
    let mut keys: Vec<_> = change.old.iter().chain(&change.new).filter_map(service).collect();
    keys.dedup();
    keys
}

/// Services to sync after a node was added or moved to another zone: those of the pods on it, which are omitted until
/// the zone is known, and those with topology aware routing, which depends on the nodes of each zone.
fn services_on(change: &Change<Node>, pods: &Informer<Pod>, services: &Informer<Service>) -> Vec<ObjectKey> {
    let zone_and_readiness = |node: &Arc<Node>| (backends::zone(node).map(str::to_owned), node.is_ready());
    let (before, now) =
        (change.old.as_ref().map(zone_and_readiness), change.new.as_ref().map(zone_and_readiness));
    if before == now {
        return Vec::new();
    }
    let cluster = change.key.cluster();
    let with_topology_hints = services.store().in_cluster(cluster).into_iter();
    let with_topology_hints =
        with_topology_hints.filter(|service| topology::is_wanted(service)).map(|service| {
            ObjectKey::namespaced(cluster.clone(), service.metadata.namespace(), service.metadata.name())
        });
    if before.map(|(zone, _)| zone) == now.map(|(zone, _)| zone) {
        return with_topology_hints.collect();
    }
    let on_node = pods.store().by_index(PODS_BY_NODE, cluster, change.key.name());
    let touched = |pod: Arc<Pod>| {
        let key = ObjectKey::namespaced(cluster.clone(), pod.metadata.namespace(), pod.metadata.name());
        services_of(&Change { key, old: None, new: Some(pod) }, services.store())
    };
    on_node.into_iter().flat_map(touched).chain(with_topology_hints).collect()
}

struct EndpointSlices {
    services: Informer<Service>,
    pods: Informer<Pod>,
    nodes: Informer<Node>,
    slices: Informer<EndpointSlice>,
    writer: SliceWriter,
    trigger_times: TriggerTimes,
    /// Services with topology aware routing in effect, so that events are recorded only on changes.
    with_topology_hints: Mutex<HashSet<ObjectKey>>,
    recorder: Recorder,
    metrics: EndpointSliceMetrics,
}

/// Error of a sync.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SyncError {
    /// The informer cache is stale.
    #[error(transparent)]
    StaleCache(#[from] coracle_runtime::StaleCache),
    /// A write failed.
    #[error(transparent)]
    Write(#[from] slices::WriteError),
}

impl Reconcile for EndpointSlices {
    type Error = SyncError;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, SyncError> {
        let Some(service) = self.services.store().get(key) else {
            // The garbage collector deletes its slices.
            self.trigger_times.forget(key);
            self.with_topology_hints().remove(key);
            return Ok(Action::AwaitChange);
        };
        if !service.selects_pods() {
            return Ok(Action::AwaitChange);
        }
        let synced = self.sync(key, &service).await;
        self.metrics.synced(&synced);
        synced.map(|()| Action::AwaitChange)
    }
}

impl EndpointSlices {
    async fn sync(&self, key: &ObjectKey, service: &Service) -> Result<(), SyncError> {
        self.writer.own_writes.seen(key, &self.slices).await?;
        let Plan { changes, without_node, has_topology_hints, events } = self.plan(key, service);
        for (pod, node) in without_node {
            let whose = format!("{}/{}", key.namespace(), key.name());
            let what = format!("skipping Pod {pod} for Service {whose}: Node {node} Not Found");
            self.warn(key, service, what);
        }
        for (kind, reason, message) in events {
            let about = Reference::to("v1", "Service", &service.metadata);
            self.recorder.event(key.cluster(), about, kind, reason, message);
        }
        if has_topology_hints {
            self.with_topology_hints().insert(key.clone());
        } else {
            self.with_topology_hints().remove(key);
        }
        let owner = owner("v1", "Service", &service.metadata);
        self.metrics.planned(Turnover::of(&changes));
        let changed = changes.len();
        if let Err(error) = self.writer.apply(key, &owner, changes).await {
            self.warn(key, service, error.to_string());
            return Err(error.into());
        }
        self.metrics.changed(service, changed);
        Ok(())
    }

    fn plan(&self, key: &ObjectKey, service: &Service) -> Plan {
        let pods = selected_pods(service, key, self.pods.store());
        let node_of =
            |name: &str| self.nodes.store().get(&ObjectKey::cluster_wide(key.cluster().clone(), name));
        let service_name = format!("{}/{}", key.namespace(), key.name());
        let mut slices = self.slices.store().by_index(SLICES_BY_SERVICE, key.cluster(), &service_name);
        slices.retain(|slice| slice.is_managed_by(CONTROLLER));
        let trigger_time = self.trigger_times.observe(key, service, &pods);
        let had_topology_hints = self.with_topology_hints().contains(key);
        let zone_shares = || {
            let nodes = self.nodes.store().in_cluster(key.cluster());
            topology::shares(nodes.iter().map(|node| &**node))
        };
        let (node_of, zone_shares) = (&node_of, &zone_shares);
        plan(Input { service, pods: &pods, node_of, slices, trigger_time, zone_shares, had_topology_hints })
    }

    fn with_topology_hints(&self) -> MutexGuard<'_, HashSet<ObjectKey>> {
        self.with_topology_hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn warn(&self, key: &ObjectKey, service: &Service, what: String) {
        let message =
            format!("Error updating Endpoint Slices for Service {}/{}: {what}", key.namespace(), key.name());
        let about = Reference::to("v1", "Service", &service.metadata);
        let (kind, reason) = (EventType::Warning, "FailedToUpdateEndpointSlices");
        self.recorder.event(key.cluster(), about, kind, reason, message);
    }
}
