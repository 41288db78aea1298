//! Metrics of the server, served at `/metrics` in Prometheus' text format under kube-apiserver's names.
//!
//! Counting a request costs one hash of its labels, one lookup under a read lock and a few atomic additions, well under
//! a microsecond; everything else is computed when metrics are requested.

mod labels;
mod process;
mod requests;
mod server;
mod watches;

pub(crate) use server::{ServerMetrics, StepResult, TokenUse};
pub(crate) use watches::WatchedResource;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

use coracle_base::metrics::Text;
use coracle_registry::{Cluster, Kind, Verbs};
use http::{HeaderValue, Response, header};

use crate::body::{ResponseBody, full};
use crate::discovery;
use crate::flow::FlowControl;
use crate::request_info::RequestInfo;
use crate::served_kinds::ServedKinds;
use crate::status::Refusal;
use requests::Requests;
use watches::Watches;

/// The media type of the response.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// All metrics of the server.
#[derive(Default)]
pub(crate) struct Metrics {
    requests: Requests,
    watches: Watches,
    server: ServerMetrics,
    /// Metrics of other components of the process.
    others: RwLock<Vec<MetricsSource>>,
}

/// Metrics of a component in Prometheus' text format, whole lines only.
type MetricsSource = Box<dyn Fn() -> String + Send + Sync>;

impl Metrics {
    /// Begins to measure a request; the result records how it ended.
    pub(crate) fn begin(self: &Arc<Self>, info: Arc<RequestInfo>, is_remote: bool) -> requests::Running {
        requests::Running::begin(self.clone(), info, is_remote)
    }

    /// The counters for watch events of a resource.
    pub(crate) fn watched(&self, kind: &dyn Kind, version: &str) -> Arc<WatchedResource> {
        self.watches.of(kind.declaration(), version)
    }

    /// The metrics of the steps of requests.
    pub(crate) fn server(&self) -> &ServerMetrics {
        &self.server
    }

    /// Adds metrics of another component.
    pub(crate) fn add_source(&self, source: MetricsSource) {
        self.others.write().unwrap_or_else(PoisonError::into_inner).push(source);
    }

    /// Writes all metrics.
    pub(crate) async fn answer(
        &self,
        cluster: &Cluster,
        flow: &FlowControl,
        version: &str,
    ) -> Result<Response<ResponseBody>, Refusal> {
        let mut text = Text::default();
        text.family("kubernetes_build_info", "gauge", "The version that is served.");
        let (major, minor) = ("1", version.trim_start_matches("v1.").split('.').next().unwrap_or_default());
        text.sample(
            "kubernetes_build_info",
            &[("git_version", version), ("major", major), ("minor", minor)],
            1,
        );
        write_version_info(&mut text, version);
        self.requests.write(&mut text);
        self.watches.write(&mut text);
        text.append(&self.server.text());
        flow.write_metrics(cluster, &mut text).await?;
        flow.write_server_metrics(&mut text);
        write_objects(cluster, &mut text).await?;
        write_service_network(cluster, &mut text).await?;
        write_storage(cluster, &mut text).await?;
        for source in self.others.read().unwrap_or_else(PoisonError::into_inner).iter() {
            text.append(&source());
        }
        process::write_metrics(&mut text);
        Ok(page(text))
    }
}

/// The metrics of one cluster, for its own administrators: its objects and its flow control, without those of the
/// server and of other clusters.
pub(crate) async fn answer_cluster(
    cluster: &Cluster,
    flow: &FlowControl,
) -> Result<Response<ResponseBody>, Refusal> {
    let mut text = Text::default();
    flow.write_metrics(cluster, &mut text).await?;
    write_objects(cluster, &mut text).await?;
    write_service_network(cluster, &mut text).await?;
    Ok(page(text))
}

/// The releases that the server is, acts as, and is at least compatible with: those of `/version`.
fn write_version_info(text: &mut Text, version: &str) {
    text.family("version_info", "gauge", "The versions of the server.");
    let labels = [
        ("binary", version.trim_start_matches('v')),
        ("component", "kube"),
        ("emulation", discovery::EMULATED_VERSION),
        ("min_compat", discovery::MIN_COMPATIBILITY_VERSION),
    ];
    text.sample("version_info", &labels, 1);
}

fn page(text: Text) -> Response<ResponseBody> {
    let mut response = Response::new(full(text.into_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Allocated addresses and node ports of services, counted for each request.
async fn write_service_network(cluster: &Cluster, text: &mut Text) -> Result<(), Refusal> {
    const ALLOCATED: &str = "kube_apiserver_clusterip_allocator_allocated_ips";
    const AVAILABLE: &str = "kube_apiserver_clusterip_allocator_available_ips";
    let ranges = cluster.address_usage().await?;
    text.family(ALLOCATED, "gauge", "Addresses that services hold, by range.");
    for range in &ranges {
        text.sample(ALLOCATED, &[("cidr", &range.cidr)], range.allocated);
    }
    text.family(AVAILABLE, "gauge", "Addresses that services can get, by range.");
    for range in &ranges {
        text.sample(AVAILABLE, &[("cidr", &range.cidr)], range.available);
    }
    let ports = cluster.port_usage().await?;
    for (name, help, value) in [
        (
            "kube_apiserver_nodeport_allocator_allocated_ports",
            "Node ports that services hold.",
            ports.allocated,
        ),
        (
            "kube_apiserver_nodeport_allocator_available_ports",
            "Node ports that services can get.",
            ports.available,
        ),
    ] {
        text.family(name, "gauge", help);
        text.sample(name, &[], value);
    }
    Ok(())
}

async fn write_storage(cluster: &Cluster, text: &mut Text) -> Result<(), Refusal> {
    const NAME: &str = "apiserver_storage_size_bytes";
    let (engine, bytes) = cluster.storage_size().await?;
    text.family(NAME, "gauge", "Bytes that the store takes: on disk if it has files, else in memory.");
    text.sample(NAME, &[("storage_cluster_id", engine)], bytes);
    Ok(())
}

/// The number of objects, counted for each request.
async fn write_objects(cluster: &Cluster, text: &mut Text) -> Result<(), Refusal> {
    text.family("apiserver_resource_objects", "gauge", "Objects stored, by resource.");
    let mut counts = Vec::new();
    let served = ServedKinds::of(cluster).await?;
    let mut seen = BTreeSet::new();
    for kind in served.kinds().filter(|kind| kind.declaration().verbs.contain(Verbs::GET)) {
        // Versions of a custom kind share their objects.
        if seen.insert(kind.declaration().group_resource()) {
            counts.push((kind.declaration(), cluster.count(kind).await?));
        }
    }
    for (declaration, count) in &counts {
        let labels = [("group", &*declaration.group), ("resource", &*declaration.plural)];
        text.sample("apiserver_resource_objects", &labels, *count);
    }
    text.family("apiserver_storage_objects", "gauge", "Objects stored, by resource and group.");
    for (declaration, count) in &counts {
        text.sample("apiserver_storage_objects", &[("resource", &*declaration.group_resource())], *count);
    }
    Ok(())
}
