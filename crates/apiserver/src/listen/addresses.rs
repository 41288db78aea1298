//! Limits connections per source address, so that one machine cannot use all connections.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

/// Mask of the network part (/64) of an IPv6 address. A host can choose the rest freely.
const IPV6_NETWORK: u128 = !0 << 64;

/// Open connections by source address.
#[derive(Debug)]
pub(super) struct Addresses {
    limit: usize,
    connections: Mutex<HashMap<IpAddr, usize>>,
}

impl Addresses {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, connections: Mutex::default() }
    }

    /// Counts a connection from an address; returns none if the address has too many.
    ///
    /// Loopback is not counted: local clients are trusted, or are proxies for many clients.
    pub(super) fn enter(self: &Arc<Self>, address: Option<IpAddr>) -> Option<Entered> {
        let origin = address.map(|address| address.to_canonical()).filter(|address| !address.is_loopback());
        let origin = origin.map(network);
        if let Some(origin) = origin {
            let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
            let count = connections.entry(origin).or_default();
            if *count >= self.limit {
                return None;
            }
            *count += 1;
        }
        Some(Entered { addresses: self.clone(), origin })
    }

    fn leave(&self, origin: IpAddr) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = connections.get_mut(&origin) {
            *count -= 1;
            if *count == 0 {
                connections.remove(&origin);
            }
        }
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & IPV6_NETWORK).into(),
    }
}

/// A guard that counts a connection until it is dropped.
#[derive(Debug)]
pub(super) struct Entered {
    addresses: Arc<Addresses>,
    origin: Option<IpAddr>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(origin) = self.origin {
            self.addresses.leave(origin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_or_ipv6_network_has_its_own_limit() {
        let addresses = Arc::new(Addresses::new(2));
        let enter = |text: &str| addresses.enter(Some(text.parse().unwrap()));
        let first = enter("10.0.0.1").unwrap();
        let _second = enter("::ffff:10.0.0.1").expect("the same address in other words");
        assert!(enter("10.0.0.1").is_none());
        let _other = enter("10.0.0.2").unwrap();
        let _network = [enter("2001:db8::1").unwrap(), enter("2001:db8::2").unwrap()];
        assert!(enter("2001:db8::3").is_none(), "one network");
        let _next = enter("2001:db8:0:1::1").unwrap();
        drop(first);
        drop(enter("10.0.0.1").expect("there is room again"));
    }

    #[test]
    fn loopback_and_unknown_addresses_are_not_counted() {
        let addresses = Arc::new(Addresses::new(0));
        for address in [None, Some("127.0.0.1".parse().unwrap()), Some("::1".parse().unwrap())] {
            assert!(addresses.enter(address).is_some());
        }
        assert!(addresses.enter(Some("10.0.0.1".parse().unwrap())).is_none());
    }
}
