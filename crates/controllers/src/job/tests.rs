//! Decisions of the job controller, case by case.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;
use serde_json::{Value, json};

use super::backoff::Backoff;
use super::facts::{Observed, number};
use super::plan::{NewPod, Plan, PodChange, plan};
use super::track::{Outcome, Tracking, track};
use super::{FAILURE_COUNT, FINALIZER, INDEX};
use crate::view::{Job, Pod, rfc3339};

pub(super) const NOW: Timestamp = Timestamp::from_millis(1_000_000);

/// The time this many seconds before now, as text.
fn ago(seconds: u64) -> String {
    rfc3339(NOW - Duration::from_secs(seconds))
}

fn job(spec: Value, status: Value) -> Job {
    let metadata = json!({"name": "j", "namespace": "n", "uid": "job"});
    let mut job =
        json!({"metadata": metadata, "spec": {"backoffLimit": 6, "parallelism": 2, "completions": 4}});
    for (field, value) in spec.as_object().unwrap() {
        job["spec"][field] = value.clone();
    }
    job["status"] = status;
    serde_json::from_value(job).unwrap()
}

fn indexed(spec: Value, status: Value) -> Job {
    let mut whole = json!({"completionMode": "Indexed"});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    job(whole, status)
}

/// A pod in a phase, with the tracking finalizer; `more` is merged into it.
fn pod(name: &str, phase: &str, more: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "finalizers": [FINALIZER],
            "creationTimestamp": ago(1000), "annotations": {}},
        "spec": {"nodeName": "node"},
        "status": {"phase": phase},
    });
    for (path, value) in more.as_object().unwrap() {
        match path.as_str() {
            "index" => pod["metadata"]["annotations"][INDEX] = value.to_string().into(),
            "failures" => pod["metadata"]["annotations"][FAILURE_COUNT] = value.to_string().into(),
            "deleted" => pod["metadata"]["deletionTimestamp"] = ago(100).into(),
            "free" => pod["metadata"]["finalizers"] = json!([]),
            "ready" => pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]),
            "ended" => {
                let ended = json!({"exitCode": 1, "finishedAt": ago(value.as_u64().unwrap())});
                pod["status"]["containerStatuses"] = json!([{"name": "c", "state": {"terminated": ended}}]);
            }
            "code" => {
                let ended = json!({"exitCode": value});
                pod["status"]["containerStatuses"] = json!([{"name": "c", "state": {"terminated": ended}}]);
            }
            "restarts" => pod["status"]["containerStatuses"] = json!([{"name": "c", "restartCount": value}]),
            other => panic!("{other}"),
        }
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

/// Pods `p0`, `p1` and so on with these indexes.
fn with_indexes(phase: &str, indexes: &[i32]) -> Vec<Arc<Pod>> {
    let pods = indexes.iter().enumerate();
    pods.map(|(number, index)| pod(&format!("{phase}{number}"), phase, json!({"index": index}))).collect()
}

fn decide<'a>(job: &'a Job, pods: &'a [Arc<Pod>]) -> Plan<'a> {
    plan(Observed { job, pods, backoff: Backoff::default(), now: NOW })
}

/// The outcome if all planned changes of pods succeed.
pub(super) fn all_succeed(plan: &Plan<'_>) -> Outcome {
    match &plan.change {
        PodChange::Nothing => Outcome::default(),
        PodChange::End(pods) | PodChange::Remove(pods) => Outcome {
            deleted: number(pods.len()),
            deleted_ready: number(pods.iter().filter(|pod| pod.is_ready()).count()),
            ..Outcome::default()
        },
        PodChange::Create(pods) => Outcome { created: number(pods.len()), ..Outcome::default() },
    }
}

fn tracked(job: &Job, pods: &[Arc<Pod>]) -> Tracking {
    let plan = decide(job, pods);
    let outcome = all_succeed(&plan);
    track(&plan, outcome)
}

fn created(plan: &Plan<'_>) -> Vec<Option<i32>> {
    let PodChange::Create(new) = &plan.change else { panic!("{:?}", plan.change) };
    new.iter().map(|new| new.index).collect()
}

fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
    let mut names: Vec<_> = pods.iter().map(|pod| pod.metadata.name()).collect();
    names.sort_unstable();
    names
}

fn reason(plan: &Plan<'_>) -> Option<(String, String)> {
    plan.finished.as_ref().map(|finished| (finished.r#type.to_string(), finished.reason.to_string()))
}

fn failing(reason: &str) -> Option<(String, String)> {
    Some(("FailureTarget".to_owned(), reason.to_owned()))
}

#[test]
fn parallelism_limits_the_pods() {
    let running = |count: usize| -> Vec<_> {
        (0..count).map(|number| pod(&format!("p{number}"), "Running", json!({}))).collect()
    };
    let plain = job(json!({}), json!({}));
    assert_eq!(created(&decide(&plain, &[])), [None, None]);
    assert_eq!(created(&decide(&plain, &running(1))), [None]);
    assert!(matches!(decide(&plain, &running(2)).change, PodChange::Nothing));
    let nearly = job(json!({}), json!({"succeeded": 3}));
    assert_eq!(created(&decide(&nearly, &[])), [None]);
    let last = [pod("p", "Succeeded", json!({})), running(1)[0].clone()];
    let PodChange::Remove(removed) = decide(&nearly, &last).change else { panic!() };
    assert_eq!(names(&removed), ["p0"]);
    let queue = job(json!({"completions": null, "parallelism": 3}), json!({}));
    assert_eq!(created(&decide(&queue, &running(1))), [None, None]);
    let done = [pod("s", "Succeeded", json!({})), running(1)[0].clone()];
    assert!(matches!(decide(&queue, &done).change, PodChange::Nothing), "no more after one has succeeded");
    let huge = job(json!({"parallelism": 2000, "completions": 2000}), json!({}));
    assert_eq!(created(&decide(&huge, &[])).len(), 500);
}

#[test]
fn each_index_gets_one_pod() {
    let job = indexed(
        json!({"completions": 5, "parallelism": 3}),
        json!({"completedIndexes": "0", "succeeded": 1}),
    );
    assert_eq!(created(&decide(&job, &with_indexes("Running", &[2]))), [Some(1), Some(3)]);
    let mut pods = with_indexes("Running", &[2, 2, 7]);
    pods.push(pod("none", "Running", json!({})));
    let PodChange::Remove(removed) = decide(&job, &pods).change else { panic!() };
    assert_eq!(removed.len(), 3);
    assert!(names(&removed).contains(&"none") && names(&removed).contains(&"Running2"));
    let succeeded = with_indexes("Succeeded", &[1, 1, 9]);
    let plan = decide(&job, &succeeded);
    assert_eq!((plan.facts.succeeded, created(&plan)), (2, vec![Some(2), Some(3), Some(4)]));
}

#[test]
fn terminating_pods_are_replaced_by_policy() {
    let going =
        [pod("g", "Running", json!({"deleted": true, "index": 0})), pod("r", "Running", json!({"index": 1}))];
    let at_once = indexed(json!({}), json!({}));
    assert_eq!(created(&decide(&at_once, &going)), [Some(0)]);
    for wait in [json!({"podReplacementPolicy": "Failed"}), json!({"podFailurePolicy": {"rules": []}})] {
        let job = indexed(wait, json!({}));
        let plan = decide(&job, &going);
        assert!(matches!(plan.change, PodChange::Nothing));
        assert_eq!((plan.facts.failed, plan.facts.terminating), (0, 1));
        let gone = [pod("g", "Failed", json!({"deleted": true, "index": 0, "ended": 100})), going[1].clone()];
        assert_eq!(created(&decide(&job, &gone)), [Some(0)]);
    }
}

#[test]
fn failures_delay_new_pods() {
    let plain = job(json!({}), json!({}));
    let failed = [pod("f", "Failed", json!({"ended": 4})), pod("r", "Running", json!({}))];
    let plan = decide(&plain, &failed);
    assert!(matches!(plan.change, PodChange::Nothing));
    assert_eq!(plan.after, Some(Duration::from_secs(6)));
    let earlier = [pod("f", "Failed", json!({"ended": 11})), pod("r", "Running", json!({}))];
    assert_eq!(created(&decide(&plain, &earlier)), [None]);
}

#[test]
fn job_fails_for_the_first_matching_reason() {
    let failed = |count: usize| -> Vec<_> {
        (0..count).map(|number| pod(&format!("f{number}"), "Failed", json!({"ended": 100}))).collect()
    };
    let limit = |limit: i32| job(json!({"backoffLimit": limit}), json!({"failed": 1}));
    assert_eq!(reason(&decide(&limit(3), &failed(2))), None);
    assert_eq!(reason(&decide(&limit(2), &failed(2))), failing("BackoffLimitExceeded"));
    let restarts = |limit: i32, restarts: i32| {
        let template = json!({"spec": {"restartPolicy": "OnFailure"}});
        let job = job(json!({"backoffLimit": limit, "template": template}), json!({}));
        reason(&decide(&job, &[pod("r", "Running", json!({"restarts": restarts}))]))
    };
    assert_eq!([restarts(0, 0), restarts(2, 1)], [None, None]);
    assert_eq!(
        [restarts(0, 1), restarts(2, 2)],
        [failing("BackoffLimitExceeded"), failing("BackoffLimitExceeded")]
    );
    let deadline = |seconds: i64, suspend: bool| {
        job(json!({"activeDeadlineSeconds": seconds, "suspend": suspend}), json!({"startTime": ago(60)}))
    };
    let (late, early, suspended) = (deadline(60, false), deadline(61, false), deadline(10, true));
    assert_eq!(reason(&decide(&late, &[])), failing("DeadlineExceeded"));
    assert_eq!(decide(&early, &[]).after, Some(Duration::from_secs(1)));
    assert_eq!((reason(&decide(&suspended, &[])), decide(&suspended, &[]).after), (None, None));
    let rules = json!([{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]);
    let policy = job(json!({"podFailurePolicy": {"rules": rules}, "backoffLimit": 0}), json!({}));
    let pods = [pod("p", "Failed", json!({"code": 42}))];
    let plan = decide(&policy, &pods);
    assert_eq!(reason(&plan), failing("PodFailurePolicy"));
    let message = "Container c for pod n/p failed with exit code 42 matching FailJob rule at index 0";
    assert_eq!(&*plan.finished.as_ref().unwrap().message, message);
}

#[test]
fn backoff_limit_per_index_fails_single_indexes() {
    let spec =
        json!({"backoffLimitPerIndex": 1, "backoffLimit": i32::MAX, "completions": 3, "parallelism": 3});
    let job = indexed(spec.clone(), json!({}));
    let first = pod("f", "Failed", json!({"index": 0, "failures": 0, "ended": 4}));
    let pods =
        [first.clone(), pod("r1", "Running", json!({"index": 1})), pod("r2", "Running", json!({"index": 2}))];
    let plan = decide(&job, &pods);
    assert!(matches!(plan.change, PodChange::Nothing));
    assert_eq!(plan.after, Some(Duration::from_secs(6)));
    let tracking = track(&plan, Outcome::default());
    assert!(tracking.remove_finalizer.is_empty(), "it holds the failure count of its index");
    assert_eq!(tracking.status.failed_indexes.as_deref(), Some(""));

    let earlier = pod("f", "Failed", json!({"index": 0, "failures": 0, "ended": 40}));
    let pods = [earlier, pods[1].clone(), pods[2].clone()];
    let PodChange::Create(new) = decide(&job, &pods).change else { panic!() };
    assert_eq!(new, [NewPod { index: Some(0), failures: Some((1, 0)) }]);

    let last = pod("l", "Failed", json!({"index": 0, "failures": 1, "ended": 4}));
    let pods = [last, pods[1].clone(), pods[2].clone()];
    let tracking = tracked(&job, &pods);
    assert_eq!(tracking.status.failed_indexes.as_deref(), Some("0"));
    assert_eq!(names(&tracking.remove_finalizer), ["l"]);

    let over = indexed(spec.clone(), json!({"failedIndexes": "0", "completedIndexes": "1,2"}));
    assert_eq!(reason(&decide(&over, &[])), failing("FailedIndexes"));
    let mut few = spec;
    few["maxFailedIndexes"] = 0.into();
    let job = indexed(few, json!({"failedIndexes": "0"}));
    assert_eq!(reason(&decide(&job, &pods)), failing("MaxFailedIndexesExceeded"));
}

#[test]
fn success_policy_completes_the_job() {
    let policy = json!({"rules": [{"succeededIndexes": "1"}]});
    let job = indexed(json!({"successPolicy": policy}), json!({}));
    let pods =
        [pod("s", "Succeeded", json!({"index": 1})), pod("r", "Running", json!({"index": 0, "ready": true}))];
    let plan = decide(&job, &pods);
    assert_eq!(reason(&plan), Some(("SuccessCriteriaMet".into(), "SuccessPolicy".into())));
    let PodChange::End(ended) = &plan.change else { panic!() };
    assert_eq!(names(ended), ["r"]);
    let mut tracking = track(&plan, all_succeed(&plan));
    assert!(tracking.status.uncounted_terminated_pods.failed.is_empty(), "it did not fail");
    let status = tracking.status.clone();
    assert_eq!((status.active, status.ready, status.terminating), (0, Some(0), Some(1)));
    assert_eq!(&*status.conditions[0].r#type, "SuccessCriteriaMet");
    assert!(tracking.finish(&job).is_empty(), "a pod is still terminating");
}

#[test]
fn pod_is_listed_by_uid_before_its_finalizer_is_removed() {
    let job = job(json!({}), json!({"succeeded": 1, "failed": 1}));
    let pods = [
        pod("s", "Succeeded", json!({})),
        pod("f", "Failed", json!({"ended": 100})),
        pod("d", "Running", json!({"deleted": true})),
        pod("r", "Running", json!({})),
        pod("old", "Succeeded", json!({"free": true})),
    ];
    let mut tracking = tracked(&job, &pods);
    let uncounted = &tracking.status.uncounted_terminated_pods;
    assert_eq!(
        (uncounted.succeeded.clone(), uncounted.failed.clone()),
        (vec!["s".into()], vec!["f".into(), "d".into()])
    );
    assert_eq!((tracking.status.succeeded, tracking.status.failed), (1, 1));
    assert_eq!(names(&tracking.remove_finalizer), ["d", "f", "s"]);
    tracking.released(["s", "f"]);
    assert_eq!((tracking.status.succeeded, tracking.status.failed), (2, 2));
    assert_eq!(tracking.status.uncounted_terminated_pods.failed, ["d".into()]);
}

#[test]
fn pods_released_before_a_crash_are_counted_after_it() {
    let uncounted = json!({"succeeded": ["gone", "s"], "failed": ["free"]});
    let job = job(json!({}), json!({"succeeded": 1, "uncountedTerminatedPods": uncounted}));
    let pods = [pod("s", "Succeeded", json!({})), pod("free", "Failed", json!({"free": true}))];
    let plan = decide(&job, &pods);
    assert_eq!((plan.facts.succeeded, plan.facts.failed), (3, 1), "each pod is counted once");
    let tracking = track(&plan, all_succeed(&plan));
    assert_eq!((tracking.status.succeeded, tracking.status.failed), (2, 1));
    assert_eq!(tracking.status.uncounted_terminated_pods.succeeded, ["s".into()]);
}

#[test]
fn job_finishes_when_all_pods_are_counted() {
    let job = job(json!({"completions": 2}), json!({"succeeded": 1, "startTime": ago(10)}));
    let pods = [pod("s", "Succeeded", json!({}))];
    let mut tracking = tracked(&job, &pods);
    assert_eq!(&*tracking.status.conditions[0].reason, "CompletionsReached");
    assert!(tracking.finish(&job).is_empty(), "a pod is not counted yet");
    tracking.released(["s"]);
    let events: Vec<_> = tracking.finish(&job).into_iter().map(|events| events.reason).collect();
    assert_eq!(events, ["Completed"]);
    let status = &tracking.status;
    assert_eq!((status.succeeded, status.completion_time), (2, Some(NOW)));
    let types: Vec<_> = status.conditions.iter().map(|condition| &*condition.r#type).collect();
    assert_eq!(types, ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(&*status.conditions[1].message, "Reached expected number of succeeded pods");
}

#[test]
fn unfinished_pods_of_a_failed_job_count_as_failed() {
    let spec = json!({"activeDeadlineSeconds": 5});
    let job = job(spec.clone(), json!({"startTime": ago(10)}));
    let pods = [pod("r", "Running", json!({})), pod("s", "Succeeded", json!({}))];
    let mut tracking = tracked(&job, &pods);
    assert_eq!(tracking.status.uncounted_terminated_pods.failed, ["r".into()]);
    tracking.released(["r", "s"]);
    assert!(tracking.finish(&job).is_empty(), "a pod is still terminating");
    let later = self::job(
        spec,
        json!({
            "startTime": ago(10), "failed": 1, "succeeded": 1, "conditions": [{"type": "FailureTarget", "status": "True",
                "reason": "DeadlineExceeded", "message": "Job was active longer than specified deadline"}],
        }),
    );
    let mut tracking = tracked(&later, &[]);
    let events = tracking.finish(&later);
    assert_eq!(
        (events[0].reason, &*events[0].message),
        ("DeadlineExceeded", "Job was active longer than specified deadline")
    );
    assert_eq!(tracking.status.conditions.len(), 2);
    assert_eq!(&*tracking.status.conditions[1].r#type, "Failed");
    assert_eq!(tracking.status.completion_time, None);
}

#[test]
fn suspended_job_has_no_pods_and_no_start_time() {
    let fresh = job(json!({"suspend": true}), json!({}));
    let tracking = tracked(&fresh, &[]);
    assert_eq!(tracking.status.start_time, None);
    assert_eq!(&*tracking.status.conditions[0].reason, "JobSuspended");
    assert_eq!(tracking.events[0].reason, "Suspended");

    let running = job(json!({"suspend": true}), json!({"startTime": ago(10), "active": 1}));
    let pods = [pod("r", "Running", json!({"ready": true}))];
    let plan = decide(&running, &pods);
    assert!(matches!(&plan.change, PodChange::Remove(pods) if pods.len() == 1));
    let tracking = track(&plan, all_succeed(&plan));
    assert_eq!((tracking.status.active, tracking.status.start_time), (0, None));
    assert!(
        tracking.remove_finalizer.is_empty() && tracking.status.uncounted_terminated_pods.failed.is_empty()
    );

    let suspended =
        json!({"conditions": [{"type": "Suspended", "status": "True", "reason": "JobSuspended"}]});
    let tracking = tracked(&job(json!({}), suspended), &[]);
    assert_eq!((tracking.status.start_time, tracking.events[0].reason), (Some(NOW), "Resumed"));
    assert_eq!(
        (&*tracking.status.conditions[0].status, &*tracking.status.conditions[0].reason),
        ("False", "JobResumed")
    );
}

#[test]
fn terminating_job_creates_no_pods_and_removes_finalizers() {
    let mut job = job(json!({}), json!({}));
    job.metadata.plain.deletion_timestamp = Some(ago(1).into());
    let pods = [pod("r", "Running", json!({})), pod("f", "Failed", json!({"ended": 100}))];
    let tracking = tracked(&job, &pods);
    assert_eq!(names(&tracking.remove_finalizer), ["f", "r"]);
    assert_eq!(tracking.status.uncounted_terminated_pods.failed, ["f".into()]);
}

#[test]
fn reduced_completions_drop_indexes() {
    let job = indexed(
        json!({"completions": 2, "parallelism": 2}),
        json!({"completedIndexes": "0-3", "succeeded": 4}),
    );
    let tracking = tracked(&job, &[]);
    assert_eq!((tracking.status.succeeded, &*tracking.status.completed_indexes), (2, "0,1"));
    assert_eq!(&*tracking.status.conditions[0].r#type, "SuccessCriteriaMet");
}

#[test]
fn ignored_failures_do_not_count() {
    let rules = json!([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]);
    let job = job(json!({"podFailurePolicy": {"rules": rules}, "backoffLimit": 0}), json!({}));
    let pods = [pod("f", "Failed", json!({"ended": 100}))];
    let plan = decide(&job, &pods);
    assert_eq!((reason(&plan), plan.facts.failed), (None, 0));
    let tracking = track(&plan, all_succeed(&plan));
    assert_eq!(names(&tracking.remove_finalizer), ["f"]);
    assert!(tracking.status.uncounted_terminated_pods.failed.is_empty());
}

#[test]
fn uncounted_uids_are_limited() {
    let job = job(json!({"completions": 2000, "parallelism": 1}), json!({}));
    let pods: Vec<_> = (0..700).map(|number| pod(&format!("s{number}"), "Succeeded", json!({}))).collect();
    let tracking = tracked(&job, &pods);
    assert_eq!(tracking.status.uncounted_terminated_pods.succeeded.len(), 500);
    assert_eq!(tracking.remove_finalizer.len(), 500);
}
