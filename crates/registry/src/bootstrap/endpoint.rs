//! The service `kubernetes` and its endpoints, by which pods reach the API server.

use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use super::objects::Seed;
use crate::cluster::Cluster;
use crate::kinds::core::endpoints::Endpoints;
use crate::kinds::core::service::Service;
use crate::kinds::discovery::endpoint_slice::EndpointSlice;
use crate::kinds::networking::service_cidr::ServiceCidr;

const NAME: &str = "kubernetes";
const NAMESPACE: &str = "default";

/// Target port of the service if the server does not listen.
const USUAL_PORT: u16 = 6443;

/// The address at which clients reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    address: SocketAddr,
}

impl Endpoint {
    /// None for addresses that are not valid in Endpoints, such as loopback and link-local ones.
    pub fn new(address: SocketAddr) -> Option<Self> {
        let link_local = match address.ip() {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        };
        let ip = address.ip();
        let special = ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || link_local;
        (!special).then_some(Self { address })
    }
}

pub(super) fn seeds(scratch_cluster: &Cluster, endpoint: Option<&Endpoint>) -> Vec<Seed> {
    let ranges = scratch_cluster.service_network().ranges();
    let cidrs: Vec<String> = ranges.iter().map(ToString::to_string).collect();
    let ready = json!({
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": scratch_cluster.now().to_string(),
        "message": "Kubernetes Service CIDR is ready",
    });
    // The status that the ServiceCIDR controller would write, so that no write per cluster is needed.
    let metadata = json!({"name": NAME, "finalizers": ["networking.k8s.io/service-cidr-finalizer"]});
    let range = Seed::new(&ServiceCidr, "", json!({"metadata": metadata, "spec": {"cidrs": cidrs}}))
        .with_status("kubernetes-service-cidr-controller", json!({"conditions": [ready]}))
        // The message is required in a condition, and an empty value has no manager.
        .finished_by(|range| range["status"]["conditions"][0]["reason"] = "".into());
    let port = endpoint.map_or(USUAL_PORT, |endpoint| endpoint.address.port());
    let mut seeds = vec![range, service(&ranges[0].address(0).to_string(), port)];
    seeds.extend(endpoint.into_iter().flat_map(|endpoint| backends(endpoint.address)));
    seeds
}

fn service(ip: &str, port: u16) -> Seed {
    let object = json!({
        "metadata": {"name": NAME, "labels": {"provider": "kubernetes", "component": "apiserver"}},
        "spec": {
            "clusterIP": ip,
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        },
    });
    Seed::new(&Service, NAMESPACE, object)
}

fn backends(address: SocketAddr) -> [Seed; 2] {
    let (ip, ports) =
        (address.ip().to_string(), json!([{"name": "https", "port": address.port(), "protocol": "TCP"}]));
    let labelled = |label: &str, value: &str| -> Value { json!({"name": NAME, "labels": {label: value}}) };
    let endpoints = json!({
        // No mirroring is needed, because the EndpointSlice is created here.
        "metadata": labelled("endpointslice.kubernetes.io/skip-mirror", "true"),
        "subsets": [{"addresses": [{"ip": ip}], "ports": ports}],
    });
    let slice = json!({
        "metadata": labelled("kubernetes.io/service-name", NAME),
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": ports,
    });
    [Seed::new(&Endpoints, NAMESPACE, endpoints), Seed::new(&EndpointSlice, NAMESPACE, slice)]
}
