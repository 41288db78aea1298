//! Controller metrics in `/metrics`.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support;

use std::collections::HashSet;
use std::time::Duration;

use coracle::config::FakeNodes;
use coracle::kube::api::{Api, Patch, PatchParams, PostParams};
use coracle::{Config, Coracle, Handle, StoreConfig};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service};
use serde_json::{Value, json};
use support::wait_for;

/// Time limit of a wait; reaching it means that the expected state does not come about.
const LIMIT: Duration = Duration::from_secs(30);

async fn start() -> Handle {
    let fake_nodes = Some("2,zones=2".parse::<FakeNodes>().unwrap());
    let nowhere = Config::new("/nothing/is/written/there");
    let config = Config { store: StoreConfig::Memory, listen: Vec::new(), fake_nodes, ..nowhere };
    Coracle::start(config).await.unwrap()
}

async fn idle(cluster: &Handle) {
    tokio::time::timeout(LIMIT, cluster.run_until_idle()).await.unwrap().unwrap();
}

async fn page(cluster: &Handle) -> String {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    cluster.client().request_text(request).await.unwrap()
}

fn value(page: &str, series: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

async fn run_a_job(cluster: &Handle) {
    let jobs = Api::<Job>::namespaced(cluster.client(), "default");
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let template = json!({"metadata": {"annotations": {"fake.coracle.dev/finish-after": "0s"}}, "spec": pod});
    let spec = json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": template});
    let job = json!({"metadata": {"name": "j"}, "spec": spec});
    jobs.create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
    let is_complete = |job: &Job| job.status.as_ref().is_some_and(|status| status.completion_time.is_some());
    wait_for(LIMIT, &jobs, "j", is_complete).await;
}

async fn serve_three_pods(cluster: &Handle) {
    let sets = Api::<ReplicaSet>::namespaced(cluster.client(), "default");
    let labels = json!({"app": "web"});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 3, "selector": {"matchLabels": labels}, "template": template});
    let set = json!({"metadata": {"name": "web"}, "spec": spec});
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    let services = Api::<Service>::namespaced(cluster.client(), "default");
    let spec = json!({"selector": labels, "ports": [{"port": 80}], "trafficDistribution": "PreferSameZone"});
    let service = json!({"metadata": {"name": "web"}, "spec": spec});
    services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    let are_ready =
        |set: &ReplicaSet| set.status.as_ref().is_some_and(|status| status.ready_replicas == Some(3));
    wait_for(LIMIT, &sets, "web", are_ready).await;
    // The EndpointSlices are up to date, too.
    idle(cluster).await;
}

async fn patch_replicas(cluster: &Handle, replicas: i32) {
    let sets = Api::<ReplicaSet>::namespaced(cluster.client(), "default");
    let patch: Patch<Value> = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    sets.patch("web", &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test]
async fn controller_metrics_count_reconciled_objects() {
    let cluster = start().await;
    run_a_job(&cluster).await;
    serve_three_pods(&cluster).await;
    patch_replicas(&cluster, 1).await;
    let claims = Api::<PersistentVolumeClaim>::namespaced(cluster.client(), "default");
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let claim = json!({"metadata": {"name": "c"}, "spec": spec});
    claims.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
    idle(&cluster).await;

    let page = page(&cluster).await;
    for (series, expected) in [
        (
            r#"job_controller_jobs_finished_total{completion_mode="Indexed",result="succeeded",reason="CompletionsReached"}"#,
            1.0,
        ),
        (r#"job_controller_job_pods_finished_total{completion_mode="Indexed",result="succeeded"}"#, 2.0),
        (r#"job_controller_job_finished_indexes_total{status="succeeded",backoffLimit="global"}"#, 2.0),
        (r#"job_controller_job_pods_creation_total{reason="new",status="succeeded"}"#, 2.0),
        (r#"job_controller_terminated_pods_tracking_finalizer_total{event="add"}"#, 2.0),
        (r#"job_controller_terminated_pods_tracking_finalizer_total{event="delete"}"#, 2.0),
        (
            r#"job_controller_job_syncs_total{completion_mode="Indexed",result="success",action="pods_created"}"#,
            1.0,
        ),
        ("endpoint_slice_controller_num_endpoint_slices", 1.0),
        ("endpoint_slice_controller_desired_endpoint_slices", 1.0),
        ("endpoint_slice_controller_endpoints_desired", 1.0),
        (r#"endpoint_slice_controller_changes{operation="create"}"#, 1.0),
        (
            r#"endpoint_slice_controller_services_count_by_traffic_distribution{traffic_distribution="PreferSameZone"}"#,
            1.0,
        ),
        ("endpoint_slice_controller_endpoints_added_per_sync_sum", 3.0),
        ("endpoint_slice_controller_endpoints_removed_per_sync_sum", 2.0),
        ("replicaset_controller_sorting_deletion_age_ratio_count", 2.0),
        ("node_collector_zone_size{zone=\"fake:\0:zone-0\"}", 1.0),
        ("node_collector_zone_health{zone=\"fake:\0:zone-1\"}", 100.0),
        ("node_collector_evictions_total{zone=\"fake:\0:zone-1\"}", 0.0),
        (
            r#"pv_collector_unbound_pvc_count{namespace="default",storage_class="standard",volume_attributes_class=""}"#,
            1.0,
        ),
        ("horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers", 0.0),
        (r#"running_managed_controllers{name="job-controller",manager="kube-controller-manager"}"#, 1.0),
    ] {
        assert_eq!(value(&page, series), Some(expected), "{series} in\n{page}");
    }
    cluster.shutdown().await;
}

#[tokio::test]
async fn metric_names_and_series_are_unique() {
    let cluster = start().await;
    idle(&cluster).await;
    let page = page(&cluster).await;
    let (mut names, mut series) = (HashSet::new(), HashSet::new());
    let mut name = "";
    for line in page.lines() {
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            name = declared.split(' ').next().unwrap();
            assert!(names.insert(name), "{name} is declared twice");
        } else if !line.starts_with('#') {
            assert!(line.starts_with(name), "{line} is not of {name}");
            assert!(series.insert(line.rsplit_once(' ').unwrap().0), "{line} is duplicated");
        }
    }
    let added = value(&page, "workqueue_adds_total{name=\"serviceaccount\"}");
    assert!(added.unwrap() >= 4.0, "every cluster has four namespaces initially");
    let taken = value(&page, "workqueue_queue_duration_seconds_count{name=\"serviceaccount\"}");
    assert!(taken.unwrap() >= 4.0);
    cluster.shutdown().await;
}
