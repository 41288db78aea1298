//! Metrics of jobs, under Kubernetes' names (`pkg/controller/job/metrics`).

use std::time::Duration;

use coracle_base::Metrics;
use coracle_base::metrics::{Buckets, Counters, Histograms};
use coracle_runtime::Change;

use super::FINALIZER;
use super::facts::Facts;
use super::indexes::Indexes;
use super::plan::PodChange;
use crate::view::{Job, JobEnd, JobStatus, Pod, condition};

/// Value of the `action` label if no pods are changed.
pub(super) const ACTION_RECONCILING: &str = "reconciling";

#[derive(Debug)]
pub(super) struct JobMetrics {
    sync_duration: Histograms<3>,
    syncs: Counters<3>,
    finished: Counters<3>,
    managed_elsewhere: Counters<1>,
    pods_finished: Counters<2>,
    failures_handled: Counters<1>,
    terminated_with_finalizer: Counters<1>,
    finished_indexes: Counters<2>,
    pods_created: Counters<2>,
}

impl JobMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let sync = ["completion_mode", "result", "action"];
        Self {
            sync_duration: metrics.histograms(
                "job_controller_job_sync_duration_seconds",
                "Duration of job syncs.",
                Buckets::exponential(0.004, 2.0, 15),
                sync,
            ),
            syncs: metrics.counters("job_controller_job_syncs_total", "Job syncs.", sync),
            finished: metrics.counters(
                "job_controller_jobs_finished_total",
                "Finished jobs.",
                ["completion_mode", "result", "reason"],
            ),
            managed_elsewhere: metrics.counters(
                "job_controller_jobs_by_external_controller_total",
                "Jobs managed by another controller.",
                ["controller_name"],
            ),
            pods_finished: metrics.counters(
                "job_controller_job_pods_finished_total",
                "Finished pods that are counted.",
                ["completion_mode", "result"],
            ),
            failures_handled: metrics.counters(
                "job_controller_pod_failures_handled_by_failure_policy_total",
                "Failed pods that matched a rule, by action.",
                ["action"],
            ),
            terminated_with_finalizer: metrics.counters(
                "job_controller_terminated_pods_tracking_finalizer_total",
                "Finished pods with the tracking finalizer, as they gain (add) and lose (delete) it.",
                ["event"],
            ),
            finished_indexes: metrics.counters(
                "job_controller_job_finished_indexes_total",
                "Finished indexes.",
                ["status", "backoffLimit"],
            ),
            pods_created: metrics.counters(
                "job_controller_job_pods_creation_total",
                "Created pods, by reason.",
                ["reason", "status"],
            ),
        }
    }

    /// Records a sync.
    pub(super) fn synced(&self, job: &Job, is_success: bool, action: &str, took: Duration) {
        let result = if is_success { "success" } else { "error" };
        let labels = [completion_mode(job), result, action];
        self.sync_duration.with(labels).observe_duration(took);
        self.syncs.with(labels).inc();
    }

    /// Records a new job.
    pub(super) fn saw_job(&self, change: &Change<Job>) {
        let new = change.new.as_ref().filter(|_| change.old.is_none());
        if let Some(manager) = new.and_then(|job| super::managed_elsewhere(job)) {
            self.managed_elsewhere.with([manager]).inc();
        }
    }

    /// Records a change of a pod.
    pub(super) fn saw_pod(&self, change: &Change<Pod>) {
        let is_terminated_with_finalizer =
            |pod: &Pod| pod.is_finished() && pod.metadata.has_finalizer(FINALIZER);
        let was = change.old.as_deref().is_some_and(is_terminated_with_finalizer);
        let is = change.new.as_deref().is_some_and(is_terminated_with_finalizer);
        if was != is {
            self.terminated_with_finalizer.with([if is { "add" } else { "delete" }]).inc();
        }
    }

    /// Records a written status.
    pub(super) fn status_written(&self, job: &Job, old: &JobStatus, new: &JobStatus) {
        let mode = completion_mode(job);
        let mut succeeded = new.succeeded.saturating_sub(old.succeeded);
        if job.is_indexed() {
            let of = |status: &JobStatus| count(job, Some(&status.completed_indexes));
            succeeded = of(new) - of(old);
            let failed =
                count(job, new.failed_indexes.as_deref()) - count(job, old.failed_indexes.as_deref());
            let limit = if job.spec.backoff_limit_per_index.is_some() { "perIndex" } else { "global" };
            add(&self.finished_indexes, ["succeeded", limit], succeeded);
            add(&self.finished_indexes, ["failed", limit], failed);
        }
        add(&self.pods_finished, [mode, "succeeded"], succeeded);
        add(&self.pods_finished, [mode, "failed"], new.failed.saturating_sub(old.failed));
        for (end, result) in [(JobEnd::Complete, "succeeded"), (JobEnd::Failed, "failed")] {
            let ended = |status: &JobStatus| {
                condition(&status.conditions, end.as_str()).filter(|known| known.is_true()).cloned()
            };
            if let Some(ended) = ended(new).filter(|_| ended(old).is_none()) {
                self.finished.with([mode, result, &ended.reason]).inc();
            }
        }
    }

    /// Records matched pod failure rules.
    pub(super) fn handled(&self, actions: &[&'static str]) {
        for action in actions {
            self.failures_handled.with([action]).inc();
        }
    }

    /// Records created pods, and failures to create them.
    pub(super) fn created(&self, facts: &Facts<'_>, created: usize, failed: usize) {
        let reason = if facts.failed > 0 && &*facts.job.spec.pod_replacement_policy == "Failed" {
            "recreate_failed"
        } else if facts.failed > 0 || facts.terminating > 0 {
            "recreate_terminating_or_failed"
        } else {
            "new"
        };
        for (status, count) in [("succeeded", created), ("failed", failed)] {
            if count > 0 {
                self.pods_created.with([reason, status]).add(count as u64);
            }
        }
    }
}

/// Value of the `action` label.
pub(super) fn action(job: &Job, change: &PodChange) -> &'static str {
    match change {
        PodChange::End(_) => ACTION_RECONCILING,
        PodChange::Nothing if job.metadata.is_terminating() => ACTION_RECONCILING,
        PodChange::Nothing => "tracking",
        PodChange::Remove(_) => "pods_deleted",
        PodChange::Create(_) => "pods_created",
    }
}

fn completion_mode(job: &Job) -> &'static str {
    if job.is_indexed() { "Indexed" } else { "NonIndexed" }
}

/// Number of valid indexes in the text.
fn count(job: &Job, indexes: Option<&str>) -> i32 {
    let completions = job.spec.completions.unwrap_or_default();
    indexes.map_or(0, |indexes| Indexes::parse(indexes, completions).len())
}

/// Decreases are ignored: a job that was scaled down does not reset the counter.
fn add<const N: usize>(counters: &Counters<N>, labels: [&str; N], more: i32) {
    if let Ok(more @ 1..) = u64::try_from(more) {
        counters.with(labels).add(more);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(spec: &Value, status: &Value) -> Job {
        serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": spec, "status": status})).unwrap()
    }

    fn samples(metrics: &Metrics) -> Vec<String> {
        metrics.text().lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
    }

    #[test]
    fn status_changes_increment_pod_and_index_counters() {
        let metrics = Metrics::default();
        let counted = JobMetrics::new(&metrics);
        let spec = json!({"completionMode": "Indexed", "completions": 4, "backoffLimitPerIndex": 1});
        let old = job(&spec, &json!({"completedIndexes": "0", "succeeded": 1, "failed": 1}));
        let conditions = json!([{"type": "Failed", "status": "True", "reason": "FailedIndexes"}]);
        let status = json!({
            "completedIndexes": "0-2", "failedIndexes": "3", "succeeded": 3, "failed": 3, "conditions": conditions,
        });
        let new = job(&spec, &status);
        counted.status_written(&old, &old.status, &new.status);
        counted.status_written(&new, &new.status, &new.status);
        let expected = [
            r#"job_controller_job_finished_indexes_total{status="failed",backoffLimit="perIndex"} 1"#,
            r#"job_controller_job_finished_indexes_total{status="succeeded",backoffLimit="perIndex"} 2"#,
            r#"job_controller_job_pods_finished_total{completion_mode="Indexed",result="failed"} 2"#,
            r#"job_controller_job_pods_finished_total{completion_mode="Indexed",result="succeeded"} 2"#,
            r#"job_controller_jobs_finished_total{completion_mode="Indexed",result="failed",reason="FailedIndexes"} 1"#,
        ];
        assert_eq!(samples(&metrics), expected);
    }

    #[test]
    fn sync_is_labelled_by_action() {
        let ours = job(&json!({}), &json!({}));
        assert_eq!(action(&ours, &PodChange::Nothing), "tracking");
        assert_eq!(action(&ours, &PodChange::Remove(Vec::new())), "pods_deleted");
        assert_eq!(action(&ours, &PodChange::Create(Vec::new())), "pods_created");
        assert_eq!(action(&ours, &PodChange::End(Vec::new())), ACTION_RECONCILING);
        let metrics = Metrics::default();
        JobMetrics::new(&metrics).synced(&ours, true, "tracking", Duration::from_millis(5));
        let text = metrics.text();
        let labels = r#"completion_mode="NonIndexed",result="success",action="tracking""#;
        for line in [
            format!("job_controller_job_syncs_total{{{labels}}} 1"),
            format!("job_controller_job_sync_duration_seconds_bucket{{{labels},le=\"0.004\"}} 0"),
            format!("job_controller_job_sync_duration_seconds_bucket{{{labels},le=\"0.008\"}} 1"),
            format!("job_controller_job_sync_duration_seconds_bucket{{{labels},le=\"65.536\"}} 1"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
