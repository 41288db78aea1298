//! Time in which controllers reconcile: `cargo xtask bench controllers`.
//!
//! Everything runs in one process like `coracle server --fake-nodes 100` with a disk store: the API server, the
//! controllers, the scheduler, and nodes whose pods run immediately. The baseline is the same number of pods created
//! by a client, without a scheduler or kubelet acting on them.

mod idle;

use std::time::Duration;

use anyhow::{Context, Result, bail};
use coracle::config::FakeNodes;
use coracle::kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, WatchParams};
use coracle::kube::core::{ApiResource, GroupVersionKind, WatchEvent};
use coracle::kube::{Client, ResourceExt};
use coracle::{Config, Coracle, Handle};
use coracle_benches::measure::{block_on, report, resident_bytes, start};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NODES: u32 = 100;
const REPLICAS: usize = 1000;
const CONTENTS: usize = 5000;

/// Concurrent requests of the client.
const IN_FLIGHT: usize = 32;

/// Time limit of the benchmark; exceeding it is a bug, not slowness.
const LIMIT: Duration = Duration::from_secs(300);

const ROLLOUT_AIM: Duration = Duration::from_secs(3);
const DELETION_AIM: Duration = Duration::from_secs(5);

fn main() -> Result<()> {
    block_on(async {
        // Measured first, because the allocator does not return memory immediately after the other loads.
        idle::measure().await?;
        let dir = tempfile::tempdir()?;
        let mut config = Config::new(dir.path());
        config.listen.clear();
        config.fake_nodes = Some(FakeNodes::new(NODES));
        let cluster = Coracle::start(config).await?;
        let outcome = tokio::time::timeout(LIMIT, measure(&cluster)).await;
        cluster.shutdown().await;
        outcome.context("timed out")?
    })
}

async fn measure(cluster: &Handle) -> Result<()> {
    let client = cluster.client();
    let namespaces = objects(&client, "", "v1", "Namespace", None);
    for name in ["baseline", "rollout", "contents"] {
        create(&namespaces, json!({"metadata": {"name": name}})).await?;
    }
    cluster.run_until_idle().await?;

    let baseline = pods_by_hand(&client).await?;
    report("1 000 pods made by a client, and nothing else", &millis(baseline), "the baseline", true);
    let report_time = |what: &str, took: Duration, aim: Duration| {
        let ratio = took.as_secs_f64() / baseline.as_secs_f64();
        let figure = format!("{}, {ratio:.1} times the baseline", millis(took));
        report(what, &figure, &format!("< {} s", aim.as_secs()), took < aim);
    };

    let began = start();
    let deployments = objects(&client, "apps", "v1", "Deployment", Some("rollout"));
    create(&deployments, deployment()).await?;
    until(&deployments, |status| number(status, "availableReplicas") == REPLICAS).await?;
    report_time("Deployment of 1 000 replicas, until all are available", began.elapsed(), ROLLOUT_AIM);

    cluster.run_until_idle().await?;
    let began = start();
    let image = json!([{"name": "c", "image": "registry.example/app:2"}]);
    patch(&deployments, json!({"spec": {"template": {"spec": {"containers": image}}}})).await?;
    let updated = |status: &Value| {
        ["updatedReplicas", "availableReplicas", "replicas"]
            .iter()
            .all(|field| number(status, field) == REPLICAS)
    };
    until(&deployments, updated).await?;
    report_time("Rolling update of it", began.elapsed(), ROLLOUT_AIM);

    cluster.run_until_idle().await?;
    let began = start();
    patch(&deployments, json!({"spec": {"replicas": 0}})).await?;
    until(&deployments, |status| number(status, "replicas") == 0).await?;
    cluster.run_until_idle().await?;
    report_time("Scaling it to zero, until no pod is left", began.elapsed(), ROLLOUT_AIM);

    fill(&client).await?;
    cluster.run_until_idle().await?;
    let began = start();
    namespaces.delete("contents", &DeleteParams::default()).await?;
    gone(&namespaces, "contents").await?;
    report_time("Deleting a namespace with 5 000 objects", began.elapsed(), DELETION_AIM);

    let memory = resident_bytes() >> 20;
    report("Resident memory after all that", &format!("{memory} MiB"), "< 600 MiB", memory < 600);
    Ok(())
}

fn objects(
    client: &Client,
    group: &str,
    version: &str,
    kind: &str,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn create(api: &Api<DynamicObject>, object: Value) -> Result<()> {
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    Ok(())
}

async fn patch(api: &Api<DynamicObject>, change: Value) -> Result<()> {
    api.patch("app", &PatchParams::default(), &Patch::Merge(change)).await?;
    Ok(())
}

fn template() -> Value {
    json!({
        "metadata": {"labels": {"app": "app"}},
        "spec": {"containers": [{
            "name": "c", "image": "registry.example/app:1",
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
        }]},
    })
}

fn deployment() -> Value {
    json!({
        "metadata": {"name": "app"},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": {"app": "app"}},
            "template": template(),
        },
    })
}

async fn pods_by_hand(client: &Client) -> Result<Duration> {
    let pods = objects(client, "", "v1", "Pod", Some("baseline"));
    let began = start();
    many(REPLICAS, |number| {
        let mut pod = template();
        pod["metadata"]["name"] = format!("pod-{number}").into();
        // No scheduler has this name.
        pod["spec"]["schedulerName"] = "nobody".into();
        create(&pods, pod)
    })
    .await?;
    Ok(began.elapsed())
}

/// Creates objects of several kinds, as a typical namespace has.
async fn fill(client: &Client) -> Result<()> {
    let kinds = ["ConfigMap", "Secret", "ServiceAccount", "Endpoints", "LimitRange"];
    let apis: Vec<_> = kinds.iter().map(|kind| objects(client, "", "v1", kind, Some("contents"))).collect();
    many(CONTENTS, |number| {
        let api = &apis[number % kinds.len()];
        create(api, json!({"metadata": {"name": format!("object-{number}")}}))
    })
    .await
}

async fn many<F: Future<Output = Result<()>>>(count: usize, make: impl FnMut(usize) -> F) -> Result<()> {
    stream::iter((0..count).map(make)).buffer_unordered(IN_FLIGHT).try_collect::<Vec<()>>().await.map(drop)
}

fn number(status: &Value, field: &str) -> usize {
    status[field].as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or_default()
}

/// Waits until the Deployment has a matching status for its latest generation.
async fn until(api: &Api<DynamicObject>, fits: impl Fn(&Value) -> bool) -> Result<()> {
    let mut events = api.watch(&WatchParams::default().fields("metadata.name=app"), "0").await?.boxed();
    while let Some(event) = events.try_next().await? {
        if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event {
            let status = &object.data["status"];
            if status["observedGeneration"].as_i64() == object.metadata.generation && fits(status) {
                return Ok(());
            }
        }
    }
    bail!("the watch ended")
}

async fn gone(api: &Api<DynamicObject>, name: &str) -> Result<()> {
    let mut events = api.watch(&WatchParams::default(), "0").await?.boxed();
    while let Some(event) = events.try_next().await? {
        match event {
            WatchEvent::Deleted(object) if object.name_any() == name => return Ok(()),
            _ if api.get_opt(name).await?.is_none() => return Ok(()),
            _ => {}
        }
    }
    bail!("the watch ended")
}

fn millis(duration: Duration) -> String {
    format!("{} ms", duration.as_millis())
}
