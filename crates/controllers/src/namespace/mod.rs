//! Deletes the contents of terminating namespaces, then removes the finalizer.
//!
//! Pods are deleted first and everything else after them, so that nothing that a pod still uses (its secrets, its
//! network policies) is deleted before it. Objects held by finalizers are waited for: the ownership graph reports
//! when the last object of a kind is gone.
//!
//! Objects in a namespace that does not exist are deleted, too (`orphans`).

mod conditions;
mod content;
mod orphans;

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Clock;
use coracle_meta::object::Meta;
use coracle_runtime::informer::MetadataOnly;
use coracle_runtime::{
    Action, Change, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Written,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use serde_json::{Value, json};

use crate::ownership_graph::{self, Change as GraphChange, OwnershipGraph};
use crate::{Registration, Settings, active_namespaces};
use content::Report;

/// Finalizer of this controller.
const FINALIZER: &str = "kubernetes";

/// Concurrent reconciles: the default of `--concurrent-namespace-syncs`.
const WORKERS: usize = 10;

/// Retry interval for remaining objects, as in Kubernetes (`finalizerEstimateSeconds`, halved, plus one): kinds that
/// cannot be watched have no events.
const RECHECK_PERIOD: Duration = Duration::from_secs(8);

/// When to look for the namespace of an object whose namespace is unknown. The namespace's own watch may lag behind
/// that of the object; after this time the informer usually knows it, and no request is made.
const MISSING_NAMESPACE_DELAY: Duration = Duration::from_secs(2);

pub(crate) const REGISTRATION: Registration = Registration { name: "namespace-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let namespaces = active_namespaces::informer(manager);
    let ownership_graph = ownership_graph::shared(manager);
    let reconcile = Deletion {
        client: manager.client().clone(),
        namespaces: Objects::of::<Namespace>(manager.client()),
        informer: namespaces.clone(),
        ownership_graph: Arc::clone(&ownership_graph),
        clock: settings.clock.clone(),
    };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("namespace")
        .watches(&namespaces, terminating);
    let known = namespaces.clone();
    ownership_graph.subscribe(controller.queue(), Duration::ZERO, move |change| emptied(&namespaces, change));
    ownership_graph.subscribe(controller.queue(), MISSING_NAMESPACE_DELAY, move |change| {
        unknown_namespace(&known, change)
    });
    manager.add(controller.workers(WORKERS));
}

fn terminating(change: &Change<MetadataOnly>) -> Option<ObjectKey> {
    let terminating = change.new.as_ref().is_some_and(|namespace| namespace.is_terminating());
    terminating.then(|| change.key.clone())
}

/// The terminating namespace that has lost the last object of a kind.
fn emptied(namespaces: &Informer<MetadataOnly>, change: &GraphChange) -> Vec<ObjectKey> {
    let GraphChange::Removed { namespace, left: 0, .. } = change else { return Vec::new() };
    let is_terminating =
        namespaces.store().get(namespace).is_some_and(|namespace| namespace.is_terminating());
    if is_terminating { vec![namespace.clone()] } else { Vec::new() }
}

/// The unknown namespace of an object that was added or modified.
fn unknown_namespace(namespaces: &Informer<MetadataOnly>, change: &GraphChange) -> Vec<ObjectKey> {
    let GraphChange::Put { namespace, .. } = change else { return Vec::new() };
    // Cluster-scoped objects have no namespace, and bootstrap objects are not in a specific cluster.
    let has_one = !namespace.name().is_empty() && !namespace.cluster().is_all_clusters();
    if has_one && namespaces.store().get(namespace).is_none() { vec![namespace.clone()] } else { Vec::new() }
}

/// Error of a reconcile.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("cannot delete the contents of the namespace: {0}")]
    Content(String),
}

/// Next step for a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// It is not terminating, or no longer has the finalizer.
    Nothing,
    Empty,
}

fn plan(namespace: &Value) -> Plan {
    let ours = finalizers(namespace).any(|name| name == FINALIZER);
    if Meta::of(namespace).is_deleting() && ours { Plan::Empty } else { Plan::Nothing }
}

/// Finalizers in the namespace's spec.
fn finalizers(namespace: &Value) -> impl Iterator<Item = &str> {
    let list = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// Next step after deleting the contents as far as possible.
#[derive(Debug, PartialEq)]
enum Next {
    Finalize,
    Recheck,
    Retry(String),
}

fn next(report: &Report) -> Next {
    if !report.failures.is_empty() {
        return Next::Retry(report.failures.join(", "));
    }
    if report.is_empty() { Next::Finalize } else { Next::Recheck }
}

/// The namespace without this controller's finalizer.
fn finalized(mut namespace: Value) -> Value {
    let left: Vec<_> = finalizers(&namespace).filter(|name| *name != FINALIZER).map(str::to_owned).collect();
    namespace["spec"]["finalizers"] = json!(left);
    namespace
}

struct Deletion {
    client: Client,
    namespaces: Objects,
    informer: Informer<MetadataOnly>,
    ownership_graph: Arc<OwnershipGraph>,
    clock: Clock,
}

impl Reconcile for Deletion {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Error> {
        if active_namespaces::is_active(&self.informer, key) {
            return Ok(Action::AwaitChange);
        }
        // Read from the server, because deletions must not be based on a stale cache.
        let Some(namespace) = self.namespaces.get::<Value>(key).await? else {
            let kinds = self.ownership_graph.kinds(key.cluster()).await?;
            orphans::delete(&self.client, &self.namespaces, &kinds, key).await?;
            return Ok(Action::AwaitChange);
        };
        if plan(&namespace) == Plan::Nothing {
            return Ok(Action::AwaitChange);
        }
        let kinds = self.ownership_graph.kinds(key.cluster()).await?;
        let inside = ObjectKey::namespaced(key.cluster().clone(), key.name(), "");
        let report = content::delete(&self.client, &kinds, &inside).await;
        let next = next(&report);
        let Some(namespace) = self.set_conditions(key, namespace, &report).await? else {
            return Ok(Action::AwaitChange);
        };
        match next {
            // A kind, and objects of it, may have been created in the meantime.
            Next::Finalize if self.ownership_graph.refresh_kinds(key.cluster()).await? != kinds => {
                Ok(Action::RequeueAfter(Duration::ZERO))
            }
            Next::Finalize => self.finalize(key, namespace).await,
            Next::Recheck => Ok(Action::RequeueAfter(RECHECK_PERIOD)),
            Next::Retry(failures) => Err(Error::Content(failures)),
        }
    }
}

impl Deletion {
    /// Writes the conditions if they have changed. `None` if the namespace is gone.
    async fn set_conditions(
        &self,
        key: &ObjectKey,
        mut namespace: Value,
        report: &Report,
    ) -> kube::Result<Option<Value>> {
        let known = namespace.pointer("/status/conditions").cloned();
        let mut known = known.and_then(|known| serde_json::from_value(known).ok()).unwrap_or_default();
        if !conditions::update(&mut known, &conditions::of(report), self.clock.now()) {
            return Ok(Some(namespace));
        }
        namespace["status"]["conditions"] = json!(known);
        match self.namespaces.replace_subresource(key, "status", &namespace).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Removes the finalizer; if it was the last one, the namespace is deleted.
    async fn finalize(&self, key: &ObjectKey, namespace: Value) -> Result<Action, Error> {
        let finalized = finalized(namespace);
        match self.namespaces.replace_subresource::<Written>(key, "finalize", &finalized).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            done => drop(done?),
        }
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(metadata: &Value, finalizers: &Value) -> Value {
        json!({"metadata": metadata, "spec": {"finalizers": finalizers}})
    }

    #[test]
    fn only_terminating_namespaces_with_finalizer_are_emptied() {
        let (alive, going) = (json!({}), json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        assert_eq!(plan(&namespace(&alive, &json!(["kubernetes"]))), Plan::Nothing);
        assert_eq!(plan(&namespace(&going, &json!(["kubernetes"]))), Plan::Empty);
        assert_eq!(plan(&namespace(&going, &json!(["example.org/other"]))), Plan::Nothing);
        assert_eq!(plan(&namespace(&going, &json!([]))), Plan::Nothing);
        assert_eq!(plan(&json!({"metadata": going})), Plan::Nothing);
    }

    #[test]
    fn other_finalizers_stay() {
        let namespace = namespace(&json!({}), &json!(["a.example/x", "kubernetes"]));
        assert_eq!(finalized(namespace)["spec"]["finalizers"], json!(["a.example/x"]));
    }

    #[test]
    fn namespace_is_finalized_only_when_empty() {
        let mut report = Report::default();
        assert_eq!(next(&report), Next::Finalize);
        report.add_remaining("pods.", 2, ["example.org/hold"].into_iter());
        assert_eq!(next(&report), Next::Recheck);
        report.failures.push("no".to_owned());
        assert_eq!(next(&report), Next::Retry("no".to_owned()));
    }
}
