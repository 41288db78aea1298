//! View of a CronJob.

use coracle_base::Timestamp;
use coracle_runtime::informer::{Metadata, ObjectMetadata, View};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::view::{Job, optional_time};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CronJob {
    pub(super) metadata: ObjectMetadata,
    pub(super) spec: CronJobSpec,
    pub(super) status: CronJobStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CronJobSpec {
    pub(super) schedule: Box<str>,
    pub(super) time_zone: Option<Box<str>>,
    pub(super) starting_deadline_seconds: Option<i64>,
    pub(super) concurrency_policy: ConcurrencyPolicy,
    pub(super) suspend: bool,
    pub(super) job_template: Value,
    pub(super) successful_jobs_history_limit: Option<i32>,
    pub(super) failed_jobs_history_limit: Option<i32>,
}

/// How to handle a due job while another is still running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) enum ConcurrencyPolicy {
    #[default]
    Allow,
    Forbid,
    Replace,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CronJobStatus {
    pub(super) active: Vec<JobReference>,
    #[serde(with = "optional_time")]
    pub(super) last_schedule_time: Option<Timestamp>,
    #[serde(with = "optional_time")]
    pub(super) last_successful_time: Option<Timestamp>,
}

/// Reference to an active job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct JobReference {
    pub(super) kind: Box<str>,
    pub(super) namespace: Box<str>,
    pub(super) name: Box<str>,
    pub(super) uid: Box<str>,
    pub(super) api_version: Box<str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) resource_version: Box<str>,
}

impl JobReference {
    pub(super) fn to(namespace: &str, name: &str, uid: &str, resource_version: &str) -> Self {
        Self {
            kind: "Job".into(),
            namespace: namespace.into(),
            name: name.into(),
            uid: uid.into(),
            api_version: "batch/v1".into(),
            resource_version: resource_version.into(),
        }
    }

    pub(super) fn is_to(&self, job: &Job) -> bool {
        *self.uid == *job.metadata.uid()
    }
}

impl View for CronJob {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}
