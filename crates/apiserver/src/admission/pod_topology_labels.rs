//! PodTopologyLabels: copies the zone and region labels of a node to its pods.
//!
//! The labels are set on the binding, from where they reach the pod, or on a pod that is created with a node name.

use coracle_meta::object::MetaMut;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::kinds::core::node::Node;
use coracle_registry::{Result, view};
use serde_json::Value;

use super::PODS;
use super::plugin::{Plugin, Rule};

const LABELS: [&str; 2] = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

pub(super) struct PodTopologyLabels;

impl Plugin for PodTopologyLabels {
    fn name(&self) -> &str {
        "PodTopologyLabels"
    }

    fn mutates(&self) -> Vec<Rule> {
        let pods = Rule::new("", PODS, &[Operation::Create]);
        vec![pods.clone(), pods.of_subresource("binding")]
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: &'a mut Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let name = node_name(attributes, object);
            if name.is_empty() {
                return Ok(());
            }
            // A missing node is not an error.
            let Some(labels) = attributes.cluster.find_labels(&Node, "", name).await? else { return Ok(()) };
            let Some(mut meta) = MetaMut::of(object) else { return Ok(()) };
            for (label, value) in labels.iter().filter(|(label, _)| LABELS.contains(&label.as_str())) {
                meta.set_label(label, value);
            }
            Ok(())
        })
    }
}

fn node_name<'a>(attributes: &Attributes<'_>, object: &'a Value) -> &'a str {
    match attributes.write.subresource {
        "binding" if view::text(object, &["target", "kind"]) == "Node" => {
            view::text(object, &["target", "name"])
        }
        "binding" => "",
        _ => view::text(object, &["spec", "nodeName"]),
    }
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::core::pod::Pod;
    use serde_json::json;

    use super::super::testing::{Bench, only};
    use super::*;

    async fn bench() -> Bench {
        let bench = Bench::new().await;
        let labels = json!({LABELS[0]: "north", LABELS[1]: "n1", "kubernetes.io/os": "linux"});
        let node =
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node", "labels": labels}});
        bench.create(&Node, node).await;
        bench
    }

    #[tokio::test]
    async fn binding_gets_the_labels_of_the_node() {
        let bench = bench().await;
        let bind = async |target: Value| {
            let binding = json!({"metadata": {"name": "p"}, "target": target});
            let chain = only(PodTopologyLabels);
            bench.admit_part(&chain, &Pod, "binding", binding).await.unwrap()["metadata"]["labels"].clone()
        };
        let both = json!({LABELS[0]: "north", LABELS[1]: "n1"});
        assert_eq!(bind(json!({"kind": "Node", "name": "node"})).await, both);
        assert_eq!(bind(json!({"kind": "Node", "name": "gone"})).await, Value::Null);
        assert_eq!(bind(json!({"name": "node"})).await, Value::Null);
    }

    #[tokio::test]
    async fn pod_created_with_a_node_name_gets_the_labels() {
        let bench = bench().await;
        let pod = json!({"metadata": {"name": "p", "labels": {LABELS[1]: "x", "a": "b"}}, "spec": {"nodeName": "node"}});
        let pod = bench.admit_new(PodTopologyLabels, &Pod, pod).await.unwrap();
        assert_eq!(pod["metadata"]["labels"], json!({LABELS[0]: "north", LABELS[1]: "n1", "a": "b"}));
        let unbound = json!({"metadata": {"name": "p"}, "spec": {}});
        let pod = bench.admit_new(PodTopologyLabels, &Pod, unbound).await.unwrap();
        assert_eq!(pod["metadata"]["labels"], Value::Null);
    }
}
