//! Services and the IPAddress objects that say which addresses they have are written together, so they
//! differ only if somebody changes the objects. What is missing or wrong then is put right: an address that
//! a service has is made again, and one that no service has goes.
//!
//! In upstream this is part of kube-apiserver (`ipallocator-repair-controller`), and so is the same for node
//! ports. Those are claims here that nobody sees and nobody can change, so there is nothing to repair.

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
use crate::{Registration, Settings, refusal};
use plan::{AddressPlan, ServicePlan, cluster_ips, has, ip_address, plan_address, plan_service, told};

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
        // It has to be known before anything is judged by it; what is out of all ranges stays as it is.
        .watches(&ranges, |_| None::<ObjectKey>);
    manager.add(controller);
}

/// A service, and the addresses it had or has.
fn of_service(change: &Change<Service>) -> Vec<ObjectKey> {
    let addresses = change.old.iter().chain(&change.new).flat_map(|service| cluster_ips(service));
    let address = |ip: IpAddr| ObjectKey::cluster_wide(change.key.cluster().clone(), ip.to_string());
    addresses.map(address).chain([change.key.clone()]).collect()
}

/// An address, and the service that it says has it.
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
    /// Whether something is wrong with the address of a service for all that the informers know.
    fn looks_wrong(&self, key: &ObjectKey, service: &Service, ip: IpAddr) -> bool {
        let address = self.addresses.store().get(&address_key(key, ip));
        let holder =
            address.as_ref().and_then(|address| self.services.store().get(&holder_key(key, address)));
        let ranges = self.ranges.store().in_cluster(key.cluster());
        let in_range = ranges.iter().any(|range| range.offers(ip));
        let planned = plan_service(service, ip, in_range, address.as_deref(), holder.as_deref());
        planned != ServicePlan::Nothing
    }

    /// Repairs what is wrong with the address of a service, by what the server itself returns. Each kind is watched
    /// by itself, so the informers do not see together what was written together: of a service that was deleted with
    /// its address, the service may still be known.
    async fn repair_service(&self, key: &ObjectKey, uid: &str, ip: IpAddr) -> Result<(), kube::Error> {
        let at = address_key(key, ip);
        let address: Option<IpAddress> = self.objects.get(&at).await?;
        let holder = match &address {
            Some(address) => self.holder(key, address).await?,
            None => None,
        };
        let ranges: Vec<ServiceCidr> = self.range_objects.list(&at, &ListParams::default()).await?;
        let in_range = ranges.iter().any(|range| range.offers(ip));
        // Last of all: whatever was read before it belongs to a service that was still there.
        let Some(service) = self.holding(key, uid, ip).await? else { return Ok(()) };
        let planned = plan_service(&service, ip, in_range, address.as_ref(), holder.as_ref());
        if let Some((reason, message)) = told(&planned, &service, ip) {
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

    /// The service that an address names, if it names one that exists.
    async fn holder(&self, beside: &ObjectKey, address: &IpAddress) -> Result<Option<Service>, kube::Error> {
        let parent = &address.spec.parent_ref;
        if !address.is_of_service() || parent.namespace.is_empty() || parent.name.is_empty() {
            return Ok(None);
        }
        self.service_objects.get(&holder_key(beside, address)).await
    }

    /// The service, if it is still this one and has the address.
    async fn holding(&self, key: &ObjectKey, uid: &str, ip: IpAddr) -> Result<Option<Service>, kube::Error> {
        let service: Option<Service> = self.service_objects.get(key).await?;
        Ok(service.filter(|service| service.metadata.uid() == uid && has(service, ip)))
    }

    /// Creates the address of a service. The server refuses it if the service is gone by now.
    async fn create(&self, key: &ObjectKey, service: &Service, ip: IpAddr) -> Result<(), kube::Error> {
        let at = address_key(key, ip);
        match self.objects.create::<Written>(&at, &ip_address(service, ip)).await {
            // The service released the address, which somebody else may have by now; that change brings the key back.
            Err(error) if refusal::exists_already(&error) || refusal::is_conflict(&error) => Ok(()),
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
        // The informers may be behind, so the server decides. The address first: a service that is there afterwards
        // has it, for nobody else can allocate it meanwhile.
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

    /// Deletes an address in the state that was read. A conflict is an error: the key is looked at again.
    async fn delete(&self, at: &ObjectKey, address: &IpAddress) -> Result<(), kube::Error> {
        let read = preconditions(address.metadata.uid(), Some(address.metadata.resource_version()));
        self.objects.delete(at, &DeleteParams::default().preconditions(read)).await
    }
}

fn address_key(beside: &ObjectKey, ip: IpAddr) -> ObjectKey {
    ObjectKey::cluster_wide(beside.cluster().clone(), ip.to_string())
}

/// The service that an address names.
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
