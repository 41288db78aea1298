//! Creates jobs on a schedule.
//!
//! The name of a job contains its scheduled time, so creating it twice fails.

mod due;
mod object;
mod plan;
#[cfg(test)]
mod tests;
mod timetable;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use coracle_base::Clock;
use coracle_base::metrics::{Buckets, Histogram};
use coracle_runtime::informer::{Metadata, PartialObject};
use coracle_runtime::{
    Action, Change, Controller, EventType, Informer, Manager, ObjectKey, Objects, ReadYourWrites, Reconcile,
    Recorder, Selection, StaleCache, Written, WrittenMetadata,
};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use serde_json::{Value, json};

use crate::pod_control::{Owner, OwnerKind, controlled_by, index_by_controller};
use crate::view::{Job, jobs, rfc3339};
use crate::{Registration, Settings, api_error};
use due::next_look;
use object::{CronJob, CronJobStatus, JobReference};
use plan::{Observed, Plan, PlannedEvent, Start, plan};
use timetable::Timetable;

/// API version and kind of a cron job in events and owner references.
const CRON_JOB: OwnerKind = OwnerKind { api_version: "batch/v1", kind: "CronJob" };

/// Annotation with the scheduled time of a job.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Concurrent reconciles, as by `--concurrent-cron-job-syncs`.
const WORKERS: usize = 5;

pub(crate) const REGISTRATION: Registration = Registration { name: "cronjob-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let cron_jobs: Informer<CronJob> =
        manager.informer(Selection::of::<k8s_openapi::api::batch::v1::CronJob>());
    let jobs = jobs(manager);
    index_by_controller(jobs.store());
    let reconcile = CronJobs {
        objects: Objects::of::<k8s_openapi::api::batch::v1::CronJob>(manager.client()),
        job_objects: Objects::of::<k8s_openapi::api::batch::v1::Job>(manager.client()),
        cron_jobs: cron_jobs.clone(),
        jobs: jobs.clone(),
        writes: ReadYourWrites::default(),
        job_writes: ReadYourWrites::default(),
        schedules: Mutex::default(),
        recorder: manager.recorder(REGISTRATION.name),
        clock: settings.clock.clone(),
        skew: manager.metrics().histogram(
            "cronjob_controller_job_creation_skew_duration_seconds",
            "Delay between the scheduled time of a job and its creation.",
            Buckets::exponential(1.0, 2.0, 10),
        ),
    };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("cronjob")
        .watches(&cron_jobs, |change| [change.key.clone()])
        .watches(&jobs, owners)
        .workers(WORKERS);
    manager.add(controller);
}

/// The cron jobs that manage a job, or did.
fn owners(change: &Change<Job>) -> Vec<ObjectKey> {
    let of = |job: &Arc<Job>| job.metadata.controller().filter(|owner| CRON_JOB.is_of(owner)).cloned();
    let names: HashSet<_> =
        change.old.iter().chain(&change.new).filter_map(of).map(|owner| owner.name).collect();
    let key =
        |name: Box<str>| ObjectKey::namespaced(change.key.cluster().clone(), change.key.namespace(), name);
    names.into_iter().map(key).collect()
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the server refused")]
    Refused(#[from] kube::Error),
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
}

/// Schedule and time zone of a cron job.
type ScheduleText = (Box<str>, Option<Box<str>>);

struct CronJobs {
    objects: Objects,
    job_objects: Objects,
    cron_jobs: Informer<CronJob>,
    jobs: Informer<Job>,
    writes: ReadYourWrites,
    job_writes: ReadYourWrites,
    /// Schedule of each cron job at its last reconcile.
    schedules: Mutex<HashMap<ObjectKey, ScheduleText>>,
    recorder: Recorder,
    clock: Clock,
    skew: Arc<Histogram>,
}

impl Reconcile for CronJobs {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Error> {
        self.writes.seen(key, &self.cron_jobs).await?;
        self.job_writes.seen(key, &self.jobs).await?;
        let Some(cron_job) = self.cron_jobs.store().get(key) else {
            self.schedules.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            return Ok(Action::AwaitChange);
        };
        if let Some(action) = self.wait_for_new_schedule(key, &cron_job) {
            return Ok(action);
        }
        let owner = Owner { key, kind: CRON_JOB, metadata: &cron_job.metadata };
        let jobs = controlled_by(self.jobs.store(), key.cluster(), cron_job.metadata.uid());
        let missing = self.missing(&owner, &cron_job, &jobs).await?;
        let known = Observed { cron_job: &cron_job, jobs: &jobs, missing: &missing, now: self.clock.now() };
        match self.apply(&owner, &cron_job, plan(known)).await {
            // The decision was based on an outdated or deleted object; its change enqueues the key again.
            Err(error) if api_error::is_outdated(&error) => Ok(Action::AwaitChange),
            done => Ok(done?),
        }
    }
}

impl CronJobs {
    /// A changed schedule does not catch up on times in the past: it starts with its next time.
    fn wait_for_new_schedule(&self, key: &ObjectKey, cron_job: &CronJob) -> Option<Action> {
        let spec = &cron_job.spec;
        let text = (spec.schedule.clone(), spec.time_zone.clone());
        let known =
            self.schedules.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), text.clone());
        known.filter(|known| *known != text)?;
        let timetable = Timetable::read(&spec.schedule, spec.time_zone.as_deref()).ok()?;
        next_look(cron_job, &timetable, self.clock.now()).map(Action::RequeueAfter)
    }

    /// Active jobs that do not exist, confirmed by a request to the server because the informer may be stale.
    async fn missing(
        &self,
        owner: &Owner<'_>,
        cron_job: &CronJob,
        jobs: &[Arc<Job>],
    ) -> kube::Result<HashSet<Box<str>>> {
        let mut missing = HashSet::new();
        for active in &cron_job.status.active {
            if jobs.iter().any(|job| active.is_to(job)) {
                continue;
            }
            let found: Option<PartialObject> =
                self.job_objects.get(&owner.namespaced_key(&active.name)).await?;
            if found.is_none_or(|found| found.metadata.uid() != &*active.uid) {
                missing.insert(active.uid.clone());
            }
        }
        Ok(missing)
    }

    async fn apply(&self, owner: &Owner<'_>, cron_job: &CronJob, plan: Plan) -> kube::Result<Action> {
        let Plan { events, delete, replace, start, mut status, after } = plan;
        for PlannedEvent { is_warning, reason, message } in events {
            let kind = if is_warning { EventType::Warning } else { EventType::Normal };
            self.record_event(owner, kind, reason, message);
        }
        for job in delete {
            // The next reconcile tries again.
            drop(self.delete(owner, job.metadata.name(), job.metadata.uid(), &mut status).await);
        }
        let started = self.start(owner, cron_job, &replace, start.as_ref(), &mut status).await;
        if status != cron_job.status {
            let version = cron_job.metadata.resource_version();
            let (params, patch) = (PatchParams::default(), Patch::Merge(status_patch(&status, version)));
            let written = self.objects.patch_subresource(owner.key, "status", &params, &patch).await;
            owner.note(&self.writes, version, &written);
            written?;
        }
        started?;
        Ok(after.map_or(Action::AwaitChange, Action::RequeueAfter))
    }

    async fn delete(
        &self,
        owner: &Owner<'_>,
        name: &str,
        uid: &str,
        status: &mut CronJobStatus,
    ) -> kube::Result<()> {
        let key = owner.namespaced_key(name);
        let this_one = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let params = DeleteParams::background().preconditions(this_one);
        if let Err(error) = self.job_objects.delete(&key, &params).await {
            let message = format!("Deleted job: {}", api_error::message(&error));
            self.record_event(owner, EventType::Warning, "FailedDelete", message);
            return Err(error);
        }
        self.job_writes.note_deleted(owner.key, key, uid);
        status.active.retain(|active| *active.uid != *uid);
        self.record_event(owner, EventType::Normal, "SuccessfulDelete", format!("Deleted job {name}"));
        Ok(())
    }

    /// Deletes jobs to be replaced, and creates the job that is due.
    async fn start(
        &self,
        owner: &Owner<'_>,
        cron_job: &CronJob,
        replace: &[JobReference],
        start: Option<&Start>,
        status: &mut CronJobStatus,
    ) -> kube::Result<()> {
        for active in replace {
            self.delete(owner, &active.name, &active.uid, status).await?;
        }
        let Some(start) = start else { return Ok(()) };
        let body = job_body(owner, &cron_job.spec.job_template, start);
        let created = match self.job_objects.create::<Written>(owner.key, &body).await {
            Ok(written) => {
                self.job_writes.note(owner.key, &written.metadata.resource_version);
                self.skew.observe_duration(self.clock.now().since(start.scheduled));
                self.record_event(
                    owner,
                    EventType::Normal,
                    "SuccessfulCreate",
                    format!("Created job {}", start.name),
                );
                written.metadata
            }
            Err(error) if api_error::already_exists(&error) => {
                // Created before a crash, or by another controller, which has recorded it then.
                let key = owner.namespaced_key(&start.name);
                let found: Option<PartialObject> = self.job_objects.get(&key).await?;
                let ours = found.filter(|found| found.metadata.is_controlled_by(cron_job.metadata.uid()));
                let Some(found) = ours else { return Ok(()) };
                let Metadata { name, uid, resource_version, .. } = found.metadata.plain;
                WrittenMetadata { name, uid, resource_version }
            }
            Err(error) => {
                if !api_error::namespace_is_terminating(&error) {
                    let message = format!("Error creating job: {}", api_error::message(&error));
                    self.record_event(owner, EventType::Warning, "FailedCreate", message);
                }
                return Err(error);
            }
        };
        if !status.active.iter().any(|active| active.uid == created.uid) {
            let namespace = owner.key.namespace();
            status.active.push(JobReference::to(
                namespace,
                &start.name,
                &created.uid,
                &created.resource_version,
            ));
        }
        status.last_schedule_time = Some(start.scheduled);
        Ok(())
    }

    fn record_event(&self, owner: &Owner<'_>, kind: EventType, reason: &'static str, message: String) {
        self.recorder.event(owner.key.cluster(), owner.reference(), kind, reason, message);
    }
}

/// The job of a template for a scheduled time.
fn job_body(owner: &Owner<'_>, template: &Value, start: &Start) -> Value {
    let part = |name: &str| template.pointer(&format!("/metadata/{name}")).filter(|part| part.is_object());
    let mut annotations = part("annotations").cloned().unwrap_or_else(|| json!({}));
    annotations[SCHEDULED] = start.annotation.as_str().into();
    let mut metadata = json!({
        "name": start.name,
        "namespace": owner.key.namespace(),
        "annotations": annotations,
        "ownerReferences": [owner.owner_reference()],
    });
    if let Some(labels) = part("labels") {
        metadata["labels"] = labels.clone();
    }
    let spec = template.get("spec").cloned().unwrap_or_else(|| json!({}));
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})
}

/// A merge patch that sets the status if the cron job still has this resource version.
fn status_patch(status: &CronJobStatus, resource_version: &str) -> Value {
    let active = (!status.active.is_empty()).then_some(&status.active);
    json!({
        "metadata": {"resourceVersion": resource_version},
        "status": {
            "active": active,
            "lastScheduleTime": status.last_schedule_time.map(rfc3339),
            "lastSuccessfulTime": status.last_successful_time.map(rfc3339),
        },
    })
}
