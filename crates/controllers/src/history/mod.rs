//! ControllerRevisions: the history of StatefulSets and DaemonSets, for rollbacks.
//!
//! A set uses the newest revision that equals its current template, or creates one; [`classify`] finds it. Names are
//! derived from content, so two controllers that race create one revision. Orphaned revisions are adopted by the set
//! that selects them.

mod plan;
mod revision;
mod snapshot;

use std::sync::Arc;

use coracle_runtime::{Informer, Manager, ObjectKey, Objects, ReadYourWrites, StaleCache, Written};
use k8s_openapi::api::apps::v1::ControllerRevision as WholeRevision;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

pub(crate) use plan::{classify, oldest};
pub(crate) use revision::{ControllerRevision, name};
pub(crate) use snapshot::Snapshot;

use crate::api_error::already_exists;
use crate::pod_control::{ClaimError, Claims, Owner, controlled_by, orphans_in_namespace};

/// Result of creating a revision.
pub(crate) enum CreateResult {
    /// The revision exists, perhaps since before, with the right content.
    Created(Arc<ControllerRevision>),
    /// A revision of that name exists with other content.
    Collision,
}

/// Reads and writes the revisions of the sets of one kind.
pub(crate) struct History {
    objects: Objects,
    informer: Informer<ControllerRevision>,
    writes: ReadYourWrites,
}

impl History {
    pub(crate) fn new(manager: &mut Manager) -> Self {
        let objects = Objects::of::<WholeRevision>(manager.client());
        Self { objects, informer: revision::revisions(manager), writes: ReadYourWrites::default() }
    }

    /// Informer of all revisions, of sets of any kind.
    pub(crate) fn informer(&self) -> &Informer<ControllerRevision> {
        &self.informer
    }

    /// Returns when the informer has seen all writes for a set.
    pub(crate) async fn seen(&self, set: &ObjectKey) -> Result<(), StaleCache> {
        self.writes.seen(set, &self.informer).await
    }

    /// The revisions of a set, oldest first, after adopting matching orphans.
    pub(crate) async fn claim(
        &self,
        sets: &Objects,
        set: &Owner<'_>,
        matches: impl Fn(&ControllerRevision) -> bool,
    ) -> Result<Vec<Arc<ControllerRevision>>, ClaimError> {
        let claims = Claims { owners: sets, objects: &self.objects, writes: &self.writes, finalizers: &[] };
        let store = self.informer.store();
        let mut candidates = controlled_by(store, set.key.cluster(), set.metadata.uid());
        candidates.extend(orphans_in_namespace(store, set.key));
        let mut claimed = claims.claim(set, candidates, matches).await?;
        revision::sort(&mut claimed);
        Ok(claimed)
    }

    /// Creates a revision of a set.
    pub(crate) async fn create(
        &self,
        set: &Owner<'_>,
        name: &str,
        labels: &Value,
        data: &Snapshot,
        number: i64,
    ) -> kube::Result<CreateResult> {
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
            Ok(created) => {
                self.writes.note(set.key, created.metadata.resource_version());
                Ok(CreateResult::Created(Arc::new(created)))
            }
            Err(error) if already_exists(&error) => {
                let found: Option<ControllerRevision> = self.objects.get(&set.namespaced_key(name)).await?;
                let found = found.ok_or(error)?;
                Ok(if found.data == *data {
                    CreateResult::Created(Arc::new(found))
                } else {
                    CreateResult::Collision
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Changes the number of a revision.
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

    /// Sets a label of a revision.
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
        let key = set.namespaced_key(revision.name());
        let this_one =
            Preconditions { uid: Some(revision.metadata.uid().to_owned()), resource_version: None };
        let params = DeleteParams::default().preconditions(this_one);
        self.objects.delete(&key, &params).await?;
        self.writes.note_deleted(set.key, key, revision.metadata.uid());
        Ok(())
    }

    async fn change(&self, set: &Owner<'_>, revision: &ControllerRevision, patch: Value) -> kube::Result<()> {
        let (key, patch) = (set.namespaced_key(revision.name()), Patch::Merge(patch));
        let written: Written = self.objects.patch(&key, &PatchParams::default(), &patch).await?;
        self.writes.note(set.key, &written.metadata.resource_version);
        Ok(())
    }
}
