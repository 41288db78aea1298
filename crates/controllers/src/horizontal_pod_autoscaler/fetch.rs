//! Client of the metrics APIs.
//!
//! Resource metrics come from `metrics.k8s.io`, all others from `custom.metrics.k8s.io` and
//! `external.metrics.k8s.io`, which exist only if an adapter is installed.

use std::time::Duration;

use coracle_base::Timestamp;
use coracle_meta::quantity::Quantity;
use coracle_meta::selector::{LabelSelector, labels};
use coracle_meta::time::parse_go_wait;
use coracle_runtime::informer::timestamp;
use coracle_runtime::{ObjectKey, Objects, ResourcePath};
use form_urlencoded::byte_serialize;
use kube::Client;
use kube::api::ListParams;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::metric::{Measured, MetricQuery, go_selector};
use super::object::{NamedMetric, ResourceMetric};
use super::pods::{Sample, Samples};

const RESOURCE_METRICS: &str = "metrics.k8s.io";
const CUSTOM_METRICS: &str = "custom.metrics.k8s.io";
const EXTERNAL_METRICS: &str = "external.metrics.k8s.io";

/// Assumed window of a sample without one, as metrics-server measures.
const DEFAULT_WINDOW: Duration = Duration::from_secs(60);

#[derive(Deserialize)]
struct Items<T> {
    items: Vec<T>,
}

/// Resource usage of a pod.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PodMetrics {
    metadata: Named,
    timestamp: Option<Box<str>>,
    window: Box<str>,
    containers: Vec<ContainerMetrics>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerMetrics {
    name: Box<str>,
    usage: coracle_runtime::informer::Labels,
}

/// A custom or external metric value.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct MetricValue {
    described_object: Named,
    timestamp: Option<Box<str>>,
    window_seconds: Option<u64>,
    value: Quantity,
}

/// Fetches metrics.
#[derive(Clone)]
pub(super) struct Fetcher {
    client: Client,
}

impl Fetcher {
    pub(super) fn new(client: &Client) -> Self {
        Self { client: client.clone() }
    }

    /// The current values of a metric, or the reason why they are missing.
    pub(super) async fn measure(
        &self,
        query: MetricQuery<'_>,
        beside: &ObjectKey,
        selector: &labels::Selector,
    ) -> Result<Measured, String> {
        match query {
            MetricQuery::Resource(metric) => {
                let samples = self.of_resource(metric, beside, selector).await;
                samples.map(Measured::Pods).map_err(|why| {
                    let ResourceMetric { name, target, .. } = metric;
                    let what = if target.average_value.is_some() { "usage" } else { "utilization" };
                    format!("failed to get {name} {what}: unable to get metrics for resource {name}: {why}")
                })
            }
            MetricQuery::Pods(metric) => {
                let samples = self.of_pods(metric, beside, selector).await;
                let name = &metric.metric.name;
                samples.map(Measured::Pods).map_err(|why| format!("unable to get metric {name}: {why}"))
            }
            MetricQuery::Object(metric) => {
                let total = self.of_object(metric, beside).await;
                total.map(Measured::Total).map_err(|why| {
                    let (name, object) = (&metric.metric.name, &metric.described_object);
                    // The order of the parts is Kubernetes'.
                    format!(
                        "unable to get metric {name}: {} on {} {}/{why}",
                        object.kind,
                        beside.namespace(),
                        object.name
                    )
                })
            }
            MetricQuery::External(metric) => {
                let total = self.external(metric, beside).await;
                total.map(Measured::Total).map_err(|why| {
                    let (name, selector) =
                        (&metric.metric.name, go_selector(metric.metric.selector.as_ref()));
                    format!("unable to get external metric {}/{name}/{selector}: {why}", beside.namespace())
                })
            }
        }
    }

    async fn of_resource(
        &self,
        metric: &ResourceMetric,
        beside: &ObjectKey,
        selector: &labels::Selector,
    ) -> Result<Samples, String> {
        let pods = Objects::at(&self.client, ResourcePath::new(RESOURCE_METRICS, "v1beta1", "pods"));
        let params = ListParams::default().labels(&selector.to_string());
        let listed: Vec<PodMetrics> = pods.list(beside, &params).await.map_err(|error| {
            let why = error_message(&error, "get pods.metrics.k8s.io");
            format!("unable to fetch metrics from resource metrics API: {why}")
        })?;
        if listed.is_empty() {
            return Err("no metrics returned from resource metrics API".to_owned());
        }
        Ok(listed.into_iter().filter_map(|pod| pod.sample(metric)).collect())
    }

    async fn of_pods(
        &self,
        metric: &NamedMetric,
        beside: &ObjectKey,
        selector: &labels::Selector,
    ) -> Result<Samples, String> {
        let resource = format!("pods/*/{}", metric.metric.name);
        let query = [("labelSelector", selector.to_string())];
        let values = self.custom(beside, &resource, &query, metric).await?;
        if values.is_empty() {
            return Err("no metrics returned from custom metrics API".to_owned());
        }
        let sample = |value: MetricValue| {
            let window = value.window_seconds.map_or(DEFAULT_WINDOW, Duration::from_secs);
            let sample =
                Sample { value: value.value.milli_value(), at: at(value.timestamp.as_deref()), window };
            (value.described_object.name, sample)
        };
        Ok(values.into_iter().map(sample).collect())
    }

    async fn of_object(&self, metric: &NamedMetric, beside: &ObjectKey) -> Result<i64, String> {
        let (object, name) = (&metric.described_object, &metric.metric.name);
        let resource = if &*object.kind == "Namespace" && object.group() == Some("") {
            // Always the autoscaler's own namespace.
            format!("metrics/{name}")
        } else {
            let place = self.metrics_resource(beside.cluster(), object).await?;
            format!("{place}/{}/{name}", object.name)
        };
        let values = self.custom(beside, &resource, &[], metric).await?;
        let [value] = &*values else {
            let count = values.len();
            return Err(format!(
                "unable to fetch metrics from custom metrics API: the custom metrics API server returned \
                 {count} results when we asked for exactly one"
            ));
        };
        Ok(value.value.milli_value())
    }

    async fn custom(
        &self,
        beside: &ObjectKey,
        resource: &str,
        query: &[(&str, String)],
        metric: &NamedMetric,
    ) -> Result<Vec<MetricValue>, String> {
        let prefix = "unable to fetch metrics from custom metrics API";
        let group = self.group(beside.cluster(), CUSTOM_METRICS).await?;
        let version = group
            .map(|group| group.preferred_version.version)
            .ok_or_else(|| format!("{prefix}: no custom metrics API ({CUSTOM_METRICS}) registered"))?;
        let mut query = query.to_vec();
        query.push(("metricLabelSelector", selected(metric.metric.selector.as_ref())?));
        let path = ResourcePath::new(CUSTOM_METRICS, &version, resource);
        let path = with_query(&path.collection(beside.cluster(), beside.namespace()), &query);
        let listed: Items<MetricValue> = self.get(&path).await.map_err(|error| {
            let what = format!("get {}.{CUSTOM_METRICS}", resource.split('/').next().unwrap_or_default());
            format!("{prefix}: {}", error_message(&error, &what))
        })?;
        Ok(listed.items)
    }

    async fn external(&self, metric: &NamedMetric, beside: &ObjectKey) -> Result<i64, String> {
        let name = &metric.metric.name;
        let path = ResourcePath::new(EXTERNAL_METRICS, "v1beta1", name);
        let query = [("labelSelector", selected(metric.metric.selector.as_ref())?)];
        let path = with_query(&path.collection(beside.cluster(), beside.namespace()), &query);
        let listed: Items<MetricValue> = self.get(&path).await.map_err(|error| {
            let why = error_message(&error, &format!("get {name}.{EXTERNAL_METRICS}"));
            format!("unable to fetch metrics from external metrics API: {why}")
        })?;
        if listed.items.is_empty() {
            return Err("no metrics returned from external metrics API".to_owned());
        }
        Ok(listed.items.iter().fold(0_i64, |sum, one| sum.saturating_add(one.value.milli_value())))
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> kube::Result<T> {
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        self.client.request(request).await
    }
}

impl PodMetrics {
    /// `None` if not all selected containers have a sample.
    fn sample(self, metric: &ResourceMetric) -> Option<(String, Sample)> {
        let selected = self
            .containers
            .iter()
            .filter(|container| metric.container.is_empty() || container.name == metric.container);
        let values: Option<Vec<i64>> = selected
            .map(|container| Some(container.usage.get(&metric.name)?.parse::<Quantity>().ok()?.milli_value()))
            .collect();
        let values = values.filter(|values| !values.is_empty())?;
        let window = parse_go_wait(&self.window).unwrap_or_default();
        let sample = Sample { value: values.iter().sum(), at: at(self.timestamp.as_deref()), window };
        Some((self.metadata.name, sample))
    }
}

/// Words an error as client-go does; `what` is the request.
pub(super) fn error_message(error: &kube::Error, what: &str) -> String {
    match error {
        // A 404 without details means that the resource does not exist.
        kube::Error::Api(status) if status.code == 404 && status.details.is_none() => {
            format!("the server could not find the requested resource ({what})")
        }
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

fn selected(selector: Option<&LabelSelector>) -> Result<String, String> {
    let Some(selector) = selector else { return Ok(String::new()) };
    selector.to_selector().map(|selector| selector.to_string()).map_err(|error| error.to_string())
}

fn with_query(path: &str, query: &[(&str, String)]) -> String {
    let error_message = query.iter().filter(|(_, value)| !value.is_empty());
    let encoded: Vec<String> = error_message
        .map(|(name, value)| format!("{name}={}", byte_serialize(value.as_bytes()).collect::<String>()))
        .collect();
    if encoded.is_empty() { path.to_owned() } else { format!("{path}?{}", encoded.join("&")) }
}

fn at(text: Option<&str>) -> Timestamp {
    text.map(timestamp).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pod_metrics_are_parsed() {
        let pod = || -> PodMetrics {
            serde_json::from_value(json!({
                "metadata": {"name": "p"}, "timestamp": "1970-01-01T00:00:20Z", "window": "15.5s",
                "containers": [
                    {"name": "a", "usage": {"cpu": "1500000n", "memory": "1Ki"}},
                    {"name": "b", "usage": {"cpu": "2"}},
                ],
            }))
            .unwrap()
        };
        let of = |name: &str, container: &str| {
            let metric =
                ResourceMetric { name: name.into(), container: container.into(), ..Default::default() };
            pod().sample(&metric).map(|(_, sample)| sample)
        };
        let cpu = of("cpu", "").unwrap();
        assert_eq!((cpu.value, cpu.window), (2002, Duration::from_millis(15_500)));
        assert_eq!(cpu.at, Timestamp::from_millis(20_000));
        assert_eq!(of("memory", ""), None, "a container lacks the metric");
        assert_eq!(of("memory", "a").map(|sample| sample.value), Some(1_024_000));
        assert_eq!(of("cpu", "x"), None);
    }

    #[test]
    fn metrics_api_paths() {
        let query = [("labelSelector", "a=b".to_owned()), ("metricLabelSelector", String::new())];
        assert_eq!(with_query("/x", &query), "/x?labelSelector=a%3Db");
    }
}
