//! The objects of a definition that is deleted go first; then it is let go.

use std::collections::BTreeSet;
use std::time::Duration;

use coracle_base::Clock;
use coracle_runtime::informer::MetadataOnly;
use coracle_runtime::{
    Action, Change, ClusterId, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, ResourcePath,
};
use kube::Client;
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

use super::definition::{Definition, Said};
use super::{informer, objects, patch_status};
use crate::inventory::{Change as InventoryChange, Inventory};
use crate::{Registration, Settings};

/// The finalizer this controller stands for.
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// How many definitions are emptied at a time, as in upstream.
const WORKERS: usize = 5;

/// When to look again at objects that others hold, as upstream: the inventory has no events of kinds that cannot be
/// followed any more, and an API server without the other controllers has no inventory.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Objects asked for at a time.
const PAGE: u32 = 500;

pub(crate) const REGISTRATION: Registration = Registration { name: "crd-finalizer-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let definitions = informer(manager);
    let (client, clock) = (manager.client().clone(), settings.clock.clone());
    let reconcile = Finalizer { client, objects: objects(manager), clock };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("crd_finalizer")
        .watches(&definitions, going);
    // Otherwise `LOOK_AGAIN` does: a watch of every kind costs more than anything else that an API server does alone.
    if let Some(inventory) = manager.existing::<Inventory>() {
        inventory.tell(controller.queue(), Duration::ZERO, move |change| emptied(&definitions, change));
    }
    manager.add(controller.workers(WORKERS));
}

fn going(change: &Change<Definition>) -> Option<ObjectKey> {
    let is_going = change.new.as_ref().is_some_and(|one| one.is_terminating());
    is_going.then(|| change.key.clone())
}

/// The definition that is being deleted and has lost the last object in a namespace.
fn emptied(definitions: &Informer<Definition>, change: &InventoryChange) -> Vec<ObjectKey> {
    let InventoryChange::Removed { namespace, resource, left: 0 } = change else { return Vec::new() };
    let name = format!("{}.{}", resource.plural, resource.group);
    let key = ObjectKey::cluster_wide(namespace.cluster().clone(), name);
    let is_going = definitions.store().get(&key).is_some_and(|definition| definition.is_terminating());
    if is_going { vec![key] } else { Vec::new() }
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
    objects: Objects,
    clock: Clock,
}

impl Reconcile for Finalizer {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        // Not from the cache: deleting is the one thing that must not be done on old news.
        let Some(mut definition) = self.objects.get(key).await? else { return Ok(Action::AwaitChange) };
        if plan(&definition) == Plan::Announce {
            match self.tell(key, definition, ANNOUNCEMENT, false).await? {
                Some(told) => definition = told,
                None => return Ok(Action::AwaitChange),
            }
        }
        match plan(&definition) {
            Plan::Nothing | Plan::Announce => {}
            Plan::LetGo(reason) => drop(self.tell(key, definition, reason.said(), true).await?),
            Plan::Empty(version) => match self.empty(key.cluster(), &definition, &version).await {
                Ok(true) => drop(self.tell(key, definition, Reason::Emptied.said(), true).await?),
                Ok(false) => return Ok(Action::RequeueAfter(LOOK_AGAIN)),
                Err(error) => {
                    let message = format!("could not issue all deletes: {error}");
                    let failed = Said { reason: "InstanceDeletionFailed", message: &message, ..ANNOUNCEMENT };
                    self.tell(key, definition, failed, false).await?;
                    return Err(error);
                }
            },
        }
        Ok(Action::AwaitChange)
    }
}

impl Finalizer {
    /// Says how far it has come, and lets it go if that is the end.
    async fn tell(
        &self,
        key: &ObjectKey,
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
        patch_status(&self.objects, key, &patch).await
    }

    /// Deletes all objects; whether none is left.
    async fn empty(
        &self,
        cluster: &ClusterId,
        definition: &Definition,
        version: &str,
    ) -> Result<bool, kube::Error> {
        let plural = &definition.status.accepted_names.plural;
        let path = ResourcePath::new(&definition.spec.group, version, plural);
        let objects = Objects::at(&self.client, path);
        for namespace in namespaces(&objects, cluster).await? {
            let beside = ObjectKey::namespaced(cluster.clone(), namespace, "");
            objects.delete_collection(&beside, &DeleteParams::default(), &ListParams::default()).await?;
        }
        Ok(namespaces(&objects, cluster).await?.is_empty())
    }
}

/// Where there are objects; of no name for those in no namespace.
async fn namespaces(objects: &Objects, cluster: &ClusterId) -> Result<BTreeSet<String>, kube::Error> {
    let (mut found, anywhere) = (BTreeSet::new(), ObjectKey::cluster_wide(cluster.clone(), ""));
    let note = |page: Vec<MetadataOnly>| {
        found.extend(page.into_iter().map(|object| object.metadata.namespace.into_string()));
    };
    objects.list_pages(&anywhere, &ListParams::default().limit(PAGE), note).await?;
    Ok(found)
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
