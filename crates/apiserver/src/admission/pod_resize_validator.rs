//! PodResizeValidator: rejects resizing a pod beyond what its node can allocate.

use coracle_api::usage::amounts;
use coracle_api::usage::pod::{Basis, Side, of_pod};
use coracle_meta::object::Meta;
use coracle_meta::quantity::Quantity;
use coracle_meta::status::{Cause, Status};
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::core::node::Node;
use coracle_registry::{Error, Result, Subject, view};
use serde_json::Value;

use super::PODS;
use super::plugin::{Plugin, Rule, forbidden};

const OS_LABEL: &str = "kubernetes.io/os";
const UNSUPPORTED_PLATFORM: &str = "UnsupportedPlatform";
const NODE_CAPACITY: &str = "NodeCapacity";

pub(super) struct PodResizeValidator;

impl Plugin for PodResizeValidator {
    fn name(&self) -> &str {
        "PodResizeValidator"
    }

    fn validates(&self) -> Vec<Rule> {
        vec![Rule::new("", PODS, &[Operation::Update]).of_subresource("resize")]
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let name = view::text(pod, &["spec", "nodeName"]);
            let generation = |pod| Meta::of(pod).generation();
            // Desired resources change only together with the generation.
            if name.is_empty() || attributes.old.is_none_or(|old| generation(old) == generation(pod)) {
                return Ok(());
            }
            let Some(node) = attributes.cluster.find(&Node, "", name).await? else {
                return Err(forbidden(attributes, pod, format!("node {name:?} not found")));
            };
            match fault(pod, &node) {
                Some((message, cause)) => Err(refusal(attributes, &message, cause)),
                None => Ok(()),
            }
        })
    }
}

fn refusal(attributes: &Attributes<'_>, message: &str, cause: &str) -> Error {
    let resource = Subject::of(attributes.write.kind.declaration(), "").resource;
    let status = Status::forbidden(&resource, attributes.name, message);
    Error::Refused(Box::new(status.with_cause(Cause::new(cause, "", ""))))
}

/// The error message and its machine-readable cause.
fn fault(pod: &Value, node: &Value) -> Option<(String, &'static str)> {
    if let Some(system) = Meta::of(node).label(OS_LABEL).filter(|system| *system != "linux") {
        let name = view::name(node);
        let message = format!("pod resize is only supported on linux nodes, node {name:?} is {system:?}");
        return Some((message, UNSUPPORTED_PLATFORM));
    }
    let requests = of_pod(pod, Side::Requests, Basis::Spec);
    let allocatable = amounts(node, &["status", "allocatable"]);
    let nothing = Quantity::default();
    let mut lacking = Vec::new();
    for (name, count) in [("cpu", Quantity::milli_value as fn(&Quantity) -> i64), ("memory", Quantity::value)]
    {
        let requested = requests.get(name).unwrap_or(&nothing);
        let available = allocatable.get(name).unwrap_or(&nothing);
        if requested > available {
            let (requested, available) = (count(requested), count(available));
            lacking.push(format!("{name}, requested: {requested}, allocatable: {available}"));
        }
    }
    (!lacking.is_empty()).then(|| {
        let lacking = lacking.join("; ");
        (format!("node didn't have enough allocatable resources: {lacking}"), NODE_CAPACITY)
    })
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::core::pod::Pod;
    use serde_json::json;

    use super::super::testing::Bench;
    use super::*;

    fn pod(node: &str, generation: i64, cpu: &str) -> Value {
        json!({
            "metadata": {"name": "p", "generation": generation},
            "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]},
        })
    }

    async fn check(bench: &Bench, node: &str, cpu: &str, refused: Option<&str>) {
        let (old, new) = (pod(node, 1, "1"), pod(node, 2, cpu));
        let outcome = bench.admit_update(PodResizeValidator, &Pod, "resize", &old, new).await;
        assert_eq!(outcome.err(), refused.map(|reason| format!("pods \"p\" is forbidden: {reason}")));
    }

    #[tokio::test]
    async fn resize_must_fit_the_allocatable_resources_of_the_node() {
        let bench = Bench::new().await;
        for (name, system) in [("small", "linux"), ("other", "windows")] {
            let node = json!({
                "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {OS_LABEL: system}},
                "status": {"allocatable": {"cpu": "2", "memory": "512Mi"}},
            });
            bench.create(&Node, node).await;
            bench
                .update(&Node, name, "status", |node| {
                    node["status"]["allocatable"] = json!({"cpu": "2", "memory": "2Gi"});
                })
                .await;
        }
        check(&bench, "small", "2", None).await;
        check(&bench, "", "9", None).await;
        let large = "node didn't have enough allocatable resources: cpu, requested: 2500, allocatable: 2000";
        check(&bench, "small", "2500m", Some(large)).await;
        let windows = "pod resize is only supported on linux nodes, node \"other\" is \"windows\"";
        check(&bench, "other", "1", Some(windows)).await;
        check(&bench, "gone", "1", Some("node \"gone\" not found")).await;
        let same = pod("gone", 1, "9");
        assert!(bench.admit_update(PodResizeValidator, &Pod, "resize", &same, same.clone()).await.is_ok());
    }
}
