//! What the collector writes. Every write says which version, or at least which object, it means.

use coracle_runtime::informer::OwnerReference;
use coracle_runtime::{Action, ClusterId, ObjectKey, Objects, Written};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions, PropagationPolicy};
use serde_json::{Value, json};

use super::plan::Plan;
use super::{Collector, key};
use crate::ownership_graph::{FOREGROUND, Identity, ORPHAN, Object, Uid};

/// How many dependents of one owner are made orphans at a time.
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

    /// Lets an object go once nothing that blocks it is left.
    pub(super) async fn await_dependents(&self, cluster: &ClusterId, owner: &Identity) -> kube::Result<()> {
        if self.ownership_graph.mark_blocking(cluster, &owner.uid) {
            return Ok(());
        }
        self.remove_finalizer(cluster, owner, FOREGROUND).await
    }

    /// Has all dependents forget an object, and lets it go then.
    pub(super) async fn orphan_dependents(&self, cluster: &ClusterId, owner: &Identity) -> kube::Result<()> {
        let dependents = self.ownership_graph.dependents(cluster, &owner.uid);
        stream::iter(dependents)
            .map(|dependent| async move { self.disown(cluster, &dependent, &owner.uid).await })
            .buffer_unordered(ORPHANS)
            .try_collect::<()>()
            .await?;
        self.remove_finalizer(cluster, owner, ORPHAN).await
    }

    /// Takes one owner from a dependent, unless that is gone.
    async fn disown(&self, cluster: &ClusterId, dependent: &Identity, owner: &Uid) -> kube::Result<()> {
        let Some((objects, latest)) = self.latest(cluster, dependent).await? else { return Ok(()) };
        let is_other = |reference: &&OwnerReference| Uid::new(&reference.uid) != *owner;
        let left: Vec<_> = latest.owner_references.iter().filter(is_other).cloned().collect();
        if left.len() < latest.owner_references.len() {
            set_owners(&objects, &key(cluster, dependent), &latest, left).await?;
        }
        Ok(())
    }

    async fn remove_finalizer(&self, cluster: &ClusterId, owner: &Identity, gone: &str) -> kube::Result<()> {
        let Some((objects, latest)) = self.latest(cluster, owner).await? else { return Ok(()) };
        if latest.has_finalizer(gone) {
            let left: Vec<_> = latest.finalizers.iter().filter(|name| ***name != *gone).collect();
            patch(&objects, &key(cluster, owner), &latest, json!({"finalizers": left})).await?;
        }
        Ok(())
    }

    /// An object as it is now; none if it is gone, which is noted.
    async fn latest(
        &self,
        cluster: &ClusterId,
        identity: &Identity,
    ) -> kube::Result<Option<(Objects, Object)>> {
        let Some(objects) = self.objects(cluster, identity).await? else { return Ok(None) };
        let latest = objects.get::<Object>(&key(cluster, identity)).await?;
        let latest = latest.filter(|latest| Uid::new(&latest.metadata.uid) == identity.uid);
        if latest.is_none() {
            self.ownership_graph.note_gone(cluster, &identity.uid);
        }
        Ok(latest.map(|latest| (objects, latest)))
    }
}

fn unblocked(reference: OwnerReference) -> OwnerReference {
    OwnerReference { block_owner_deletion: Some(false), ..reference }
}

/// Deletes an object if its owners are still those that were looked at.
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
                // Whoever writes all the time must not keep it alive by that.
                Some(now) if unchanged(&now) => objects.delete(key, &params(None)).await,
                Some(_) => Err(kube::Error::Api(status)),
                None => Ok(()),
            }
        }
        answer => answer,
    }
}

/// Sets the owners of an object, and says which version it has then.
async fn set_owners(
    objects: &Objects,
    key: &ObjectKey,
    latest: &Object,
    owners: Vec<OwnerReference>,
) -> kube::Result<Box<str>> {
    patch(objects, key, latest, json!({"ownerReferences": owners})).await
}

/// Changes the metadata of exactly this version of an object. One that is gone needs no change.
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
