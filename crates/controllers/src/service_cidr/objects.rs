//! Views of ServiceCIDRs and IPAddresses.

use std::net::IpAddr;

use coracle_runtime::informer::{Metadata, ObjectMetadata, View};
use coracle_runtime::{Informer, Manager, Selection};
use serde::Deserialize;

use crate::cidr::Cidr;
use crate::view::Condition;

/// Labels with the manager and the IP family of an address.
pub(super) const MANAGED_BY: &str = "ipaddress.kubernetes.io/managed-by";
pub(super) const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";

/// Value of the label for addresses of the service allocator.
pub(super) const ALLOCATOR: &str = "ipallocator.k8s.io";

/// Informer of all ranges.
pub(super) fn service_cidrs(manager: &mut Manager) -> Informer<ServiceCidr> {
    manager.informer(Selection::of::<k8s_openapi::api::networking::v1::ServiceCIDR>())
}

/// Informer of all addresses.
pub(super) fn ip_addresses(manager: &mut Manager) -> Informer<IpAddress> {
    manager.informer(Selection::of::<k8s_openapi::api::networking::v1::IPAddress>())
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ServiceCidr {
    pub(super) metadata: ObjectMetadata,
    pub(super) spec: ServiceCidrSpec,
    pub(super) status: ServiceCidrStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ServiceCidrSpec {
    pub(super) cidrs: Box<[Box<str>]>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ServiceCidrStatus {
    pub(super) conditions: Box<[Condition]>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct IpAddress {
    pub(super) metadata: ObjectMetadata,
    pub(super) spec: IpAddressSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct IpAddressSpec {
    pub(super) parent_ref: ParentReference,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ParentReference {
    pub(super) group: Box<str>,
    pub(super) resource: Box<str>,
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
}

impl View for ServiceCidr {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl View for IpAddress {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl ServiceCidr {
    pub(super) fn name(&self) -> &str {
        self.metadata.name()
    }

    /// Its CIDR blocks.
    pub(super) fn cidrs(&self) -> impl Iterator<Item = Cidr> {
        self.spec.cidrs.iter().filter_map(|cidr| cidr.parse().ok())
    }

    /// True if the range offers the address to services.
    pub(super) fn offers(&self, address: IpAddr) -> bool {
        self.cidrs().any(|cidr| cidr.offers(address))
    }
}

impl IpAddress {
    /// The IP address.
    pub(super) fn address(&self) -> Option<IpAddr> {
        self.metadata.name().parse().ok()
    }

    /// True if it was allocated for a service.
    pub(super) fn is_allocated(&self) -> bool {
        self.metadata.labels.get(MANAGED_BY) == Some(ALLOCATOR)
    }

    /// True if its parent reference is to a service.
    pub(super) fn is_of_service(&self) -> bool {
        self.spec.parent_ref.group.is_empty() && &*self.spec.parent_ref.resource == "services"
    }
}

/// IP family, as in labels and events.
pub(super) fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}
