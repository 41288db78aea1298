//! Heartbeats of nodes: renewed leases and status updates.
//!
//! A heartbeat counts at the time it was observed here, because clocks of nodes may be wrong, and this machine's may
//! be set: times are those of [`ConnectedTime`]. Heartbeats are recorded without further work; a node is enqueued for
//! the time when its last heartbeat will be too old.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_base::{Clock, Timestamp};
use coracle_runtime::informer::{Metadata, View};
use coracle_runtime::{ClusterId, Informer, Manager, ObjectKey, Selection};
use serde::Deserialize;

/// Namespace of the nodes' leases.
const NAMESPACE: &str = "kube-node-lease";

/// Informer of the nodes' leases.
pub(super) fn leases(manager: &mut Manager) -> Informer<Lease> {
    let selection = Selection::of::<k8s_openapi::api::coordination::v1::Lease>();
    manager.informer(selection.with_fields(&format!("metadata.namespace={NAMESPACE}")))
}

/// View of a lease.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lease {
    metadata: Metadata,
    spec: LeaseSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    renew_time: Option<Box<str>>,
}

impl View for Lease {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Lease {
    pub(super) fn renew_time(&self) -> Option<&str> {
        self.spec.renew_time.as_deref()
    }
}

/// The node of a lease.
pub(super) fn node_of(lease: &ObjectKey) -> ObjectKey {
    ObjectKey::cluster_wide(lease.cluster().clone(), lease.name())
}

/// Clock that stops while the informer is disconnected: while the server is unreachable, missing heartbeats mean
/// nothing.
#[derive(Clone)]
pub(super) struct ConnectedTime {
    pub(super) clock: Clock,
    pub(super) leases: Informer<Lease>,
}

impl ConnectedTime {
    pub(super) fn time(&self) -> Duration {
        self.clock.uptime().saturating_sub(self.leases.disconnected_for())
    }
}

/// Last heartbeat of each node.
#[derive(Debug, Default)]
pub(super) struct Heartbeats {
    nodes: Mutex<HashMap<ObjectKey, Heartbeat>>,
}

#[derive(Debug, Default)]
struct Heartbeat {
    /// Renew time of the lease. Only a change counts as a heartbeat.
    lease: Option<Box<str>>,
    /// Heartbeat time of the `Ready` condition.
    status: Option<Timestamp>,
    seen_at: Duration,
}

impl Heartbeats {
    /// Records the renew time of a node's lease; `None` if the lease is gone.
    pub(super) fn note_lease(&self, node: ObjectKey, renew_time: Option<&str>, now: Duration) {
        let mut nodes = self.nodes();
        let Some(renew_time) = renew_time else {
            if let Some(heartbeat) = nodes.get_mut(&node) {
                heartbeat.lease = None;
                if heartbeat.status.is_none() {
                    nodes.remove(&node);
                }
            }
            return;
        };
        let heartbeat = nodes.entry(node).or_default();
        if heartbeat.lease.as_deref() != Some(renew_time) {
            heartbeat.lease = Some(renew_time.into());
            heartbeat.seen_at = now;
        }
    }

    /// Records the heartbeat time in a node's status.
    pub(super) fn note_status(&self, node: ObjectKey, heartbeat: Timestamp, now: Duration) {
        let mut nodes = self.nodes();
        let known = nodes.entry(node).or_default();
        if known.status != Some(heartbeat) {
            known.status = Some(heartbeat);
            known.seen_at = now;
        }
    }

    /// When the last heartbeat was observed.
    pub(super) fn last(&self, node: &ObjectKey) -> Option<Duration> {
        self.nodes().get(node).map(|heartbeat| heartbeat.seen_at)
    }

    /// Counts as a heartbeat of all nodes of a cluster.
    pub(super) fn revive(&self, cluster: &ClusterId, now: Duration) {
        let mut nodes = self.nodes();
        for (_, heartbeat) in nodes.iter_mut().filter(|(key, _)| key.cluster() == cluster) {
            heartbeat.seen_at = now;
        }
    }

    /// Removes a deleted node.
    pub(super) fn forget(&self, node: &ObjectKey) {
        self.nodes().remove(node);
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<ObjectKey, Heartbeat>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_count_as_heartbeats() {
        let (heartbeats, node) = (Heartbeats::default(), ObjectKey::cluster_wide(ClusterId::default(), "n"));
        let at = Duration::from_millis;
        let last = || heartbeats.last(&node);
        assert_eq!(last(), None);
        heartbeats.note_lease(node.clone(), Some("a"), at(10));
        heartbeats.note_lease(node.clone(), Some("a"), at(20));
        assert_eq!(last(), Some(at(10)));
        heartbeats.note_lease(node.clone(), Some("b"), at(30));
        assert_eq!(last(), Some(at(30)));
        heartbeats.note_status(node.clone(), Timestamp::from_millis(1), at(40));
        heartbeats.note_status(node.clone(), Timestamp::from_millis(1), at(50));
        assert_eq!(last(), Some(at(40)));
        heartbeats.note_lease(node.clone(), None, at(60));
        assert_eq!(last(), Some(at(40)), "a status update counts, too");
        heartbeats.revive(&ClusterId::new("other"), at(70));
        assert_eq!(last(), Some(at(40)));
        heartbeats.revive(&ClusterId::default(), at(70));
        assert_eq!(last(), Some(at(70)));
        heartbeats.forget(&node);
        assert_eq!(last(), None);
    }

    #[test]
    fn deleted_leases_are_removed() {
        let (heartbeats, node) = (Heartbeats::default(), ObjectKey::cluster_wide(ClusterId::default(), "n"));
        heartbeats.note_lease(node.clone(), Some("a"), Duration::from_millis(10));
        heartbeats.note_lease(node.clone(), None, Duration::from_millis(20));
        assert!(heartbeats.nodes().is_empty());
    }
}
