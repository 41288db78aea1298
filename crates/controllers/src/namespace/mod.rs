//! A namespace that is being deleted is emptied, kind by kind, and then let go.
//!
//! Pods go first and everything else waits for them, so that nothing a pod still uses (its secrets, its
//! network policies) is gone before it.

mod conditions;
mod content;

use std::time::Duration;

use coracle_base::Clock;
use coracle_runtime::informer::MetadataOnly;
use coracle_runtime::{Action, Change, Controller, Manager, ObjectKey, Reconcile};
use k8s_openapi::api::core::v1::{Namespace, NamespaceStatus};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::{Registration, Settings, active_namespaces};
use content::Report;

/// The finalizer this controller stands for.
const FINALIZER: &str = "kubernetes";

/// How many namespaces are emptied at a time, as in upstream (`concurrent-namespace-syncs`).
const WORKERS: usize = 10;

/// When to look again at what only others can let go of, as upstream (`finalizerEstimateSeconds`, halved,
/// and one): the namespace does not change when its content does.
const LOOK_AGAIN: Duration = Duration::from_secs(8);

pub(crate) const REGISTRATION: Registration = Registration { name: "namespace-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let namespaces = active_namespaces::informer(manager);
    let reconcile = Deletion { client: manager.client().clone(), clock: settings.clock.clone() };
    let controller = Controller::new(REGISTRATION.name, reconcile).watches(&namespaces, terminating);
    manager.add(controller.workers(WORKERS));
}

fn terminating(change: &Change<MetadataOnly>) -> Option<ObjectKey> {
    let terminating = change.new.as_ref().is_some_and(|namespace| namespace.is_terminating());
    terminating.then(|| change.key.clone())
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

fn plan(namespace: &Namespace) -> Plan {
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
    let ours = finalizers.is_some_and(|finalizers| finalizers.iter().any(|name| name == FINALIZER));
    if namespace.metadata.deletion_timestamp.is_some() && ours { Plan::Empty } else { Plan::Nothing }
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
fn finalized(mut namespace: Namespace) -> Namespace {
    if let Some(finalizers) = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
        finalizers.retain(|name| name != FINALIZER);
    }
    namespace
}

/// Lets a namespace go; if nobody else holds it, it is gone then.
async fn finalize(namespaces: &Api<Namespace>, namespace: Namespace) -> Result<Action, Error> {
    let name = namespace.metadata.name.clone().unwrap_or_default();
    let (params, finalized) = (PostParams::default(), finalized(namespace));
    match namespaces.replace_subresource("finalize", &name, &params, &finalized).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        done => drop(done?),
    }
    Ok(Action::AwaitChange)
}

struct Deletion {
    client: Client,
    clock: Clock,
}

impl Reconcile for Deletion {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Error> {
        let namespaces = Api::<Namespace>::all(self.client.clone());
        // Not from the cache: deleting is the one thing that must not be done on old news.
        let Some(namespace) = namespaces.get_opt(key.name()).await? else { return Ok(Action::AwaitChange) };
        if plan(&namespace) == Plan::Nothing {
            return Ok(Action::AwaitChange);
        }
        let report = content::delete(&self.client, key.name()).await;
        let namespace = self.tell(&namespaces, namespace, &report).await?;
        match next(&report) {
            Next::Finalize => finalize(&namespaces, namespace).await,
            Next::LookAgain => Ok(Action::RequeueAfter(LOOK_AGAIN)),
            Next::Retry(failures) => Err(Error::Content(failures)),
        }
    }
}

impl Deletion {
    /// Says in the conditions how far it has come, if that is news.
    async fn tell(
        &self,
        namespaces: &Api<Namespace>,
        mut namespace: Namespace,
        report: &Report,
    ) -> Result<Namespace, kube::Error> {
        let status = namespace.status.get_or_insert_with(NamespaceStatus::default);
        let known = status.conditions.get_or_insert_default();
        if !conditions::update(known, &conditions::of(report), self.clock.now()) {
            return Ok(namespace);
        }
        let name = namespace.metadata.name.clone().unwrap_or_default();
        namespaces.replace_status(&name, &PostParams::default(), &namespace).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn namespace(metadata: &Value, finalizers: &Value) -> Namespace {
        serde_json::from_value(json!({"metadata": metadata, "spec": {"finalizers": finalizers}})).unwrap()
    }

    #[test]
    fn only_what_is_being_deleted_and_ours_is_emptied() {
        let (alive, going) = (json!({}), json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
        assert_eq!(plan(&namespace(&alive, &json!(["kubernetes"]))), Plan::Nothing);
        assert_eq!(plan(&namespace(&going, &json!(["kubernetes"]))), Plan::Empty);
        assert_eq!(plan(&namespace(&going, &json!(["example.org/other"]))), Plan::Nothing);
        assert_eq!(plan(&namespace(&going, &json!([]))), Plan::Nothing);
    }

    #[test]
    fn finalizers_of_others_stay() {
        let namespace = namespace(&json!({}), &json!(["a.example/x", "kubernetes"]));
        let finalizers = finalized(namespace).spec.unwrap().finalizers.unwrap();
        assert_eq!(finalizers, ["a.example/x"]);
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
