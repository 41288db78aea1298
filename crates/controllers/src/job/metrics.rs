//! What is counted of jobs, under upstream's names (`pkg/controller/job/metrics`).

use std::time::Duration;

use coracle_base::Metrics;
use coracle_base::metrics::{Buckets, Counters, Histograms};
use coracle_runtime::Change;

use super::FINALIZER;
use super::facts::Facts;
use super::indexes::Indexes;
use super::plan::PodChange;
use crate::view::{Job, JobEnd, JobStatus, Pod, condition};

/// What a look at a job did, as a label says it, if nothing is decided about its pods.
pub(super) const RECONCILING: &str = "reconciling";

#[derive(Debug)]
pub(super) struct JobMetrics {
    sync_duration: Histograms<3>,
    syncs: Counters<3>,
    finished: Counters<3>,
    managed_elsewhere: Counters<1>,
    pods_finished: Counters<2>,
    failures_handled: Counters<1>,
    held_at_end: Counters<1>,
    finished_indexes: Counters<2>,
    pods_created: Counters<2>,
}

impl JobMetrics {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let sync = ["completion_mode", "result", "action"];
        Self {
            sync_duration: metrics.histograms(
                "job_controller_job_sync_duration_seconds",
                "How long looks at jobs took.",
                Buckets::exponential(0.004, 2.0, 15),
                sync,
            ),
            syncs: metrics.counters("job_controller_job_syncs_total", "Looks at jobs.", sync),
            finished: metrics.counters(
                "job_controller_jobs_finished_total",
                "Jobs that came to their end.",
                ["completion_mode", "result", "reason"],
            ),
            managed_elsewhere: metrics.counters(
                "job_controller_jobs_by_external_controller_total",
                "Jobs that somebody else runs.",
                ["controller_name"],
            ),
            pods_finished: metrics.counters(
                "job_controller_job_pods_finished_total",
                "Pods at their end that are counted.",
                ["completion_mode", "result"],
            ),
            failures_handled: metrics.counters(
                "job_controller_pod_failures_handled_by_failure_policy_total",
                "Failed pods that a rule was about, by what it says.",
                ["action"],
            ),
            held_at_end: metrics.counters(
                "job_controller_terminated_pods_tracking_finalizer_total",
                "Pods at their end that a finalizer holds, as they come (add) and go (delete).",
                ["event"],
            ),
            finished_indexes: metrics.counters(
                "job_controller_job_finished_indexes_total",
                "Indexes that came to their end.",
                ["status", "backoffLimit"],
            ),
            pods_created: metrics.counters(
                "job_controller_job_pods_creation_total",
                "Pods that were made, by why.",
                ["reason", "status"],
            ),
        }
    }

    /// A look at a job is over.
    pub(super) fn synced(&self, job: &Job, is_success: bool, action: &str, took: Duration) {
        let result = if is_success { "success" } else { "error" };
        let labels = [completion_mode(job), result, action];
        self.sync_duration.with(labels).observe_duration(took);
        self.syncs.with(labels).inc();
    }

    /// A job is seen for the first time.
    pub(super) fn saw_job(&self, change: &Change<Job>) {
        let new = change.new.as_ref().filter(|_| change.old.is_none());
        if let Some(manager) = new.and_then(|job| super::managed_elsewhere(job)) {
            self.managed_elsewhere.with([manager]).inc();
        }
    }

    /// A pod has changed.
    pub(super) fn saw_pod(&self, change: &Change<Pod>) {
        let is_held_at_end = |pod: &Pod| pod.is_finished() && pod.metadata.has_finalizer(FINALIZER);
        let was = change.old.as_deref().is_some_and(is_held_at_end);
        let is = change.new.as_deref().is_some_and(is_held_at_end);
        if was != is {
            self.held_at_end.with([if is { "add" } else { "delete" }]).inc();
        }
    }

    /// The status of a job was written.
    pub(super) fn wrote(&self, job: &Job, old: &JobStatus, new: &JobStatus) {
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

    /// Rules were about the failures of pods that are counted now.
    pub(super) fn handled(&self, actions: &[&'static str]) {
        for action in actions {
            self.failures_handled.with([action]).inc();
        }
    }

    /// Pods were made, or could not be.
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

/// What is done about the pods of a job, as a label says it.
pub(super) fn action(job: &Job, change: &PodChange) -> &'static str {
    match change {
        PodChange::End(_) => RECONCILING,
        PodChange::Nothing if job.metadata.is_terminating() => RECONCILING,
        PodChange::Nothing => "tracking",
        PodChange::Remove(_) => "pods_deleted",
        PodChange::Create(_) => "pods_created",
    }
}

fn completion_mode(job: &Job) -> &'static str {
    if job.is_indexed() { "Indexed" } else { "NonIndexed" }
}

/// How many indexes the text names that the job has.
fn count(job: &Job, indexes: Option<&str>) -> i32 {
    let completions = job.spec.completions.unwrap_or_default();
    indexes.map_or(0, |indexes| Indexes::parse(indexes, completions).len())
}

/// Fewer than before are none: a job that was made smaller takes nothing back.
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
    fn pods_and_indexes_are_counted_as_the_status_grows() {
        let metrics = Metrics::default();
        let counted = JobMetrics::new(&metrics);
        let spec = json!({"completionMode": "Indexed", "completions": 4, "backoffLimitPerIndex": 1});
        let old = job(&spec, &json!({"completedIndexes": "0", "succeeded": 1, "failed": 1}));
        let conditions = json!([{"type": "Failed", "status": "True", "reason": "FailedIndexes"}]);
        let status = json!({
            "completedIndexes": "0-2", "failedIndexes": "3", "succeeded": 3, "failed": 3, "conditions": conditions,
        });
        let new = job(&spec, &status);
        counted.wrote(&old, &old.status, &new.status);
        counted.wrote(&new, &new.status, &new.status);
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
    fn a_look_is_told_by_what_it_did() {
        let ours = job(&json!({}), &json!({}));
        assert_eq!(action(&ours, &PodChange::Nothing), "tracking");
        assert_eq!(action(&ours, &PodChange::Remove(Vec::new())), "pods_deleted");
        assert_eq!(action(&ours, &PodChange::Create(Vec::new())), "pods_created");
        assert_eq!(action(&ours, &PodChange::End(Vec::new())), RECONCILING);
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
            assert!(text.lines().any(|told| told == line), "{line} in {text}");
        }
    }
}
