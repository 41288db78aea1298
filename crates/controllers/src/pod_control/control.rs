//! Making and deleting pods, and telling people of it.

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
use super::related::{controlled_by, index_by_controller, orphans_beside};
use crate::refusal;
use crate::view::{Described, Pod, pods};

/// Pods that are asked for at a time where all of a namespace are.
const PAGE: u32 = 500;

/// The pods of a controller.
pub(crate) struct PodControl {
    pods: Objects,
    informer: Informer<Pod>,
    recorder: Recorder,
    writes: ReadYourWrites,
    /// Owners for whom a pod may have been made that nobody was told of.
    doubtful: Mutex<HashSet<ObjectKey>>,
}

impl PodControl {
    /// For a controller that tells people of its doings under the name `component`.
    pub(crate) fn new(manager: &mut Manager, component: &'static str) -> Self {
        let informer = pods(manager);
        index_by_controller(informer.store());
        let recorder = manager.recorder(component);
        Self {
            pods: Objects::of::<WholePod>(manager.client()),
            informer,
            recorder,
            writes: ReadYourWrites::default(),
            doubtful: Mutex::default(),
        }
    }

    /// All pods.
    pub(crate) fn informer(&self) -> &Informer<Pod> {
        &self.informer
    }

    /// Where pods are read and written that need something special. What is written is to be noted.
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

    /// Returns when the informer knows of all pods that were made, changed and deleted for an owner.
    ///
    /// # Errors
    /// If that takes long, or cannot be told now. The owner is to be looked at again.
    pub(crate) async fn seen(&self, owner: &ObjectKey) -> Result<(), StaleCache> {
        if self.doubtful().contains(owner) {
            self.learn(owner).await.map_err(|_| StaleCache)?;
            self.doubtful().remove(owner);
        }
        self.writes.seen(owner, &self.informer).await
    }

    /// Asks the server itself which pods there are around an owner, and notes them as if they had just been
    /// written. The server makes up their names, so the one that was lost cannot be asked for alone.
    async fn learn(&self, owner: &ObjectKey) -> kube::Result<()> {
        let params = ListParams::default().limit(PAGE);
        let note = |page: Vec<Written>| page.iter().for_each(|pod| self.note(owner, pod));
        self.pods.list_pages(owner, &params, note).await
    }

    fn doubtful(&self) -> MutexGuard<'_, HashSet<ObjectKey>> {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pods that an owner manages, and those around it that nobody does.
    pub(crate) fn candidates(&self, owner: &Owner<'_>) -> Vec<Arc<Pod>> {
        let store = self.informer.store();
        let mut pods = controlled_by(store, owner.key.cluster(), owner.metadata.uid());
        pods.extend(orphans_beside(store, owner.key));
        pods
    }

    /// Those of `candidates` that are the owner's, after it took on what `matches` and let go of what does
    /// not. `owners` is where the owner is, and a pod gets `finalizers` with it.
    ///
    /// # Errors
    /// If one could not be claimed, after all have been tried.
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

    /// Makes a pod.
    ///
    /// # Errors
    /// Whatever the server refuses. People are told, unless the namespace is going, when it says nothing.
    pub(crate) async fn create(&self, owner: &Owner<'_>, pod: &impl Serialize) -> kube::Result<Written> {
        match self.pods.create::<Written>(owner.key, pod).await {
            Ok(written) => {
                self.note(owner.key, &written);
                let message = format!("Created pod: {}", written.metadata.name);
                self.tell(owner, EventType::Normal, "SuccessfulCreate", message);
                Ok(written)
            }
            Err(error) => {
                if !refusal::is_certain(&error) {
                    self.doubtful().insert(owner.key.clone());
                }
                if !refusal::is_terminating(&error) {
                    let message = format!("Error creating: {}", refusal::message(&error));
                    self.tell(owner, EventType::Warning, "FailedCreate", message);
                }
                Err(error)
            }
        }
    }

    /// Makes `count` equal pods, carefully at first. That they cannot be made because their namespace is
    /// going is no failure.
    ///
    /// # Errors
    /// The first refusal. Some may have been made.
    pub(crate) async fn create_many(
        &self,
        owner: &Owner<'_>,
        pod: &impl Serialize,
        count: usize,
    ) -> kube::Result<()> {
        let create = || async {
            match self.create(owner, pod).await {
                Err(error) if !refusal::is_terminating(&error) => Err(error),
                _ => Ok(()),
            }
        };
        slow_start(count, create).await.1
    }

    /// Begins to delete a pod, if it is still this one.
    ///
    /// # Errors
    /// Whatever the server refuses. People are told.
    pub(crate) async fn delete(&self, owner: &Owner<'_>, pod: &Pod) -> kube::Result<()> {
        let metadata = pod.object_metadata();
        let key = owner.beside(metadata.name());
        let preconditions = Preconditions { uid: Some(metadata.uid().to_owned()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.pods.delete(&key, &params).await {
            Err(error) if refusal::is_conflict(&error) && self.is_another(&key, pod).await? => {}
            Err(error) => {
                let message = format!("Error deleting: {}", refusal::message(&error));
                self.tell(owner, EventType::Warning, "FailedDelete", message);
                return Err(error);
            }
            Ok(()) => {
                let message = format!("Deleted pod: {}", metadata.name());
                self.tell(owner, EventType::Normal, "SuccessfulDelete", message);
            }
        }
        self.writes.note_deleted(owner.key, key, metadata.uid());
        Ok(())
    }

    /// Whether a name is not this pod's any more. A conflict alone does not say so: a server also answers so if
    /// others kept writing.
    async fn is_another(&self, key: &ObjectKey, pod: &Pod) -> kube::Result<bool> {
        let found: Option<Written> = self.pods.get(key).await?;
        Ok(found.is_none_or(|found| *found.metadata.uid != *pod.object_metadata().uid()))
    }

    /// Begins to delete pods.
    ///
    /// # Errors
    /// One of the refusals. All have been tried.
    pub(crate) async fn delete_many(&self, owner: &Owner<'_>, pods: Vec<Arc<Pod>>) -> kube::Result<()> {
        let deletions = pods.into_iter().map(|pod| async move { self.delete(owner, &pod).await });
        let outcomes: Vec<_> = iter(deletions).buffer_unordered(MAX_IN_FLIGHT).collect().await;
        outcomes.into_iter().collect()
    }

    /// Tells people something about the owner.
    pub(crate) fn tell(
        &self,
        owner: &Owner<'_>,
        kind: EventType,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.recorder.event(owner.key.cluster(), owner.reference(), kind, reason, message);
    }
}
