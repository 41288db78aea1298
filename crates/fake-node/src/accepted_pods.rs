//! Acceptance time, in milliseconds, and address of accepted pods.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use coracle_base::Timestamp;
use coracle_runtime::{ClusterId, ObjectKey};

/// The first pod address, and the number of pod addresses: 10.128.0.0/10.
const FIRST_POD_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 128, 0, 0);
const POD_ADDRESSES: u32 = 1 << 22;

/// The first node address, and the number of node addresses: 10.192.0.0/11 by number, and as many by name.
const FIRST_NODE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 192, 0, 0);
const NODE_ADDRESSES: u32 = 1 << 21;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// UID, which distinguishes it from a later pod of the same name.
    pub(crate) uid: Box<str>,
    pub(crate) at: Timestamp,
    pub(crate) ip: Ipv4Addr,
}

/// All accepted pods. Not persisted: the pod's status in the API is enough to continue.
#[derive(Debug, Default)]
pub(crate) struct AcceptedPods {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    accepted: HashMap<ObjectKey, Accepted>,
    /// By cluster: each has its own pod network.
    taken: HashSet<(ClusterId, Ipv4Addr)>,
    next: u32,
}

impl AcceptedPods {
    /// Returns the pod with this key and UID. If it is new, it is accepted `at` this time, with the address
    /// it `had` if any. `is_foreign` is true for the addresses of pods that were not accepted yet.
    pub(crate) fn accept(
        &self,
        key: &ObjectKey,
        uid: &str,
        at: Timestamp,
        had: Option<Ipv4Addr>,
        is_foreign: impl Fn(Ipv4Addr) -> bool,
    ) -> Accepted {
        let mut state = self.state();
        if let Some(existing) = state.accepted.get(key).filter(|existing| *existing.uid == *uid) {
            return existing.clone();
        }
        state.release(key);
        let ip = had.unwrap_or_else(|| state.free(key.cluster(), is_foreign));
        state.taken.insert((key.cluster().clone(), ip));
        let accepted = Accepted { uid: uid.into(), at, ip };
        state.accepted.insert(key.clone(), accepted.clone());
        accepted
    }

    /// Removes a deleted pod and frees its address.
    pub(crate) fn release(&self, key: &ObjectKey) {
        self.state().release(key);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn release(&mut self, key: &ObjectKey) {
        if let Some(gone) = self.accepted.remove(key) {
            self.taken.remove(&(key.cluster().clone(), gone.ip));
        }
    }

    /// The next free address. There are far more addresses than pods.
    fn free(&mut self, cluster: &ClusterId, is_foreign: impl Fn(Ipv4Addr) -> bool) -> Ipv4Addr {
        loop {
            self.next = (self.next + 1) % POD_ADDRESSES;
            let address = Ipv4Addr::from_bits(FIRST_POD_ADDRESS.to_bits() + self.next);
            // Network and broadcast addresses of /24 networks are skipped.
            let of_machine = !matches!(address.octets()[3], 0 | 255);
            if of_machine && !self.taken.contains(&(cluster.clone(), address)) && !is_foreign(address) {
                return address;
            }
        }
    }
}

/// The address of a node: by the number at the end of its name, otherwise by a hash of the name.
pub(crate) fn node_address(name: &str) -> Ipv4Addr {
    let before = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name[before.len()..].parse::<u32>().ok().filter(|number| *number + 1 < NODE_ADDRESSES);
    let offset = match number {
        Some(number) => number + 1,
        None => NODE_ADDRESSES + hash(name) % NODE_ADDRESSES,
    };
    Ipv4Addr::from_bits(FIRST_NODE_ADDRESS.to_bits() + offset)
}

/// A stable hash of a name (FNV-1a).
pub(crate) fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_addresses_are_unique_within_a_cluster() {
        let accepted_pods = AcceptedPods::default();
        let key = |name: &str| ObjectKey::namespaced(ClusterId::default(), "n", name);
        let taken = Ipv4Addr::new(10, 128, 0, 2);
        let accept = |name, uid, had| {
            let at = Timestamp::from_millis(7);
            accepted_pods.accept(&key(name), uid, at, had, |address| address == taken).ip.to_string()
        };
        assert_eq!(accept("a", "u1", None), "10.128.0.1");
        assert_eq!(accept("a", "u1", None), "10.128.0.1", "the pod keeps its address");
        assert_eq!(accept("b", "u2", None), "10.128.0.3");
        assert_eq!(accept("c", "u3", Some(taken)), "10.128.0.2");
        assert_eq!(accept("a", "u4", None), "10.128.0.4", "a recreated pod gets a new address");
        let elsewhere = ObjectKey::namespaced(ClusterId::new("blue"), "n", "a");
        let address = Ipv4Addr::new(10, 128, 0, 4);
        accepted_pods.accept(&elsewhere, "u5", Timestamp::from_millis(7), Some(address), |_| false);
        accepted_pods.release(&elsewhere);
        assert!(
            accepted_pods.state().taken.contains(&(ClusterId::default(), address)),
            "the address of another cluster stays allocated"
        );
        accepted_pods.release(&key("a"));
        assert_eq!(accepted_pods.state().accepted.len(), 2);
    }

    #[test]
    fn node_address_follows_from_number_or_name() {
        assert_eq!(node_address("fake-0").to_string(), "10.192.0.1");
        assert_eq!(node_address("fake-4999").to_string(), "10.192.19.136");
        let named = node_address("worker");
        assert_eq!(named, node_address("worker"));
        assert!(named >= Ipv4Addr::new(10, 224, 0, 0), "{named}");
    }
}
