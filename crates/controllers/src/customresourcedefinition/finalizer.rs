//! The objects of a definition that is deleted go first; then it is let go.

use std::collections::BTreeSet;
use std::time::Duration;

use coracle_base::Clock;
use coracle_runtime::{Action, Change, Controller, Manager, ObjectKey, Reconcile};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::core::request::Request;
use kube::{Api, Client};
use serde_json::json;

use super::definition::{Definition, Said};
use super::{PATH, informer, patch_status};
use crate::{Registration, Settings};

/// The finalizer this controller stands for.
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// How many definitions are emptied at a time, as in upstream.
const WORKERS: usize = 5;

/// When to look again at objects that others hold, as upstream: the definition does not change when
/// they do.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Objects asked for at a time.
const PAGE: u32 = 500;

pub(crate) const REGISTRATION: Registration = Registration { name: "crd-finalizer-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let definitions = informer(manager);
    let reconcile = Finalizer { client: manager.client().clone(), clock: settings.clock.clone() };
    let controller = Controller::new(REGISTRATION.name, reconcile).watches(&definitions, going);
    manager.add(controller.workers(WORKERS));
}

fn going(change: &Change<Definition>) -> Option<ObjectKey> {
    let is_going = change.new.as_ref().is_some_and(|one| one.is_terminating());
    is_going.then(|| change.key.clone())
}

/// What is to happen to a definition.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// It is not being deleted, or not ours to hold any more.
    Nothing,
    /// It has to be said that its objects are being deleted.
    Announce,
    /// Its objects are to be deleted, which are stored in this version.
    Empty(String),
    /// There can be no objects.
    LetGo(Reason),
}

/// Why a definition is let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Emptied,
    NeverEstablished,
}

impl Reason {
    fn said(self) -> Said<'static> {
        let (reason, message) = match self {
            Self::Emptied => ("InstanceDeletionCompleted", "removed all instances"),
            Self::NeverEstablished => ("NeverEstablished", "resource was never established"),
        };
        Said { kind: "Terminating", holds: false, reason, message }
    }
}

const ANNOUNCEMENT: Said<'static> = Said {
    kind: "Terminating",
    holds: true,
    reason: "InstanceDeletionInProgress",
    message: "CustomResource deletion is in progress",
};

fn plan(definition: &Definition) -> Plan {
    let is_ours = definition.metadata.finalizers.iter().any(|name| name == FINALIZER);
    if !definition.is_terminating() || !is_ours {
        return Plan::Nothing;
    }
    let mut conditions = definition.status.conditions.iter();
    let announced = |reason: &str| [ANNOUNCEMENT.reason, "InstanceDeletionFailed"].contains(&reason);
    if !conditions.any(|known| known.kind == ANNOUNCEMENT.kind && announced(&known.reason)) {
        return Plan::Announce;
    }
    if !definition.status.is_true("Established") {
        return Plan::LetGo(Reason::NeverEstablished);
    }
    // The server lets it be reached now, whether it is served or not.
    match definition.spec.versions.iter().find(|version| version.storage) {
        Some(version) => Plan::Empty(version.name.clone()),
        None => Plan::LetGo(Reason::Emptied),
    }
}

struct Finalizer {
    client: Client,
    clock: Clock,
}

impl Reconcile for Finalizer {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        // Not from the cache: deleting is the one thing that must not be done on old news.
        let Some(mut definition) = self.get(key.name()).await? else { return Ok(Action::AwaitChange) };
        if plan(&definition) == Plan::Announce {
            match self.tell(definition, ANNOUNCEMENT, false).await? {
                Some(told) => definition = told,
                None => return Ok(Action::AwaitChange),
            }
        }
        match plan(&definition) {
            Plan::Nothing | Plan::Announce => {}
            Plan::LetGo(reason) => drop(self.tell(definition, reason.said(), true).await?),
            Plan::Empty(version) => match self.empty(&definition, &version).await {
                Ok(true) => drop(self.tell(definition, Reason::Emptied.said(), true).await?),
                Ok(false) => return Ok(Action::RequeueAfter(LOOK_AGAIN)),
                Err(error) => {
                    let message = format!("could not issue all deletes: {error}");
                    let failed = Said { reason: "InstanceDeletionFailed", message: &message, ..ANNOUNCEMENT };
                    self.tell(definition, failed, false).await?;
                    return Err(error);
                }
            },
        }
        Ok(Action::AwaitChange)
    }
}

impl Finalizer {
    async fn get(&self, name: &str) -> Result<Option<Definition>, kube::Error> {
        let request = Request::new(PATH).get(name, &kube::api::GetParams::default());
        match self.client.request(request.map_err(kube::Error::BuildRequest)?).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Says how far it has come, and lets it go if that is the end.
    async fn tell(
        &self,
        definition: Definition,
        said: Said<'_>,
        lets_go: bool,
    ) -> Result<Option<Definition>, kube::Error> {
        let (metadata, mut status) = (&definition.metadata, definition.status.clone());
        status.say(said, self.clock.now());
        let mut patch = json!({
            "metadata": {"resourceVersion": metadata.plain.resource_version},
            "status": {"conditions": status.conditions},
        });
        if lets_go {
            let others: Vec<_> = metadata.finalizers.iter().filter(|name| *name != FINALIZER).collect();
            patch["metadata"]["finalizers"] = json!(others);
        }
        patch_status(&self.client, definition.name(), &patch).await
    }

    /// Deletes all objects; whether none is left.
    async fn empty(&self, definition: &Definition, version: &str) -> Result<bool, kube::Error> {
        let names = &definition.status.accepted_names;
        let kind = GroupVersionKind::gvk(&definition.spec.group, version, &names.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &names.plural);
        for namespace in self.namespaces(&resource).await? {
            let api = match namespace {
                Some(namespace) => {
                    Api::<DynamicObject>::namespaced_with(self.client.clone(), &namespace, &resource)
                }
                None => Api::all_with(self.client.clone(), &resource),
            };
            api.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
        }
        Ok(self.namespaces(&resource).await?.is_empty())
    }

    /// Where there are objects.
    async fn namespaces(&self, resource: &ApiResource) -> Result<BTreeSet<Option<String>>, kube::Error> {
        let everywhere = Api::<DynamicObject>::all_with(self.client.clone(), resource);
        let mut found = BTreeSet::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = everywhere.list_metadata(&params).await?;
            found.extend(page.items.into_iter().map(|object| object.metadata.namespace));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token),
                None => return Ok(found),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn definition(finalizers: Value, conditions: Value) -> Definition {
        let metadata = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers});
        let spec = json!({"versions": [
            {"name": "v2", "served": true, "storage": false},
            {"name": "v1", "served": false, "storage": true},
        ]});
        let status = json!({"conditions": conditions});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    #[test]
    fn objects_go_first_and_only_if_there_can_be_any() {
        let (ours, pending) =
            (json!([FINALIZER]), json!({"type": "Terminating", "reason": "InstanceDeletionPending"}));
        let announced = json!({"type": "Terminating", "reason": "InstanceDeletionInProgress"});
        let established = json!({"type": "Established", "status": "True"});
        let planned = |conditions| plan(&definition(ours.clone(), conditions));
        assert_eq!(planned(json!([established, pending])), Plan::Announce);
        assert_eq!(planned(json!([established, announced])), Plan::Empty("v1".into()), "as stored");
        assert_eq!(planned(json!([announced])), Plan::LetGo(Reason::NeverEstablished));
        assert_eq!(plan(&definition(json!(["other"]), json!([]))), Plan::Nothing);
        assert_eq!(plan(&Definition::default()), Plan::Nothing);
    }
}
