//! View of jobs.

use coracle_base::Timestamp;
use coracle_meta::selector::labels::Selector;
use coracle_runtime::informer::{Metadata, ObjectMetadata, View};
use coracle_runtime::{Informer, Manager, Selection};
use serde::{Deserialize, Serialize};

use super::condition::{Condition, condition};
use super::pod_template::PodTemplate;
use super::replica_set::{ByExpressions, PodSelector};
use super::{ObjectView, optional_time};

/// Defaults of fields that the API server sets.
const ONE: i32 = 1;
const BACKOFF_LIMIT: i32 = 6;

/// Informer of all jobs.
pub(crate) fn jobs(manager: &mut Manager) -> Informer<Job> {
    manager.informer(Selection::of::<k8s_openapi::api::batch::v1::Job>())
}

/// View of a job.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Job {
    pub(crate) metadata: ObjectMetadata,
    pub(crate) spec: JobSpec,
    pub(crate) status: JobStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct JobSpec {
    parallelism: Option<i32>,
    pub(crate) completions: Option<i32>,
    pub(crate) active_deadline_seconds: Option<i64>,
    pub(crate) pod_failure_policy: Option<PodFailurePolicy>,
    pub(crate) success_policy: Option<SuccessPolicy>,
    backoff_limit: Option<i32>,
    pub(crate) backoff_limit_per_index: Option<i32>,
    pub(crate) max_failed_indexes: Option<i32>,
    selector: ByExpressions,
    pub(crate) template: PodTemplate,
    pub(crate) ttl_seconds_after_finished: Option<i32>,
    pub(crate) completion_mode: Box<str>,
    pub(crate) suspend: bool,
    pub(crate) pod_replacement_policy: Box<str>,
    pub(crate) managed_by: Option<Box<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct PodFailurePolicy {
    pub(crate) rules: Box<[PodFailureRule]>,
}

/// A rule of the pod failure policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodFailureRule {
    /// `Ignore`, `Count`, `FailIndex` or `FailJob`.
    pub(crate) action: Box<str>,
    pub(crate) on_exit_codes: Option<ExitCodes>,
    pub(crate) on_pod_conditions: Box<[ConditionPattern]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ExitCodes {
    pub(crate) container_name: Option<Box<str>>,
    /// `In` or `NotIn`.
    pub(crate) operator: Box<str>,
    pub(crate) values: Box<[i32]>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ConditionPattern {
    pub(crate) r#type: Box<str>,
    pub(crate) status: Box<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct SuccessPolicy {
    pub(crate) rules: Box<[SuccessRule]>,
}

/// A rule of the success policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SuccessRule {
    pub(crate) succeeded_indexes: Option<Box<str>>,
    pub(crate) succeeded_count: Option<i32>,
}

/// The whole status of a job, so that it can be written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct JobStatus {
    pub(crate) conditions: Vec<Condition>,
    #[serde(with = "optional_time")]
    pub(crate) start_time: Option<Timestamp>,
    #[serde(with = "optional_time")]
    pub(crate) completion_time: Option<Timestamp>,
    pub(crate) active: i32,
    pub(crate) succeeded: i32,
    pub(crate) failed: i32,
    pub(crate) terminating: Option<i32>,
    pub(crate) ready: Option<i32>,
    pub(crate) completed_indexes: Box<str>,
    pub(crate) failed_indexes: Option<Box<str>>,
    pub(crate) uncounted_terminated_pods: UncountedTerminatedPods,
}

/// Finished pods that are in no count yet, by uid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct UncountedTerminatedPods {
    pub(crate) succeeded: Vec<Box<str>>,
    pub(crate) failed: Vec<Box<str>>,
}

/// How a job finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobEnd {
    Complete,
    Failed,
}

impl JobEnd {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Complete => "Complete",
            Self::Failed => "Failed",
        }
    }
}

impl View for Job {
    fn metadata(&self) -> &Metadata {
        &self.metadata.plain
    }
}

impl ObjectView for Job {
    fn object_metadata(&self) -> &ObjectMetadata {
        &self.metadata
    }
}

impl Job {
    /// Maximum number of running pods.
    pub(crate) fn parallelism(&self) -> i32 {
        self.spec.parallelism.unwrap_or(ONE)
    }

    /// Maximum number of failures.
    pub(crate) fn backoff_limit(&self) -> i32 {
        self.spec.backoff_limit.unwrap_or(BACKOFF_LIMIT)
    }

    /// Selector of its pods; selects nothing if missing.
    pub(crate) fn selector(&self) -> &Selector {
        self.spec.selector.selector()
    }

    /// True if its pods have completion indexes.
    pub(crate) fn is_indexed(&self) -> bool {
        &*self.spec.completion_mode == "Indexed"
    }

    /// How it finished; `None` if it has not.
    pub(crate) fn end(&self) -> Option<JobEnd> {
        self.finish().map(|(end, _)| end)
    }

    /// When it finished; `None` if it has not, or the time is missing.
    pub(crate) fn finished_at(&self) -> Option<Timestamp> {
        self.finish().and_then(|(_, condition)| condition.last_transition_time)
    }

    fn finish(&self) -> Option<(JobEnd, &Condition)> {
        self.status.conditions.iter().filter(|condition| condition.is_true()).find_map(|condition| {
            let end = match &*condition.r#type {
                "Complete" => JobEnd::Complete,
                "Failed" => JobEnd::Failed,
                _ => return None,
            };
            Some((end, condition))
        })
    }

    /// The condition of a type, if it is true.
    pub(crate) fn true_condition(&self, r#type: &str) -> Option<&Condition> {
        condition(&self.status.conditions, r#type).filter(|condition| condition.is_true())
    }
}
