//! A CronJob that is due each minute: changed, suspended, its jobs deleted; suspended in the end.

use serde_json::{Value, json};

use super::workload::{image_of, write};
use super::{Scenario, Stage};
use crate::state::{CRON_JOBS, JOBS, State, has_condition, name};

const NAME: &str = "tick";

/// The default history limit of successful jobs; none fails.
const KEPT: usize = 3;

#[derive(Default)]
pub(super) struct Cron {
    is_there: bool,
    is_suspended: bool,
}

impl Cron {
    async fn write(&mut self, stage: &mut Stage) {
        let annotations = json!({
            "fake.coracle.dev/exit-code": "0",
            "fake.coracle.dev/finish-after": stage.one_of(&["1s", "20s", "100s"]),
        });
        let object = json!({"metadata": {"name": NAME}, "spec": {
            "schedule": "* * * * *",
            "timeZone": stage.one_of(&["Etc/UTC", "Europe/Berlin"]),
            "concurrencyPolicy": stage.one_of(&["Allow", "Forbid", "Replace"]),
            "jobTemplate": {"spec": {"backoffLimit": 1000, "template": {
                "metadata": {"labels": {"app": NAME}, "annotations": annotations},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": image_of(1)}]},
            }}},
        }});
        write(stage, &stage.path("batch/v1", CRON_JOBS), &object).await;
        self.is_there = true;
    }

    async fn suspend(&mut self, stage: &mut Stage, suspend: bool) {
        let path = format!("{}/{NAME}", stage.path("batch/v1", CRON_JOBS));
        stage.users.patch(&path, &json!({"spec": {"suspend": suspend}})).await;
        self.is_suspended = suspend;
    }
}

impl Scenario for Cron {
    async fn change(&mut self, stage: &mut Stage) {
        match stage.rng.below(6) {
            0 if self.is_there => stage.delete_a_pod().await,
            1 if self.is_there => self.suspend(stage, !self.is_suspended).await,
            _ => self.write(stage).await,
        }
        // Long enough for some jobs to become due.
        tokio::time::sleep(std::time::Duration::from_secs(stage.rng.below(90))).await;
    }

    async fn finish(&mut self, stage: &mut Stage) {
        self.suspend(stage, true).await;
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let jobs: Vec<_> = state.list(JOBS, namespace).collect();
        let running = jobs.iter().filter(|job| !has_condition(job, "Complete"));
        let mut differences: Vec<_> = running.map(|job| format!("{} has not ended", name(job))).collect();
        if jobs.len() > KEPT {
            differences.push(format!("{} jobs are kept", jobs.len()));
        }
        let active = |cron: &&Value| cron["status"]["active"].as_array().is_some_and(|jobs| !jobs.is_empty());
        if let Some(cron) = state.get(CRON_JOBS, namespace, NAME).filter(active) {
            differences.push(format!("{NAME} says {}", cron["status"]));
        }
        differences
    }
}
