//! Jobs, CronJobs, PodDisruptionBudgets, and pods without a node. There are no nodes; the tests set the
//! status of pods.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fmt::Debug;
use std::time::Duration;

use coracle::kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use coracle::kube::{Client, Error, ResourceExt};
use coracle::{Config, Coracle, Handle, StoreConfig};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::batch::v1::{CronJob, Job, JobStatus};
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(30);

const FINALIZER: &str = "batch.kubernetes.io/job-tracking";

/// An in-memory server without listeners.
async fn start() -> Handle {
    let config =
        Config { store: StoreConfig::Memory, listen: Vec::new(), ..Config::new("/nothing/is/written/there") };
    let cluster = Coracle::start(config).await.unwrap();
    idle(&cluster).await;
    cluster
}

async fn idle(cluster: &Handle) {
    tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();
}

fn api<K>(client: &Client) -> Api<K>
where
    K: coracle::kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
{
    Api::namespaced(client.clone(), "default")
}

async fn create<K: Clone + DeserializeOwned + Serialize + Debug>(api: &Api<K>, object: Value) -> K {
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
}

async fn patch<K: Clone + DeserializeOwned + Debug>(api: &Api<K>, name: &str, patch: Value) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// A Job with this name; `spec` is merged into its spec.
fn job(name: &str, spec: Value) -> Value {
    let containers = json!([{"name": "c", "image": "i"}]);
    let mut whole = json!({"template": {"spec": {"restartPolicy": "Never", "containers": containers}}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": whole})
}

async fn pods(client: &Client, selector: &str) -> Vec<Pod> {
    api::<Pod>(client).list(&ListParams::default().labels(selector)).await.unwrap().items
}

async fn pods_of(client: &Client, job: &str) -> Vec<Pod> {
    pods(client, &format!("batch.kubernetes.io/job-name={job}")).await
}

/// Sets the phase of pods, and waits until the controllers are idle.
async fn set_phase(cluster: &Handle, pods: &[Pod], phase: &str) {
    let api = api::<Pod>(&cluster.client());
    for pod in pods {
        let patch = Patch::Merge(json!({"status": {"phase": phase}}));
        api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
    }
    idle(cluster).await;
}

async fn set_ready(cluster: &Handle, pods: &[Pod]) {
    let api = api::<Pod>(&cluster.client());
    for pod in pods {
        let conditions = json!([{"type": "Ready", "status": "True"}]);
        let patch = Patch::Merge(json!({"status": {"phase": "Running", "conditions": conditions}}));
        api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await.unwrap();
    }
    idle(cluster).await;
}

async fn status(client: &Client, name: &str) -> JobStatus {
    api::<Job>(client).get(name).await.unwrap().status.unwrap()
}

/// Types and reasons of the conditions that are true.
fn conditions(status: &JobStatus) -> Vec<(&str, &str)> {
    let all = status.conditions.iter().flatten().filter(|condition| condition.status == "True");
    all.map(|condition| (condition.type_.as_str(), condition.reason.as_deref().unwrap_or_default())).collect()
}

async fn reasons(client: &Client, kind: &str, name: &str) -> Vec<String> {
    let about = format!("involvedObject.kind={kind},involvedObject.name={name}");
    let events = api::<Event>(client).list(&ListParams::default().fields(&about)).await.unwrap();
    events.items.into_iter().filter_map(|event| event.reason).collect()
}

fn has_job_finalizer(pod: &Pod) -> bool {
    pod.finalizers().iter().any(|name| name == FINALIZER)
}

#[tokio::test]
async fn job_completes_when_enough_pods_have_succeeded() {
    let cluster = start().await;
    let client = cluster.client();
    create(&api::<Job>(&client), job("j", json!({"completions": 3, "parallelism": 2}))).await;
    idle(&cluster).await;
    let first = pods_of(&client, "j").await;
    assert_eq!(first.len(), 2);
    assert!(first.iter().all(has_job_finalizer));
    let latest = status(&client, "j").await;
    assert_eq!((latest.active, latest.ready, latest.terminating), (Some(2), Some(0), Some(0)));
    assert!(latest.start_time.is_some());

    set_ready(&cluster, &first[..1]).await;
    assert_eq!(status(&client, "j").await.ready, Some(1));
    set_phase(&cluster, &first, "Succeeded").await;
    let latest = status(&client, "j").await;
    assert_eq!((latest.active, latest.succeeded), (Some(1), Some(2)));
    let all = pods_of(&client, "j").await;
    assert_eq!((all.len(), all.iter().filter(|pod| has_job_finalizer(pod)).count()), (3, 1));

    set_phase(&cluster, &all.into_iter().filter(has_job_finalizer).collect::<Vec<_>>(), "Succeeded").await;
    let latest = status(&client, "j").await;
    assert_eq!((latest.active, latest.succeeded, latest.failed), (None, Some(3), None));
    let expected = [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")];
    assert_eq!(conditions(&latest), expected);
    assert!(latest.completion_time.is_some());
    assert!(!pods_of(&client, "j").await.iter().any(has_job_finalizer));
    let event_reasons = reasons(&client, "Job", "j").await;
    assert_eq!(event_reasons.iter().filter(|reason| *reason == "SuccessfulCreate").count(), 3);
    assert!(event_reasons.contains(&"Completed".to_owned()), "{event_reasons:?}");
    cluster.shutdown().await;
}

#[tokio::test]
async fn indexed_job_runs_each_index_once() {
    let cluster = start().await;
    let client = cluster.client();
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"});
    create(&api::<Job>(&client), job("j", spec)).await;
    idle(&cluster).await;
    let mut all = pods_of(&client, "j").await;
    all.sort_by_key(|pod| pod.name_any());
    for (index, pod) in all.iter().enumerate() {
        assert!(pod.name_any().starts_with(&format!("j-{index}-")));
        assert_eq!(pod.annotations()["batch.kubernetes.io/job-completion-index"], index.to_string());
        let spec = pod.spec.as_ref().unwrap();
        assert_eq!(spec.hostname.as_deref(), Some(format!("j-{index}").as_str()));
        assert_eq!(spec.containers[0].env.as_ref().unwrap()[0].name, "JOB_COMPLETION_INDEX");
    }
    set_phase(&cluster, &all[1..2], "Succeeded").await;
    assert_eq!(status(&client, "j").await.completed_indexes.as_deref(), Some("1"));
    set_phase(&cluster, &all, "Succeeded").await;
    let latest = status(&client, "j").await;
    assert_eq!((latest.completed_indexes.as_deref(), latest.succeeded), (Some("0-2"), Some(3)));
    assert_eq!(conditions(&latest).last().unwrap().0, "Complete");
    cluster.shutdown().await;
}

#[tokio::test]
async fn job_beyond_its_backoff_limit_fails() {
    let cluster = start().await;
    let client = cluster.client();
    create(&api::<Job>(&client), job("j", json!({"backoffLimit": 0, "parallelism": 2, "completions": 2})))
        .await;
    idle(&cluster).await;
    let all = pods_of(&client, "j").await;
    set_phase(&cluster, &all[..1], "Failed").await;
    let latest = status(&client, "j").await;
    assert_eq!((latest.active, latest.failed), (None, Some(2)), "the other pod is terminated");
    let expected = [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")];
    assert_eq!(conditions(&latest), expected);
    assert!(!pods_of(&client, "j").await.iter().any(has_job_finalizer));
    assert!(reasons(&client, "Job", "j").await.contains(&"BackoffLimitExceeded".to_owned()));
    cluster.shutdown().await;
}

#[tokio::test]
async fn failure_and_success_policies_end_jobs() {
    let cluster = start().await;
    let client = cluster.client();
    let rule = json!({"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}});
    create(&api::<Job>(&client), job("f", json!({"podFailurePolicy": {"rules": [rule]}}))).await;
    let spec = json!({
        "completions": 2, "parallelism": 2, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
    });
    create(&api::<Job>(&client), job("s", spec)).await;
    idle(&cluster).await;
    let failing = pods_of(&client, "f").await.remove(0);
    let terminated =
        json!({"exitCode": 42, "finishedAt": "2026-01-01T00:00:00Z", "startedAt": "2026-01-01T00:00:00Z"});
    let container = json!({
        "name": "c", "image": "i", "imageID": "i", "ready": false, "restartCount": 0, "state": {"terminated": terminated},
    });
    let ended = json!({"status": {"phase": "Failed", "containerStatuses": [container]}});
    let params = PatchParams::default();
    api::<Pod>(&client).patch_status(&failing.name_any(), &params, &Patch::Merge(ended)).await.unwrap();
    let mut succeeding = pods_of(&client, "s").await;
    succeeding.sort_by_key(|pod| pod.name_any());
    set_phase(&cluster, &succeeding[..1], "Succeeded").await;

    let latest = status(&client, "f").await;
    assert_eq!(conditions(&latest), [("FailureTarget", "PodFailurePolicy"), ("Failed", "PodFailurePolicy")]);
    let latest = status(&client, "s").await;
    assert_eq!(conditions(&latest), [("SuccessCriteriaMet", "SuccessPolicy"), ("Complete", "SuccessPolicy")]);
    assert_eq!((latest.completed_indexes.as_deref(), latest.failed), (Some("0"), None));
    cluster.shutdown().await;
}

#[tokio::test]
async fn job_can_be_suspended_and_resumed() {
    let cluster = start().await;
    let client = cluster.client();
    let jobs = api::<Job>(&client);
    create(&jobs, job("j", json!({"suspend": true}))).await;
    idle(&cluster).await;
    assert!(pods_of(&client, "j").await.is_empty());
    let latest = status(&client, "j").await;
    assert_eq!(
        (conditions(&latest), latest.start_time.is_none()),
        (vec![("Suspended", "JobSuspended")], true)
    );

    patch(&jobs, "j", json!({"spec": {"suspend": false}})).await;
    idle(&cluster).await;
    assert_eq!(pods_of(&client, "j").await.len(), 1);
    let latest = status(&client, "j").await;
    assert!(conditions(&latest).is_empty() && latest.start_time.is_some());

    patch(&jobs, "j", json!({"spec": {"suspend": true}})).await;
    idle(&cluster).await;
    assert!(pods_of(&client, "j").await.is_empty());
    let latest = status(&client, "j").await;
    assert_eq!(
        (latest.active, latest.failed),
        (None, None),
        "pods deleted by the suspension count as failed"
    );
    let event_reasons = reasons(&client, "Job", "j").await;
    for reason in ["Suspended", "Resumed", "SuccessfulDelete"] {
        assert!(event_reasons.contains(&reason.to_owned()), "{event_reasons:?}");
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn pods_of_a_deleted_job_lose_their_finalizer() {
    let cluster = start().await;
    let client = cluster.client();
    create(&api::<Job>(&client), job("j", json!({}))).await;
    idle(&cluster).await;
    let pod = pods_of(&client, "j").await.remove(0);
    assert!(has_job_finalizer(&pod));
    api::<Job>(&client).delete("j", &DeleteParams::background()).await.unwrap();
    idle(&cluster).await;
    let pods = api::<Pod>(&client);
    assert!(pods.get_opt(&pod.name_any()).await.unwrap().is_none_or(|pod| !has_job_finalizer(&pod)));
    cluster.shutdown().await;
}

#[tokio::test]
async fn job_adopts_matching_pods_and_releases_others() {
    let cluster = start().await;
    let client = cluster.client();
    create(&api::<Job>(&client), job("j", json!({"parallelism": 2, "completions": 2}))).await;
    idle(&cluster).await;
    let pods = api::<Pod>(&client);
    let name = pods_of(&client, "j").await.remove(0).name_any();
    patch(&pods, &name, json!({"metadata": {"ownerReferences": null}})).await;
    idle(&cluster).await;
    let adopted = pods.get(&name).await.unwrap();
    assert_eq!(adopted.owner_references()[0].kind, "Job");
    assert!(has_job_finalizer(&adopted));

    let labels: Value = adopted.labels().keys().map(|key| (key.clone(), Value::Null)).collect();
    patch(&pods, &name, json!({"metadata": {"labels": labels}})).await;
    idle(&cluster).await;
    let released = pods.get(&name).await.unwrap();
    assert!(released.owner_references().is_empty() && !has_job_finalizer(&released));
    assert_eq!(pods_of(&client, "j").await.len(), 2, "the released pod was replaced");
    cluster.shutdown().await;
}

#[tokio::test]
async fn finished_job_is_deleted_after_its_ttl() {
    let cluster = start().await;
    let client = cluster.client();
    create(&api::<Job>(&client), job("j", json!({"ttlSecondsAfterFinished": 0}))).await;
    idle(&cluster).await;
    set_phase(&cluster, &pods_of(&client, "j").await, "Succeeded").await;
    let left = api::<Job>(&client).get_opt("j").await.unwrap();
    assert!(left.is_none_or(|job| job.metadata.deletion_timestamp.is_some()));
    cluster.shutdown().await;
}

#[tokio::test]
async fn cron_job_creates_jobs_when_they_are_due() {
    let cluster = start().await;
    let client = cluster.client();
    let cron_jobs = api::<CronJob>(&client);
    let spec = json!({
        "schedule": "0 0 1 1 *", "concurrencyPolicy": "Forbid", "successfulJobsHistoryLimit": 0,
        "jobTemplate": {"metadata": {"labels": {"made": "so"}}, "spec": job("", json!({}))["spec"]},
    });
    create(&cron_jobs, json!({"metadata": {"name": "c"}, "spec": spec})).await;
    idle(&cluster).await;
    assert!(api::<Job>(&client).list(&ListParams::default()).await.unwrap().items.is_empty());

    let overdue = Patch::Merge(json!({"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}}));
    cron_jobs.patch_status("c", &PatchParams::default(), &overdue).await.unwrap();
    idle(&cluster).await;
    let made = api::<Job>(&client).list(&ListParams::default().labels("made=so")).await.unwrap().items;
    assert_eq!(made.len(), 1);
    let name = made[0].name_any();
    let minutes: i64 = name.strip_prefix("c-").unwrap().parse().unwrap();
    let latest = cron_jobs.get("c").await.unwrap().status.unwrap();
    assert_eq!(latest.active.as_ref().unwrap()[0].name.as_deref(), Some(name.as_str()));
    let scheduled = latest.last_schedule_time.unwrap().0;
    assert_eq!(scheduled.as_second() / 60, minutes);
    assert_eq!(
        made[0].annotations()["batch.kubernetes.io/cronjob-scheduled-timestamp"],
        scheduled.to_string()
    );
    assert_eq!(made[0].owner_references()[0].kind, "CronJob");

    set_phase(&cluster, &pods_of(&client, &name).await, "Succeeded").await;
    let latest = cron_jobs.get("c").await.unwrap().status.unwrap();
    assert!(latest.active.is_none() && latest.last_successful_time.is_some());
    let left = api::<Job>(&client).get_opt(&name).await.unwrap();
    assert!(left.is_none(), "the history limit is zero");
    let event_reasons = reasons(&client, "CronJob", "c").await;
    for reason in ["SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"] {
        assert!(event_reasons.contains(&reason.to_owned()), "{event_reasons:?}");
    }
    assert!(
        !event_reasons.iter().any(|reason| reason == "UnexpectedJob" || reason == "MissingJob"),
        "{event_reasons:?}"
    );
    cluster.shutdown().await;
}

/// Expected pods, desired healthy pods, current healthy pods, and allowed disruptions.
fn allowed(budget: &PodDisruptionBudget) -> [i32; 4] {
    let status = budget.status.as_ref().unwrap();
    let counts =
        [status.expected_pods, status.desired_healthy, status.current_healthy, status.disruptions_allowed];
    counts.map(Option::unwrap)
}

#[tokio::test]
async fn disruption_budget_limits_evictions() {
    let cluster = start().await;
    let client = cluster.client();
    let budgets = api::<PodDisruptionBudget>(&client);
    let selector = json!({"matchLabels": {"app": "x"}});
    create(&budgets, json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 3, "selector": selector}}))
        .await;
    let template = json!({
        "metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let spec = json!({"replicas": 3, "selector": selector, "template": template});
    create(&api::<ReplicaSet>(&client), json!({"metadata": {"name": "r"}, "spec": spec})).await;
    idle(&cluster).await;
    assert_eq!(allowed(&budgets.get("b").await.unwrap()), [3, 3, 0, 0]);
    let all = pods(&client, "app=x").await;
    set_ready(&cluster, &all).await;
    assert_eq!(allowed(&budgets.get("b").await.unwrap()), [3, 3, 3, 0]);

    let evict = async |pod: &Pod| api::<Pod>(&client).evict(&pod.name_any(), &EvictParams::default()).await;
    let is_refused =
        |answer: coracle::kube::Result<_>| matches!(answer, Err(Error::Api(status)) if status.code == 429);
    assert!(is_refused(evict(&all[0]).await.map(drop)));
    patch(&budgets, "b", json!({"spec": {"minAvailable": 2}})).await;
    idle(&cluster).await;
    let latest = budgets.get("b").await.unwrap();
    assert_eq!(allowed(&latest), [3, 2, 3, 1]);
    let condition = &latest.status.as_ref().unwrap().conditions.as_ref().unwrap()[0];
    assert_eq!(
        (condition.type_.as_str(), condition.reason.as_str()),
        ("DisruptionAllowed", "SufficientPods")
    );
    evict(&all[0]).await.unwrap();
    idle(&cluster).await;
    let latest = budgets.get("b").await.unwrap();
    assert_eq!(allowed(&latest), [3, 2, 2, 0], "the replacement is not ready");
    assert!(latest.status.unwrap().disrupted_pods.is_none_or(|pods| pods.is_empty()));
    assert!(is_refused(evict(&all[1]).await.map(drop)));

    // The percentage is of the owners' replicas, not of the existing pods.
    patch(&budgets, "b", json!({"spec": {"minAvailable": null, "maxUnavailable": "50%"}})).await;
    idle(&cluster).await;
    assert_eq!(allowed(&budgets.get("b").await.unwrap()), [3, 1, 2, 1]);
    cluster.shutdown().await;
}

#[tokio::test]
async fn deleted_pod_without_a_node_fails() {
    let cluster = start().await;
    let client = cluster.client();
    let pods = api::<Pod>(&client);
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    create(&pods, json!({"metadata": {"name": "p", "finalizers": ["example.org/hold"]}, "spec": spec})).await;
    pods.delete("p", &DeleteParams::default()).await.unwrap();
    idle(&cluster).await;
    assert_eq!(pods.get("p").await.unwrap().status.unwrap().phase.as_deref(), Some("Failed"));
    patch(&pods, "p", json!({"metadata": {"finalizers": null}})).await;
    idle(&cluster).await;
    assert!(pods.get_opt("p").await.unwrap().is_none());
    cluster.shutdown().await;
}
