//! A deployment with a PodDisruptionBudget, and users who evict its pods.

use http::Method;
use serde_json::json;

use super::workload::{self, Wanted, template, write};
use super::{Scenario, Stage};
use crate::state::{DEPLOYMENTS, DISRUPTION_BUDGETS, PODS, State, name, number};

const NAME: &str = "kept";

#[derive(Default)]
pub(super) struct Evictions {
    min_available: u64,
    wanted: Wanted,
}

impl Evictions {
    async fn begin(&mut self, stage: &mut Stage) {
        self.wanted = Wanted { replicas: 2 + stage.rng.below(3), version: 1 };
        self.min_available = stage.rng.below(self.wanted.replicas + 1);
        self.guard(stage).await;
        self.deploy(stage).await;
    }

    async fn guard(&self, stage: &Stage) {
        let spec = json!({"minAvailable": self.min_available, "selector": {"matchLabels": {"app": NAME}}});
        let budget = json!({"metadata": {"name": NAME}, "spec": spec});
        write(stage, &stage.path("policy/v1", DISRUPTION_BUDGETS), &budget).await;
    }

    async fn deploy(&self, stage: &mut Stage) {
        let deployment = json!({"metadata": {"name": NAME}, "spec": {
            "replicas": self.wanted.replicas,
            "selector": {"matchLabels": {"app": NAME}},
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template(stage, NAME, self.wanted.version),
        }});
        write(stage, &stage.path("apps/v1", DEPLOYMENTS), &deployment).await;
    }

    /// Tries to evict all pods, like `kubectl drain`.
    async fn evict(&self, stage: &mut Stage) {
        let names: Vec<String> = stage
            .history
            .look(|state| state.list(PODS, &stage.namespace).map(|pod| name(pod).to_owned()).collect());
        for pod in names {
            let path = format!("{}/{pod}/eviction", stage.path("v1", PODS));
            let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}});
            let answer = stage.users.ask(Method::POST, &path, &eviction).await;
            let code = answer.status().as_u16();
            assert!(matches!(code, 201 | 404 | 409 | 429), "an eviction is answered by {code}");
        }
    }
}

impl Scenario for Evictions {
    async fn change(&mut self, stage: &mut Stage) {
        match stage.rng.below(6) {
            _ if self.wanted.version == 0 => self.begin(stage).await,
            0 => stage.delete_a_pod().await,
            1 => {
                self.min_available = stage.rng.below(self.wanted.replicas + 1);
                self.guard(stage).await;
            }
            2 => {
                self.wanted.replicas = 1 + stage.rng.below(4);
                self.deploy(stage).await;
            }
            _ => self.evict(stage).await,
        }
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let mut differences: Vec<_> =
            workload::pod_differences(namespace, state, NAME, self.wanted).into_iter().collect();
        let Some(budget) = state.get(DISRUPTION_BUDGETS, namespace, NAME) else { return differences };
        let Wanted { replicas, .. } = self.wanted;
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
            differences.push(format!("{NAME} says {} and not {expected:?}", budget["status"]));
        }
        differences
    }
}
