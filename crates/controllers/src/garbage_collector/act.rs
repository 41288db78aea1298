//! Writes of the garbage collector. Each has a precondition on the object's resource version, or at least its uid.

use coracle_runtime::informer::OwnerReference;
use coracle_runtime::{Action, ClusterId, ObjectKey, Objects, Written};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use serde_json::{Value, json};

use super::plan::Plan;
use super::{Collector, key};
use crate::ownership_graph::{FOREGROUND, Identity, ORPHAN, Object, Uid};

/// Number of dependents of one owner that are orphaned concurrently.
const ORPHANS: usize = 16;

impl Collector {
    pub(super) async fn act(
        &self,
        objects: &Objects,
        key: &ObjectKey,
        latest: &Object,
        plan: Plan,
    ) -> kube::Result<Action> {
        match plan {
            Plan::Nothing => {}
            Plan::Disown(of_no_use) => {
                let references = latest.owner_references.iter().enumerate();
                let left =
                    references.filter(|(at, _)| !of_no_use.contains(at)).map(|(_, reference)| reference);
                set_owners(objects, key, latest, left.cloned().collect()).await?;
            }
            Plan::Delete { policy, unblock: false } => delete(objects, key, latest, policy).await?,
            Plan::Delete { policy, unblock: true } => {
                let unblocked = latest.owner_references.iter().cloned().map(unblocked).collect();
                let written = set_owners(objects, key, latest, unblocked).await?;
                let mut latest = latest.clone();
                latest.metadata.resource_version = written;
                delete(objects, key, &latest, policy).await?;
            }
        }
        Ok(Action::AwaitChange)
    }

    /// Removes the foreground finalizer once no dependent blocks the deletion.
    pub(super) async fn await_dependents(&self, cluster: &ClusterId, owner: &Identity) -> kube::Result<()> {
        if self.ownership_graph.mark_blocking(cluster, &owner.uid) {
            return Ok(());
        }
        self.remove_finalizer(cluster, owner, FOREGROUND).await
    }

    /// Removes an object from the owner references of all its dependents, then its orphan finalizer.
    pub(super) async fn orphan_dependents(&self, cluster: &ClusterId, owner: &Identity) -> kube::Result<()> {
        let dependents = self.ownership_graph.dependents(cluster, &owner.uid);
        stream::iter(dependents)
            .map(|dependent| async move { self.disown(cluster, &dependent, &owner.uid).await })
            .buffer_unordered(ORPHANS)
            .try_collect::<()>()
            .await?;
        self.remove_finalizer(cluster, owner, ORPHAN).await
    }

    /// Removes one owner reference from a dependent, if it exists.
    async fn disown(&self, cluster: &ClusterId, dependent: &Identity, owner: &Uid) -> kube::Result<()> {
        let Some((objects, latest)) = self.latest(cluster, dependent).await? else { return Ok(()) };
        let is_other = |reference: &&OwnerReference| Uid::new(&reference.uid) != *owner;
        let left: Vec<_> = latest.owner_references.iter().filter(is_other).cloned().collect();
        if left.len() < latest.owner_references.len() {
            set_owners(&objects, &key(cluster, dependent), &latest, left).await?;
        }
        Ok(())
    }

    async fn remove_finalizer(
        &self,
        cluster: &ClusterId,
        owner: &Identity,
        finalizer: &str,
    ) -> kube::Result<()> {
        let Some((objects, latest)) = self.latest(cluster, owner).await? else { return Ok(()) };
        if latest.has_finalizer(finalizer) {
            let left: Vec<_> = latest.finalizers.iter().filter(|name| ***name != *finalizer).collect();
            patch(&objects, &key(cluster, owner), &latest, json!({"finalizers": left})).await?;
        }
        Ok(())
    }

    /// The current object; `None` if it is gone, which is recorded in the graph.
    async fn latest(
        &self,
        cluster: &ClusterId,
        identity: &Identity,
    ) -> kube::Result<Option<(Objects, Object)>> {
        let Some(objects) = self.objects(cluster, identity).await? else { return Ok(None) };
        let latest = objects.get::<Object>(&key(cluster, identity)).await?;
        let latest = latest.filter(|latest| Uid::new(&latest.metadata.uid) == identity.uid);
        if latest.is_none() {
            self.ownership_graph.mark_gone(cluster, &identity.uid);
        }
        Ok(latest.map(|latest| (objects, latest)))
    }
}

fn unblocked(reference: OwnerReference) -> OwnerReference {
    OwnerReference { block_owner_deletion: Some(false), ..reference }
}

/// Deletes an object if its owner references have not changed.
async fn delete(
    objects: &Objects,
    key: &ObjectKey,
    latest: &Object,
    policy: PropagationPolicy,
) -> kube::Result<()> {
    let params = |resource_version| {
        let uid = Some(latest.metadata.uid.to_string());
        let params = DeleteParams { propagation_policy: Some(policy.clone()), ..DeleteParams::default() };
        params.preconditions(Preconditions { uid, resource_version })
    };
    let version = Some(latest.metadata.resource_version.to_string());
    match objects.delete(key, &params(version)).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let now = objects.get::<Object>(key).await?;
            let unchanged = |now: &Object| {
                now.metadata.uid == latest.metadata.uid && now.owner_references == latest.owner_references
            };
            match now {
                // Frequent unrelated writes must not prevent the deletion.
                Some(now) if unchanged(&now) => objects.delete(key, &params(None)).await,
                Some(_) => Err(kube::Error::Api(status)),
                None => Ok(()),
            }
        }
        answer => answer,
    }
}

/// Sets the owner references of an object, and returns its new resource version.
async fn set_owners(
    objects: &Objects,
    key: &ObjectKey,
    latest: &Object,
    owners: Vec<OwnerReference>,
) -> kube::Result<Box<str>> {
    patch(objects, key, latest, json!({"ownerReferences": owners})).await
}

/// Patches the metadata of exactly this version of an object. A missing object is not an error.
async fn patch(
    objects: &Objects,
    key: &ObjectKey,
    latest: &Object,
    mut metadata: Value,
) -> kube::Result<Box<str>> {
    metadata["uid"] = json!(latest.metadata.uid);
    metadata["resourceVersion"] = json!(latest.metadata.resource_version);
    let patch = Patch::Merge(json!({"metadata": metadata}));
    match objects.patch::<Written>(key, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Box::default()),
        answer => answer.map(|written| written.metadata.resource_version),
    }
}
