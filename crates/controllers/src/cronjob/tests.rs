//! Decisions of the cron job controller, case by case.

use std::collections::HashSet;
use std::sync::Arc;

use coracle_base::Timestamp;
use coracle_runtime::{ClusterId, ObjectKey};
use serde_json::{Value, json};

use super::object::CronJob;
use super::plan::{Observed, Plan, Start, plan};
use super::{CRON_JOB, job_body, status_patch};
use crate::pod_control::Owner;
use crate::view::Job;

fn at(text: &str) -> Timestamp {
    coracle_runtime::informer::timestamp(text)
}

/// An hourly cron job, created at ten past ten.
fn cron_job(spec: Value, status: Value) -> CronJob {
    let metadata =
        json!({"name": "c", "namespace": "n", "uid": "u", "creationTimestamp": "2026-07-09T10:10:00Z"});
    let mut whole = json!({"schedule": "0 * * * *", "jobTemplate": {"spec": {}}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({"metadata": metadata, "spec": whole, "status": status})).unwrap()
}

fn job(name: &str, end: Option<&str>, started: Option<&str>) -> Arc<Job> {
    let conditions: Vec<_> = end.map(|end| json!({"type": end, "status": "True"})).into_iter().collect();
    let completed = end.filter(|end| *end == "Complete").map(|_| "2026-07-09T10:30:00Z");
    let status = json!({"conditions": conditions, "startTime": started, "completionTime": completed});
    Arc::new(
        serde_json::from_value(json!({"metadata": {"name": name, "uid": name}, "status": status})).unwrap(),
    )
}

fn active(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name, "uid": name, "namespace": "n"})).collect()
}

fn decide(cron_job: &CronJob, jobs: &[Arc<Job>], missing: &[&str], now: &str) -> Plan {
    let missing: HashSet<_> = missing.iter().map(|uid| Box::from(*uid)).collect();
    plan(Observed { cron_job, jobs, missing: &missing, now: at(now) })
}

fn events(plan: &Plan) -> Vec<(&'static str, &str)> {
    plan.events.iter().map(|events| (events.reason, events.message.as_str())).collect()
}

#[test]
fn due_job_is_started() {
    let fresh = cron_job(json!({}), json!({}));
    let early = decide(&fresh, &[], &[], "2026-07-09T10:30:00Z");
    assert!(early.start.is_none());
    assert_eq!(early.after.unwrap().as_millis(), 1_800_100);
    let due = decide(&fresh, &[], &[], "2026-07-09T11:00:01Z");
    let start = due.start.unwrap();
    assert_eq!((start.name.as_str(), start.scheduled), ("c-29726580", at("2026-07-09T11:00:00Z")));
    assert_eq!(start.annotation, "2026-07-09T11:00:00Z");
    assert_eq!(due.after.unwrap().as_millis(), 3_599_100);
    let done = cron_job(json!({}), json!({"lastScheduleTime": "2026-07-09T11:00:00Z"}));
    assert!(decide(&done, &[], &[], "2026-07-09T11:00:01Z").start.is_none());
    let noted = cron_job(json!({}), json!({"active": active(&["c-29726580"])}));
    assert!(decide(&noted, &[], &[], "2026-07-09T11:00:01Z").start.is_none(), "by its name");
    let abroad = cron_job(json!({"timeZone": "Asia/Kolkata"}), json!({}));
    let start = decide(&abroad, &[], &[], "2026-07-09T10:31:00Z").start.unwrap();
    assert_eq!(start.annotation, "2026-07-09T16:00:00+05:30");
}

#[test]
fn suspended_terminating_or_invalid_cron_job_starts_nothing() {
    let suspended = decide(&cron_job(json!({"suspend": true}), json!({})), &[], &[], "2026-07-09T11:00:01Z");
    assert!(suspended.start.is_none() && suspended.after.is_none());
    let mut going = cron_job(json!({}), json!({}));
    going.metadata.plain.deletion_timestamp = Some("2026-07-09T10:00:00Z".into());
    assert!(decide(&going, &[], &[], "2026-07-09T11:00:01Z").start.is_none());
    let bad = decide(&cron_job(json!({"schedule": "often"}), json!({})), &[], &[], "2026-07-09T11:00:01Z");
    let error = "unparseable schedule: \"often\" : expected exactly 5 fields, found 1: [often]";
    assert_eq!(events(&bad), [("UnparseableSchedule", error)]);
    let lost = decide(&cron_job(json!({"timeZone": "Mars"}), json!({})), &[], &[], "2026-07-09T11:00:01Z");
    assert_eq!(events(&lost), [("UnknownTimeZone", "invalid timeZone: \"Mars\": unknown time zone Mars")]);
    let never =
        decide(&cron_job(json!({"schedule": "0 0 31 2 *"}), json!({})), &[], &[], "2026-07-09T11:00:01Z");
    let error = "invalid schedule: 0 0 31 2 * : time difference between two schedules is less than 1 second";
    assert_eq!(events(&never), [("InvalidSchedule", error)]);
    let missed = cron_job(json!({"schedule": "* * * * *"}), json!({}));
    let plan = decide(&missed, &[], &[], "2026-07-10T10:10:30Z");
    assert_eq!(events(&plan)[0].0, "TooManyMissedTimes");
    assert_eq!(plan.start.unwrap().scheduled, at("2026-07-10T10:10:00Z"));
}

#[test]
fn concurrency_policy_applies_to_active_jobs() {
    let running = [job("old", None, None)];
    let decide = |policy: &str| {
        let cron_job = cron_job(json!({"concurrencyPolicy": policy}), json!({"active": active(&["old"])}));
        decide(&cron_job, &running, &[], "2026-07-09T11:00:01Z")
    };
    assert!(decide("Allow").start.is_some() && decide("Allow").replace.is_empty());
    let forbidden = decide("Forbid");
    assert!(forbidden.start.is_none());
    let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
    assert_eq!(events(&forbidden), [("JobAlreadyActive", message)]);
    let replaced = decide("Replace");
    assert!(replaced.start.is_some());
    assert_eq!(&*replaced.replace[0].name, "old");
}

#[test]
fn status_reflects_the_jobs() {
    let cron_job = cron_job(json!({}), json!({"active": active(&["done", "failed", "lost", "runs"])}));
    let jobs = [
        job("done", Some("Complete"), None),
        job("failed", Some("Failed"), None),
        job("runs", None, None),
        job("alien", None, None),
    ];
    let plan = decide(&cron_job, &jobs, &["lost"], "2026-07-09T10:30:00Z");
    let names: Vec<_> = plan.status.active.iter().map(|active| &*active.name).collect();
    assert_eq!(names, ["runs"]);
    assert_eq!(plan.status.last_successful_time, Some(at("2026-07-09T10:30:00Z")));
    let expected = [
        ("SawCompletedJob", "Saw completed job: done, condition: Complete"),
        ("SawCompletedJob", "Saw completed job: failed, condition: Failed"),
        ("UnexpectedJob", "Saw a job that the controller did not create or forgot: alien"),
        ("MissingJob", "Active job went missing: lost"),
    ];
    assert_eq!(events(&plan), expected);
}

#[test]
fn oldest_finished_jobs_are_deleted() {
    let limits = json!({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0});
    let jobs = [
        job("b", Some("Complete"), Some("2026-07-09T09:00:00Z")),
        job("a", Some("Complete"), Some("2026-07-09T10:00:00Z")),
        job("never", Some("Complete"), None),
        job("f", Some("Failed"), Some("2026-07-09T09:00:00Z")),
        job("r", None, Some("2026-07-09T08:00:00Z")),
    ];
    let plan = decide(&cron_job(limits, json!({})), &jobs, &[], "2026-07-09T10:30:00Z");
    let names: Vec<_> = plan.delete.iter().map(|job| job.metadata.name()).collect();
    assert_eq!(names, ["b", "a", "f"]);
    let unlimited = cron_job(json!({}), json!({}));
    assert!(decide(&unlimited, &jobs, &[], "2026-07-09T10:30:00Z").delete.is_empty());
}

#[test]
fn job_and_status_match_kubernetes() {
    let template = json!({
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": {"template": {"spec": {}}},
    });
    let cron_job = cron_job(json!({"jobTemplate": template}), json!({"active": active(&["x"])}));
    let key = ObjectKey::namespaced(ClusterId::default(), "n", "c");
    let owner = Owner { key: &key, kind: CRON_JOB, metadata: &cron_job.metadata };
    let start =
        Start { scheduled: at("2026-07-09T11:00:00Z"), name: "c-1".into(), annotation: "then".into() };
    let body = job_body(&owner, &cron_job.spec.job_template, &start);
    let reference = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "u", "controller": true,
        "blockOwnerDeletion": true,
    });
    let metadata = json!({
        "name": "c-1", "namespace": "n", "labels": {"a": "b"}, "ownerReferences": [reference],
        "annotations": {"c": "d", "batch.kubernetes.io/cronjob-scheduled-timestamp": "then"},
    });
    assert_eq!(body["metadata"], metadata);
    assert_eq!(body["spec"], json!({"template": {"spec": {}}}));
    let mut status = cron_job.status.clone();
    status.active[0].resource_version = "7".into();
    let reference = json!({"kind": "", "namespace": "n", "name": "x", "uid": "x", "apiVersion": "", "resourceVersion": "7"});
    let expected = json!({"active": [reference], "lastScheduleTime": null, "lastSuccessfulTime": null});
    assert_eq!(status_patch(&status, "3"), json!({"metadata": {"resourceVersion": "3"}, "status": expected}));
    status.active.clear();
    assert_eq!(status_patch(&status, "3")["status"]["active"], Value::Null);
}
