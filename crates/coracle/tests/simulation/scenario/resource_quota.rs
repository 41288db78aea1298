//! A deployment that wants more pods than a quota allows, until it is raised.

use serde_json::json;

use super::workload::{self, DesiredPods, PATIENCE, write};
use super::{Context, Scenario};
use crate::state::{DEPLOYMENTS, RESOURCE_QUOTAS, State, has_condition, text};

const NAME: &str = "greedy";

#[derive(Default)]
pub(super) struct ResourceQuota {
    /// The limit of pods; it only grows.
    hard: u64,
    desired: DesiredPods,
}

impl ResourceQuota {
    async fn allow_more(&mut self, context: &mut Context) {
        self.hard += 1 + context.rng.below(2);
        let quota = json!({"metadata": {"name": NAME}, "spec": {"hard": {"pods": self.hard.to_string()}}});
        write(context, &context.path("v1", RESOURCE_QUOTAS), &quota).await;
    }

    async fn deploy(&mut self, context: &mut Context) {
        // A quota that the controller has not processed yet limits nothing, and removes nothing later.
        let is_known = |state: &State| {
            let quota = state.get(RESOURCE_QUOTAS, &context.namespace, NAME);
            quota.is_some_and(|quota| !text(quota, "/status/hard/pods").is_empty())
        };
        while !context.history.with_state(is_known) {
            tokio::time::sleep(PATIENCE).await;
        }
        let least = u64::from(self.desired.version == 0);
        self.desired = DesiredPods { replicas: context.between((least, 4)), version: 1 };
        let deployment = json!({"metadata": {"name": NAME}, "spec": {
            "replicas": self.desired.replicas,
            "selector": {"matchLabels": {"app": NAME}},
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": {"app": NAME}},
                "spec": {"containers": [{"name": "c", "image": workload::image_of(1)}]},
            },
        }});
        write(context, &context.path("apps/v1", DEPLOYMENTS), &deployment).await;
    }
}

impl Scenario for ResourceQuota {
    async fn change(&mut self, context: &mut Context) {
        match context.rng.below(4) {
            _ if self.hard == 0 => {
                self.allow_more(context).await;
                self.deploy(context).await;
            }
            0 => context.delete_a_pod().await,
            1 | 2 => self.deploy(context).await,
            _ => self.allow_more(context).await,
        }
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let allowed = DesiredPods { replicas: self.desired.replicas.min(self.hard), ..self.desired };
        let mut differences: Vec<_> =
            workload::pod_differences(namespace, state, NAME, allowed).into_iter().collect();
        if let Some(deployment) = state.get(DEPLOYMENTS, namespace, NAME) {
            differences.extend(workload::status_difference(deployment, allowed));
            let (is_limited, says_so) = (allowed.replicas < self.desired.replicas, "ReplicaFailure");
            if has_condition(deployment, says_so) != is_limited {
                differences.push(format!("{NAME} is limited: {is_limited}; {}", deployment["status"]));
            }
        }
        if let Some(quota) = state.get(RESOURCE_QUOTAS, namespace, NAME) {
            let used = text(quota, "/status/used/pods");
            if used != allowed.replicas.to_string() {
                differences
                    .push(format!("{used} pods are counted by the quota, expected {}", allowed.replicas));
            }
        }
        differences
    }
}
