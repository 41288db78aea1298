//! Pods that are held for a job that will never count them.
//!
//! Their job is gone, or was made to let them go, or came to its end without them. They must not stay for
//! ever, so nothing holds them any more.

use coracle_runtime::informer::{ObjectMetadata, PartialObject};
use coracle_runtime::{
    Action, Change, Controller, Informer, Manager, ObjectKey, Objects, Reconcile, Written,
};
use kube::api::PatchParams;

use super::{FINALIZER, JOB, letting_go, managed_elsewhere};
use crate::pod_control::controlled_by;
use crate::refusal;
use crate::view::{Job, Pod};

/// The name in logs.
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
        .watches(jobs, move |change| left_behind(change, &known));
    manager.add(controller);
}

/// A pod that is not being deleted is looked after by its job, if it has one.
fn may_be_orphan(pod: &Pod) -> bool {
    let of_job = pod.metadata.controller().is_none_or(|owner| JOB.is_of(owner));
    let may_be_left = pod.metadata.controller().is_none() || pod.metadata.is_terminating();
    pod.metadata.has_finalizer(FINALIZER) && of_job && may_be_left
}

/// The pods of a job that is gone or over.
fn left_behind(change: &Change<Job>, pods: &Informer<Pod>) -> Vec<ObjectKey> {
    let is_over = change.new.as_ref().is_none_or(|job| job.end().is_some());
    let Some(job) = change.new.as_ref().or(change.old.as_ref()).filter(|_| is_over) else {
        return Vec::new();
    };
    let cluster = change.key.cluster();
    let held = controlled_by(pods.store(), cluster, job.metadata.uid());
    let held = held.iter().filter(|pod| pod.metadata.has_finalizer(FINALIZER));
    held.map(|pod| ObjectKey::namespaced(cluster.clone(), change.key.namespace(), pod.metadata.name()))
        .collect()
}

/// What is known of the job of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// It has none.
    Nobody,
    /// It is something else.
    Another,
    /// It is there, by what the informer knows.
    Job { is_over: bool, is_ours: bool },
    /// The informer does not know it.
    Unknown,
}

/// What to do about a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Keep,
    LetGo,
    /// The informer may not know the job yet: that of a pod that is younger than what it knows.
    Ask,
}

fn plan(owner: Owner) -> Plan {
    match owner {
        Owner::Nobody | Owner::Job { is_over: true, is_ours: true } => Plan::LetGo,
        Owner::Another | Owner::Job { .. } => Plan::Keep,
        Owner::Unknown => Plan::Ask,
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
        let Some(owner) = pod.controller() else { return Owner::Nobody };
        if !JOB.is_of(owner) {
            return Owner::Another;
        }
        let job = self.jobs.store().get(&job_key(key, &owner.name));
        job.filter(|job| job.metadata.uid() == &*owner.uid).map_or(Owner::Unknown, |job| Owner::Job {
            is_over: job.end().is_some(),
            is_ours: managed_elsewhere(&job).is_none(),
        })
    }

    /// Whether the job of a pod is gone, by the server's word.
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
        let let_go = match plan(self.owner(key, &pod.metadata)) {
            Plan::Keep => false,
            Plan::LetGo => true,
            Plan::Ask => self.is_gone(key, &pod.metadata).await?,
        };
        if let_go {
            let done =
                self.pod_objects.patch::<Written>(key, &PatchParams::default(), &letting_go(&pod)).await;
            if let Err(error) = done
                && !refusal::is_missing(&error)
                && !refusal::is_conflict(&error)
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
    fn only_pods_that_no_job_will_count_are_let_go() {
        assert_eq!(plan(Owner::Nobody), Plan::LetGo);
        assert_eq!(plan(Owner::Another), Plan::Keep);
        assert_eq!(plan(Owner::Unknown), Plan::Ask);
        let job = |is_over, is_ours| plan(Owner::Job { is_over, is_ours });
        assert_eq!(job(true, true), Plan::LetGo);
        assert!(
            [job(false, true), job(true, false), job(false, false)].iter().all(|plan| *plan == Plan::Keep)
        );
    }

    #[test]
    fn pods_are_looked_at_that_may_be_nobodys() {
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
