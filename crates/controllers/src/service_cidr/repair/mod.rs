//! Repairs inconsistencies between services and IPAddress objects. Both are written together, so they differ only if
//! someone changes the objects. The address of a service is created again if it is missing, and deleted if no service
//! has it.
//!
//! In Kubernetes this is part of kube-apiserver (`ipallocator-repair-controller`), as is the repair of node ports.
//! Here node ports are internal allocations that clients cannot change, so they need no repair.

mod plan;

use std::net::IpAddr;
use std::sync::Arc;

use coracle_base::Clock;
use coracle_runtime::{
    Action, Change, Controller, EventType, EventsRecorder, Informer, Manager, ObjectKey, Objects, Occurrence,
    Reconcile, Reference, Written,
};
use kube::api::{DeleteParams, ListParams, Preconditions};

use super::objects::{IpAddress, ServiceCidr, ip_addresses, service_cidrs};
use crate::view::{Service, services};
use crate::{Registration, Settings, api_error};
use plan::{AddressPlan, ServicePlan, cluster_ips, event, has, ip_address, plan_address, plan_service};

pub(crate) const REGISTRATION: Registration =
    Registration { name: "ipallocator-repair-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let (services, ranges) = (services(manager), service_cidrs(manager));
    let addresses = ip_addresses(manager);
    let reconcile = Repair {
        objects: Objects::of::<k8s_openapi::api::networking::v1::IPAddress>(manager.client()),
        range_objects: Objects::of::<k8s_openapi::api::networking::v1::ServiceCIDR>(manager.client()),
        service_objects: Objects::of::<k8s_openapi::api::core::v1::Service>(manager.client()),
        services: services.clone(),
        ranges: ranges.clone(),
        addresses: addresses.clone(),
        recorder: manager.events_recorder(REGISTRATION.name),
        clock: settings.clock.clone(),
    };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .watches(&services, of_service)
        .watches(&addresses, of_address)
        // Only cached, to plan with; addresses outside all ranges are left alone.
        .watches(&ranges, |_| None::<ObjectKey>);
    manager.add(controller);
}

/// A service, and the addresses it had or has.
fn of_service(change: &Change<Service>) -> Vec<ObjectKey> {
    let addresses = change.old.iter().chain(&change.new).flat_map(|service| cluster_ips(service));
    let address = |ip: IpAddr| ObjectKey::cluster_wide(change.key.cluster().clone(), ip.to_string());
    addresses.map(address).chain([change.key.clone()]).collect()
}

/// An address, and the service of its parent reference.
fn of_address(change: &Change<IpAddress>) -> Vec<ObjectKey> {
    let service = |address: &Arc<IpAddress>| {
        let parent = &address.spec.parent_ref;
        address
            .is_of_service()
            .then(|| ObjectKey::namespaced(change.key.cluster().clone(), &*parent.namespace, &*parent.name))
    };
    change.old.iter().chain(&change.new).filter_map(service).chain([change.key.clone()]).collect()
}

struct Repair {
    objects: Objects,
    range_objects: Objects,
    service_objects: Objects,
    services: Informer<Service>,
    ranges: Informer<ServiceCidr>,
    addresses: Informer<IpAddress>,
    recorder: EventsRecorder,
    clock: Clock,
}

impl Reconcile for Repair {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        if key.namespace().is_empty() {
            return self.repair_address(key).await;
        }
        let Some(service) = self.services.store().get(key) else { return Ok(Action::AwaitChange) };
        for ip in cluster_ips(&service) {
            if self.looks_wrong(key, &service, ip) {
                self.repair_service(key, service.metadata.uid(), ip).await?;
            }
        }
        Ok(Action::AwaitChange)
    }
}

impl Repair {
    /// True if the address of a service looks wrong in the informers' caches.
    fn looks_wrong(&self, key: &ObjectKey, service: &Service, ip: IpAddr) -> bool {
        let address = self.addresses.store().get(&address_key(key, ip));
        let holder =
            address.as_ref().and_then(|address| self.services.store().get(&holder_key(key, address)));
        let ranges = self.ranges.store().in_cluster(key.cluster());
        let in_range = ranges.iter().any(|range| range.offers(ip));
        let planned = plan_service(service, ip, in_range, address.as_deref(), holder.as_deref());
        planned != ServicePlan::Nothing
    }

    /// Repairs the address of a service, based on the server's current objects. Each kind is watched separately, so
    /// the informers do not see objects together that were written together: after a service was deleted with its
    /// address, the service may still be cached.
    async fn repair_service(&self, key: &ObjectKey, uid: &str, ip: IpAddr) -> Result<(), kube::Error> {
        let at = address_key(key, ip);
        let address: Option<IpAddress> = self.objects.get(&at).await?;
        let holder = match &address {
            Some(address) => self.holder(key, address).await?,
            None => None,
        };
        let ranges: Vec<ServiceCidr> = self.range_objects.list(&at, &ListParams::default()).await?;
        let in_range = ranges.iter().any(|range| range.offers(ip));
        // Read last: all objects read before belong to a service that still existed.
        let Some(service) = self.service_if_holding(key, uid, ip).await? else { return Ok(()) };
        let planned = plan_service(&service, ip, in_range, address.as_ref(), holder.as_ref());
        if let Some((reason, message)) = event(&planned, &service, ip) {
            let about = Reference::to("v1", "Service", &service.metadata);
            self.recorder.event(key.cluster(), warning(about, reason, "ClusterIPAllocation", message));
        }
        match (planned, address) {
            (ServicePlan::Create, _) => self.create(key, &service, ip).await,
            (ServicePlan::Replace { .. }, Some(address)) => {
                self.delete(&at, &address).await?;
                self.create(key, &service, ip).await
            }
            _ => Ok(()),
        }
    }

    /// The service of an address's parent reference, if it exists.
    async fn holder(&self, beside: &ObjectKey, address: &IpAddress) -> Result<Option<Service>, kube::Error> {
        let parent = &address.spec.parent_ref;
        if !address.is_of_service() || parent.namespace.is_empty() || parent.name.is_empty() {
            return Ok(None);
        }
        self.service_objects.get(&holder_key(beside, address)).await
    }

    /// The service, if it still exists and has the address.
    async fn service_if_holding(
        &self,
        key: &ObjectKey,
        uid: &str,
        ip: IpAddr,
    ) -> Result<Option<Service>, kube::Error> {
        let service: Option<Service> = self.service_objects.get(key).await?;
        Ok(service.filter(|service| service.metadata.uid() == uid && has(service, ip)))
    }

    /// Creates the address of a service. The server rejects it if the service is gone.
    async fn create(&self, key: &ObjectKey, service: &Service, ip: IpAddr) -> Result<(), kube::Error> {
        let at = address_key(key, ip);
        match self.objects.create::<Written>(&at, &ip_address(service, ip)).await {
            // The service has released the address, and another one may have it; that change enqueues the key again.
            Err(error) if api_error::already_exists(&error) || api_error::is_conflict(&error) => Ok(()),
            created => created.map(drop),
        }
    }

    async fn repair_address(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let Some(address) = self.addresses.store().get(key) else { return Ok(Action::AwaitChange) };
        let service = self.services.store().get(&holder_key(key, &address));
        match plan_address(&address, service.as_deref(), self.clock.now()) {
            AddressPlan::Nothing => return Ok(Action::AwaitChange),
            AddressPlan::Wait(time) => return Ok(Action::RequeueAfter(time)),
            AddressPlan::Delete(..) => {}
        }
        // The informers may be stale, so the server decides. The address is read first: a service that exists
        // afterwards has it, because no other can allocate it meanwhile.
        let Some(address) = self.objects.get::<IpAddress>(key).await? else { return Ok(Action::AwaitChange) };
        let service = self.holder(key, &address).await?;
        match plan_address(&address, service.as_ref(), self.clock.now()) {
            AddressPlan::Nothing => {}
            AddressPlan::Wait(time) => return Ok(Action::RequeueAfter(time)),
            AddressPlan::Delete(reason, message) => {
                let about = Reference::to("networking.k8s.io/v1", "IPAddress", &address.metadata);
                self.recorder.event(key.cluster(), warning(about, reason, "IPAddressAllocation", message));
                self.delete(key, &address).await?;
            }
        }
        Ok(Action::AwaitChange)
    }

    /// Deletes an address in the version that was read. A conflict is an error, so that the key is retried.
    async fn delete(&self, at: &ObjectKey, address: &IpAddress) -> Result<(), kube::Error> {
        let read = preconditions(address.metadata.uid(), Some(address.metadata.resource_version()));
        self.objects.delete(at, &DeleteParams::default().preconditions(read)).await
    }
}

fn address_key(beside: &ObjectKey, ip: IpAddr) -> ObjectKey {
    ObjectKey::cluster_wide(beside.cluster().clone(), ip.to_string())
}

/// Key of the service of an address's parent reference.
fn holder_key(beside: &ObjectKey, address: &IpAddress) -> ObjectKey {
    let parent = &address.spec.parent_ref;
    ObjectKey::namespaced(beside.cluster().clone(), &*parent.namespace, &*parent.name)
}

fn preconditions(uid: &str, resource_version: Option<&str>) -> Preconditions {
    Preconditions { uid: Some(uid.to_owned()), resource_version: resource_version.map(str::to_owned) }
}

fn warning(regarding: Reference, reason: &'static str, action: &'static str, note: String) -> Occurrence {
    Occurrence { regarding, related: None, kind: EventType::Warning, reason, action, note }
}
