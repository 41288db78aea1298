//! How many pods find their nodes in a second: `cargo xtask bench scheduler`.
//!
//! First the decisions alone, of which the baseline is that of plain pods. Then a whole server in memory,
//! from the first request that makes a pod until a client has seen the last one bound: making pods, telling of
//! them, deciding, binding and the events are all in it. Last the same where the nodes renew their leases and
//! run their pods, as `coracle server --fake-nodes` has them.

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

/// How many objects are made at a time.
const CONCURRENT: usize = 32;

/// What all of it may take in memory.
const MEMORY_AIM_MIB: u64 = 600;

/// How a watch tells of an object that is new to it, in which no text of a pod can be.
const ADDED: &[u8] = br#"{"type":"ADDED","#;

const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

#[derive(Parser)]
struct Args {
    /// How many nodes there are.
    #[arg(long, default_value_t = 5_000)]
    nodes: usize,
    /// How many pods are to be scheduled.
    #[arg(long, default_value_t = 10_000)]
    pods: usize,
    /// Only this kind of pods.
    #[arg(long)]
    only: Option<Kind>,
}

/// What nodes do.
#[derive(Clone, Copy)]
enum Nodes {
    /// Nothing at all.
    Idle,
    /// They give signs of life, and their pods run.
    Simulated,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let kinds: Vec<Kind> = args.only.map_or_else(|| Kind::ALL.to_vec(), |kind| vec![kind]);
    let baseline = decide(&args, Kind::Plain)?;
    for kind in &kinds {
        let figure = if *kind == Kind::Plain { baseline } else { decide(&args, *kind)? };
        let aim = Duration::from_secs_f64(1.0 / kind.aim());
        let shown =
            format!("{} a pod, {:.1} of that of a plain one", micros(figure), ratio(figure, baseline));
        report(&format!("{kind}: decisions alone"), &shown, &format!("< {}", micros(aim)), figure < aim);
    }
    for nodes in [Nodes::Idle, Nodes::Simulated] {
        for kind in &kinds {
            block_on(serve(&args, *kind, nodes))?;
        }
    }
    Ok(())
}

/// The time of one decision.
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

/// Pods of a whole server in a second.
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
    let made = create(&cluster, "Pod", (0..args.pods).map(|number| pods::pod(kind, number)));
    futures_util::try_join!(made, until_bound(&cluster, args.pods))?;
    let elapsed = watch.elapsed();
    let rate = per_second(args.pods as u64, elapsed);
    let mib = resident_bytes() >> 20;
    let shown = format!("{rate:.0} pods/s, {mib} MiB");
    let aim = format!("> {:.0} pods/s, < {MEMORY_AIM_MIB} MiB", kind.aim());
    report(&format!("{kind}: {about}"), &shown, &aim, rate > kind.aim() && mib < MEMORY_AIM_MIB);
    cluster.shutdown().await;
    Ok(())
}

async fn create(cluster: &Handle, kind: &str, objects: impl Iterator<Item = Value>) -> Result<()> {
    let client = &cluster.client();
    let path = if kind == "Node" { "/api/v1/nodes" } else { "/api/v1/namespaces/default/pods" };
    let make = |object: Value| async move {
        // What the server answers is not read: it is not the client that is measured.
        let request = http::Request::post(path).header("content-type", "application/json");
        let answer = client.send(request.body(serde_json::to_vec(&object)?.into())?).await?;
        anyhow::ensure!(answer.status().is_success(), "{path}: {}", answer.status());
        Ok::<_, anyhow::Error>(())
    };
    stream::iter(objects.map(make)).buffer_unordered(CONCURRENT).try_collect::<Vec<()>>().await?;
    Ok(())
}

/// Returns when a client has been told of so many bound pods. It only counts them: it is not the client that is
/// measured.
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
