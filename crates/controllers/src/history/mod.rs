//! ControllerRevisions: what StatefulSets and DaemonSets looked like, so that one can go back.
//!
//! A set takes the newest revision that holds how it looks now, or makes one; [`place`] says which. Names
//! follow from content, so two controllers that race make one revision. Those of an owner that is gone are
//! adopted by the set that selects them.

mod plan;
mod revision;
mod snapshot;

use std::sync::Arc;

use coracle_runtime::{Informer, Manager, ObjectKey, Objects, ReadYourWrites, StaleCache, Written};
use k8s_openapi::api::apps::v1::ControllerRevision as WholeRevision;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

pub(crate) use plan::{oldest, place};
pub(crate) use revision::{ControllerRevision, name};
pub(crate) use snapshot::Snapshot;

use crate::pod_control::{ClaimError, Claims, Owner, controlled_by, orphans_beside};
use crate::refusal::exists_already;

/// What became of a revision that was to be made.
pub(crate) enum Made {
    /// It is there, perhaps since before, and holds what it should.
    There(Arc<ControllerRevision>),
    /// One of that name was there before, and holds something else.
    Collision,
}

/// The revisions of the sets of one kind, and what their controller does to them.
pub(crate) struct History {
    objects: Objects,
    known: Informer<ControllerRevision>,
    writes: ReadYourWrites,
}

impl History {
    pub(crate) fn new(manager: &mut Manager) -> Self {
        let objects = Objects::of::<WholeRevision>(manager.client());
        Self { objects, known: revision::revisions(manager), writes: ReadYourWrites::default() }
    }

    /// All revisions, of sets of any kind.
    pub(crate) fn informer(&self) -> &Informer<ControllerRevision> {
        &self.known
    }

    /// Returns when everything is known that was written for a set.
    pub(crate) async fn seen(&self, set: &ObjectKey) -> Result<(), StaleCache> {
        self.writes.seen(set, &self.known).await
    }

    /// The revisions of a set, oldest first, after it took on those that `matches` and nobody has.
    pub(crate) async fn claim(
        &self,
        sets: &Objects,
        set: &Owner<'_>,
        matches: impl Fn(&ControllerRevision) -> bool,
    ) -> Result<Vec<Arc<ControllerRevision>>, ClaimError> {
        let claims = Claims { owners: sets, objects: &self.objects, writes: &self.writes, finalizers: &[] };
        let store = self.known.store();
        let mut candidates = controlled_by(store, set.key.cluster(), set.metadata.uid());
        candidates.extend(orphans_beside(store, set.key));
        let mut claimed = claims.claim(set, candidates, matches).await?;
        revision::sort(&mut claimed);
        Ok(claimed)
    }

    /// Makes a revision of a set.
    pub(crate) async fn make(
        &self,
        set: &Owner<'_>,
        name: &str,
        labels: &Value,
        data: &Snapshot,
        number: i64,
    ) -> kube::Result<Made> {
        let metadata = json!({
            "name": name,
            "namespace": set.metadata.namespace(),
            "labels": labels,
            "annotations": set.metadata.annotations,
            "ownerReferences": [set.owner_reference()],
        });
        let object = json!({
            "apiVersion": "apps/v1",
            "kind": "ControllerRevision",
            "metadata": metadata,
            "data": data.data(),
            "revision": number,
        });
        match self.objects.create::<ControllerRevision>(set.key, &object).await {
            Ok(made) => {
                self.writes.note(set.key, made.metadata.resource_version());
                Ok(Made::There(Arc::new(made)))
            }
            Err(error) if exists_already(&error) => {
                let found: Option<ControllerRevision> = self.objects.get(&set.beside(name)).await?;
                let found = found.ok_or(error)?;
                Ok(if found.data == *data { Made::There(Arc::new(found)) } else { Made::Collision })
            }
            Err(error) => Err(error),
        }
    }

    /// Gives a revision another place in the order.
    pub(crate) async fn renumber(
        &self,
        set: &Owner<'_>,
        revision: &ControllerRevision,
        number: i64,
    ) -> kube::Result<()> {
        let version = revision.metadata.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version}, "revision": number});
        self.change(set, revision, patch).await
    }

    /// Gives a revision a label.
    pub(crate) async fn label(
        &self,
        set: &Owner<'_>,
        revision: &ControllerRevision,
        label: &str,
        value: &str,
    ) -> kube::Result<()> {
        let uid = revision.metadata.uid();
        self.change(set, revision, json!({"metadata": {"uid": uid, "labels": {label: value}}})).await
    }

    pub(crate) async fn delete(&self, set: &Owner<'_>, revision: &ControllerRevision) -> kube::Result<()> {
        let key = set.beside(revision.name());
        let this_one =
            Preconditions { uid: Some(revision.metadata.uid().to_owned()), resource_version: None };
        let params = DeleteParams::default().preconditions(this_one);
        self.objects.delete(&key, &params).await?;
        self.writes.note_deleted(set.key, key, revision.metadata.uid());
        Ok(())
    }

    async fn change(&self, set: &Owner<'_>, revision: &ControllerRevision, patch: Value) -> kube::Result<()> {
        let (key, patch) = (set.beside(revision.name()), Patch::Merge(patch));
        let written: Written = self.objects.patch(&key, &PatchParams::default(), &patch).await?;
        self.writes.note(set.key, &written.metadata.resource_version);
        Ok(())
    }
}
