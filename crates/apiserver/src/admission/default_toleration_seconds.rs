//! DefaultTolerationSeconds: limits how long a pod stays on a node that is not ready or unreachable.

use coracle_registry::Result;
use coracle_registry::admission::{Attributes, BoxFuture, Operation};
use coracle_registry::view;
use serde_json::{Value, json};

use super::plugin::{Plugin, Rule, nothing_to_say};
use super::{PODS, read};

const TOLERATION_S: i64 = 300;

/// Taints of a node that does not respond, in the order of the added tolerations.
const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

pub(super) struct DefaultTolerationSeconds;

impl Plugin for DefaultTolerationSeconds {
    fn name(&self) -> &str {
        "DefaultTolerationSeconds"
    }

    fn mutates(&self) -> Vec<Rule> {
        vec![Rule::new("", PODS, &[Operation::Create, Operation::Update])]
    }

    fn mutate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        pod: &'a mut Value,
        _warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<()>> {
        for taint in TAINTS {
            if !tolerates(pod, taint) {
                let toleration = json!({
                    "key": taint,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": TOLERATION_S,
                });
                read::push(pod, &["spec", "tolerations"], toleration);
            }
        }
        nothing_to_say()
    }
}

fn tolerates(pod: &Value, taint: &str) -> bool {
    view::items(pod, &["spec", "tolerations"]).iter().any(|toleration| {
        let key = view::text(toleration, &["key"]);
        let effect = view::text(toleration, &["effect"]);
        (key == taint || key.is_empty()) && matches!(effect, "NoExecute" | "")
    })
}

#[cfg(test)]
mod tests {
    use coracle_registry::kinds::core::pod::Pod;

    use super::super::testing::Bench;
    use super::*;

    async fn check(tolerations: Value, added: &[&str]) {
        let bench = Bench::new().await;
        let count = tolerations.as_array().unwrap().len();
        let pod = json!({"metadata": {"name": "p"}, "spec": {"tolerations": tolerations}});
        let pod = bench.admit_new(DefaultTolerationSeconds, &Pod, pod).await.unwrap();
        let expected: Vec<Value> = added
            .iter()
            .map(|key| {
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})
            })
            .collect();
        assert_eq!(view::items(&pod, &["spec", "tolerations"])[count..], expected);
    }

    #[tokio::test]
    async fn missing_tolerations_are_added() {
        check(json!([]), &TAINTS).await;
        check(json!([{"key": TAINTS[0], "operator": "Exists"}]), &TAINTS[1..]).await;
        check(json!([{"key": TAINTS[0], "operator": "Exists", "effect": "NoSchedule"}]), &TAINTS).await;
        check(json!([{"operator": "Exists", "effect": "NoExecute"}]), &[]).await;
    }
}
