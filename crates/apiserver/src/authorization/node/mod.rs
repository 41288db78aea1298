//! The Node authorizer: a kubelet may read the objects that pods bound to its node refer to, and manage the node's own
//! objects.
//!
//! It runs before RBAC. As in Kubernetes, a role may still allow what it does not, so no role should be bound to nodes.
//! The graph of objects that nodes need is kept in memory for clusters with nodes, and is built when a node first
//! requests something that depends on it.

mod decide;
mod graph;

use std::sync::Arc;

use coracle_meta::field::quoted;
use coracle_registry::kinds::core::node::Node;
use coracle_registry::{Cluster, Identity};

use super::{
    Attributes, Authorizer, AuthorizerLabel, Decision, PendingDecision, PendingPermissions, Permissions,
    Rules, ready,
};
use crate::cluster_cache::{ClusterLru, ObjectCache};
use crate::identity::node_name;
use decide::{decide, is_about_needs};
use graph::Graph;

/// Authorizes nodes by the graph of their pods.
#[derive(Default)]
pub struct NodeAuthorizer {
    clusters: ClusterLru<ObjectCache<Graph>>,
}

impl Authorizer for NodeAuthorizer {
    fn label(&self) -> Option<AuthorizerLabel> {
        Some(AuthorizerLabel { kind: "Node", name: "node" })
    }

    fn forget_cluster(&self, id: &str) {
        self.clusters.forget(id);
    }

    fn cached_clusters(&self) -> usize {
        self.clusters.len()
    }

    fn permissions<'a>(&'a self, cluster: &'a Cluster) -> PendingPermissions<'a> {
        Box::pin(async move {
            if cluster.count(&Node).await? == 0 {
                return ready(Arc::new(ObjectCache::<Graph>::default())).await;
            }
            let cache = self.clusters.get(cluster.id(), ObjectCache::default);
            cache.refresh(cluster).await?;
            Ok(cache as Arc<dyn Permissions>)
        })
    }

    fn authorize<'a>(
        &'a self,
        cluster: &'a Cluster,
        identity: &'a Identity,
        attributes: &'a Attributes<'a>,
    ) -> PendingDecision<'a> {
        // Few users are nodes, and most requests of nodes are about the node itself.
        let decision = match node_name(identity) {
            None => Decision::default(),
            Some(node) if !is_about_needs(attributes) => {
                answer(&Graph::default(), node, identity, attributes)
            }
            Some(node) => {
                return Box::pin(async move {
                    let cache = self.clusters.get(cluster.id(), ObjectCache::default);
                    cache.refresh(cluster).await?;
                    Ok(cache.read(|graph| answer(graph, node, identity, attributes)))
                });
            }
        };
        Box::pin(std::future::ready(Ok(decision)))
    }
}

impl Permissions for ObjectCache<Graph> {
    fn authorize(&self, identity: &Identity, attributes: &Attributes<'_>) -> Decision {
        match node_name(identity) {
            None => Decision::default(),
            Some(node) => self.read(|graph| answer(graph, node, identity, attributes)),
        }
    }

    fn rules(&self, identity: &Identity, _namespace: &str) -> Rules {
        if node_name(identity).is_none() {
            return Rules::default();
        }
        let evaluation_error = "node authorizer does not support user rule resolution".to_owned();
        Rules { incomplete: true, evaluation_error, ..Rules::default() }
    }
}

fn answer(graph: &Graph, node: &str, identity: &Identity, attributes: &Attributes<'_>) -> Decision {
    if node.is_empty() {
        let reason = format!("unknown node for user {}", quoted(&identity.name));
        return Decision { reason, ..Decision::default() };
    }
    decide(graph, node, attributes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorization::Target;

    fn user(name: &str) -> Identity {
        Identity { name: name.to_owned(), groups: vec!["system:nodes".to_owned()], ..Identity::default() }
    }

    #[test]
    fn node_without_a_name_may_do_nothing() {
        let attributes = Attributes { verb: "get", target: Target::Path("/") };
        let decision = ObjectCache::<Graph>::default().authorize(&user("system:node:"), &attributes);
        assert!(!decision.allowed);
        assert_eq!(decision.reason, "unknown node for user \"system:node:\"");
    }

    #[test]
    fn rules_of_a_node_are_incomplete() {
        let rules = ObjectCache::<Graph>::default().rules(&user("system:node:a"), "default");
        assert!(rules.incomplete);
        assert_eq!(rules.evaluation_error, "node authorizer does not support user rule resolution");
        assert_eq!(ObjectCache::<Graph>::default().rules(&user("a"), "default"), Rules::default());
    }
}
