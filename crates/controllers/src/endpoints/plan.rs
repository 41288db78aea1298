//! Plans the Endpoints of a service. Pure.

use std::net::IpAddr;
use std::sync::Arc;

use coracle_base::Timestamp;
use coracle_meta::name::parse_ip_sloppy;
use coracle_runtime::informer::Labels;

use super::subsets::{repack, truncate};
use super::{CONTROLLER, MANAGED_BY};
use crate::endpointslice::labels_with;
use crate::service_pods::{TRIGGER_TIME_ANNOTATION, addresses, can_serve, hostname, target_port};
use crate::view::{
    EndpointAddress, EndpointSubset, Endpoints, HEADLESS, ObjectReference, Pod, Service, ServicePort,
    SubsetPort, rfc3339,
};

/// Annotation for Endpoints with omitted addresses.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const TRUNCATED: &str = "truncated";

/// The desired Endpoints of a service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Desired {
    pub(super) labels: Labels,
    pub(super) annotations: Labels,
    pub(super) subsets: Vec<EndpointSubset>,
}

/// The object to write; `None` if it is up to date.
pub(super) fn plan(
    service: &Service,
    pods: &[Arc<Pod>],
    current: Option<&Endpoints>,
    trigger_time: Option<Timestamp>,
) -> Option<Desired> {
    let mut subsets = backends(service, pods);
    let truncated = truncate(&mut subsets).then_some(TRUNCATED);
    let labels = endpoints_labels(service);
    let known = current.map(|current| &current.metadata);
    if let Some(current) = current
        && current.metadata.labels == labels
        && current.metadata.annotations.get(OVER_CAPACITY) == truncated
        && (*current.subsets == *subsets || repack(&current.subsets) == subsets)
    {
        return None;
    }
    let annotations = known.map(|metadata| metadata.annotations.clone()).unwrap_or_default();
    let trigger_time = trigger_time.map(rfc3339);
    let annotations = labels_with(
        &annotations,
        [(TRIGGER_TIME_ANNOTATION, trigger_time.as_deref()), (OVER_CAPACITY, truncated)],
    );
    Some(Desired { labels, annotations, subsets })
}

fn endpoints_labels(service: &Service) -> Labels {
    let headless = (!service.has_cluster_ip()).then_some("");
    labels_with(&service.metadata.labels, [(HEADLESS, headless), (MANAGED_BY, Some(CONTROLLER))])
}

/// Subsets for the pods of a service.
fn backends(service: &Service, pods: &[Arc<Pod>]) -> Vec<EndpointSubset> {
    let publish = service.spec.publish_not_ready_addresses;
    let serving = pods.iter().filter(|pod| can_serve(pod, publish));
    let single = serving.flat_map(|pod| {
        let address = address(service, pod);
        address.into_iter().flat_map(move |address| subsets_of(service, pod, &address))
    });
    repack(&single.collect::<Vec<_>>())
}

/// One subset per port for an address. Only headless services may have no ports.
fn subsets_of(service: &Service, pod: &Pod, address: &EndpointAddress) -> Vec<EndpointSubset> {
    let ready = service.spec.publish_not_ready_addresses || pod.is_ready();
    let one = |ports: Box<[SubsetPort]>| {
        let address: Box<[_]> = Box::new([address.clone()]);
        let (addresses, not_ready_addresses) =
            if ready { (address, Box::default()) } else { (Box::default(), address) };
        EndpointSubset { ports, addresses, not_ready_addresses }
    };
    if service.spec.ports.is_empty() {
        let headless = &*service.spec.cluster_ip == "None";
        return headless.then(|| one(Box::default())).into_iter().collect();
    }
    let found = |port: &ServicePort| {
        Some(SubsetPort {
            name: port.name.clone(),
            port: target_port(pod, port)?,
            protocol: port.protocol.clone(),
            app_protocol: port.app_protocol.clone(),
        })
    };
    service.spec.ports.iter().filter_map(found).map(|port| one(Box::new([port]))).collect()
}

fn address(service: &Service, pod: &Pod) -> Option<EndpointAddress> {
    let wants_v6 = wants_v6(service, pod);
    let ip = addresses(pod).find(|ip| ip.is_ipv6() == wants_v6)?;
    Some(EndpointAddress {
        ip: ip.to_string().into(),
        target_ref: Some(Box::new(ObjectReference::to_pod(pod))),
        hostname: hostname(pod, service).unwrap_or_default().into(),
        node_name: Some(pod.spec.node_name.clone()).filter(|name| !name.is_empty()),
    })
}

/// The first IP family of the service counts. The API server always sets it; without it, the family of the address
/// does.
fn wants_v6(service: &Service, pod: &Pod) -> bool {
    if let Some(family) = service.spec.ip_families.first() {
        return &**family == "IPv6";
    }
    let ip = if service.has_cluster_ip() { &service.spec.cluster_ip } else { &pod.status.pod_ip };
    parse_ip_sloppy(ip).is_some_and(|ip| matches!(ip, IpAddr::V6(_)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service() -> Value {
        json!({
            "metadata": {"name": "s", "namespace": "n", "uid": "u", "labels": {"app": "x"}},
            "spec": {"clusterIP": "10.96.0.1", "ipFamilies": ["IPv4", "IPv6"], "selector": {"app": "x"},
                "ports": [{"name": "web", "protocol": "TCP", "port": 80, "targetPort": 8080}]},
        })
    }

    fn pod(name: &str, ip: &str, ready: &str) -> Value {
        json!({"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": {"nodeName": "n1"},
            "status": {"podIP": ip, "podIPs": [{"ip": ip}, {"ip": "fd00::1"}],
                "conditions": [{"type": "Ready", "status": ready}]}})
    }

    fn planned(service: &Value, pods: &[Value], current: Option<&Value>) -> Option<Desired> {
        let service = serde_json::from_value(service.clone()).unwrap();
        let pods: Vec<_> =
            pods.iter().map(|pod| Arc::new(serde_json::from_value(pod.clone()).unwrap())).collect();
        let current = current.map(|current| serde_json::from_value(current.clone()).unwrap());
        plan(&service, &pods, current.as_ref(), Some(Timestamp::from_millis(1000)))
    }

    fn stored(desired: &Desired) -> Value {
        json!({"metadata": {"labels": desired.labels, "annotations": desired.annotations},
            "subsets": desired.subsets})
    }

    #[test]
    fn ready_and_unready_pods_are_separated() {
        let pods = [pod("a", "10.0.0.2", "True"), pod("b", "10.0.0.1", "False")];
        let desired = planned(&service(), &pods, None).unwrap();
        let address = |ip: &str, name: &str| {
            json!({"ip": ip, "nodeName": "n1",
                "targetRef": {"kind": "Pod", "namespace": "n", "name": name, "uid": name}})
        };
        let subsets = json!([{
            "addresses": [address("10.0.0.2", "a")],
            "notReadyAddresses": [address("10.0.0.1", "b")],
            "ports": [{"name": "web", "port": 8080, "protocol": "TCP"}],
        }]);
        let stored = stored(&desired);
        assert_eq!(stored["subsets"], subsets);
        assert_eq!(stored["metadata"]["labels"], json!({"app": "x", MANAGED_BY: CONTROLLER}));
        let annotations = json!({TRIGGER_TIME_ANNOTATION: "1970-01-01T00:00:01Z"});
        assert_eq!(stored["metadata"]["annotations"], annotations);
        assert_eq!(planned(&service(), &pods, Some(&stored)), None, "written once");
    }

    #[test]
    fn foreign_changes_are_reverted() {
        let right = stored(&planned(&service(), &[pod("a", "10.0.0.2", "True")], None).unwrap());
        for (path, value) in [
            ("/metadata/labels", json!({"app": "x"})),
            ("/metadata/labels", json!({"app": "y", MANAGED_BY: CONTROLLER})),
            ("/metadata/annotations", json!({OVER_CAPACITY: TRUNCATED})),
            ("/subsets", json!([])),
        ] {
            let mut wrong = right.clone();
            *wrong.pointer_mut(path).unwrap() = value;
            let desired = planned(&service(), &[pod("a", "10.0.0.2", "True")], Some(&wrong)).unwrap();
            assert_eq!(stored(&desired), right, "{path}");
        }
    }

    #[test]
    fn order_of_addresses_does_not_matter() {
        let mut service = service();
        service["spec"]["ports"] = json!([
            {"name": "a", "protocol": "TCP", "port": 1, "targetPort": 1},
            {"name": "b", "protocol": "TCP", "port": 2, "targetPort": 2},
        ]);
        let pods = [pod("a", "10.0.0.2", "True")];
        let mut current = stored(&planned(&service, &pods, None).unwrap());
        current["subsets"][0]["ports"].as_array_mut().unwrap().reverse();
        assert_eq!(planned(&service, &pods, Some(&current)), None);
    }

    #[test]
    fn publish_not_ready_addresses_includes_all_pods() {
        let mut service = service();
        service["spec"]["publishNotReadyAddresses"] = true.into();
        let mut going = pod("a", "10.0.0.2", "False");
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let desired = planned(&service, &[going.clone()], None).unwrap();
        assert_eq!(desired.subsets[0].addresses.len(), 1);
        service["spec"]["publishNotReadyAddresses"] = false.into();
        assert!(planned(&service, &[going], None).unwrap().subsets.is_empty());
    }

    #[test]
    fn headless_service_needs_no_ports() {
        let mut service = service();
        service["spec"]["ports"] = json!([]);
        let pods = [pod("a", "10.0.0.2", "True")];
        assert!(planned(&service, &pods, None).unwrap().subsets.is_empty());
        service["spec"]["clusterIP"] = "None".into();
        let desired = planned(&service, &pods, None).unwrap();
        assert_eq!((desired.subsets.len(), desired.subsets[0].ports.len()), (1, 0));
        assert_eq!(desired.labels.get(HEADLESS), Some(""));
    }

    #[test]
    fn first_ip_family_selects_the_addresses() {
        let mut service = service();
        service["spec"]["ipFamilies"] = json!(["IPv6", "IPv4"]);
        let desired = planned(&service, &[pod("a", "10.0.0.2", "True")], None).unwrap();
        assert_eq!(&*desired.subsets[0].addresses[0].ip, "fd00::1");
    }

    #[test]
    fn addresses_over_capacity_are_truncated_and_annotated() {
        let pods: Vec<_> = (0..1001)
            .map(|i| pod(&format!("p{i}"), &format!("10.0.{}.{}", i / 256, i % 256), "True"))
            .collect();
        let desired = planned(&service(), &pods, None).unwrap();
        assert_eq!(desired.subsets[0].addresses.len(), 1000);
        assert_eq!(desired.annotations.get(OVER_CAPACITY), Some(TRUNCATED));
        assert_eq!(
            planned(&service(), &pods, Some(&stored(&desired))),
            None,
            "unchanged subsets are not written again"
        );
    }
}
