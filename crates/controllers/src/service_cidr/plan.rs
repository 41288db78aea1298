//! Plans for a ServiceCIDR. Pure.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::objects::{IpAddress, ServiceCidr};
use crate::view::condition;

/// Finalizer that keeps a range while services have addresses of it.
pub(super) const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";

/// How long a deleted range is kept at least, so that all allocators have seen its deletion (`deletionGracePeriod` of
/// Kubernetes' controller).
const DELETION_GRACE: Duration = Duration::from_secs(10);

/// The `Ready` condition of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ready {
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: &'static str,
}

const READY: Ready = Ready { status: "True", reason: "", message: "Kubernetes Service CIDR is ready" };

const BLOCKED: Ready = Ready {
    status: "False",
    reason: "Terminating",
    message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new \
              ServiceCIDR",
};

/// Steps to take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Add the finalizer.
    pub(super) add_finalizer: bool,
    /// Remove the finalizer.
    pub(super) remove_finalizer: bool,
    pub(super) condition: Option<Ready>,
    /// Reconcile again after this time.
    pub(super) wait: Option<Duration>,
}

/// Plans for one range, given all ranges and addresses of its cluster.
pub(super) fn plan(
    range: &ServiceCidr,
    all: &[Arc<ServiceCidr>],
    addresses: impl FnOnce() -> Vec<Arc<IpAddress>>,
    now: Timestamp,
) -> Plan {
    let Some(deleted_at) = range.metadata.deletion_timestamp() else {
        let add_finalizer = !range.metadata.has_finalizer(FINALIZER);
        return Plan { add_finalizer, condition: changed_condition(range, READY), ..Plan::default() };
    };
    if is_blocked(range, all, addresses().iter().map(|address| &**address)) {
        return Plan { condition: changed_condition(range, BLOCKED), ..Plan::default() };
    }
    let gone_at = deleted_at + DELETION_GRACE;
    if now < gone_at {
        return Plan { wait: Some(gone_at.since(now)), ..Plan::default() };
    }
    Plan { remove_finalizer: range.metadata.has_finalizer(FINALIZER), ..Plan::default() }
}

/// The condition, if it differs from the current one.
fn changed_condition(range: &ServiceCidr, ready: Ready) -> Option<Ready> {
    let says = |known: &crate::view::Condition| {
        (&*known.status, &*known.reason, &*known.message) == (ready.status, ready.reason, ready.message)
    };
    (!condition(&range.status.conditions, "Ready").is_some_and(says)).then_some(ready)
}

/// True if services have addresses of the range that are in no other range.
pub(super) fn is_blocked<'a>(
    range: &ServiceCidr,
    all: &[Arc<ServiceCidr>],
    mut addresses: impl Iterator<Item = &'a IpAddress>,
) -> bool {
    !has_parents(range, all) && addresses.any(|address| is_orphaned(address, range, all))
}

/// True if the whole range is contained in others.
fn has_parents(range: &ServiceCidr, all: &[Arc<ServiceCidr>]) -> bool {
    let others = || all.iter().filter(|other| other.name() != range.name());
    range.cidrs().all(|cidr| others().any(|other| other.cidrs().any(|parent| parent.includes(&cidr))))
}

/// True if the address of a service is in no other range.
fn is_orphaned(address: &IpAddress, range: &ServiceCidr, all: &[Arc<ServiceCidr>]) -> bool {
    let Some(ip) = address.address().filter(|_| address.is_allocated()) else { return false };
    let elsewhere = || all.iter().any(|other| other.name() != range.name() && other.offers(ip));
    range.offers(ip) && !elsewhere()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::service_cidr::objects::{ALLOCATOR, MANAGED_BY};

    fn range(name: &str, cidr: &str, more: Value) -> Value {
        let mut range = json!({"metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": {"cidrs": [cidr]},
            "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "",
                "message": "Kubernetes Service CIDR is ready"}]}});
        for (path, value) in more.as_object().unwrap() {
            *range.pointer_mut(path).unwrap() = value.clone();
        }
        range
    }

    fn going(name: &str, cidr: &str) -> Value {
        let metadata =
            json!({"name": name, "finalizers": [FINALIZER], "deletionTimestamp": "1970-01-01T00:01:40Z"});
        range(name, cidr, json!({"/metadata": metadata}))
    }

    fn address(ip: &str) -> Arc<IpAddress> {
        let address = json!({"metadata": {"name": ip, "labels": {MANAGED_BY: ALLOCATOR}}});
        Arc::new(serde_json::from_value(address).unwrap())
    }

    fn planned(ranges: &[Value], addresses: &[&str], now_s: u64) -> Plan {
        let all: Vec<Arc<ServiceCidr>> =
            ranges.iter().map(|range| Arc::new(serde_json::from_value(range.clone()).unwrap())).collect();
        let addresses = || addresses.iter().map(|ip| address(ip)).collect();
        plan(&all[0], &all, addresses, Timestamp::from_millis(now_s * 1000))
    }

    #[test]
    fn new_range_gets_finalizer_and_ready_condition() {
        assert_eq!(planned(&[range("a", "10.0.0.0/24", json!({}))], &[], 0), Plan::default());
        let bare = range("a", "10.0.0.0/24", json!({"/metadata/finalizers": [], "/status/conditions": []}));
        let expected = Plan { add_finalizer: true, condition: Some(READY), ..Plan::default() };
        assert_eq!(planned(&[bare], &[], 0), expected);
    }

    #[test]
    fn range_with_allocated_addresses_is_kept() {
        let blocked = Plan { condition: Some(BLOCKED), ..Plan::default() };
        let released = Plan { remove_finalizer: true, ..Plan::default() };
        let small = || going("a", "10.0.0.0/28");
        let other = |cidr: &str| range("b", cidr, json!({}));
        let cases = [
            (vec![small()], vec!["10.0.0.1"], blocked),
            (vec![small()], vec![], released),
            (vec![small()], vec!["10.0.1.1"], released),
            (vec![small(), other("10.0.0.0/24")], vec!["10.0.0.1"], released),
            (vec![small(), other("10.0.0.0/29")], vec!["10.0.0.1"], released),
            (vec![small(), other("10.0.0.0/29")], vec!["10.0.0.9"], blocked),
            (vec![small(), other("fd00::/64")], vec!["10.0.0.1"], blocked),
        ];
        for (ranges, addresses, expected) in cases {
            assert_eq!(planned(&ranges, &addresses, 200), expected, "{ranges:?} {addresses:?}");
        }
    }

    #[test]
    fn terminating_range_is_removed_after_the_grace_period() {
        let expected = Plan { wait: Some(Duration::from_secs(7)), ..Plan::default() };
        assert_eq!(planned(&[going("a", "10.0.0.0/28")], &[], 103), expected);
    }
}
