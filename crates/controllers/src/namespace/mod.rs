//! A namespace that is being deleted is emptied, kind by kind, and then let go.
//!
//! Pods go first and everything else waits for them, so that nothing a pod still uses (its secrets, its
//! network policies) is gone before it. What others hold is waited for: when the last object of a kind has
//! gone, the ownership_graph tells.
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

/// The finalizer this controller stands for.
const FINALIZER: &str = "kubernetes";

/// How many namespaces are emptied at a time, as in upstream (`concurrent-namespace-syncs`).
const WORKERS: usize = 10;

/// When to look again at what is left, as upstream (`finalizerEstimateSeconds`, halved, and one): of kinds
/// that cannot be followed nobody tells.
const LOOK_AGAIN: Duration = Duration::from_secs(8);

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
    ownership_graph.tell(controller.queue(), Duration::ZERO, move |change| emptied(&namespaces, change));
    ownership_graph.tell(controller.queue(), MISSING_NAMESPACE_DELAY, move |change| homeless(&known, change));
    manager.add(controller.workers(WORKERS));
}

fn terminating(change: &Change<MetadataOnly>) -> Option<ObjectKey> {
    let terminating = change.new.as_ref().is_some_and(|namespace| namespace.is_terminating());
    terminating.then(|| change.key.clone())
}

/// The namespace that is being deleted and has lost the last object of a kind.
fn emptied(namespaces: &Informer<MetadataOnly>, change: &GraphChange) -> Vec<ObjectKey> {
    let GraphChange::Removed { namespace, left: 0, .. } = change else { return Vec::new() };
    let is_going = namespaces.store().get(namespace).is_some_and(|namespace| namespace.is_terminating());
    if is_going { vec![namespace.clone()] } else { Vec::new() }
}

/// The unknown namespace of an object that has come or changed.
fn homeless(namespaces: &Informer<MetadataOnly>, change: &GraphChange) -> Vec<ObjectKey> {
    let GraphChange::Put { namespace, .. } = change else { return Vec::new() };
    // Objects without a namespace, and those that every cluster begins with, have none to lose.
    let has_one = !namespace.name().is_empty() && !namespace.cluster().is_all_clusters();
    if has_one && namespaces.store().get(namespace).is_none() { vec![namespace.clone()] } else { Vec::new() }
}

/// Why a namespace is still there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error("cannot delete everything in the namespace: {0}")]
    Content(String),
}

/// What is to happen to a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// It is not being deleted, or it is not ours to hold any more.
    Nothing,
    Empty,
}

fn plan(namespace: &Value) -> Plan {
    let ours = finalizers(namespace).any(|name| name == FINALIZER);
    if Meta::of(namespace).is_deleting() && ours { Plan::Empty } else { Plan::Nothing }
}

/// Who holds a namespace.
fn finalizers(namespace: &Value) -> impl Iterator<Item = &str> {
    let list = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}

/// What is to happen once its content has been deleted as far as possible.
#[derive(Debug, PartialEq)]
enum Next {
    Finalize,
    LookAgain,
    Retry(String),
}

fn next(report: &Report) -> Next {
    if !report.failures.is_empty() {
        return Next::Retry(report.failures.join(", "));
    }
    if report.is_empty() { Next::Finalize } else { Next::LookAgain }
}

/// Without our finalizer.
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
        // Not from the cache: deleting is the one thing that must not be done on old news.
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
        let Some(namespace) = self.tell(key, namespace, &report).await? else {
            return Ok(Action::AwaitChange);
        };
        match next {
            // A kind may have come meanwhile, and objects of it.
            Next::Finalize if self.ownership_graph.refresh_kinds(key.cluster()).await? != kinds => {
                Ok(Action::RequeueAfter(Duration::ZERO))
            }
            Next::Finalize => self.finalize(key, namespace).await,
            Next::LookAgain => Ok(Action::RequeueAfter(LOOK_AGAIN)),
            Next::Retry(failures) => Err(Error::Content(failures)),
        }
    }
}

impl Deletion {
    /// Says in the conditions how far it has come, if that is news. None if the namespace is gone.
    async fn tell(
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

    /// Lets a namespace go; if nobody else holds it, it is gone then.
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
    fn only_what_is_being_deleted_and_ours_is_emptied() {
        let (alive, going) = (json!({}), json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        assert_eq!(plan(&namespace(&alive, &json!(["kubernetes"]))), Plan::Nothing);
        assert_eq!(plan(&namespace(&going, &json!(["kubernetes"]))), Plan::Empty);
        assert_eq!(plan(&namespace(&going, &json!(["example.org/other"]))), Plan::Nothing);
        assert_eq!(plan(&namespace(&going, &json!([]))), Plan::Nothing);
        assert_eq!(plan(&json!({"metadata": going})), Plan::Nothing);
    }

    #[test]
    fn finalizers_of_others_stay() {
        let namespace = namespace(&json!({}), &json!(["a.example/x", "kubernetes"]));
        assert_eq!(finalized(namespace)["spec"]["finalizers"], json!(["a.example/x"]));
    }

    #[test]
    fn it_goes_only_when_nothing_is_left_and_nothing_failed() {
        let mut report = Report::default();
        assert_eq!(next(&report), Next::Finalize);
        report.note("pods.", 2, ["example.org/hold"].into_iter());
        assert_eq!(next(&report), Next::LookAgain);
        report.failures.push("no".to_owned());
        assert_eq!(next(&report), Next::Retry("no".to_owned()));
    }
}
