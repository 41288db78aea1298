//! Pods that the scheduler binds per second: `cargo xtask bench scheduler`.
//!
//! First scheduling decisions alone; the baseline is plain pods. Then a whole server in memory, from the first
//! request that creates a pod until a client has observed the last one bound: this includes creating pods, delivering
//! watch events, deciding, binding and Events. Last the same with nodes that renew their leases and run their pods,
//! like `coracle server --fake-nodes`.

mod pods;

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use coracle::config::FakeNodes;
use coracle::{Config, Coracle, Handle, StoreConfig};
use coracle_benches::measure::{block_on, micros, per_second, ratio, report, resident_bytes, start};
use coracle_scheduler::{DEFAULT_SCHEDULER_NAME, ProfileConfig, Registry, Simulation};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use serde_json::Value;

use pods::Kind;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Concurrent creates.
const CONCURRENT: usize = 32;

/// Target for the memory of the whole process.
const MEMORY_AIM_MIB: u64 = 600;

/// Beginning of an ADDED watch event; it cannot occur inside a pod's text.
const ADDED: &[u8] = br#"{"type":"ADDED","#;

const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

#[derive(Parser)]
struct Args {
    /// Number of nodes.
    #[arg(long, default_value_t = 5_000)]
    nodes: usize,
    /// Number of pods.
    #[arg(long, default_value_t = 10_000)]
    pods: usize,
    /// Run only this kind of pods.
    #[arg(long)]
    only: Option<Kind>,
}

/// Behaviour of the nodes.
#[derive(Clone, Copy)]
enum Nodes {
    /// No heartbeats, and pods do not run.
    Idle,
    /// They renew their leases, and their pods run.
    Simulated,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let kinds: Vec<Kind> = args.only.map_or_else(|| Kind::ALL.to_vec(), |kind| vec![kind]);
    let baseline = decide(&args, Kind::Plain)?;
    for kind in &kinds {
        let figure = if *kind == Kind::Plain { baseline } else { decide(&args, *kind)? };
        let aim = Duration::from_secs_f64(1.0 / kind.aim());
        let text = format!("{} a pod, {:.1} of that of a plain one", micros(figure), ratio(figure, baseline));
        report(&format!("{kind}: decisions alone"), &text, &format!("< {}", micros(aim)), figure < aim);
    }
    for nodes in [Nodes::Idle, Nodes::Simulated] {
        for kind in &kinds {
            block_on(serve(&args, *kind, nodes))?;
        }
    }
    Ok(())
}

/// Duration of one decision.
fn decide(args: &Args, kind: Kind) -> Result<Duration> {
    let mut simulation =
        Simulation::new(&ProfileConfig::new(DEFAULT_SCHEDULER_NAME), &Registry::default(), 1)?;
    for number in 0..args.nodes {
        simulation.set_node(pods::node(number))?;
    }
    let waiting: Vec<Value> = (0..args.pods).map(|number| pods::pod(kind, number)).collect();
    let watch = start();
    for pod in waiting {
        let decided = simulation.schedule(pod)?;
        anyhow::ensure!(decided.is_ok(), "a pod has no node: {decided:?}");
    }
    Ok(watch.elapsed() / u32::try_from(args.pods.max(1))?)
}

/// Pods per second of a whole server.
async fn serve(args: &Args, kind: Kind, nodes: Nodes) -> Result<()> {
    let mut config = Config::new("/nothing/is/written/there");
    config.store = StoreConfig::Memory;
    config.listen.clear();
    let (about, cluster) = match nodes {
        Nodes::Idle => {
            let cluster = Coracle::start(config).await?;
            create(&cluster, "Node", (0..args.nodes).map(pods::node)).await?;
            ("the whole server", cluster)
        }
        Nodes::Simulated => {
            config.fake_nodes = Some(FakeNodes::new(u32::try_from(args.nodes)?));
            ("on simulated nodes", Coracle::start(config).await?)
        }
    };
    cluster.run_until_idle().await?;
    let watch = start();
    let created = create(&cluster, "Pod", (0..args.pods).map(|number| pods::pod(kind, number)));
    futures_util::try_join!(created, until_bound(&cluster, args.pods))?;
    let elapsed = watch.elapsed();
    let rate = per_second(args.pods as u64, elapsed);
    let mib = resident_bytes() >> 20;
    let text = format!("{rate:.0} pods/s, {mib} MiB");
    let aim = format!("> {:.0} pods/s, < {MEMORY_AIM_MIB} MiB", kind.aim());
    report(&format!("{kind}: {about}"), &text, &aim, rate > kind.aim() && mib < MEMORY_AIM_MIB);
    cluster.shutdown().await;
    Ok(())
}

async fn create(cluster: &Handle, kind: &str, objects: impl Iterator<Item = Value>) -> Result<()> {
    let client = &cluster.client();
    let path = if kind == "Node" { "/api/v1/nodes" } else { "/api/v1/namespaces/default/pods" };
    let make = |object: Value| async move {
        // The response is not parsed, because the client is not measured.
        let request = http::Request::post(path).header("content-type", "application/json");
        let answer = client.send(request.body(serde_json::to_vec(&object)?.into())?).await?;
        anyhow::ensure!(answer.status().is_success(), "{path}: {}", answer.status());
        Ok::<_, anyhow::Error>(())
    };
    stream::iter(objects.map(make)).buffer_unordered(CONCURRENT).try_collect::<Vec<()>>().await?;
    Ok(())
}

/// Returns when a client has received this many bound pods. It only counts them, because the client is not measured.
async fn until_bound(cluster: &Handle, pods: usize) -> Result<()> {
    let path =
        "/api/v1/namespaces/default/pods?watch=true&fieldSelector=spec.nodeName%21%3D&timeoutSeconds=290";
    let request = http::Request::get(path).header("accept", METADATA_ONLY);
    let mut events = cluster.client().send(request.body(Vec::new().into())?).await?.into_body();
    let mut left = pods;
    while left > 0 {
        let frame = events.frame().await.context("the watch ended")??;
        let Some(lines) = frame.data_ref() else { continue };
        left = left.saturating_sub(lines.windows(ADDED.len()).filter(|window| *window == ADDED).count());
    }
    Ok(())
}
