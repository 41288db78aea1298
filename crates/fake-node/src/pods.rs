//! The controller of pods on simulated nodes: writes their status and completes their deletion.

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

use crate::accepted_pods::AcceptedPods;
use crate::nodes::{CONFLICT, is_gone};
use crate::plan::{Plan, plan};
use crate::status::PodPlacement;
use crate::view::{Node, Pod};

/// Number of concurrent pod writes: enough for the store to batch several in one sync.
const WORKERS: usize = 16;

/// Delay before a pod is reconciled again after 409, unless its informer event comes first: the API server
/// also answers 409 if other clients kept writing.
const AFTER_CONFLICT: Duration = Duration::from_secs(1);

/// Index of pods by node.
pub(crate) const BY_NODE: &str = "node";

/// Index of pods by address.
const BY_ADDRESS: &str = "address";

pub(crate) fn controller(
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
        accepted_pods: AcceptedPods::default(),
    };
    let bound = pods.clone();
    Controller::new("fake-pods", reconcile)
        .watches(pods, |change| [change.key.clone()])
        .watches(nodes, move |change| on_node(change, &bound))
        .workers(WORKERS)
}

/// The pods of a node whose annotations or address changed, or that became simulated.
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

/// The kubelet logic of the pods on all simulated nodes.
struct Containers {
    objects: Objects,
    clock: Clock,
    nodes: Informer<Node>,
    pods: Informer<Pod>,
    accepted_pods: AcceptedPods,
}

impl Reconcile for Containers {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> kube::Result<Action> {
        let Some(pod) = self.pods.store().get(key) else {
            self.accepted_pods.release(key);
            return Ok(Action::AwaitChange);
        };
        let node = ObjectKey::cluster_wide(key.cluster().clone(), &*pod.spec.node_name);
        let Some(node) = self.nodes.store().get(&node).filter(|node| node.is_alive()) else {
            return Ok(Action::AwaitChange);
        };
        // A node gets its address with its first status, and its pods use it.
        let Some(host_ip) = node.internal_ip() else { return Ok(Action::AwaitChange) };
        let placement = self.placement(key, &pod, host_ip);
        let plan = plan(&pod, &node.metadata.annotations, &placement, self.clock.now());
        self.carry_out(key, &pod, plan).await
    }
}

impl Containers {
    fn placement(&self, key: &ObjectKey, pod: &Pod, host_ip: &str) -> PodPlacement {
        let now = self.clock.now();
        let has = |address| self.has_address(key.cluster(), address);
        let had = pod.status.pod_ip.parse().ok().filter(|_| !pod.spec.host_network);
        let at = pod.status.start_time.unwrap_or(now);
        let accepted = self.accepted_pods.accept(key, pod.metadata.uid(), at, had, has);
        let pod_ip = if pod.spec.host_network { host_ip.to_owned() } else { accepted.ip.to_string() };
        PodPlacement { host_ip: host_ip.to_owned(), pod_ip, accepted: accepted.at }
    }

    fn has_address(&self, cluster: &ClusterId, address: std::net::Ipv4Addr) -> bool {
        !self.pods.store().by_index(BY_ADDRESS, cluster, &address.to_string()).is_empty()
    }

    async fn carry_out(&self, key: &ObjectKey, pod: &Pod, plan: Plan) -> kube::Result<Action> {
        if let Some(status) = plan.status
            && let Some(other_action) = self.write_status(key, status).await?
        {
            return Ok(other_action);
        }
        if plan.delete {
            return self.delete(key, pod).await;
        }
        let now = self.clock.now();
        // A timer may fire slightly early; the minimum avoids a busy loop.
        let wait = |next: coracle_base::Timestamp| next.since(now).max(Duration::from_millis(1));
        Ok(plan.next.map_or(Action::AwaitChange, |next| Action::RequeueAfter(wait(next))))
    }

    /// Writes the status. Returns the action to take instead of continuing if the pod was replaced or
    /// deleted.
    async fn write_status(&self, key: &ObjectKey, status: Value) -> kube::Result<Option<Action>> {
        let (params, patch) = (PatchParams::default(), Patch::Strategic(status));
        match self.objects.patch_subresource::<Written>(key, "status", &params, &patch).await {
            // The informer will deliver the deletion.
            Err(error) if is_gone(&error) => Ok(Some(Action::AwaitChange)),
            Err(error) if is_replaced(&error) => Ok(Some(Action::RequeueAfter(AFTER_CONFLICT))),
            done => done.map(|_| None),
        }
    }

    async fn delete(&self, key: &ObjectKey, pod: &Pod) -> kube::Result<Action> {
        let uid = Some(pod.metadata.uid().to_owned());
        let preconditions = Some(Preconditions { uid, resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::default().grace_period(0) };
        match self.objects.delete(key, &params).await {
            Err(error) if is_replaced(&error) => Ok(Action::RequeueAfter(AFTER_CONFLICT)),
            done => done.map(|()| Action::AwaitChange),
        }
    }
}

/// True for 409: another pod has the name now, or other clients kept writing.
fn is_replaced(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == CONFLICT)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use coracle_runtime::Manager;
    use http::{Method, Request, Response, StatusCode};
    use http_body_util::Full;
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A client of an API server with one node and one pod that answers every write with 409.
    fn busy_server(pod: &Value) -> Client {
        let node = crate::node::body(&crate::FakeNodes::new(1), 0, Clock::system().now());
        let list = |item: &Value| json!({"metadata": {"resourceVersion": "1"}, "items": [item]}).to_string();
        let (nodes, pods) = (list(&node), list(pod));
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_read = request.method() == Method::GET;
            let conflict = json!({"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409});
            let body = match request.uri().path() {
                "/api/v1/nodes" => nodes.clone(),
                "/api/v1/pods" => pods.clone(),
                _ => conflict.to_string(),
            };
            let mut answer = Response::new(Full::new(bytes::Bytes::from(body)));
            *answer.status_mut() = if is_read { StatusCode::OK } else { StatusCode::CONFLICT };
            async { Ok::<_, Infallible>(answer) }
        });
        Client::new(service, "default")
    }

    async fn reconcile_pod(metadata: Value) -> Action {
        let spec = json!({"nodeName": "fake-0", "containers": [{"name": "c"}]});
        let client = busy_server(&json!({"metadata": metadata, "spec": spec}));
        let mut manager = Manager::new(client.clone(), ClusterId::default());
        crate::register(&mut manager, &client, &Clock::system());
        let key = ObjectKey::namespaced(ClusterId::default(), "n", "p");
        manager.reconcile_once("fake-pods", &key).await.unwrap()
    }

    #[tokio::test]
    async fn conflicting_write_is_retried() {
        let again = Action::RequeueAfter(AFTER_CONFLICT);
        let metadata = json!({"namespace": "n", "name": "p", "uid": "u", "resourceVersion": "1"});
        assert_eq!(reconcile_pod(metadata.clone()).await, again);
        let mut going = metadata;
        going["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        going["deletionGracePeriodSeconds"] = 30.into();
        // No status is written for a pod with invalid rules; it is deleted at once.
        going["annotations"] = json!({"fake.coracle.dev/start-after": "soon"});
        assert_eq!(reconcile_pod(going).await, again);
    }
}
