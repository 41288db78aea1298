//! Endpoint subsets in a canonical form.

use std::collections::BTreeMap;

use crate::view::{EndpointAddress, EndpointSubset, SubsetPort};

/// Maximum number of addresses in one object (`maxCapacity` of Kubernetes' controller).
pub(crate) const MAX_ADDRESSES: usize = 1000;

/// Identity of an address. Includes the target's uid, because pods on the host network share the node's address.
type AddressKey = (Box<str>, Box<str>);

/// Addresses, and whether each is ready.
type Addresses = BTreeMap<AddressKey, bool>;

/// Repacks subsets: addresses with the same ports form one subset, no address is repeated for a port, and everything
/// is sorted. An address that is both ready and not ready is not ready.
pub(crate) fn repack<'a>(subsets: impl IntoIterator<Item = &'a EndpointSubset>) -> Vec<EndpointSubset> {
    let mut known: BTreeMap<AddressKey, &EndpointAddress> = BTreeMap::new();
    // `None` stands for addresses without ports.
    let mut by_port: BTreeMap<Option<&SubsetPort>, Addresses> = BTreeMap::new();
    for subset in subsets {
        let ports = subset.ports.iter().map(Some).chain(subset.ports.is_empty().then_some(None));
        for port in ports {
            let addresses = by_port.entry(port).or_default();
            let ready = subset.addresses.iter().map(|address| (address, true));
            for (address, ready) in ready.chain(subset.not_ready_addresses.iter().map(|not| (not, false))) {
                let key = key_of(address);
                known.entry(key.clone()).or_insert(address);
                *addresses.entry(key).or_insert(ready) &= ready;
            }
        }
    }
    let mut by_addresses: BTreeMap<Addresses, Vec<SubsetPort>> = BTreeMap::new();
    for (port, addresses) in by_port {
        by_addresses.entry(addresses).or_default().extend(port.cloned());
    }
    let mut packed: Vec<_> =
        by_addresses.into_iter().map(|(addresses, ports)| subset(&known, &addresses, ports)).collect();
    packed.sort_unstable();
    packed
}

fn key_of(address: &EndpointAddress) -> AddressKey {
    let uid = address.target_ref.as_ref().map(|target| target.uid.clone());
    (address.ip.clone(), uid.unwrap_or_default())
}

fn subset(
    known: &BTreeMap<AddressKey, &EndpointAddress>,
    addresses: &Addresses,
    ports: Vec<SubsetPort>,
) -> EndpointSubset {
    let select = |wanted: bool| {
        let found = addresses.iter().filter(move |(_, ready)| **ready == wanted);
        found.filter_map(|(key, _)| known.get(key).map(|address| (*address).clone())).collect()
    };
    EndpointSubset { ports: ports.into(), addresses: select(true), not_ready_addresses: select(false) }
}

/// Omits addresses beyond the limit: unready ones first, from each subset in proportion. True if any were omitted.
pub(super) fn truncate(subsets: &mut [EndpointSubset]) -> bool {
    let ready: usize = subsets.iter().map(|subset| subset.addresses.len()).sum();
    let not_ready: usize = subsets.iter().map(|subset| subset.not_ready_addresses.len()).sum();
    if ready + not_ready <= MAX_ADDRESSES {
        return false;
    }
    let of_ready = ready > MAX_ADDRESSES;
    let (room, total) = if of_ready { (MAX_ADDRESSES, ready) } else { (MAX_ADDRESSES - ready, not_ready) };
    let mut left = room;
    for subset in subsets {
        if of_ready {
            subset.not_ready_addresses = Box::default();
        }
        let addresses = if of_ready { &mut subset.addresses } else { &mut subset.not_ready_addresses };
        // Rounded up, so that the last subset may get less than its share.
        let share = (addresses.len() * room).div_ceil(total).min(left).min(addresses.len());
        left -= share;
        *addresses = addresses[..share].into();
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(subsets: Value) -> Vec<EndpointSubset> {
        serde_json::from_value(subsets).unwrap()
    }

    fn check(subsets: Value, expected: Value) {
        let packed = repack(&read(subsets));
        assert_eq!(serde_json::to_value(&packed).unwrap(), expected);
        assert_eq!(repack(&packed), packed, "repack is idempotent");
    }

    fn port(number: u16) -> Value {
        json!({"port": number, "protocol": "TCP"})
    }

    #[test]
    fn addresses_with_same_ports_form_one_subset() {
        check(
            json!([
                {"addresses": [{"ip": "1.1.1.2"}], "ports": [port(80)]},
                {"addresses": [{"ip": "1.1.1.1"}], "ports": [port(80)]},
            ]),
            json!([{"ports": [port(80)], "addresses": [{"ip": "1.1.1.1"}, {"ip": "1.1.1.2"}]}]),
        );
    }

    #[test]
    fn ports_with_same_addresses_form_one_subset() {
        check(
            json!([
                {"addresses": [{"ip": "1.1.1.1"}], "ports": [port(81)]},
                {"addresses": [{"ip": "1.1.1.1"}], "ports": [port(80)]},
            ]),
            json!([{"ports": [port(80), port(81)], "addresses": [{"ip": "1.1.1.1"}]}]),
        );
    }

    #[test]
    fn address_not_ready_once_is_not_ready() {
        check(
            json!([
                {"addresses": [{"ip": "1.1.1.1"}], "ports": [port(80)]},
                {"notReadyAddresses": [{"ip": "1.1.1.1"}], "ports": [port(80)]},
            ]),
            json!([{"ports": [port(80)], "notReadyAddresses": [{"ip": "1.1.1.1"}]}]),
        );
    }

    #[test]
    fn different_pods_may_share_an_address() {
        let pod = |uid: &str| json!({"ip": "1.1.1.1", "targetRef": {"uid": uid}});
        check(
            json!([{"addresses": [pod("b"), pod("a"), pod("b")], "ports": [port(80)]}]),
            json!([{"ports": [port(80)], "addresses": [pod("a"), pod("b")]}]),
        );
    }

    #[test]
    fn repack_keeps_addresses_without_ports() {
        check(json!([{"addresses": [{"ip": "1.1.1.1"}]}]), json!([{"addresses": [{"ip": "1.1.1.1"}]}]));
        check(json!([{"ports": [port(80)]}]), json!([{"ports": [port(80)]}]));
    }

    #[test]
    fn truncate_omits_addresses_in_proportion() {
        // Ready and unready addresses of each subset, before and after.
        type Sizes = &'static [(usize, usize)];
        let cases: [(Sizes, Option<Sizes>); 5] = [
            (&[(1000, 0)], None),
            (&[(900, 200)], Some(&[(900, 100)])),
            (&[(1500, 10)], Some(&[(1000, 0)])),
            (&[(1500, 5), (500, 5)], Some(&[(750, 0), (250, 0)])),
            (&[(400, 600), (100, 400)], Some(&[(400, 300), (100, 200)])),
        ];
        for (before, after) in cases {
            let many = |count: usize| {
                let address =
                    |index: usize| EndpointAddress { ip: index.to_string().into(), ..Default::default() };
                (0..count).map(address).collect()
            };
            let subset = |(ready, not): &(usize, usize)| EndpointSubset {
                addresses: many(*ready),
                not_ready_addresses: many(*not),
                ..EndpointSubset::default()
            };
            let mut subsets: Vec<_> = before.iter().map(subset).collect();
            assert_eq!(truncate(&mut subsets), after.is_some());
            let sizes: Vec<_> = subsets
                .iter()
                .map(|subset| (subset.addresses.len(), subset.not_ready_addresses.len()))
                .collect();
            assert_eq!(sizes, after.unwrap_or(before));
        }
    }
}
