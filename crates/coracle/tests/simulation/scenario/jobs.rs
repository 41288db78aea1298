//! Jobs of all sorts: indexed, failing, initially suspended, deleted.

use serde_json::{Value, json};

use super::workload::{self, image_of};
use super::{Context, Scenario};
use crate::state::{JOBS, PODS, State, app, format_pods, has_condition, name, number};

/// The backoff limit of jobs that are to succeed in the end.
const HIGH_BACKOFF_LIMIT: u64 = 1000;

#[derive(Default)]
pub(super) struct Jobs {
    desired: Vec<Job>,
}

struct Job {
    name: String,
    completions: u64,
    end: End,
    is_suspended: bool,
}

/// The desired end of a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    /// All of its pods fail, up to the backoff limit.
    Failed,
    Deleted,
}

impl Jobs {
    async fn add(&mut self, context: &mut Context) {
        let end = if context.rng.one_in(5) { End::Failed } else { End::Complete };
        let job = Job {
            name: format!("job-{}", self.desired.len()),
            completions: 1 + context.rng.below(4),
            end,
            is_suspended: context.rng.one_in(4),
        };
        // A container that is restarted by its node succeeds the second time.
        let (restart, code, limit) = match (end, context.rng.below(3)) {
            (End::Failed, _) => ("Never", "1", context.rng.below(3)),
            (_, 0) => ("OnFailure", "1,0", HIGH_BACKOFF_LIMIT),
            _ => ("Never", "0", HIGH_BACKOFF_LIMIT),
        };
        let annotations = json!({
            "fake.coracle.dev/exit-code": code,
            "fake.coracle.dev/finish-after": context.one_of(&["0s", "1s", "5s", "20s"]),
        });
        let object = json!({"metadata": {"name": job.name}, "spec": {
            "completions": job.completions,
            "parallelism": 1 + context.rng.below(3),
            "completionMode": context.one_of(&["Indexed", "NonIndexed"]),
            "backoffLimit": limit,
            "suspend": job.is_suspended,
            "template": {
                "metadata": {"labels": {"app": job.name}, "annotations": annotations},
                "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": image_of(1)}]},
            },
        }});
        context.users.create(&context.path("batch/v1", JOBS), &object).await;
        self.desired.push(job);
    }

    /// Resumes a suspended job.
    async fn resume(&mut self, context: &mut Context) {
        let Some(job) = self.desired.iter_mut().find(|job| job.is_suspended) else { return };
        job.is_suspended = false;
        let path = format!("{}/{}", context.path("batch/v1", JOBS), job.name);
        context.users.patch(&path, &json!({"spec": {"suspend": false}})).await;
    }

    async fn delete(&mut self, context: &mut Context) {
        let Some(job) = self.desired.iter_mut().find(|job| job.end != End::Deleted) else { return };
        job.end = End::Deleted;
        let path = format!("{}/{}", context.path("batch/v1", JOBS), job.name);
        workload::delete(context, &path).await;
    }
}

impl Scenario for Jobs {
    async fn change(&mut self, context: &mut Context) {
        match context.rng.below(6) {
            _ if self.desired.is_empty() => self.add(context).await,
            0 => context.delete_a_pod().await,
            1 => self.resume(context).await,
            2 => self.delete(context).await,
            _ => self.add(context).await,
        }
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        self.desired.iter().filter_map(|job| job.differences(namespace, state)).collect()
    }
}

impl Job {
    fn differences(&self, namespace: &str, state: &State) -> Option<String> {
        let Self { name: job_name, completions, end, is_suspended } = self;
        let object = state.get(JOBS, namespace, job_name);
        let pods: Vec<_> = state.list(PODS, namespace).filter(|pod| app(pod) == job_name).collect();
        let is_held = |pod: &&&Value| pod["metadata"]["finalizers"].is_array();
        let held: Vec<_> = pods.iter().filter(is_held).copied().collect();
        let is_right = match (end, object) {
            (End::Deleted, object) => object.is_none() && pods.is_empty(),
            (_, None) => false,
            (_, Some(job)) if *is_suspended => has_condition(job, "Suspended") && pods.is_empty(),
            (End::Complete, Some(job)) => {
                has_condition(job, "Complete") && number(job, "/status/succeeded") == *completions
            }
            (End::Failed, Some(job)) => has_condition(job, "Failed"),
        };
        if is_right && held.is_empty() {
            return None;
        }
        let status = object.map_or(&Value::Null, |job| &job["status"]);
        let actual = format_pods(pods.iter().copied());
        let held: Vec<_> = held.into_iter().map(name).collect();
        Some(format!("{job_name} is {status} with {actual}, of which {held:?} have a finalizer"))
    }
}
