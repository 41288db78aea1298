//! A CronJob that is due each minute: changed, suspended, its jobs deleted; suspended in the end.

use serde_json::{Value, json};

use super::workload::{image_of, write};
use super::{Context, Scenario};
use crate::state::{CRON_JOBS, JOBS, State, has_condition, name};

const NAME: &str = "tick";

/// The default history limit of successful jobs; none fails.
const HISTORY_LIMIT: usize = 3;

#[derive(Default)]
pub(super) struct CronJob {
    is_there: bool,
    is_suspended: bool,
}

impl CronJob {
    async fn write(&mut self, context: &mut Context) {
        let annotations = json!({
            "fake.coracle.dev/exit-code": "0",
            "fake.coracle.dev/finish-after": context.one_of(&["1s", "20s", "100s"]),
        });
        let object = json!({"metadata": {"name": NAME}, "spec": {
            "schedule": "* * * * *",
            "timeZone": context.one_of(&["Etc/UTC", "Europe/Berlin"]),
            "concurrencyPolicy": context.one_of(&["Allow", "Forbid", "Replace"]),
            "jobTemplate": {"spec": {"backoffLimit": 1000, "template": {
                "metadata": {"labels": {"app": NAME}, "annotations": annotations},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": image_of(1)}]},
            }}},
        }});
        write(context, &context.path("batch/v1", CRON_JOBS), &object).await;
        self.is_there = true;
    }

    async fn suspend(&mut self, context: &mut Context, suspend: bool) {
        let path = format!("{}/{NAME}", context.path("batch/v1", CRON_JOBS));
        context.users.patch(&path, &json!({"spec": {"suspend": suspend}})).await;
        self.is_suspended = suspend;
    }
}

impl Scenario for CronJob {
    async fn change(&mut self, context: &mut Context) {
        match context.rng.below(6) {
            0 if self.is_there => context.delete_a_pod().await,
            1 if self.is_there => self.suspend(context, !self.is_suspended).await,
            _ => self.write(context).await,
        }
        // Long enough for some jobs to become due.
        tokio::time::sleep(std::time::Duration::from_secs(context.rng.below(90))).await;
    }

    async fn finish(&mut self, context: &mut Context) {
        self.suspend(context, true).await;
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let jobs: Vec<_> = state.list(JOBS, namespace).collect();
        let running = jobs.iter().filter(|job| !has_condition(job, "Complete"));
        let mut differences: Vec<_> = running.map(|job| format!("{} has not ended", name(job))).collect();
        if jobs.len() > HISTORY_LIMIT {
            differences.push(format!("{} jobs are in the history", jobs.len()));
        }
        let active =
            |cron_job: &&Value| cron_job["status"]["active"].as_array().is_some_and(|jobs| !jobs.is_empty());
        if let Some(cron_job) = state.get(CRON_JOBS, namespace, NAME).filter(active) {
            differences.push(format!("{NAME} has status {}", cron_job["status"]));
        }
        differences
    }
}
