//! Plans the repair of service addresses. Pure.

use std::net::IpAddr;
use std::time::Duration;

use coracle_base::Timestamp;
use serde_json::{Value, json};

use super::super::objects::{ALLOCATOR, FAMILY, IpAddress, MANAGED_BY, family};
use crate::view::Service;

/// How long an address may exist before its service, for clients that create both in two steps: the timeout of a
/// request in Kubernetes.
const SERVICE_GRACE: Duration = Duration::from_secs(60);

/// The repair of one address of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServicePlan {
    Nothing,
    /// The address cannot be allocated; an event says why.
    OutOfRange,
    /// Another service has it, too; an event is recorded.
    Duplicate,
    /// Its IPAddress does not exist.
    Create,
    /// Its IPAddress references an object that does not have the address, or has wrong labels; `event` if an event is
    /// recorded.
    Replace {
        event: bool,
    },
}

/// Plans for one address of a service. `holder` is the service of the address's parent reference, if it exists.
pub(super) fn plan_service(
    service: &Service,
    ip: IpAddr,
    in_range: bool,
    address: Option<&IpAddress>,
    holder: Option<&Service>,
) -> ServicePlan {
    if !in_range {
        return ServicePlan::OutOfRange;
    }
    let Some(address) = address else { return ServicePlan::Create };
    let parent = &address.spec.parent_ref;
    if !address.is_of_service() {
        return ServicePlan::Replace { event: true };
    }
    let own = (service.metadata.namespace(), service.metadata.name());
    if (&*parent.namespace, &*parent.name) != own {
        return match holder {
            Some(other) if has(other, ip) => ServicePlan::Duplicate,
            _ => ServicePlan::Replace { event: true },
        };
    }
    let labelled = address.is_allocated() && address.metadata.labels.get(FAMILY) == Some(family(ip));
    if labelled { ServicePlan::Nothing } else { ServicePlan::Replace { event: false } }
}

/// The repair of an IPAddress object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AddressPlan {
    Nothing,
    /// Wait: its service may be created.
    Wait(Duration),
    /// Delete it; reason and message of the event.
    Delete(&'static str, String),
}

/// Plans for an address, given the service of its parent reference.
pub(super) fn plan_address(address: &IpAddress, service: Option<&Service>, now: Timestamp) -> AddressPlan {
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
    let holds = |service: &Service| address.address().is_some_and(|ip| has(service, ip));
    if service.is_some_and(holds) {
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

/// The event about a repair.
pub(super) fn event(plan: &ServicePlan, service: &Service, ip: IpAddr) -> Option<(&'static str, String)> {
    let (namespace, name, family) = (service.metadata.namespace(), service.metadata.name(), family(ip));
    Some(match plan {
        ServicePlan::Nothing | ServicePlan::Replace { event: false } => return None,
        ServicePlan::OutOfRange => (
            "ClusterIPOutOfRange",
            format!(
                "Cluster IP [{family}]: {ip} is not within any configured Service CIDR; please recreate service"
            ),
        ),
        ServicePlan::Duplicate => (
            "ClusterIPAlreadyAllocated",
            format!("Cluster IP [{family}]:{ip} was assigned to multiple services; please recreate service"),
        ),
        ServicePlan::Create => {
            ("ClusterIPNotAllocated", format!("Cluster IP [{family}]: {ip} is not allocated; repairing"))
        }
        ServicePlan::Replace { event: true } => (
            "ClusterIPNotAllocated",
            format!(
                "the ClusterIP [{family}]: {ip} for Service {namespace}/{name} has a wrong reference; repairing"
            ),
        ),
    })
}

/// Cluster IPs of a service.
pub(super) fn cluster_ips(service: &Service) -> impl Iterator<Item = IpAddr> {
    let set = service.has_cluster_ip();
    service.spec.cluster_ips.iter().filter(move |_| set).filter_map(|ip| ip.parse().ok())
}

/// True if the service has this cluster IP.
pub(super) fn has(service: &Service, ip: IpAddr) -> bool {
    cluster_ips(service).any(|held| held == ip)
}

/// The IPAddress object for a service's cluster IP.
pub(super) fn ip_address(service: &Service, ip: IpAddr) -> Value {
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
    fn service_addresses_have_ip_address_objects() {
        let planned = |address: Option<&IpAddress>, in_range: bool, holds: &str| {
            let holder = (!holds.is_empty()).then(|| service("t", holds));
            let (own, ip) = (service("s", "10.0.0.1"), "10.0.0.1".parse().unwrap());
            plan_service(&own, ip, in_range, address, holder.as_ref())
        };
        let (right, other) = (address(&[]), address(&[("/spec/parentRef/name", json!("t"))]));
        let replaced = |event| ServicePlan::Replace { event };
        assert_eq!(planned(Some(&right), true, ""), ServicePlan::Nothing);
        assert_eq!(planned(Some(&right), false, ""), ServicePlan::OutOfRange);
        assert_eq!(planned(None, true, ""), ServicePlan::Create);
        assert_eq!(planned(Some(&other), true, ""), replaced(true), "the other service does not exist");
        assert_eq!(planned(Some(&other), true, "10.0.0.2"), replaced(true), "the other does not have it");
        assert_eq!(planned(Some(&other), true, "10.0.0.1"), ServicePlan::Duplicate);
        let gateway = address(&[("/spec/parentRef/resource", json!("gateways"))]);
        assert_eq!(planned(Some(&gateway), true, ""), replaced(true));
        let unlabelled = address(&[("/metadata/labels", json!({MANAGED_BY: ALLOCATOR}))]);
        assert_eq!(planned(Some(&unlabelled), true, ""), replaced(false));
    }

    #[test]
    fn ip_address_without_service_is_deleted() {
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
        assert_eq!(planned(&foreign, None, 1000), AddressPlan::Nothing, "managed by another controller");
        let gateway = address(&[("/spec/parentRef/resource", json!("gateways"))]);
        assert!(matches!(planned(&gateway, None, 110), AddressPlan::Delete("IPAddressNotAllocated", _)));
    }
}
