//! The kubelet side of simulated nodes: reports their status and renews their leases.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_base::{Clock, Timestamp};
use coracle_meta::time::MicroTime;
use coracle_runtime::{Action, Change, Controller, Informer, ObjectKey, Objects, Reconcile, Written};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::node::{self, LEASE_DURATION_S};
use crate::view::Node;

/// The namespace of node leases.
const LEASES: &str = "kube-node-lease";

/// HTTP 409: the object exists, or was changed by another client.
pub(crate) const CONFLICT: u16 = 409;

/// Number of concurrent node writes: enough for the store to batch several in one sync.
pub(crate) const WORKERS: usize = 16;

/// Maximum retry delay. A node whose lease is late is marked NotReady, so it is short, as in the kubelet
/// (`maxBackoff` of its lease controller).
const LAST_RETRY: Duration = Duration::from_secs(7);

pub(crate) fn controller(client: &Client, clock: &Clock, nodes: &Informer<Node>) -> Controller {
    let reconcile = Kubelets {
        objects: Objects::of::<v1::Node>(client),
        leases: Objects::of::<Lease>(client),
        clock: clock.clone(),
        nodes: nodes.clone(),
        renewals: Mutex::default(),
    };
    Controller::new("fake-nodes", reconcile)
        .watches(nodes, simulated_key)
        .workers(WORKERS)
        .retry_within(LAST_RETRY)
}

fn simulated_key(change: &Change<Node>) -> Option<ObjectKey> {
    let ours = change.new.as_ref().or(change.old.as_ref()).is_some_and(|node| node.is_fake());
    ours.then(|| change.key.clone())
}

/// The kubelet logic of all simulated nodes.
struct Kubelets {
    objects: Objects,
    leases: Objects,
    clock: Clock,
    nodes: Informer<Node>,
    /// Leases that exist, with the time of their next renewal.
    renewals: Mutex<HashMap<ObjectKey, Timestamp>>,
}

impl Reconcile for Kubelets {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> kube::Result<Action> {
        let Some(node) = self.nodes.store().get(key).filter(|node| node.is_alive()) else {
            self.renewals().remove(&ObjectKey::namespaced(key.cluster().clone(), LEASES, key.name()));
            return Ok(Action::AwaitChange);
        };
        let now = self.clock.now();
        if let Some(patch) = node::patch(&node, now) {
            let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
            match self.objects.patch_subresource::<Written>(key, "status", &params, &patch).await {
                Err(error) if is_gone(&error) => return Ok(Action::AwaitChange),
                done => drop(done?),
            }
        }
        let next = self.renew(key, &node).await?;
        // Relative to the current time: the write took a while, and the clock may have been set back.
        Ok(Action::RequeueAfter(next.since(self.clock.now()).min(node::LEASE_INTERVAL)))
    }
}

impl Kubelets {
    /// Renews a lease that is known to exist when it is due, and creates others. So each renewal takes one
    /// request, except for leases that another process created or that were deleted. Returns the time of
    /// the next renewal.
    async fn renew(&self, key: &ObjectKey, node: &Node) -> kube::Result<Timestamp> {
        let lease = ObjectKey::namespaced(key.cluster().clone(), LEASES, key.name());
        let now = self.clock.now();
        let renewal = self.renewals().get(&lease).copied();
        // Nodes are reconciled for many reasons. A time beyond the interval dates from before the clock was
        // set back.
        if let Some(next) = renewal.filter(|next| now < *next && *next <= now + node::LEASE_INTERVAL) {
            return Ok(next);
        }
        self.write_lease(&lease, node, now, renewal.is_some()).await?;
        let next = node::next_renewal(key.name(), now);
        self.renewals().insert(lease, next);
        Ok(next)
    }

    async fn write_lease(
        &self,
        lease: &ObjectKey,
        node: &Node,
        now: Timestamp,
        exists: bool,
    ) -> kube::Result<()> {
        let micros = now.as_millis().saturating_mul(1000);
        let renewed = MicroTime(i64::try_from(micros).unwrap_or(i64::MAX)).to_string();
        if !exists && self.create_lease(lease, node, &renewed).await? {
            return Ok(());
        }
        let patch = Patch::Merge(json!({"spec": {"renewTime": renewed}}));
        match self.leases.patch::<Written>(lease, &PatchParams::default(), &patch).await {
            Err(error) if is_gone(&error) => self.create_lease(lease, node, &renewed).await.map(drop),
            done => done.map(drop),
        }
    }

    /// Creates a lease. False if it exists already.
    async fn create_lease(&self, lease: &ObjectKey, node: &Node, renewed: &str) -> kube::Result<bool> {
        let owner =
            json!({"apiVersion": "v1", "kind": "Node", "name": lease.name(), "uid": node.metadata.uid()});
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": lease.name(), "namespace": LEASES, "ownerReferences": [owner]},
            "spec": {
                "holderIdentity": lease.name(),
                "leaseDurationSeconds": LEASE_DURATION_S,
                "renewTime": renewed,
            },
        });
        match self.leases.create::<Written>(lease, &body).await {
            Err(kube::Error::Api(status)) if status.code == CONFLICT => Ok(false),
            done => done.map(|_| true),
        }
    }

    fn renewals(&self) -> MutexGuard<'_, HashMap<ObjectKey, Timestamp>> {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// True if the object to be written no longer exists.
pub(crate) fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
