//! NamespaceLifecycle: nothing new in a namespace that is not there or is going, and no end
//! of the namespaces that every cluster needs.
//!
//! What changes is not looked at: it is in its namespace already.

use coracle_meta::status::Status;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::core::namespace::Namespace;
use coracle_registry::{Error, Result, Scope, view};
use serde_json::Value;

use super::plugin::{Plugin, Rule, name_of};

/// Namespaces that nobody deletes.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The plugin.
pub(super) struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &str {
        "NamespaceLifecycle"
    }

    /// Subresources too: what is created there, such as a binding, is in a namespace.
    fn mutates(&self) -> Vec<Rule> {
        vec![Rule::any(&[Operation::Create]).of_subresource("*")]
    }

    fn validates(&self) -> Vec<Rule> {
        vec![Rule::new("", "namespaces", &[Operation::Delete])]
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(check(attributes, object))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        let outcome = if IMMORTAL.contains(&attributes.name) {
            Err(Error::Refused(Box::new(Status::namespace_protected(attributes.name))))
        } else {
            Ok(())
        };
        Box::pin(std::future::ready(outcome))
    }
}

async fn check(attributes: &Attributes<'_>, object: &Value) -> Result<()> {
    let declaration = attributes.write.kind.declaration();
    // Whether a namespace exists is nothing that asking for permissions should tell.
    if declaration.scope == Scope::Cluster || declaration.plural == "localsubjectaccessreviews" {
        return Ok(());
    }
    let name = attributes.write.namespace;
    let refusal = match attributes.cluster.find(&Namespace, "", name).await? {
        None => Status::namespace_not_found(name),
        Some(namespace) if view::text(&namespace, &["status", "phase"]) == "Terminating" => {
            let resource = coracle_registry::Subject::of(declaration, "").resource;
            Status::namespace_terminating(&resource, name_of(attributes, object), name)
        }
        Some(_) => return Ok(()),
    };
    Err(Error::Refused(Box::new(refusal)))
}

#[cfg(test)]
mod tests {
    use coracle_registry::Registry;
    use coracle_registry::kinds::core::config_map::ConfigMap;
    use coracle_registry::kinds::core::node::Node;
    use serde_json::json;

    use super::super::testing::{Bench, only};
    use super::*;

    /// A configuration map in whatever namespace the test uses.
    fn config_map() -> Value {
        json!({"metadata": {"name": "a"}})
    }

    #[tokio::test]
    async fn the_namespace_must_be_there_and_stay() {
        let bench = Bench::new().await;
        assert!(bench.admit_new(NamespaceLifecycle, &ConfigMap, config_map()).await.is_ok());
        bench.delete(&Namespace, "default").await;
        let refused = bench.admit_new(NamespaceLifecycle, &ConfigMap, config_map()).await;
        let message = "configmaps \"a\" is forbidden: unable to create new content in namespace default \
                       because it is being terminated";
        assert_eq!(refused.unwrap_err(), message);
        let bare = Bench { cluster: Registry::in_memory().cluster("test").unwrap(), ..Bench::new().await };
        let refused = bare.admit_new(NamespaceLifecycle, &ConfigMap, config_map()).await;
        assert_eq!(refused.unwrap_err(), "namespaces \"default\" not found");
        assert!(bare.admit_new(NamespaceLifecycle, &Node, config_map()).await.is_ok());
    }

    #[tokio::test]
    async fn some_namespaces_stay() {
        let bench = Bench::new().await;
        let chain = only(NamespaceLifecycle);
        for name in ["default", "kube-system", "kube-public"] {
            let namespace = json!({"metadata": {"name": name}});
            let refused = bench.admit(&chain, &Namespace, Operation::Delete, namespace).await;
            let message = format!("namespaces {name:?} is forbidden: this namespace may not be deleted");
            assert_eq!(refused.unwrap_err(), message);
        }
        let other = json!({"metadata": {"name": "kube-node-lease"}});
        assert!(bench.admit(&chain, &Namespace, Operation::Delete, other).await.is_ok());
    }
}
