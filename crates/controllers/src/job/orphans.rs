//! Removes the finalizer of pods that no job will count.
//!
//! Their job was deleted, has orphaned them, or finished without them. The finalizer would keep them forever.

use coracle_runtime::informer::{ObjectMetadata, PartialObject};
use coracle_runtime::{
    Action, Change, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Written,
};
use kube::api::PatchParams;

use super::{FINALIZER, JOB, finalizer_patch, managed_elsewhere};
use crate::api_error;
use crate::pod_control::controlled_by;
use crate::view::{Job, Pod};

/// Name of the controller in logs.
const NAME: &str = "job-controller-orphan-pods";

pub(super) fn register(manager: &mut Manager, pods: &Informer<Pod>, jobs: &Informer<Job>) {
    let client = manager.client();
    let reconcile = Orphans {
        pods: pods.clone(),
        jobs: jobs.clone(),
        pod_objects: Objects::of::<k8s_openapi::api::core::v1::Pod>(client),
        job_objects: Objects::of::<k8s_openapi::api::batch::v1::Job>(client),
    };
    let known = pods.clone();
    let controller = Controller::new(NAME, reconcile)
        .queue_name("job_orphan_pod")
        .watches(pods, |change| {
            change.new.as_deref().filter(|pod| may_be_orphan(pod)).map(|_| change.key.clone())
        })
        .watches(jobs, move |change| pods_of_finished_job(change, &known));
    manager.add(controller);
}

/// A pod that is not terminating is handled by its job, if it has one.
fn may_be_orphan(pod: &Pod) -> bool {
    let of_job = pod.metadata.controller().is_none_or(|owner| JOB.is_of(owner));
    let may_be_left = pod.metadata.controller().is_none() || pod.metadata.is_terminating();
    pod.metadata.has_finalizer(FINALIZER) && of_job && may_be_left
}

/// Pods of a job that was deleted or has finished.
fn pods_of_finished_job(change: &Change<Job>, pods: &Informer<Pod>) -> Vec<ObjectKey> {
    let is_finished = change.new.as_ref().is_none_or(|job| job.end().is_some());
    let Some(job) = change.new.as_ref().or(change.old.as_ref()).filter(|_| is_finished) else {
        return Vec::new();
    };
    let cluster = change.key.cluster();
    let held = controlled_by(pods.store(), cluster, job.metadata.uid());
    let held = held.iter().filter(|pod| pod.metadata.has_finalizer(FINALIZER));
    held.map(|pod| ObjectKey::namespaced(cluster.clone(), change.key.namespace(), pod.metadata.name()))
        .collect()
}

/// Owner of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// No controller.
    NoController,
    /// A controller of another kind.
    OtherKind,
    /// A job in the informer's cache.
    Job { is_finished: bool, is_ours: bool },
    /// A job that is not in the informer's cache.
    Unknown,
}

/// Next step for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Keep,
    RemoveFinalizer,
    /// Read the job from the server: the pod may be newer than the informer's cache.
    CheckServer,
}

fn plan(owner: Owner) -> Plan {
    match owner {
        Owner::NoController | Owner::Job { is_finished: true, is_ours: true } => Plan::RemoveFinalizer,
        Owner::OtherKind | Owner::Job { .. } => Plan::Keep,
        Owner::Unknown => Plan::CheckServer,
    }
}

struct Orphans {
    pods: Informer<Pod>,
    jobs: Informer<Job>,
    pod_objects: Objects,
    job_objects: Objects,
}

impl Orphans {
    fn owner(&self, key: &ObjectKey, pod: &ObjectMetadata) -> Owner {
        let Some(owner) = pod.controller() else { return Owner::NoController };
        if !JOB.is_of(owner) {
            return Owner::OtherKind;
        }
        let job = self.jobs.store().get(&job_key(key, &owner.name));
        job.filter(|job| job.metadata.uid() == &*owner.uid).map_or(Owner::Unknown, |job| Owner::Job {
            is_finished: job.end().is_some(),
            is_ours: managed_elsewhere(&job).is_none(),
        })
    }

    /// True if the pod's job does not exist on the server.
    async fn is_gone(&self, key: &ObjectKey, pod: &ObjectMetadata) -> kube::Result<bool> {
        let Some(owner) = pod.controller() else { return Ok(true) };
        let job: Option<PartialObject> = self.job_objects.get(&job_key(key, &owner.name)).await?;
        Ok(job.is_none_or(|job| job.metadata.uid() != &*owner.uid))
    }
}

fn job_key(pod: &ObjectKey, name: &str) -> ObjectKey {
    ObjectKey::namespaced(pod.cluster().clone(), pod.namespace(), name)
}

impl Reconcile for Orphans {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let pod = self.pods.store().get(key).filter(|pod| pod.metadata.has_finalizer(FINALIZER));
        let Some(pod) = pod else { return Ok(Action::AwaitChange) };
        let remove_finalizer = match plan(self.owner(key, &pod.metadata)) {
            Plan::Keep => false,
            Plan::RemoveFinalizer => true,
            Plan::CheckServer => self.is_gone(key, &pod.metadata).await?,
        };
        if remove_finalizer {
            let done =
                self.pod_objects.patch::<Written>(key, &PatchParams::default(), &finalizer_patch(&pod)).await;
            if let Err(error) = done
                && !api_error::is_missing(&error)
                && !api_error::is_conflict(&error)
            {
                return Err(error);
            }
        }
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn finalizer_is_removed_only_from_pods_without_job() {
        assert_eq!(plan(Owner::NoController), Plan::RemoveFinalizer);
        assert_eq!(plan(Owner::OtherKind), Plan::Keep);
        assert_eq!(plan(Owner::Unknown), Plan::CheckServer);
        let job = |is_finished, is_ours| plan(Owner::Job { is_finished, is_ours });
        assert_eq!(job(true, true), Plan::RemoveFinalizer);
        assert!(
            [job(false, true), job(true, false), job(false, false)].iter().all(|plan| *plan == Plan::Keep)
        );
    }

    #[test]
    fn possible_orphans_are_enqueued() {
        let may_be = |owner: Option<&str>, is_terminating: bool, finalizer: &str| {
            let owner = owner
                .map(|kind| json!({"apiVersion": "batch/v1", "kind": kind, "uid": "u", "controller": true}));
            let owners: Vec<Value> = owner.into_iter().collect();
            let deletion = is_terminating.then_some("2026-01-01T00:00:00Z");
            let metadata =
                json!({"ownerReferences": owners, "deletionTimestamp": deletion, "finalizers": [finalizer]});
            may_be_orphan(&serde_json::from_value(json!({"metadata": metadata})).unwrap())
        };
        assert!(may_be(None, false, FINALIZER) && may_be(None, true, FINALIZER));
        assert!(!may_be(None, false, "a/b"));
        assert!(may_be(Some("Job"), true, FINALIZER) && !may_be(Some("Job"), false, FINALIZER));
        assert!(!may_be(Some("Other"), true, FINALIZER));
    }
}
