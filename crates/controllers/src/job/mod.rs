//! Jobs: runs pods until enough of them have succeeded.
//!
//! [`plan`] decides which pods to create and delete and whether the job is finished, [`track`] computes the status
//! and which finalizers can be removed. Requests run between and after them; each may fail, and the next sync
//! continues from the state it finds.

mod backoff;
mod facts;
mod failure_policy;
mod indexes;
mod metrics;
#[cfg(test)]
mod model;
mod orphans;
mod plan;
mod pod;
mod status;
mod success_policy;
#[cfg(test)]
mod tests;
mod track;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_base::Clock;
use coracle_runtime::{
    Action, Controller, EventType, Informer, Manager, ObjectKey, Objects, ReadYourWrites, Reconcile,
    StaleCache, Written,
};
use futures_util::StreamExt;
use futures_util::stream::iter;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::pod_control::{
    ClaimError, MAX_IN_FLIGHT, Owner, OwnerKind, PodControl, StaleSyncs, owners_to_enqueue, slow_start,
};
use crate::view::{Job, JobStatus, Pod, jobs};
use crate::{Registration, Settings, api_error};
use backoff::Backoff;
use facts::{Facts, Observed, number};
use metrics::{ACTION_RECONCILING, JobMetrics, action};
use plan::{NewPod, Plan, PodChange, plan};
use track::{Outcome, PlannedEvent, Tracking, track};

/// API version and kind of a job in events and owner references.
const JOB: OwnerKind = OwnerKind { api_version: "batch/v1", kind: "Job" };

/// Finalizer of pods that are not counted yet.
const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// Label and annotation with the completion index of a pod.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Annotation with the number of counted failures of the pod's index before it.
const FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-failure-count";

/// Annotation with the number of ignored failures.
const IGNORED_FAILURE_COUNT: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// This controller's name in `spec.managedBy`, the default.
const MANAGER: &str = "kubernetes.io/job-controller";

/// Concurrent reconciles: the default of `--concurrent-job-syncs`.
const WORKERS: usize = 5;

pub(crate) const REGISTRATION: Registration = Registration { name: "job-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let jobs = jobs(manager);
    let pods = PodControl::new(manager, REGISTRATION.name);
    let (changed, known) = (pods.informer().clone(), jobs.clone());
    orphans::register(manager, &changed, &jobs);
    let metrics = Arc::new(JobMetrics::new(manager.metrics()));
    let (of_jobs, of_pods) = (Arc::clone(&metrics), Arc::clone(&metrics));
    let reconcile = Jobs {
        objects: Objects::of::<k8s_openapi::api::batch::v1::Job>(manager.client()),
        jobs: jobs.clone(),
        pods,
        writes: ReadYourWrites::default(),
        backoffs: Backoffs::default(),
        clock: settings.clock.clone(),
        stale: StaleSyncs::new(manager.metrics(), "job_controller_stale_sync_skips_total"),
        metrics,
    };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("job")
        .watches(&jobs, move |change| {
            of_jobs.saw_job(change);
            [change.key.clone()]
        })
        .watches(&changed, move |change| {
            of_pods.saw_pod(change);
            owners_to_enqueue(change, JOB, known.store(), Job::selector)
        })
        .workers(WORKERS);
    manager.add(controller);
}

/// Name of the other controller that manages a job.
fn managed_elsewhere(job: &Job) -> Option<&str> {
    job.spec.managed_by.as_deref().filter(|manager| *manager != MANAGER)
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("request to the server failed")]
    Refused(#[from] kube::Error),
    #[error("cannot claim pods")]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
}

/// Backoff of jobs, in memory. An entry is removed with its job.
#[derive(Debug, Default)]
struct Backoffs(Mutex<HashMap<ObjectKey, (Box<str>, Backoff)>>);

impl Backoffs {
    /// A new job of the same name has its own backoff.
    fn get(&self, key: &ObjectKey, uid: &str) -> Backoff {
        let known = self.all().get(key).filter(|(known, _)| **known == *uid).map(|(_, backoff)| *backoff);
        known.unwrap_or_default()
    }

    fn set(&self, key: &ObjectKey, uid: &str, backoff: Backoff) {
        if backoff == Backoff::default() {
            self.forget(key);
        } else {
            self.all().insert(key.clone(), (uid.into(), backoff));
        }
    }

    fn forget(&self, key: &ObjectKey) {
        self.all().remove(key);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<ObjectKey, (Box<str>, Backoff)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Jobs {
    objects: Objects,
    jobs: Informer<Job>,
    pods: PodControl,
    writes: ReadYourWrites,
    backoffs: Backoffs,
    clock: Clock,
    stale: StaleSyncs,
    metrics: Arc<JobMetrics>,
}

impl Reconcile for Jobs {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Error> {
        let began = self.clock.uptime();
        self.stale.check("", "pods", self.pods.seen(key).await)?;
        self.stale.check("batch", "jobs", self.writes.seen(key, &self.jobs).await)?;
        let job = self.jobs.store().get(key);
        let Some(job) = job.filter(|job| job.end().is_none() && managed_elsewhere(job).is_none()) else {
            self.backoffs.forget(key);
            return Ok(Action::AwaitChange);
        };
        let mut action = ACTION_RECONCILING;
        let synced = self.sync(key, &job, &mut action).await;
        self.metrics.synced(&job, synced.is_ok(), action, self.clock.uptime().saturating_sub(began));
        match synced {
            // The decision was based on an outdated or deleted object; its change enqueues the key again.
            Err(Error::Refused(error)) if api_error::is_outdated(&error) => Ok(Action::AwaitChange),
            done => done,
        }
    }
}

impl Jobs {
    /// Stores the metrics label of the decision in `did`.
    async fn sync(&self, key: &ObjectKey, job: &Job, did: &mut &'static str) -> Result<Action, Error> {
        let owner = Owner { key, kind: JOB, metadata: &job.metadata };
        let pods = self.claim(&owner, job).await?;
        if pods.iter().any(|pod| !pod.metadata.is_controlled_by(job.metadata.uid())) {
            // A pod was just adopted, and is counted once the informer has seen its finalizer.
            return Ok(Action::AwaitChange);
        }
        let backoff = self.backoffs.get(key, job.metadata.uid());
        let plan = plan(Observed { job, pods: &pods, backoff, now: self.clock.now() });
        *did = action(job, &plan.change);
        let (outcome, changed) = self.change(&owner, &plan).await;
        let tracking = track(&plan, outcome);
        let tracked = self.apply(&owner, job, &plan, tracking).await;
        // Counting continues even if pods cannot be created: otherwise an exhausted quota would never become free.
        tracked?;
        changed?;
        Ok(plan.after.map_or(Action::AwaitChange, Action::RequeueAfter))
    }

    async fn claim(&self, owner: &Owner<'_>, job: &Job) -> Result<Vec<Arc<Pod>>, Error> {
        let matches = |pod: &Pod| job.selector().matches(&pod.metadata.labels);
        let candidates = self.pods.candidates(owner);
        Ok(self.pods.claim(&self.objects, owner, candidates, matches, &[FINALIZER]).await?)
    }

    /// Applies the planned change of pods, as far as possible.
    async fn change(&self, owner: &Owner<'_>, plan: &Plan<'_>) -> (Outcome, kube::Result<()>) {
        match &plan.change {
            PodChange::Nothing => (Outcome::default(), Ok(())),
            PodChange::End(pods) => self.delete(owner, pods, false).await,
            PodChange::Remove(pods) => self.delete(owner, pods, true).await,
            PodChange::Create(new) => self.create(owner, &plan.facts, new).await,
        }
    }

    async fn create(
        &self,
        owner: &Owner<'_>,
        facts: &Facts<'_>,
        new: &[NewPod],
    ) -> (Outcome, kube::Result<()>) {
        let job = facts.job;
        let (prototype, next) = (pod::prototype(owner, job), AtomicUsize::new(0));
        let failed = AtomicUsize::new(0);
        let create = || async {
            let Some(new) = new.get(next.fetch_add(1, Ordering::Relaxed)) else { return Ok(()) };
            match self.pods.create(owner, &pod::pod(&prototype, job, *new)).await {
                // All other creations would be rejected likewise, and the job is deleted with the namespace.
                Err(error) if api_error::namespace_is_terminating(&error) => Ok(()),
                Err(error) => {
                    failed.fetch_add(1, Ordering::Relaxed);
                    Err(error)
                }
                Ok(_) => Ok(()),
            }
        };
        let (created, outcome) = slow_start(new.len(), create).await;
        self.metrics.created(facts, created, failed.load(Ordering::Relaxed));
        (Outcome { created: number(created), ..Outcome::default() }, outcome)
    }

    async fn delete(
        &self,
        owner: &Owner<'_>,
        pods: &[Arc<Pod>],
        remove_finalizer: bool,
    ) -> (Outcome, kube::Result<()>) {
        let deletions = pods.iter().cloned().map(|pod| async move {
            if remove_finalizer {
                self.remove_finalizer(owner, &pod).await?;
            }
            self.pods.delete(owner, &pod).await?;
            Ok(pod.is_ready())
        });
        let done: Vec<kube::Result<bool>> = iter(deletions).buffer_unordered(MAX_IN_FLIGHT).collect().await;
        let ready = |wanted: bool| number(done.iter().flatten().filter(|ready| **ready == wanted).count());
        let (deleted_ready, others) = (ready(true), ready(false));
        let outcome = Outcome { deleted: deleted_ready + others, deleted_ready, ..Outcome::default() };
        (outcome, done.into_iter().find_map(Result::err).map_or(Ok(()), Err))
    }

    /// Writes the status, removes finalizers, and writes the status again.
    async fn apply(
        &self,
        owner: &Owner<'_>,
        job: &Job,
        plan: &Plan<'_>,
        mut tracking: Tracking,
    ) -> kube::Result<()> {
        let mut version: Box<str> = job.metadata.resource_version().into();
        if tracking.status != job.status {
            version = self.write(owner, &tracking.status, &version).await?;
            self.metrics.status_written(job, &job.status, &tracking.status);
            self.record_events(owner, &tracking.events);
        }
        self.metrics.handled(&tracking.handled);
        self.backoffs.set(owner.key, job.metadata.uid(), plan.facts.backoff);
        let written = tracking.status.clone();
        let releases = tracking.remove_finalizer.iter().cloned().map(|pod| async move {
            self.remove_finalizer(owner, &pod).await.map(|()| pod.metadata.uid().to_owned())
        });
        let released: Vec<_> = iter(releases).buffer_unordered(MAX_IN_FLIGHT).collect().await;
        tracking.released(released.iter().flatten().map(String::as_str));
        let failure = released.into_iter().find_map(Result::err);
        let events = if failure.is_none() { tracking.finish(job) } else { Vec::new() };
        if tracking.status != written {
            self.write(owner, &tracking.status, &version).await?;
            self.metrics.status_written(job, &written, &tracking.status);
            self.record_events(owner, &events);
        }
        failure.map_or(Ok(()), Err)
    }

    /// Removes the finalizer of a pod. A missing pod is not an error.
    async fn remove_finalizer(&self, owner: &Owner<'_>, pod: &Pod) -> kube::Result<()> {
        if !pod.metadata.has_finalizer(FINALIZER) {
            return Ok(());
        }
        let key = owner.namespaced_key(pod.metadata.name());
        match self.pods.objects().patch::<Written>(&key, &PatchParams::default(), &finalizer_patch(pod)).await
        {
            Err(error) if api_error::is_missing(&error) => Ok(()),
            done => done.map(|written| self.pods.note(owner.key, &written)),
        }
    }

    async fn write(&self, owner: &Owner<'_>, status: &JobStatus, version: &str) -> kube::Result<Box<str>> {
        let patch = Patch::Merge(status::patch(status, version));
        let params = PatchParams::default();
        let written = self.objects.patch_subresource(owner.key, "status", &params, &patch).await;
        owner.note(&self.writes, version, &written);
        written.map(|written| written.metadata.resource_version)
    }

    fn record_events(&self, owner: &Owner<'_>, events: &[PlannedEvent]) {
        for PlannedEvent { is_warning, reason, message } in events {
            let kind = if *is_warning { EventType::Warning } else { EventType::Normal };
            self.pods.record_event(owner, kind, reason, &**message);
        }
    }
}

/// The uid prevents changing another pod of the same name.
fn finalizer_patch(pod: &Pod) -> Patch<Value> {
    let finalizers = json!([FINALIZER]);
    let metadata = json!({"uid": pod.metadata.uid(), "$deleteFromPrimitiveList/finalizers": finalizers});
    Patch::Strategic(json!({"metadata": metadata}))
}
