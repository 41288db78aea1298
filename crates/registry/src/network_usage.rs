//! Allocated addresses and node ports of a cluster, for metrics.

use std::net::IpAddr;

use coracle_store::{At, RangeRequest};

use crate::cluster::Cluster;
use crate::error::Result;
use crate::keys;
use crate::kind::Kind;
use crate::kinds::core::service::{NODE_PORTS_PREFIX, Service};
use crate::kinds::networking::ip_address::IpAddress;

/// Usage of an IP range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressUsage {
    /// The range in CIDR notation.
    pub cidr: String,
    /// Allocated addresses.
    pub allocated: u64,
    /// Free addresses.
    pub available: u64,
}

/// Usage of the node ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortUsage {
    /// Allocated ports.
    pub allocated: u64,
    /// Free ports.
    pub available: u64,
}

impl Cluster {
    /// Allocated addresses by range. Reads all IPAddresses.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn address_usage(&self) -> Result<Vec<AddressUsage>> {
        let mut ranges = match Service.ranges_from() {
            Some(of) => {
                let objects = self.find_all(of, "").await?;
                objects.iter().flat_map(|object| of.ranges(object)).collect()
            }
            None => Vec::new(),
        };
        if ranges.is_empty() {
            ranges = self.service_network().ranges().to_vec();
        }
        let prefix = keys::prefix(IpAddress.declaration(), "");
        let request = RangeRequest { prefix: prefix.clone().into_bytes(), ..RangeRequest::default() };
        let entries = self.store.range(request).await?.entries;
        let address = |key: &[u8]| -> Option<IpAddr> {
            std::str::from_utf8(key).ok()?.strip_prefix(&prefix)?.parse().ok()
        };
        let held: Vec<IpAddr> = entries.iter().filter_map(|entry| address(entry.key())).collect();
        let usage = |range: &crate::network::AddressRange| {
            let allocated = held.iter().filter(|address| range.contains(**address)).count() as u64;
            let available = range.len().saturating_sub(allocated);
            AddressUsage { cidr: range.to_string(), allocated, available }
        };
        let mut usage: Vec<AddressUsage> = ranges.iter().map(usage).collect();
        // Two ServiceCIDRs may have the same range.
        usage.sort_by(|a, b| a.cidr.cmp(&b.cidr));
        usage.dedup();
        Ok(usage)
    }

    /// Allocated node ports.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn port_usage(&self) -> Result<PortUsage> {
        let allocated = self.store.count(NODE_PORTS_PREFIX, At::Latest).await?.count;
        let available = self.service_network().node_ports().len().saturating_sub(allocated);
        Ok(PortUsage { allocated, available })
    }

    /// Name and size of the storage engine: bytes on disk if it has files, otherwise in memory.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn storage_size(&self) -> Result<(&'static str, u64)> {
        let stats = self.store.stats().await?;
        Ok((stats.engine, if stats.disk_bytes > 0 { stats.disk_bytes } else { stats.bytes }))
    }
}
