//! Services and the IPAddress objects that say which addresses they have are written together, so they
//! differ only if somebody changes the objects. What is missing or wrong then is put right: an address that
//! a service has is made again, and one that no service has goes.
//!
//! In upstream this is part of kube-apiserver (`ipallocator-repair-controller`), and so is the same for node
//! ports. Those are claims here that nobody sees and nobody can change, so there is nothing to repair.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use coracle_base::{Clock, Timestamp};
use coracle_runtime::{
    Action, Change, Controller, EventType, EventsRecorder, Informer, Manager, ObjectKey, Objects, Occurrence,
    Reconcile, Reference, Written,
};
use kube::api::{DeleteParams, ListParams, Preconditions};
use serde_json::{Value, json};

use super::objects::{
    ALLOCATOR, FAMILY, IpAddress, MANAGED_BY, ServiceCidr, family, ip_addresses, service_cidrs,
};
use crate::view::{Service, services};
use crate::{Registration, Settings, refusal};

/// How long an address may be there before its service, which others make in two steps: as long as a request
/// may take upstream.
const SERVICE_GRACE: Duration = Duration::from_secs(60);

pub(crate) const REGISTRATION: Registration =
    Registration { name: "ipallocator-repair-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let (services, ranges) = (services(manager), service_cidrs(manager));
    let addresses = ip_addresses(manager);
    let reconcile = Repair {
        objects: Objects::of::<k8s_openapi::api::networking::v1::IPAddress>(manager.client()),
        range_objects: Objects::of::<k8s_openapi::api::networking::v1::ServiceCIDR>(manager.client()),
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

fn cluster_ips(service: &Service) -> impl Iterator<Item = IpAddr> {
    let set = service.has_cluster_ip();
    service.spec.cluster_ips.iter().filter(move |_| set).filter_map(|ip| ip.parse().ok())
}

/// What is to be done about an address of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ServicePlan {
    Nothing,
    /// Nobody else can have it; people are told.
    OutOfRange,
    /// Another service has it, too; people are told.
    Twice,
    /// It is not noted as given out.
    Create,
    /// It is noted for somebody else who does not have it, or not as it should be; whether people are told.
    Replace {
        told: bool,
    },
}

/// Plans for one address of a service. `holder` finds a service of the same cluster.
fn plan_service(
    service: &Service,
    ip: IpAddr,
    in_range: bool,
    address: Option<&IpAddress>,
    holder: impl Fn(&str, &str) -> Option<Arc<Service>>,
) -> ServicePlan {
    if !in_range {
        return ServicePlan::OutOfRange;
    }
    let Some(address) = address else { return ServicePlan::Create };
    let parent = &address.spec.parent_ref;
    if !address.is_of_service() {
        return ServicePlan::Replace { told: true };
    }
    let own = (service.metadata.namespace(), service.metadata.name());
    if (&*parent.namespace, &*parent.name) != own {
        return match holder(&parent.namespace, &parent.name) {
            Some(other) if cluster_ips(&other).any(|held| held == ip) => ServicePlan::Twice,
            _ => ServicePlan::Replace { told: true },
        };
    }
    let labelled = address.is_allocated() && address.metadata.labels.get(FAMILY) == Some(family(ip));
    if labelled { ServicePlan::Nothing } else { ServicePlan::Replace { told: false } }
}

/// What is to be done about an address by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AddressPlan {
    Nothing,
    /// Its service may still come.
    Wait(Duration),
    /// It goes; a reason and what people are told.
    Delete(&'static str, String),
}

/// Plans for an address, given the service it says has it.
fn plan_address(address: &IpAddress, service: Option<&Service>, now: Timestamp) -> AddressPlan {
    if !address.is_allocated() || address.metadata.is_terminating() {
        return AddressPlan::Nothing;
    }
    let (name, parent) = (address.metadata.name(), &address.spec.parent_ref);
    if !address.is_of_service() {
        let message = format!(
            "IPAddress {name} appears to have been modified, not referencing a Service {}: cleaning up",
            parent.resource
        );
        return AddressPlan::Delete("IPAddressNotAllocated", message);
    }
    let has = |service: &Service| cluster_ips(service).any(|ip| address.address() == Some(ip));
    if service.is_some_and(has) {
        return AddressPlan::Nothing;
    }
    let due = address.metadata.creation_timestamp + SERVICE_GRACE;
    if now < due {
        return AddressPlan::Wait(due.since(now));
    }
    let whose = format!("IPAddress: {name} for Service {}/{}", parent.namespace, parent.name);
    match service {
        None => AddressPlan::Delete(
            "IPAddressNotAllocated",
            format!("{whose} appears to have leaked: cleaning up"),
        ),
        Some(_) => AddressPlan::Delete(
            "IPAddressWrongReference",
            format!("{whose} has a wrong reference; cleaning up"),
        ),
    }
}

struct Repair {
    objects: Objects,
    range_objects: Objects,
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
            self.repair_service(key, &service, ip).await?;
        }
        Ok(Action::AwaitChange)
    }
}

impl Repair {
    async fn repair_service(
        &self,
        key: &ObjectKey,
        service: &Service,
        ip: IpAddr,
    ) -> Result<(), kube::Error> {
        let at = ObjectKey::cluster_wide(key.cluster().clone(), ip.to_string());
        let holder = |namespace: &str, name: &str| {
            self.services.store().get(&ObjectKey::namespaced(key.cluster().clone(), namespace, name))
        };
        let known = self.addresses.store().get(&at);
        let ranges = self.ranges.store().in_cluster(key.cluster());
        let in_range = ranges.iter().any(|range| range.offers(ip));
        if plan_service(service, ip, in_range, known.as_deref(), holder) == ServicePlan::Nothing {
            return Ok(());
        }
        // Each kind is watched by itself, so what was written together is not seen together. Only what the
        // server itself says is wrong is repaired.
        let found: Option<IpAddress> = self.objects.get(&at).await?;
        let ranges: Vec<ServiceCidr> = self.range_objects.list(&at, &ListParams::default()).await?;
        let in_range = ranges.iter().any(|range| range.offers(ip));
        let planned = plan_service(service, ip, in_range, found.as_ref(), holder);
        if let Some((reason, message)) = told(&planned, service, ip) {
            let about = Reference::to("v1", "Service", &service.metadata);
            self.recorder.event(key.cluster(), warning(about, reason, "ClusterIPAllocation", message));
        }
        if let ServicePlan::Replace { .. } = planned {
            self.objects.delete(&at, &DeleteParams::default()).await?;
        }
        if matches!(planned, ServicePlan::Create | ServicePlan::Replace { .. }) {
            match self.objects.create::<Written>(&at, &ip_address(service, ip)).await {
                // What is known is too old; what is new brings it back.
                Err(error) if refusal::exists_already(&error) => {}
                made => drop(made?),
            }
        }
        Ok(())
    }

    async fn repair_address(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let Some(address) = self.addresses.store().get(key) else { return Ok(Action::AwaitChange) };
        let parent = &address.spec.parent_ref;
        let at = ObjectKey::namespaced(key.cluster().clone(), &*parent.namespace, &*parent.name);
        let service = self.services.store().get(&at);
        match plan_address(&address, service.as_deref(), self.clock.now()) {
            AddressPlan::Nothing => {}
            AddressPlan::Wait(time) => return Ok(Action::RequeueAfter(time)),
            AddressPlan::Delete(reason, message) => {
                let about = Reference::to("networking.k8s.io/v1", "IPAddress", &address.metadata);
                self.recorder.event(key.cluster(), warning(about, reason, "IPAddressAllocation", message));
                let this_one =
                    Preconditions { uid: Some(address.metadata.uid().to_owned()), resource_version: None };
                self.objects.delete(key, &DeleteParams::default().preconditions(this_one)).await?;
            }
        }
        Ok(Action::AwaitChange)
    }
}

fn warning(regarding: Reference, reason: &'static str, action: &'static str, note: String) -> Occurrence {
    Occurrence { regarding, related: None, kind: EventType::Warning, reason, action, note }
}

/// What people are told.
fn told(plan: &ServicePlan, service: &Service, ip: IpAddr) -> Option<(&'static str, String)> {
    let (namespace, name, family) = (service.metadata.namespace(), service.metadata.name(), family(ip));
    Some(match plan {
        ServicePlan::Nothing | ServicePlan::Replace { told: false } => return None,
        ServicePlan::OutOfRange => (
            "ClusterIPOutOfRange",
            format!(
                "Cluster IP [{family}]: {ip} is not within any configured Service CIDR; please recreate service"
            ),
        ),
        ServicePlan::Twice => (
            "ClusterIPAlreadyAllocated",
            format!("Cluster IP [{family}]:{ip} was assigned to multiple services; please recreate service"),
        ),
        ServicePlan::Create => {
            ("ClusterIPNotAllocated", format!("Cluster IP [{family}]: {ip} is not allocated; repairing"))
        }
        ServicePlan::Replace { told: true } => (
            "ClusterIPNotAllocated",
            format!(
                "the ClusterIP [{family}]: {ip} for Service {namespace}/{name} has a wrong reference; repairing"
            ),
        ),
    })
}

fn ip_address(service: &Service, ip: IpAddr) -> Value {
    let (namespace, name) = (service.metadata.namespace(), service.metadata.name());
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {"name": ip.to_string(), "labels": {FAMILY: family(ip), MANAGED_BY: ALLOCATOR}},
        "spec": {"parentRef": {"resource": "services", "namespace": namespace, "name": name}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(name: &str, ip: &str) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "n"}, "spec": {"clusterIP": ip, "clusterIPs": [ip]},
        }))
        .unwrap()
    }

    fn address(change: &[(&str, Value)]) -> IpAddress {
        let ip = "10.0.0.1".parse().unwrap();
        let mut address = ip_address(&service("s", "10.0.0.1"), ip);
        address["metadata"]["creationTimestamp"] = "1970-01-01T00:01:40Z".into();
        for (path, value) in change {
            *address.pointer_mut(path).unwrap() = value.clone();
        }
        serde_json::from_value(address).unwrap()
    }

    #[test]
    fn what_a_service_has_is_noted_as_given_out() {
        let planned = |address: Option<&IpAddress>, in_range: bool, holds: &str| {
            let holder = |_: &str, name: &str| (!holds.is_empty()).then(|| Arc::new(service(name, holds)));
            plan_service(&service("s", "10.0.0.1"), "10.0.0.1".parse().unwrap(), in_range, address, holder)
        };
        let (right, other) = (address(&[]), address(&[("/spec/parentRef/name", json!("t"))]));
        let replaced = |told| ServicePlan::Replace { told };
        assert_eq!(planned(Some(&right), true, ""), ServicePlan::Nothing);
        assert_eq!(planned(Some(&right), false, ""), ServicePlan::OutOfRange);
        assert_eq!(planned(None, true, ""), ServicePlan::Create);
        assert_eq!(planned(Some(&other), true, ""), replaced(true), "nobody has it");
        assert_eq!(planned(Some(&other), true, "10.0.0.2"), replaced(true), "the other does not have it");
        assert_eq!(planned(Some(&other), true, "10.0.0.1"), ServicePlan::Twice);
        let gateway = address(&[("/spec/parentRef/resource", json!("gateways"))]);
        assert_eq!(planned(Some(&gateway), true, ""), replaced(true));
        let unlabelled = address(&[("/metadata/labels", json!({MANAGED_BY: ALLOCATOR}))]);
        assert_eq!(planned(Some(&unlabelled), true, ""), replaced(false));
    }

    #[test]
    fn an_address_that_no_service_has_goes() {
        let planned = |address: &IpAddress, service: Option<&Service>, now_s: u64| {
            plan_address(address, service, Timestamp::from_millis(now_s * 1000))
        };
        let (right, holder) = (address(&[]), service("s", "10.0.0.1"));
        assert_eq!(planned(&right, Some(&holder), 1000), AddressPlan::Nothing);
        assert_eq!(planned(&right, None, 110), AddressPlan::Wait(Duration::from_secs(50)));
        let leaked = "IPAddress: 10.0.0.1 for Service n/s appears to have leaked: cleaning up".to_owned();
        assert_eq!(planned(&right, None, 160), AddressPlan::Delete("IPAddressNotAllocated", leaked));
        let wrong = "IPAddress: 10.0.0.1 for Service n/s has a wrong reference; cleaning up".to_owned();
        let other = service("s", "10.0.0.2");
        assert_eq!(planned(&right, Some(&other), 160), AddressPlan::Delete("IPAddressWrongReference", wrong));
        let foreign = address(&[("/metadata/labels", json!({}))]);
        assert_eq!(planned(&foreign, None, 1000), AddressPlan::Nothing, "somebody else's");
        let gateway = address(&[("/spec/parentRef/resource", json!("gateways"))]);
        assert!(matches!(planned(&gateway, None, 110), AddressPlan::Delete("IPAddressNotAllocated", _)));
    }
}
