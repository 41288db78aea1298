//! Allocates a CIDR block for the pods of every node, if the cluster has a range for that.

mod metrics;
mod pool;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_runtime::{
    Action, Controller, EventType, Informer, Manager, ObjectKey, Objects, Reconcile, Recorder, Reference,
    Written,
};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::sync::watch;

use crate::cidr::Cidr;
use crate::view::{Node, nodes};
use crate::{Registration, Settings, api_error};
use metrics::CidrMetrics;
use pool::{Exhausted, Pool};
pub use pool::{NodeCidrError, NodeCidrs};

/// Component of the events.
const COMPONENT: &str = "cidrAllocator";

pub(crate) const REGISTRATION: Registration = Registration { name: "node-ipam-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let Some(cidrs) = &settings.node_cidrs else { return };
    let nodes = nodes(manager);
    let (freed, follows) = watch::channel(());
    let counted = CidrMetrics::new(manager.metrics());
    let pool = Arc::new(Mutex::new(Pool::new(cidrs.clone(), counted)));
    metrics::declare_usage(manager.metrics(), &pool);
    let reconcile = NodeIpam {
        objects: Objects::of::<k8s_openapi::api::core::v1::Node>(manager.client()),
        nodes: nodes.clone(),
        pool,
        freed,
        recorder: manager.recorder(COMPONENT),
    };
    let waiting = nodes.clone();
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .watches(&nodes, |change| {
            let cidrs = |node: &Arc<Node>| node.spec.pod_cidrs.clone();
            let changed = change.old.as_ref().map(cidrs) != change.new.as_ref().map(cidrs);
            changed.then(|| change.key.clone())
        })
        .watches_value(&follows, move || without_block(&waiting));
    manager.add(controller);
}

fn without_block(nodes: &Informer<Node>) -> Vec<ObjectKey> {
    let mut keys = nodes.store().keys();
    keys.retain(|key| nodes.store().get(key).is_some_and(|node| node.spec.pod_cidrs.is_empty()));
    keys
}

struct NodeIpam {
    objects: Objects,
    nodes: Informer<Node>,
    pool: Arc<Mutex<Pool>>,
    /// Notified when nodes that wait for a block may get one.
    freed: watch::Sender<()>,
    recorder: Recorder,
}

impl Reconcile for NodeIpam {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let node = self.nodes.store().get(key).filter(|node| !node.metadata.is_terminating());
        let wanting = node.as_ref().filter(|node| node.spec.pod_cidrs.is_empty());
        let Some(node) = wanting else {
            let held = node.as_deref().map(blocks_of).unwrap_or_default();
            if self.pool(key).hold(key, held) {
                self.freed.send_replace(());
            }
            return Ok(Action::AwaitChange);
        };
        let chosen = self.pool(key).allocate(key);
        match chosen {
            Ok(chosen) => self.assign(key, node, &chosen).await?,
            Err(Exhausted) => self.record_event(key, node, "CIDRNotAvailable"),
        }
        Ok(Action::AwaitChange)
    }
}

impl NodeIpam {
    /// Locks the pool, after loading the blocks of all nodes of the key's cluster.
    fn pool(&self, key: &ObjectKey) -> MutexGuard<'_, Pool> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if !pool.contains(key.cluster()) {
            for node in self.nodes.store().in_cluster(key.cluster()) {
                let at = ObjectKey::cluster_wide(key.cluster().clone(), node.metadata.name());
                pool.hold(&at, blocks_of(&node));
            }
        }
        pool
    }

    async fn assign(&self, key: &ObjectKey, node: &Node, chosen: &[Cidr]) -> Result<(), kube::Error> {
        let cidrs: Vec<String> = chosen.iter().map(ToString::to_string).collect();
        let patch = Patch::Merge(json!({
            "metadata": {"uid": node.metadata.uid()},
            "spec": {"podCIDR": cidrs.first(), "podCIDRs": cidrs},
        }));
        match self.objects.patch::<Written>(key, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            // The node is gone or replaced, and its event enqueues it again.
            Err(error) if api_error::is_outdated(&error) => Ok(()),
            Err(error) => {
                // The block stays allocated to the node: the write may have succeeded nevertheless.
                self.record_event(key, node, "CIDRAssignmentFailed");
                Err(error)
            }
        }
    }

    fn record_event(&self, key: &ObjectKey, node: &Node, status: &'static str) {
        let message = format!("Node {} status is now: {status}", key.name());
        let about = Reference::to("v1", "Node", &node.metadata);
        self.recorder.event(key.cluster(), about, EventType::Normal, status, message);
    }
}

fn blocks_of(node: &Node) -> Vec<Cidr> {
    node.spec.pod_cidrs.iter().filter_map(|cidr| cidr.parse().ok()).collect()
}
