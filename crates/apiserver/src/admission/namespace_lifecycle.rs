//! NamespaceLifecycle: rejects creation in a namespace that does not exist or is being deleted, and deletion of the
//! namespaces that every cluster needs.
//!
//! The state of the namespace is a condition of the create transaction: if the namespace terminates or is deleted
//! between admission and the commit, the create fails with the same error as before. From the moment that the namespace
//! is Terminating its content is complete, so the namespace controller misses no object.
//!
//! Updates and deletions are admitted in any state of the namespace: otherwise the finalizers of objects that outlived
//! it could not be removed. (kube-apiserver answers updates in a namespace that does not exist with 404.)

use coracle_meta::gvk::GroupResource;
use coracle_meta::status::Status;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::core::namespace::Namespace;
use coracle_registry::{Error, Result, Scope, Subject, view};
use serde_json::Value;

use super::plugin::{Plugin, Rule, name_of};

/// Namespaces that cannot be deleted.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];

pub(super) struct NamespaceLifecycle;

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &str {
        "NamespaceLifecycle"
    }

    /// Includes subresources: objects created by them, such as bindings, are in a namespace, too.
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
    // A permission check must not reveal whether a namespace exists.
    if declaration.scope == Scope::Cluster || declaration.plural == "localsubjectaccessreviews" {
        return Ok(());
    }
    let namespace = attributes.write.namespace;
    let content = NewContent {
        resource: Subject::of(declaration, "").resource,
        name: name_of(attributes, object).to_owned(),
        namespace: namespace.to_owned(),
    };
    if IMMORTAL.contains(&namespace) {
        // Immortal namespaces never become Terminating, so the state read now still holds at the commit. They are also
        // the busiest, and the ones for which a condition would cost a read: they are not stored in most clusters.
        let found = attributes.cluster.find(&Namespace, "", namespace).await?;
        return content.judge(found.as_deref());
    }
    attributes.require(&Namespace, "", namespace, move |found| content.judge(found)).await
}

/// A new object in a namespace.
struct NewContent {
    resource: GroupResource,
    name: String,
    namespace: String,
}

impl NewContent {
    /// Rejects the object unless its namespace exists and is not being deleted.
    fn judge(&self, namespace: Option<&Value>) -> Result<()> {
        let refusal = match namespace {
            None => Status::namespace_not_found(&self.namespace),
            Some(namespace) if view::text(namespace, &["status", "phase"]) == "Terminating" => {
                Status::namespace_terminating(&self.resource, &self.name, &self.namespace)
            }
            Some(_) => return Ok(()),
        };
        Err(Error::Refused(Box::new(refusal)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use coracle_registry::kinds::core::config_map::ConfigMap;
    use coracle_registry::kinds::core::node::Node;
    use coracle_registry::lifecycle::{Change, Write};
    use coracle_registry::{Cluster, Identity, Registry, ServerInfo};
    use serde_json::json;

    use super::super::testing::{Bench, only, write};
    use super::*;
    use crate::status::Refusal;

    /// A ConfigMap in the namespace of the test.
    fn config_map() -> Value {
        json!({"metadata": {"name": "a"}})
    }

    #[tokio::test]
    async fn create_requires_an_active_namespace() {
        let bench = Bench::new().await;
        assert!(bench.admit_new(NamespaceLifecycle, &ConfigMap, config_map()).await.is_ok());
        bench.delete(&Namespace, "default").await;
        let refused = bench.admit_new(NamespaceLifecycle, &ConfigMap, config_map()).await;
        let message = "configmaps \"a\" is forbidden: unable to create new content in namespace default \
                       because it is being terminated";
        assert_eq!(refused.unwrap_err(), message);
        let bare = Bench { cluster: Registry::in_memory().cluster("default").unwrap(), ..Bench::new().await };
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

    /// A change of the namespace `n`.
    type Event = for<'a> fn(&'a Bench) -> BoxFuture<'a, ()>;

    fn terminate(bench: &Bench) -> BoxFuture<'_, ()> {
        Box::pin(bench.delete(&Namespace, "n"))
    }

    fn remove(bench: &Bench) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            bench.delete(&Namespace, "n").await;
            bench.update(&Namespace, "n", "finalize", |it| it["spec"]["finalizers"] = json!([])).await;
        })
    }

    fn relabel(bench: &Bench) -> BoxFuture<'_, ()> {
        Box::pin(bench.update(&Namespace, "n", "", |it| it["metadata"]["labels"]["team"] = "a".into()))
    }

    /// Runs an event once, between the admission of a ConfigMap and its commit.
    struct BeforeCommit {
        bench: Arc<Bench>,
        event: Mutex<Option<Event>>,
    }

    impl Plugin for BeforeCommit {
        fn name(&self) -> &str {
            "BeforeCommit"
        }

        fn validates(&self) -> Vec<Rule> {
            vec![Rule::new("", "configmaps", &[Operation::Create])]
        }

        fn validate<'a>(
            &'a self,
            _attributes: &'a Attributes<'a>,
            _object: &'a Value,
            _warnings: &'a mut Vec<String>,
        ) -> BoxFuture<'a, Result<()>> {
            Box::pin(async move {
                let event = self.event.lock().unwrap().take();
                if let Some(event) = event {
                    event(&self.bench).await;
                }
                Ok(())
            })
        }
    }

    /// A cluster with the namespace `n`, and an event that runs before the commit of the next ConfigMap.
    async fn raced(event: Event) -> Cluster {
        let registry = Registry::in_memory();
        registry.bootstrap(&ServerInfo::default()).await.unwrap();
        let cluster = registry.cluster("default").unwrap();
        let bench = Arc::new(Bench { cluster, requester: Identity::server(), namespace: "n" });
        bench.create(&Namespace, json!({"metadata": {"name": "n"}})).await;
        let hook = BeforeCommit { bench, event: Mutex::new(Some(event)) };
        let chain = only(NamespaceLifecycle).with(Arc::new(hook));
        registry.with_admission(Arc::new(chain)).cluster("default").unwrap()
    }

    /// Creates a ConfigMap in `n`, by POST or by apply, and returns the error message.
    async fn create(cluster: &Cluster, by_apply: bool) -> Option<String> {
        let write = Write { namespace: "n", ..write(&ConfigMap, "v1", "") };
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let outcome = if by_apply {
            let change = Change::Apply { config: &config, force: false, once_merged: &|| Ok(()) };
            cluster.update(&write, "a", &change).await
        } else {
            cluster.create(&write, config).await
        };
        let stored = cluster.find(&ConfigMap, "n", "a").await.unwrap();
        assert_eq!(stored.is_some(), outcome.is_ok(), "an object that was refused is not stored");
        outcome.err().map(|error| Refusal::from(error).status().message.clone())
    }

    #[tokio::test]
    async fn create_committed_after_its_namespace_terminates_is_rejected() {
        for by_apply in [false, true] {
            let refused = create(&raced(terminate).await, by_apply).await;
            let message = "configmaps \"a\" is forbidden: unable to create new content in namespace n \
                           because it is being terminated";
            assert_eq!(refused.as_deref(), Some(message));
            let refused = create(&raced(remove).await, by_apply).await;
            assert_eq!(refused.as_deref(), Some("namespaces \"n\" not found"));
        }
    }

    #[tokio::test]
    async fn create_committed_after_its_namespace_changes_succeeds() {
        for by_apply in [false, true] {
            assert_eq!(create(&raced(relabel).await, by_apply).await, None);
        }
    }
}
