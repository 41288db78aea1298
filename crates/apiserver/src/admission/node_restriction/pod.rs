//! Restrictions on a node's writes to pods: it may create mirror pods of its static pods, and update the status of its
//! own pods.

use coracle_meta::object::Meta;
use coracle_registry::admission::Operation;
use coracle_registry::kinds::core::node::Node;
use coracle_registry::kinds::core::pod::Pod;
use coracle_registry::kinds::core::pod::references::is_mirror;
use coracle_registry::{Result, view};
use serde_json::Value;

use super::{Request, mirror};

pub(super) async fn judge(request: &Request<'_>) -> Result<()> {
    let node = request.node;
    match request.operation() {
        Operation::Create => judge_new(request).await,
        Operation::Delete if is_on(request.old(), node) => Ok(()),
        Operation::Delete => {
            request.refuse(format!("node {node:?} can only delete pods with spec.nodeName set to itself"))
        }
        other => request.refuse(format!(
            "unexpected operation {:?}, node {node:?} can only create and delete mirror pods",
            super::spelled(other)
        )),
    }
}

async fn judge_new(request: &Request<'_>) -> Result<()> {
    let (node, pod) = (request.node, request.object);
    if !is_mirror(pod) {
        return request.refuse(format!(
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node {node:?} can only create mirror pods"
        ));
    }
    if !is_on(pod, node) {
        return request
            .refuse(format!("node {node:?} can only create pods with spec.nodeName set to itself"));
    }
    let owner = owner(request)?;
    let found = request.find(&Node, "", node).await?;
    let (said, uid) = (view::text(owner, &["uid"]), Meta::of(&found).uid());
    if said != uid {
        return request.refuse(format!("node {node} UID mismatch: expected {said} got {uid}"));
    }
    match mirror::needs(pod) {
        Ok(None) => Ok(()),
        Ok(Some(resource)) => {
            request.refuse(format!("node {node:?} can not create pods that reference {resource}"))
        }
        Err(reason) => request.refuse(format!("error checking mirror pod for API references: {reason}")),
    }
}

/// Checks that the node is the only owner of a new pod, and returns the reference.
fn owner<'a>(request: &'a Request<'_>) -> Result<&'a Value> {
    let node = request.node;
    let refused = |what: &str| Err(request.forbidden(format!("node {node:?} {what}")));
    let owner = match view::items(request.object, &["metadata", "ownerReferences"]) {
        [owner] => owner,
        [] => return refused("can only create pods with an owner reference set to itself"),
        _ => return refused("can only create pods with a single owner reference set to itself"),
    };
    let named = ["apiVersion", "kind", "name"].map(|field| view::text(owner, &[field]));
    if named != ["v1", "Node", node] {
        return refused("can only create pods with an owner reference set to itself");
    }
    if !view::is_true(owner, &["controller"]) {
        return refused("can only create pods with a controller owner reference set to itself");
    }
    if view::is_true(owner, &["blockOwnerDeletion"]) {
        return refused("must not set blockOwnerDeletion on an owner reference");
    }
    Ok(owner)
}

pub(super) fn judge_status(request: &Request<'_>) -> Result<()> {
    if request.operation() != Operation::Update {
        return request.unexpected_operation();
    }
    let (node, old, new) = (request.node, request.old(), request.object);
    if !is_on(old, node) {
        return request.refuse(format!(
            "node {node:?} can only update pod status for pods with spec.nodeName set to itself"
        ));
    }
    let differ = |path: &[&str]| view::fields(old, path).ne(view::fields(new, path));
    if differ(&["metadata", "labels"]) {
        return request.refuse(format!("node {node:?} cannot update labels through pod status"));
    }
    let claims = |pod| view::items(pod, &["status", "resourceClaimStatuses"]);
    if claims(old) != claims(new) {
        return request.refuse(format!("node {node:?} cannot update resource claim statues"));
    }
    let extended = |pod| view::at(pod, &["status", "extendedResourceClaimStatus"]);
    if extended(old) != extended(new) {
        return request.refuse(format!("node {node:?} cannot update extended resource claim status"));
    }
    Ok(())
}

pub(super) async fn judge_eviction(request: &Request<'_>) -> Result<()> {
    if request.operation() != Operation::Create {
        return request.refuse(format!("unexpected operation {}", super::spelled(request.operation())));
    }
    if request.name().is_empty() {
        return request.refuse("could not determine pod from request data");
    }
    let pod = request.find(&Pod, request.attributes.write.namespace, request.name()).await?;
    if is_on(&pod, request.node) {
        return Ok(());
    }
    request.refuse(format!("node {} can only evict pods with spec.nodeName set to itself", request.node))
}

/// Returns true if a pod is bound to this node.
pub(super) fn is_on(pod: &Value, node: &str) -> bool {
    view::text(pod, &["spec", "nodeName"]) == node
}
