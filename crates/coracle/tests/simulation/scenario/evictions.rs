//! A deployment with a PodDisruptionBudget, and users who evict its pods.

use http::Method;
use serde_json::json;

use super::workload::{self, DesiredPods, template, write};
use super::{Context, Scenario};
use crate::state::{DEPLOYMENTS, DISRUPTION_BUDGETS, PODS, State, name, number};

const NAME: &str = "kept";

#[derive(Default)]
pub(super) struct Evictions {
    min_available: u64,
    desired: DesiredPods,
}

impl Evictions {
    async fn begin(&mut self, context: &mut Context) {
        self.desired = DesiredPods { replicas: 2 + context.rng.below(3), version: 1 };
        self.min_available = context.rng.below(self.desired.replicas + 1);
        self.guard(context).await;
        self.deploy(context).await;
    }

    async fn guard(&self, context: &Context) {
        let spec = json!({"minAvailable": self.min_available, "selector": {"matchLabels": {"app": NAME}}});
        let budget = json!({"metadata": {"name": NAME}, "spec": spec});
        write(context, &context.path("policy/v1", DISRUPTION_BUDGETS), &budget).await;
    }

    async fn deploy(&self, context: &mut Context) {
        let deployment = json!({"metadata": {"name": NAME}, "spec": {
            "replicas": self.desired.replicas,
            "selector": {"matchLabels": {"app": NAME}},
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template(context, NAME, self.desired.version),
        }});
        write(context, &context.path("apps/v1", DEPLOYMENTS), &deployment).await;
    }

    /// Tries to evict all pods, like `kubectl drain`.
    async fn evict(&self, context: &mut Context) {
        let names: Vec<String> = context.history.with_state(|state| {
            state.list(PODS, &context.namespace).map(|pod| name(pod).to_owned()).collect()
        });
        for pod in names {
            let path = format!("{}/{pod}/eviction", context.path("v1", PODS));
            let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
            let answer = context.users.ask(Method::POST, &path, &eviction).await;
            let code = answer.status().as_u16();
            assert!(matches!(code, 201 | 404 | 409 | 429), "an eviction is answered by {code}");
        }
    }
}

impl Scenario for Evictions {
    async fn change(&mut self, context: &mut Context) {
        match context.rng.below(6) {
            _ if self.desired.version == 0 => self.begin(context).await,
            0 => context.delete_a_pod().await,
            1 => {
                self.min_available = context.rng.below(self.desired.replicas + 1);
                self.guard(context).await;
            }
            2 => {
                self.desired.replicas = 1 + context.rng.below(4);
                self.deploy(context).await;
            }
            _ => self.evict(context).await,
        }
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let mut differences: Vec<_> =
            workload::pod_differences(namespace, state, NAME, self.desired).into_iter().collect();
        let Some(budget) = state.get(DISRUPTION_BUDGETS, namespace, NAME) else { return differences };
        let DesiredPods { replicas, .. } = self.desired;
        let expected = [
            ("observedGeneration", number(budget, "/metadata/generation")),
            ("currentHealthy", replicas),
            ("desiredHealthy", self.min_available),
            ("disruptionsAllowed", replicas.saturating_sub(self.min_available)),
            ("expectedPods", replicas),
        ];
        let is_right =
            |(field, expected): &(&str, u64)| number(budget, &format!("/status/{field}")) == *expected;
        if !expected.iter().all(is_right) {
            differences.push(format!("{NAME} has status {} instead of {expected:?}", budget["status"]));
        }
        differences
    }
}
