//! Deletes the objects of a CustomResourceDefinition that is being deleted, then removes the finalizer.

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

use super::definition::{Definition, NewCondition};
use super::{informer, objects, patch_status};
use crate::ownership_graph::{Change as GraphChange, OwnershipGraph};
use crate::{Registration, Settings};

/// Finalizer of this controller.
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Concurrent reconciles, as in Kubernetes.
const WORKERS: usize = 5;

/// Retry interval while objects are held by finalizers, as in Kubernetes: kinds that are no longer served have no
/// watch events, and an API server without the other controllers has no ownership graph.
const RECHECK_PERIOD: Duration = Duration::from_secs(5);

/// Page size of lists.
const PAGE: u32 = 500;

pub(crate) const REGISTRATION: Registration = Registration { name: "crd-finalizer-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let definitions = informer(manager);
    let (client, clock) = (manager.client().clone(), settings.clock.clone());
    let reconcile = Finalizer { client, objects: objects(manager), clock };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("crd_finalizer")
        .watches(&definitions, terminating);
    // Otherwise `RECHECK_PERIOD` applies: a watch of every kind costs more than anything else that an API server does
    // alone.
    if let Some(ownership_graph) = manager.existing::<OwnershipGraph>() {
        ownership_graph
            .subscribe(controller.queue(), Duration::ZERO, move |change| emptied(&definitions, change));
    }
    manager.add(controller.workers(WORKERS));
}

fn terminating(change: &Change<Definition>) -> Option<ObjectKey> {
    let is_terminating = change.new.as_ref().is_some_and(|one| one.is_terminating());
    is_terminating.then(|| change.key.clone())
}

/// The definition that is being deleted and whose last object in a namespace was removed.
fn emptied(definitions: &Informer<Definition>, change: &GraphChange) -> Vec<ObjectKey> {
    let GraphChange::Removed { namespace, resource, left: 0 } = change else { return Vec::new() };
    let name = format!("{}.{}", resource.plural, resource.group);
    let key = ObjectKey::cluster_wide(namespace.cluster().clone(), name);
    let is_terminating = definitions.store().get(&key).is_some_and(|definition| definition.is_terminating());
    if is_terminating { vec![key] } else { Vec::new() }
}

/// Next step for a definition.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    /// It is not being deleted, or no longer has the finalizer.
    Nothing,
    /// Set the condition that its objects are being deleted.
    Announce,
    /// Delete its objects through this version, the storage version.
    Empty(String),
    /// Remove the finalizer: there are no objects.
    RemoveFinalizer(Reason),
}

/// Why the finalizer may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Emptied,
    NeverEstablished,
}

impl Reason {
    fn condition(self) -> NewCondition<'static> {
        let (reason, message) = match self {
            Self::Emptied => ("InstanceDeletionCompleted", "removed all instances"),
            Self::NeverEstablished => ("NeverEstablished", "resource was never established"),
        };
        NewCondition { kind: "Terminating", holds: false, reason, message }
    }
}

const ANNOUNCEMENT: NewCondition<'static> = NewCondition {
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
        return Plan::RemoveFinalizer(Reason::NeverEstablished);
    }
    // The server serves the storage version of a terminating definition, even if it is not otherwise served.
    match definition.spec.versions.iter().find(|version| version.storage) {
        Some(version) => Plan::Empty(version.name.clone()),
        None => Plan::RemoveFinalizer(Reason::Emptied),
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
        // Read from the server, because deletions must not be based on a stale cache.
        let Some(mut definition) = self.objects.get(key).await? else { return Ok(Action::AwaitChange) };
        if plan(&definition) == Plan::Announce {
            match self.set_status(key, definition, ANNOUNCEMENT, false).await? {
                Some(updated) => definition = updated,
                None => return Ok(Action::AwaitChange),
            }
        }
        match plan(&definition) {
            Plan::Nothing | Plan::Announce => {}
            Plan::RemoveFinalizer(reason) => {
                drop(self.set_status(key, definition, reason.condition(), true).await?)
            }
            Plan::Empty(version) => match self.empty(key.cluster(), &definition, &version).await {
                Ok(true) => drop(self.set_status(key, definition, Reason::Emptied.condition(), true).await?),
                Ok(false) => return Ok(Action::RequeueAfter(RECHECK_PERIOD)),
                Err(error) => {
                    let message = format!("could not issue all deletes: {error}");
                    let failed =
                        NewCondition { reason: "InstanceDeletionFailed", message: &message, ..ANNOUNCEMENT };
                    self.set_status(key, definition, failed, false).await?;
                    return Err(error);
                }
            },
        }
        Ok(Action::AwaitChange)
    }
}

impl Finalizer {
    /// Sets the condition, and removes the finalizer if `remove_finalizer`.
    async fn set_status(
        &self,
        key: &ObjectKey,
        definition: Definition,
        condition: NewCondition<'_>,
        remove_finalizer: bool,
    ) -> Result<Option<Definition>, kube::Error> {
        let (metadata, mut status) = (&definition.metadata, definition.status.clone());
        status.set_condition(condition, self.clock.now());
        let mut patch = json!({
            "metadata": {"resourceVersion": metadata.plain.resource_version},
            "status": {"conditions": status.conditions},
        });
        if remove_finalizer {
            let others: Vec<_> = metadata.finalizers.iter().filter(|name| *name != FINALIZER).collect();
            patch["metadata"]["finalizers"] = json!(others);
        }
        patch_status(&self.objects, key, &patch).await
    }

    /// Deletes all objects. True if none is left.
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

/// Namespaces that contain objects; the empty name stands for cluster-scoped objects.
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
    fn objects_are_deleted_before_the_finalizer_is_removed() {
        let (ours, pending) =
            (json!([FINALIZER]), json!({"type": "Terminating", "reason": "InstanceDeletionPending"}));
        let announced = json!({"type": "Terminating", "reason": "InstanceDeletionInProgress"});
        let established = json!({"type": "Established", "status": "True"});
        let planned = |conditions| plan(&definition(ours.clone(), conditions));
        assert_eq!(planned(json!([established, pending])), Plan::Announce);
        assert_eq!(planned(json!([established, announced])), Plan::Empty("v1".into()), "as stored");
        assert_eq!(planned(json!([announced])), Plan::RemoveFinalizer(Reason::NeverEstablished));
        assert_eq!(plan(&definition(json!(["other"]), json!([]))), Plan::Nothing);
        assert_eq!(plan(&Definition::default()), Plan::Nothing);
    }
}
