//! TaintNodesByCondition: taints a new node as not ready, so that no pods are scheduled before it reports ready.

use coracle_registry::Result;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::view;
use serde_json::{Value, json};

use super::plugin::{Plugin, Rule, nothing_to_say};
use super::read;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub(super) struct TaintNodesByCondition;

impl Plugin for TaintNodesByCondition {
    fn name(&self) -> &str {
        "TaintNodesByCondition"
    }

    fn mutates(&self) -> Vec<Rule> {
        vec![Rule::new("", "nodes", &[Operation::Create])]
    }

    fn mutate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        node: &'a mut Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        let is_there = view::items(node, &["spec", "taints"]).iter().any(|taint| {
            view::text(taint, &["key"]) == NOT_READY && view::text(taint, &["effect"]) == "NoSchedule"
        });
        if !is_there {
            read::push(node, &["spec", "taints"], json!({"key": NOT_READY, "effect": "NoSchedule"}));
        }
        nothing_to_say()
    }
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::core::node::Node;

    use super::super::testing::Bench;
    use super::*;

    #[tokio::test]
    async fn new_node_has_the_not_ready_taint() {
        let bench = Bench::new().await;
        let taint = json!({"key": NOT_READY, "effect": "NoSchedule"});
        let plain = json!({"metadata": {"name": "n"}});
        let node = bench.admit_new(TaintNodesByCondition, &Node, plain).await.unwrap();
        assert_eq!(node["spec"]["taints"], json!([taint]));
        let other = json!({"key": NOT_READY, "effect": "NoExecute"});
        let tainted = json!({"metadata": {"name": "n"}, "spec": {"taints": [other]}});
        let node = bench.admit_new(TaintNodesByCondition, &Node, tainted).await.unwrap();
        assert_eq!(node["spec"]["taints"], json!([other, taint]));
        let again = bench.admit_new(TaintNodesByCondition, &Node, node.clone()).await.unwrap();
        assert_eq!(again, node);
    }
}
