//! `metrics.k8s.io`: resource usage of nodes and pods, read from the metrics source for each request and never stored.

use coracle_meta::gvk::GroupResource;
use coracle_meta::quantity::{Format, Quantity, Scale};
use coracle_meta::status::Status;
use coracle_meta::time::{Time, go_duration};
use coracle_registry::Revision;
use coracle_registry::kinds::metrics::GROUP;
use coracle_registry::lifecycle::Object;
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::ResourceRequest;
use crate::body::ResponseBody;
use crate::negotiate::{self, Shape, to_json};
use crate::resource_metrics::{Measured, NodeUsage, PodUsage, Usage};
use crate::status::Refusal;

impl ResourceRequest {
    pub(super) fn answer_metrics(&self) -> Result<Response<ResponseBody>, Refusal> {
        if self.path.name.is_empty() { self.list_metrics() } else { self.get_metrics() }
    }

    fn get_metrics(&self) -> Result<Response<ResponseBody>, Refusal> {
        let (path, cluster) = (&self.path, self.cluster.id());
        let source = self.components.metrics_source.as_deref();
        let (resource, name, found) = if self.kind.declaration().kind == "NodeMetrics" {
            let nodes = source.map(|source| source.nodes(cluster)).unwrap_or_default();
            let node = nodes.into_iter().find(|node| node.name == path.name);
            ("nodemetrics", path.name.clone(), node.map(|node| node_metrics(&node, self.now)))
        } else {
            let pod = source.and_then(|source| source.pod(cluster, &path.namespace, &path.name));
            let name = format!("{}/{}", path.namespace, path.name);
            ("podmetrics", name, pod.map(|pod| pod_metrics(&pod, self.now)))
        };
        let Some(mut found) = found else {
            let resource = GroupResource { group: GROUP.into(), resource: resource.into() };
            return Err(Status::not_found(&resource, &name).into());
        };
        found["kind"] = (*self.kind.declaration().kind).into();
        found["apiVersion"] = format!("{GROUP}/{}", path.version).into();
        negotiate::object(&self.encoding()?, &unstored(&found))
    }

    fn list_metrics(&self) -> Result<Response<ResponseBody>, Refusal> {
        let selection = self.query.selection(&*self.kind, &self.path.version)?;
        let mut items = self.all_metrics();
        if !selection.is_everything() {
            items.retain(|item| selection.matches(&*self.kind, item));
        }
        let encoding = self.encoding()?;
        if encoding.format.shape == Shape::Table {
            let objects: Vec<Object> = items.iter().map(unstored).collect();
            return negotiate::table(&encoding, &objects);
        }
        let list = json!({
            "kind": self.kind.declaration().list_kind(),
            "apiVersion": format!("{GROUP}/{}", self.path.version),
            "metadata": {},
            "items": items,
        });
        self.respond(&list, StatusCode::OK)
    }

    fn all_metrics(&self) -> Vec<Value> {
        let Some(source) = self.components.metrics_source.as_deref() else { return Vec::new() };
        let (cluster, now) = (self.cluster.id(), self.now);
        if self.kind.declaration().kind == "NodeMetrics" {
            source.nodes(cluster).iter().map(|node| node_metrics(node, now)).collect()
        } else {
            source.pods(cluster, &self.path.namespace).iter().map(|pod| pod_metrics(pod, now)).collect()
        }
    }
}

fn node_metrics(node: &NodeUsage, now: i64) -> Value {
    let mut metrics = measured(node.measured);
    metrics.insert("metadata".to_owned(), metadata("", &node.name, &node.labels, now));
    metrics.insert("usage".to_owned(), usage(node.usage));
    Value::Object(metrics)
}

fn pod_metrics(pod: &PodUsage, now: i64) -> Value {
    let mut metrics = measured(pod.measured);
    metrics.insert("metadata".to_owned(), metadata(&pod.namespace, &pod.name, &pod.labels, now));
    let containers = pod.containers.iter();
    let containers = containers.map(|(name, used)| json!({"name": name, "usage": usage(*used)})).collect();
    metrics.insert("containers".to_owned(), containers);
    Value::Object(metrics)
}

fn metadata(namespace: &str, name: &str, labels: &[(String, String)], now: i64) -> Value {
    let mut metadata = json!({"name": name, "creationTimestamp": Time(now).to_string()});
    if !namespace.is_empty() {
        metadata["namespace"] = namespace.into();
    }
    if !labels.is_empty() {
        metadata["labels"] = labels
            .iter()
            .map(|(key, value)| (key.clone(), Value::from(&**value)))
            .collect::<Map<_, _>>()
            .into();
    }
    metadata
}

fn measured(measured: Measured) -> Map<String, Value> {
    let seconds = i64::try_from(measured.at.as_millis() / 1000).unwrap_or(i64::MAX);
    Map::from_iter([
        ("timestamp".to_owned(), Time(seconds).to_string().into()),
        ("window".to_owned(), go_duration(measured.window).into()),
    ])
}

/// Formats usage in the units of metrics-server: CPU in nanocores, memory in Ki.
fn usage(usage: Usage) -> Value {
    let amount = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
    let cpu = Quantity::from_scaled(amount(usage.cpu_nanocores), Scale::NANO, Format::DecimalSi);
    let memory = Quantity::new(amount(usage.memory_bytes), Format::BinarySi);
    json!({"cpu": cpu.canonical(), "memory": memory.canonical()})
}

/// Wraps metrics as an object without a stored revision.
fn unstored(metrics: &Value) -> Object {
    Object { json: to_json(metrics).into(), revision: Revision::new(0) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use coracle_base::Timestamp;

    use super::*;

    #[test]
    fn pod_metrics_have_the_format_of_metrics_server() {
        let pod = PodUsage {
            namespace: "n".into(),
            name: "p".into(),
            labels: vec![("app".into(), "x".into())],
            measured: Measured { at: Timestamp::from_millis(20_000), window: Duration::from_millis(15_250) },
            containers: vec![("c".into(), Usage { cpu_nanocores: 250_000_001, memory_bytes: 3 << 20 })],
        };
        let expected = json!({
            "metadata": {
                "name": "p", "namespace": "n", "creationTimestamp": "1970-01-01T00:00:30Z", "labels": {"app": "x"},
            },
            "timestamp": "1970-01-01T00:00:20Z",
            "window": "15.25s",
            "containers": [{"name": "c", "usage": {"cpu": "250000001n", "memory": "3Mi"}}],
        });
        assert_eq!(pod_metrics(&pod, 30), expected);
        assert_eq!(go_duration(Duration::from_secs(60)), "1m0s");
    }
}
