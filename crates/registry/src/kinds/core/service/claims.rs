//! Claims of a service: its cluster IPs, which are IPAddress objects, and its node ports, which are hidden
//! from clients.

use std::collections::BTreeSet;

use coracle_meta::field::{BadValue, FieldError, Path};
use coracle_meta::name;
use serde_json::{Value, json};

use super::allocation::{
    PortTarget, WantedClusterIp, WantedNodePort, held_cluster_ips, held_node_ports, set_cluster_ip,
    set_node_port, wanted_cluster_ips, wanted_node_ports,
};
use super::{init_ip_families, spec};
use crate::allocation::{Allocation, Pool, Unallocated};
use crate::allocation_metrics::{AllocationSource, MeteredAllocation};
use crate::kinds::networking::ip_address;
use crate::network::AddressRange;
use crate::view;

/// Group of the claims of node ports.
const NODE_PORTS: &str = "nodeports";

/// Key prefix of the claims of node ports.
pub(crate) const NODE_PORTS_PREFIX: &str = "claims/nodeports/";

const ADDRESS_TAKEN: &str = "provided IP is already allocated";
const ADDRESS_ELSEWHERE: &str = "the provided network does not match the current range";
const PORT_TAKEN: &str = "provided port is already allocated";
const FULL: &str = "range is full";

/// Chooses IP families, and allocates cluster IPs and node ports that the service does not have yet.
pub(super) fn allocate(new: &mut Value, old: Option<&Value>, pool: &mut Pool<'_>) -> Result<(), Unallocated> {
    let errors = init_ip_families(new, old, &pool.network().families());
    if !errors.is_empty() {
        return Err(errors.into());
    }
    let requested_ips: Vec<String> = spec::texts(new, "clusterIPs").into_iter().map(str::to_owned).collect();
    for wanted in wanted_cluster_ips(new, old) {
        let ip = cluster_ip(new, &wanted, &requested_ips, pool)?;
        set_cluster_ip(new, wanted.index, &ip);
    }
    let mut highest = None;
    for wanted in wanted_node_ports(new, old) {
        let port = match (wanted.requested, highest) {
            // The guess of kube-apiserver's allocator in a dry run.
            (None, Some(highest)) if pool.is_dry_run() => 0.max(highest) + 1,
            _ => node_port(&wanted, pool)?,
        };
        highest = highest.max(Some(port));
        set_node_port(new, &wanted.target, port);
    }
    Ok(())
}

/// Returns the allocations that a service holds.
pub(super) fn claims(service: &Value) -> Vec<Allocation> {
    let addresses = held_cluster_ips(service);
    let addresses = addresses.iter().map(|ip| address_claim(service, &canonical(ip)));
    // One number may serve several protocols.
    let ports: BTreeSet<i64> = held_node_ports(service).into_iter().collect();
    addresses.chain(ports.into_iter().map(port_claim)).collect()
}

fn cluster_ip(
    service: &Value,
    wanted: &WantedClusterIp,
    requested_ips: &[String],
    pool: &mut Pool<'_>,
) -> Result<String, Unallocated> {
    let full = || {
        let name = view::name(service);
        Unallocated::Exhausted(format!("failed to allocate a serviceIP for Service {name:?}: {FULL}"))
    };
    let ranges = pool.ranges_of(&wanted.family);
    let of_range = |range: &AddressRange, is_requested: bool| MeteredAllocation {
        source: AllocationSource::Addresses(range.to_string()),
        is_requested,
    };
    let Some(ip) = &wanted.requested else {
        let picked = ranges.iter().find_map(|range| {
            let claim_of = |index| address_claim(service, &range.address(index).to_string());
            let index = pool.pick_banded(range.len(), range.lower_band(), claim_of)?;
            pool.allocated.push(of_range(range, false));
            Some(range.address(index).to_string())
        });
        if picked.is_none() {
            pool.failed = ranges.first().map(|range| of_range(range, false));
        }
        return picked.ok_or_else(full);
    };
    let refused = |reason: &str| {
        let detail = format!("failed to allocate IP {ip}: {reason}");
        FieldError::invalid(&Path::root("spec.clusterIPs"), BadValue::json(&requested_ips.into()), detail)
    };
    let address = name::parse_ip_sloppy(ip);
    let range = address.and_then(|address| ranges.iter().find(|range| range.contains(address)));
    let Some(range) = range else {
        pool.failed = ranges.first().map(|range| of_range(range, true));
        // In a dry run kube-apiserver uses the allocator of one range instead of the one for all ranges.
        return Err(match ranges.first().filter(|_| pool.is_dry_run()) {
            Some(range) => refused(&format!(
                "the provided IP ({ip}) is not in the valid range. The range of valid IPs is {range}"
            )),
            None => refused(ADDRESS_ELSEWHERE),
        }
        .into());
    };
    if !pool.take(&address_claim(service, &canonical(ip))) {
        pool.failed = Some(of_range(range, true));
        return Err(refused(ADDRESS_TAKEN).into());
    }
    pool.allocated.push(of_range(range, true));
    Ok(ip.clone())
}

fn node_port(wanted: &WantedNodePort, pool: &mut Pool<'_>) -> Result<i64, Unallocated> {
    let ports = pool.network().node_ports();
    let Some(port) = wanted.requested else {
        let picked = pool.pick_banded(ports.len(), ports.lower_band(), |index| port_claim(ports.port(index)));
        let allocation = MeteredAllocation { source: AllocationSource::NodePorts, is_requested: false };
        match picked {
            Some(_) => pool.allocated.push(allocation),
            None => pool.failed = Some(allocation),
        }
        return picked.map(|index| ports.port(index)).ok_or_else(|| no_port_left(&wanted.target));
    };
    let allocation = MeteredAllocation { source: AllocationSource::NodePorts, is_requested: true };
    // kube-apiserver's allocator does not check the range in a dry run.
    let reason = if !pool.is_dry_run() && !ports.contains(port) {
        format!("provided port is not in the valid range. The range of valid ports is {ports}")
    } else if !pool.take(&port_claim(port)) {
        PORT_TAKEN.to_owned()
    } else {
        pool.allocated.push(allocation);
        return Ok(port);
    };
    pool.failed = Some(allocation);
    Err(match &wanted.target {
        PortTarget::HealthCheck => Unallocated::Exhausted(format!(
            "failed to allocate requested HealthCheck NodePort {port}: {reason}"
        )),
        PortTarget::Ports(indexes) => {
            let path = Path::root("spec.ports");
            let path = path.index(indexes.first().copied().unwrap_or(0));
            FieldError::invalid(&path.child("nodePort"), port, reason).into()
        }
    })
}

fn no_port_left(target: &PortTarget) -> Unallocated {
    Unallocated::Exhausted(match target {
        PortTarget::HealthCheck => format!("failed to allocate a HealthCheck NodePort 0: {FULL}"),
        PortTarget::Ports(_) => format!("failed to allocate a nodePort: {FULL}"),
    })
}

fn canonical(ip: &str) -> String {
    name::parse_ip_sloppy(ip).map_or_else(|| ip.to_owned(), |address| address.to_string())
}

fn address_claim(service: &Value, ip: &str) -> Allocation {
    let namespace = view::text(service, &["metadata", "namespace"]);
    Allocation::object(&ip_address::IpAddress, ip, ip_address::of_service(ip, namespace, view::name(service)))
}

fn port_claim(port: i64) -> Allocation {
    Allocation::note(NODE_PORTS, &port.to_string(), json!({}))
}
