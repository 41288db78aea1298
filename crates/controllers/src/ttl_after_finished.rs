//! Deletes finished jobs after their `ttlSecondsAfterFinished`.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::metrics::{Buckets, Histogram};
use coracle_base::{Clock, Timestamp};
use coracle_runtime::{Action, Controller, Informer, Manager, ObjectKey, Objects, Reconcile};
use kube::api::{DeleteParams, Preconditions};

use crate::view::{Job, jobs};
use crate::{Registration, Settings, api_error};

pub(crate) const REGISTRATION: Registration =
    Registration { name: "ttl-after-finished-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let jobs = jobs(manager);
    let objects = Objects::of::<k8s_openapi::api::batch::v1::Job>(manager.client());
    let delay = manager.metrics().histogram(
        "ttl_after_finished_controller_job_deletion_duration_seconds",
        "Delay between the expiration of a job and its deletion.",
        Buckets::exponential(0.1, 2.0, 14),
    );
    let reconcile = Expiry { objects, jobs: jobs.clone(), clock: settings.clock.clone(), delay };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("ttl_jobs_to_delete")
        .watches(&jobs, |change| {
            change.new.as_ref().and_then(|job| expires_at(job)).map(|_| change.key.clone())
        });
    manager.add(controller);
}

/// When a job expires; `None` without a TTL, or if it is not finished or is terminating.
fn expires_at(job: &Job) -> Option<Timestamp> {
    let seconds = job.spec.ttl_seconds_after_finished.filter(|_| !job.metadata.is_terminating())?;
    Some(job.finished_at()? + Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
}

struct Expiry {
    objects: Objects,
    jobs: Informer<Job>,
    clock: Clock,
    delay: Arc<Histogram>,
}

impl Expiry {
    /// Time until a job expires.
    fn remaining(&self, job: &Job) -> Option<Duration> {
        expires_at(job).map(|at| at.since(self.clock.now()))
    }
}

impl Reconcile for Expiry {
    type Error = kube::Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, kube::Error> {
        let known = self.jobs.store().get(key);
        let Some(remaining) = known.and_then(|job| self.remaining(&job)) else {
            return Ok(Action::AwaitChange);
        };
        if !remaining.is_zero() {
            return Ok(Action::RequeueAfter(remaining));
        }
        // The TTL may have been extended.
        let Some(fresh) = self.objects.get::<Job>(key).await? else { return Ok(Action::AwaitChange) };
        let (expired, now) = (expires_at(&fresh), self.clock.now());
        let Some(expired) = expired.filter(|at| *at <= now) else { return Ok(Action::AwaitChange) };
        tracing::debug!(job = %key, "deleting an expired job");
        let exactly = Preconditions { uid: Some(fresh.metadata.uid().to_owned()), resource_version: None };
        let params = DeleteParams { preconditions: Some(exactly), ..DeleteParams::foreground() };
        match self.objects.delete(key, &params).await {
            Err(error) if api_error::is_conflict(&error) => {}
            Err(error) => return Err(error),
            Ok(()) => self.delay.observe_duration(self.clock.now().since(expired)),
        }
        Ok(Action::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn finished_jobs_expire_after_their_ttl() {
        let at = |ttl: Value, conditions: Value, deletion: Option<&str>| {
            let metadata = json!({"name": "j", "deletionTimestamp": deletion});
            let spec = json!({"ttlSecondsAfterFinished": ttl});
            let job = json!({"metadata": metadata, "spec": spec, "status": {"conditions": conditions}});
            expires_at(&serde_json::from_value(job).unwrap()).map(Timestamp::as_millis)
        };
        let ended = |end: &str| {
            json!([
                {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": "1970-01-01T00:00:01Z"},
                {"type": end, "status": "True", "lastTransitionTime": "1970-01-01T00:00:10Z"},
            ])
        };
        assert_eq!(at(json!(5), ended("Complete"), None), Some(15_000));
        assert_eq!(at(json!(0), ended("Failed"), None), Some(10_000));
        assert_eq!(at(json!(5), ended("Suspended"), None), None);
        assert_eq!(at(Value::Null, ended("Complete"), None), None);
        assert_eq!(at(json!(5), ended("Complete"), Some("1970-01-01T00:00:11Z")), None);
    }
}
