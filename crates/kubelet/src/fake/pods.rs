//! Looking after pods: what is planned for them is said, and those that are gone are let go.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Clock;
use coracle_runtime::{
    Action, Change, ClusterId, Controller, Informer, ObjectKey, Objects, Reconcile, Written,
};
use k8s_openapi::api::core::v1;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::Value;

use super::hosted::Hosted;
use super::nodes::{CONFLICT, is_gone};
use super::plan::{Plan, plan};
use super::status::Place;
use super::view::{Node, Pod};

/// How many pods are written at a time: enough for a store to gather several in one sync.
const WORKERS: usize = 16;

/// Pods by the node they are bound to.
pub(super) const BY_NODE: &str = "node";

/// Pods by their address.
const BY_ADDRESS: &str = "address";

pub(super) fn controller(
    client: &Client,
    clock: &Clock,
    nodes: &Informer<Node>,
    pods: &Informer<Pod>,
) -> Controller {
    pods.store().add_index(BY_NODE, |pod: &Pod| vec![pod.spec.node_name.to_string()]);
    pods.store().add_index(BY_ADDRESS, |pod: &Pod| {
        let address = &pod.status.pod_ip;
        if address.is_empty() || pod.spec.host_network { Vec::new() } else { vec![address.to_string()] }
    });
    let reconcile = Containers {
        objects: Objects::of::<v1::Pod>(client),
        clock: clock.clone(),
        nodes: nodes.clone(),
        pods: pods.clone(),
        hosted: Hosted::default(),
    };
    let bound = pods.clone();
    Controller::new("fake-pods", reconcile)
        .watches(pods, |change| [change.key.clone()])
        .watches(nodes, move |change| on_node(change, &bound))
        .workers(WORKERS)
}

/// The pods of a node whose rules have changed, or that came to be one of ours.
fn on_node(change: &Change<Node>, pods: &Informer<Pod>) -> Vec<ObjectKey> {
    let annotations = |node: &Option<Arc<Node>>| node.as_ref().map(|node| node.metadata.annotations.clone());
    let address =
        |node: &Option<Arc<Node>>| node.as_ref().and_then(|node| node.internal_ip().map(str::to_owned));
    let same =
        annotations(&change.old) == annotations(&change.new) && address(&change.old) == address(&change.new);
    if same || change.new.as_ref().is_none_or(|node| !node.is_fake()) {
        return Vec::new();
    }
    let cluster = change.key.cluster();
    let key = |pod: &Arc<Pod>| {
        ObjectKey::namespaced(cluster.clone(), pod.metadata.namespace(), pod.metadata.name())
    };
    pods.store().by_index(BY_NODE, cluster, change.key.name()).iter().map(key).collect()
}

/// What the kubelets of all nodes do for their pods.
struct Containers {
    objects: Objects,
    clock: Clock,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    hosted: Hosted,
}

impl Reconcile for Containers {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> kube::Result<Action> {
        let Some(pod) = self.pods.store().get(key) else {
            self.hosted.release(key);
            return Ok(Action::AwaitChange);
        };
        let node = ObjectKey::cluster_wide(key.cluster().clone(), &*pod.spec.node_name);
        let Some(node) = self.nodes.store().get(&node).filter(|node| node.is_alive()) else {
            return Ok(Action::AwaitChange);
        };
        // Its address comes with its first status, and pods have it from there.
        let Some(host_ip) = node.internal_ip() else { return Ok(Action::AwaitChange) };
        let place = self.place(key, &pod, host_ip);
        let plan = plan(&pod, &node.metadata.annotations, &place, self.clock.now());
        self.carry_out(key, &pod, plan).await
    }
}

impl Containers {
    fn place(&self, key: &ObjectKey, pod: &Pod, host_ip: &str) -> Place {
        let now = self.clock.now();
        let has = |address| self.has_address(key.cluster(), address);
        let had = pod.status.pod_ip.parse().ok().filter(|_| !pod.spec.host_network);
        let at = pod.status.start_time.unwrap_or(now);
        let accepted = self.hosted.accept(key, pod.metadata.uid(), at, had, has);
        let pod_ip = if pod.spec.host_network { host_ip.to_owned() } else { accepted.ip.to_string() };
        Place { host_ip: host_ip.to_owned(), pod_ip, accepted: accepted.at }
    }

    fn has_address(&self, cluster: &ClusterId, address: std::net::Ipv4Addr) -> bool {
        !self.pods.store().by_index(BY_ADDRESS, cluster, &address.to_string()).is_empty()
    }

    async fn carry_out(&self, key: &ObjectKey, pod: &Pod, plan: Plan) -> kube::Result<Action> {
        if let Some(status) = plan.status
            && !self.tell(key, status).await?
        {
            // It is gone, or another has its name. The informer will say.
            return Ok(Action::AwaitChange);
        }
        if plan.delete {
            self.delete(key, pod).await?;
            return Ok(Action::AwaitChange);
        }
        let now = self.clock.now();
        // A timer may be early by a hair; it must not come at once for ever.
        let wait = |next: coracle_base::Timestamp| next.since(now).max(Duration::from_millis(1));
        Ok(plan.next.map_or(Action::AwaitChange, |next| Action::RequeueAfter(wait(next))))
    }

    /// Whether the pod is still the one that was meant.
    async fn tell(&self, key: &ObjectKey, status: Value) -> kube::Result<bool> {
        let (params, patch) = (PatchParams::default(), Patch::Strategic(status));
        match self.objects.patch_subresource::<Written>(key, "status", &params, &patch).await {
            Err(error) if is_gone(&error) || is_another(&error) => Ok(false),
            done => done.map(|_| true),
        }
    }

    async fn delete(&self, key: &ObjectKey, pod: &Pod) -> kube::Result<()> {
        let uid = Some(pod.metadata.uid().to_owned());
        let preconditions = Some(Preconditions { uid, resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::default().grace_period(0) };
        match self.objects.delete(key, &params).await {
            Err(error) if is_another(&error) => Ok(()),
            done => done,
        }
    }
}

/// Whether the name is another pod's by now.
fn is_another(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == CONFLICT)
}
