//! Creates and deletes pods of a controller, and records events.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_runtime::{
    EventType, Informer, Manager, ObjectKey, Objects, ReadYourWrites, Recorder, StaleCache, Written,
};
use futures_util::StreamExt;
use futures_util::stream::iter;
use k8s_openapi::api::core::v1::Pod as WholePod;
use kube::api::{DeleteParams, ListParams, Preconditions};
use serde::Serialize;

use super::batch::{MAX_IN_FLIGHT, slow_start};
use super::claim::{ClaimError, Claims};
use super::owner::Owner;
use super::related::{controlled_by, index_by_controller, orphans_in_namespace};
use crate::api_error;
use crate::view::{ObjectView, Pod, pods};

/// Page size of lists of a namespace's pods.
const PAGE: u32 = 500;

/// The pods of a controller.
pub(crate) struct PodControl {
    pods: Objects,
    informer: Informer<Pod>,
    recorder: Recorder,
    writes: ReadYourWrites,
    /// Owners for which a pod may have been created although the request failed.
    uncertain: Mutex<HashSet<ObjectKey>>,
}

impl PodControl {
    /// For a controller that records events under the name `component`.
    pub(crate) fn new(manager: &mut Manager, component: &'static str) -> Self {
        let informer = pods(manager);
        index_by_controller(informer.store());
        let recorder = manager.recorder(component);
        Self {
            pods: Objects::of::<WholePod>(manager.client()),
            informer,
            recorder,
            writes: ReadYourWrites::default(),
            uncertain: Mutex::default(),
        }
    }

    /// Informer of all pods.
    pub(crate) fn informer(&self) -> &Informer<Pod> {
        &self.informer
    }

    /// Access to pods for special requests. Note their writes with [`note`](Self::note).
    pub(crate) fn objects(&self) -> &Objects {
        &self.pods
    }

    /// Notes that a pod was written for an owner.
    pub(crate) fn note(&self, owner: &ObjectKey, written: &Written) {
        self.writes.note(owner, &written.metadata.resource_version);
    }

    /// Notes that the deletion of a pod began for an owner.
    pub(crate) fn note_deleted(&self, owner: &ObjectKey, pod: ObjectKey, uid: &str) {
        self.writes.note_deleted(owner, pod, uid);
    }

    /// Returns when the informer has seen all writes of pods for an owner.
    ///
    /// # Errors
    /// If this takes long, or the pods cannot be listed. The owner should be retried.
    pub(crate) async fn seen(&self, owner: &ObjectKey) -> Result<(), StaleCache> {
        if self.uncertain().contains(owner) {
            self.list_written(owner).await.map_err(|_| StaleCache)?;
            self.uncertain().remove(owner);
        }
        self.writes.seen(owner, &self.informer).await
    }

    /// Lists the pods around an owner on the server, and notes them like writes. The server generates the names, so a
    /// pod whose creation got no response cannot be looked up by name.
    async fn list_written(&self, owner: &ObjectKey) -> kube::Result<()> {
        let params = ListParams::default().limit(PAGE);
        let note = |page: Vec<Written>| page.iter().for_each(|pod| self.note(owner, pod));
        self.pods.list_pages(owner, &params, note).await
    }

    fn uncertain(&self) -> MutexGuard<'_, HashSet<ObjectKey>> {
        self.uncertain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pods that an owner controls, and orphans in its namespace.
    pub(crate) fn candidates(&self, owner: &Owner<'_>) -> Vec<Arc<Pod>> {
        let store = self.informer.store();
        let mut pods = controlled_by(store, owner.key.cluster(), owner.metadata.uid());
        pods.extend(orphans_in_namespace(store, owner.key));
        pods
    }

    /// The owner's pods of `candidates`, after adopting and releasing. `owners` gives access to the owner, and an
    /// adopted pod gets `finalizers`.
    ///
    /// # Errors
    /// If a pod could not be claimed, after trying all.
    pub(crate) async fn claim(
        &self,
        owners: &Objects,
        owner: &Owner<'_>,
        candidates: impl IntoIterator<Item = Arc<Pod>>,
        matches: impl Fn(&Pod) -> bool,
        finalizers: &[&str],
    ) -> Result<Vec<Arc<Pod>>, ClaimError> {
        let claims = Claims { owners, objects: &self.pods, writes: &self.writes, finalizers };
        claims.claim(owner, candidates, matches).await
    }

    /// Creates a pod.
    ///
    /// # Errors
    /// If the server rejects it. An event is recorded, unless the namespace is terminating.
    pub(crate) async fn create(&self, owner: &Owner<'_>, pod: &impl Serialize) -> kube::Result<Written> {
        match self.pods.create::<Written>(owner.key, pod).await {
            Ok(written) => {
                self.note(owner.key, &written);
                let message = format!("Created pod: {}", written.metadata.name);
                self.record_event(owner, EventType::Normal, "SuccessfulCreate", message);
                Ok(written)
            }
            Err(error) => {
                if !api_error::had_no_effect(&error) {
                    self.uncertain().insert(owner.key.clone());
                }
                if !api_error::namespace_is_terminating(&error) {
                    let message = format!("Error creating: {}", api_error::message(&error));
                    self.record_event(owner, EventType::Warning, "FailedCreate", message);
                }
                Err(error)
            }
        }
    }

    /// Creates `count` equal pods in growing batches. A terminating namespace is not an error.
    ///
    /// # Errors
    /// The first rejection. Some pods may have been created.
    pub(crate) async fn create_many(
        &self,
        owner: &Owner<'_>,
        pod: &impl Serialize,
        count: usize,
    ) -> kube::Result<()> {
        let create = || async {
            match self.create(owner, pod).await {
                Err(error) if !api_error::namespace_is_terminating(&error) => Err(error),
                _ => Ok(()),
            }
        };
        slow_start(count, create).await.1
    }

    /// Deletes a pod, or begins to, if its uid has not changed.
    ///
    /// # Errors
    /// If the server rejects the request. An event is recorded.
    pub(crate) async fn delete(&self, owner: &Owner<'_>, pod: &Pod) -> kube::Result<()> {
        let metadata = pod.object_metadata();
        let key = owner.namespaced_key(metadata.name());
        let preconditions = Preconditions { uid: Some(metadata.uid().to_owned()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.pods.delete(&key, &params).await {
            Err(error) if api_error::is_conflict(&error) && self.is_replaced(&key, pod).await? => {}
            Err(error) => {
                let message = format!("Error deleting: {}", api_error::message(&error));
                self.record_event(owner, EventType::Warning, "FailedDelete", message);
                return Err(error);
            }
            Ok(()) => {
                let message = format!("Deleted pod: {}", metadata.name());
                self.record_event(owner, EventType::Normal, "SuccessfulDelete", message);
            }
        }
        self.writes.note_deleted(owner.key, key, metadata.uid());
        Ok(())
    }

    /// True if the name belongs to another pod. A conflict alone does not prove that: a server also returns it after
    /// too many concurrent writes.
    async fn is_replaced(&self, key: &ObjectKey, pod: &Pod) -> kube::Result<bool> {
        let found: Option<Written> = self.pods.get(key).await?;
        Ok(found.is_none_or(|found| *found.metadata.uid != *pod.object_metadata().uid()))
    }

    /// Deletes pods, or begins to.
    ///
    /// # Errors
    /// One of the rejections, after trying all.
    pub(crate) async fn delete_many(&self, owner: &Owner<'_>, pods: Vec<Arc<Pod>>) -> kube::Result<()> {
        let deletions = pods.into_iter().map(|pod| async move { self.delete(owner, &pod).await });
        let outcomes: Vec<_> = iter(deletions).buffer_unordered(MAX_IN_FLIGHT).collect().await;
        outcomes.into_iter().collect()
    }

    /// Records an event about the owner.
    pub(crate) fn record_event(
        &self,
        owner: &Owner<'_>,
        kind: EventType,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.recorder.event(owner.key.cluster(), owner.reference(), kind, reason, message);
    }
}
