//! Cost of an idle cluster, and of an additional idle controller or kind.

use std::convert::Infallible;
use std::time::Duration;

use anyhow::Result;
use coracle::kube::api::{Api, DynamicObject, PostParams};
use coracle::kube::core::{ApiResource, GroupVersionKind};
use coracle::{Config, Coracle, Handle, StoreConfig};
use coracle_base::Task;
use coracle_benches::measure::{processor_time, report, resident_bytes};
use coracle_runtime::informer::PartialObject;
use coracle_runtime::{
    Action, ClusterId, Controller, Manager, ObjectKey, Reconcile, ResourcePath, Selection,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Duration of the measurement.
const WATCHED: Duration = Duration::from_secs(5);

const CONTROLLERS: usize = 1000;
const KINDS: usize = 100;

/// More CPU time than this is work, not noise: it is the cost of one request.
const NOISE: Duration = Duration::from_millis(5);

/// A controller without work.
struct Idle;

impl Reconcile for Idle {
    type Error = Infallible;

    async fn reconcile(&self, _key: &ObjectKey) -> Result<Action, Infallible> {
        Ok(Action::AwaitChange)
    }
}

pub(crate) async fn measure() -> Result<()> {
    let mut config = Config::new("/nothing/is/written/there");
    config.store = StoreConfig::Memory;
    config.listen.clear();
    let cluster = Coracle::start(config).await?;
    cluster.run_until_idle().await?;
    let alone = spent().await;
    let text = format!("{:.1} ms of a processor in {} s", millis(alone), WATCHED.as_secs());
    report("An idle cluster", &text, "the baseline", true);

    let before = resident_bytes();
    let (stop, running) = add_controllers(&cluster).await?;
    print_difference(&format!("{CONTROLLERS} more idle controllers"), alone, before, CONTROLLERS).await;
    stop.cancel();
    running.await?;

    let before = resident_bytes();
    add_kinds(&cluster).await?;
    cluster.run_until_idle().await?;
    print_difference(&format!("{KINDS} more kinds"), alone, before, KINDS).await;
    cluster.shutdown().await;
    Ok(())
}

async fn print_difference(what: &str, alone: Duration, before: u64, count: usize) {
    let more = spent().await.saturating_sub(alone);
    let kib = resident_bytes().saturating_sub(before) as f64 / 1024.0 / count as f64;
    let text = format!("{:.1} ms more of a processor, {kib:.1} KiB each", millis(more));
    report(what, &text, "no work", more < NOISE);
}

/// CPU time that the idle process uses.
async fn spent() -> Duration {
    let before = processor_time();
    tokio::time::sleep(WATCHED).await;
    processor_time().saturating_sub(before)
}

/// Adds controllers of one kind, which share a watch.
async fn add_controllers(cluster: &Handle) -> Result<(CancellationToken, Task<()>)> {
    let mut manager = Manager::new(cluster.client(), ClusterId::default());
    let maps = manager
        .informer::<PartialObject>(Selection::at(&ResourcePath::new("", "v1", "configmaps")).metadata_only());
    for _ in 0..CONTROLLERS {
        manager.add(Controller::new("idle", Idle).watches(&maps, |change| [change.key.clone()]));
    }
    let idle = manager.idle();
    let stop = CancellationToken::new();
    let running = Task::spawn("idle controllers", manager.run(stop.clone()));
    idle.run_until_idle().await?;
    Ok((stop, running))
}

async fn add_kinds(cluster: &Handle) -> Result<()> {
    let gvk = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let api = Api::<DynamicObject>::all_with(cluster.client(), &ApiResource::from_gvk(&gvk));
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "size": {"type": "integer"}, "color": {"type": "string"}}}}});
    for number in 0..KINDS {
        let plural = format!("boats{number}");
        let kind = json!({
            "metadata": {"name": format!("{plural}.example.org")},
            "spec": {
                "group": "example.org", "scope": "Namespaced",
                "names": {"plural": plural, "kind": format!("Boat{number}")},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        api.create(&PostParams::default(), &serde_json::from_value(kind)?).await?;
    }
    Ok(())
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
