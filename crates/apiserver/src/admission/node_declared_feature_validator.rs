//! NodeDeclaredFeatureValidator: rejects updates of a running pod that need a feature its node does not declare.

use coracle_api::usage::amounts;
use coracle_meta::object::Meta;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::core::node::Node;
use coracle_registry::{Result, view};
use serde_json::Value;

use super::PODS;
use super::plugin::{Plugin, Rule, forbidden};

const RESIZES_INIT_CONTAINERS: &str = "InPlacePodVerticalScalingInitContainers";
const RESIZES_WHOLE_PODS: &str = "InPlacePodLevelResourcesVerticalScaling";

pub(super) struct NodeDeclaredFeatureValidator;

impl Plugin for NodeDeclaredFeatureValidator {
    fn name(&self) -> &str {
        "NodeDeclaredFeatureValidator"
    }

    fn validates(&self) -> Vec<Rule> {
        let pods = Rule::new("", PODS, &[Operation::Update]);
        vec![pods.clone(), pods.of_subresource("resize")]
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: &'a Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let name = view::text(pod, &["spec", "nodeName"]);
            let mut needed = attributes.old.map_or_else(Vec::new, |old| needed(pod, old));
            if name.is_empty() || needed.is_empty() {
                return Ok(());
            }
            let Some(node) = attributes.cluster.find(&Node, "", name).await? else {
                return Err(forbidden(attributes, pod, format!("node {name:?} not found")));
            };
            let declared = view::items(&node, &["status", "declaredFeatures"]);
            needed.retain(|feature| !declared.iter().any(|declared| declared == feature));
            if needed.is_empty() {
                return Ok(());
            }
            let needed = needed.join(", ");
            let message =
                format!("pod update requires features {needed} which are not available on node {name:?}");
            Err(forbidden(attributes, pod, message))
        })
    }
}

/// The features that a node needs for an update. None as long as the generation is unchanged.
fn needed(pod: &Value, old: &Value) -> Vec<&'static str> {
    if Meta::of(pod).generation() == Meta::of(old).generation() {
        return Vec::new();
    }
    let mut needed = Vec::new();
    if differ(view::at(pod, &["spec"]), view::at(old, &["spec"])) {
        needed.push(RESIZES_WHOLE_PODS);
    }
    let init_containers = |pod| view::items(pod, &["spec", "initContainers"]);
    let is_resized = |(old, new): (&Value, &Value)| {
        view::text(old, &["restartPolicy"]) != "Always" && differ(Some(old), Some(new))
    };
    if init_containers(old).iter().zip(init_containers(pod)).any(is_resized) {
        needed.push(RESIZES_INIT_CONTAINERS);
    }
    needed
}

/// Returns true if the `resources` of two objects differ.
fn differ(new: Option<&Value>, old: Option<&Value>) -> bool {
    let side = |object: Option<&Value>, side| {
        object.map(|object| amounts(object, &["resources", side])).unwrap_or_default()
    };
    ["requests", "limits"].iter().any(|list| side(new, list) != side(old, list))
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::core::pod::Pod;
    use serde_json::json;

    use super::super::testing::Bench;
    use super::*;

    fn pod(generation: i64, whole: &str, init: &str) -> Value {
        let resources = |cpu: &str| json!({"requests": {"cpu": cpu}});
        json!({
            "metadata": {"name": "p", "generation": generation},
            "spec": {"nodeName": "n", "resources": resources(whole), "initContainers": [{"name": "i", "resources": resources(init)}]},
        })
    }

    async fn check(bench: &Bench, new: Value, missing: Option<&str>) {
        let plugin = NodeDeclaredFeatureValidator;
        let outcome = bench.admit_update(plugin, &Pod, "resize", &pod(1, "1", "1"), new).await;
        let message = |features| {
            format!(
                "pods \"p\" is forbidden: pod update requires features {features} which are not available on node \"n\""
            )
        };
        assert_eq!(outcome.err(), missing.map(message));
    }

    #[tokio::test]
    async fn update_requires_features_declared_by_the_node() {
        let bench = Bench::new().await;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        bench.create(&Node, node).await;
        check(&bench, pod(1, "2", "2"), None).await;
        check(&bench, pod(2, "1000m", "1"), None).await;
        check(&bench, pod(2, "2", "1"), Some(RESIZES_WHOLE_PODS)).await;
        check(&bench, pod(2, "1", "2"), Some(RESIZES_INIT_CONTAINERS)).await;
        bench
            .update(&Node, "n", "status", |node| {
                node["status"]["declaredFeatures"] = json!([RESIZES_WHOLE_PODS]);
            })
            .await;
        check(&bench, pod(2, "2", "1"), None).await;
        check(&bench, pod(2, "2", "2"), Some(RESIZES_INIT_CONTAINERS)).await;
    }
}
