//! A deployment that wants more pods than a quota allows, until it is raised.

use serde_json::json;

use super::workload::{self, PATIENCE, Wanted, write};
use super::{Scenario, Stage};
use crate::state::{DEPLOYMENTS, RESOURCE_QUOTAS, State, has_condition, text};

const NAME: &str = "greedy";

#[derive(Default)]
pub(super) struct Limited {
    /// The limit of pods; it only grows.
    hard: u64,
    wanted: Wanted,
}

impl Limited {
    async fn allow_more(&mut self, stage: &mut Stage) {
        self.hard += 1 + stage.rng.below(2);
        let quota = json!({"metadata": {"name": NAME}, "spec": {"hard": {"pods": self.hard.to_string()}}});
        write(stage, &stage.path("v1", RESOURCE_QUOTAS), &quota).await;
    }

    async fn deploy(&mut self, stage: &mut Stage) {
        // A quota that the controller has not processed yet limits nothing, and removes nothing later.
        let is_known = |state: &State| {
            let quota = state.get(RESOURCE_QUOTAS, &stage.namespace, NAME);
            quota.is_some_and(|quota| !text(quota, "/status/hard/pods").is_empty())
        };
        while !stage.history.look(is_known) {
            tokio::time::sleep(PATIENCE).await;
        }
        let least = u64::from(self.wanted.version == 0);
        self.wanted = Wanted { replicas: stage.between((least, 4)), version: 1 };
        let deployment = json!({"metadata": {"name": NAME}, "spec": {
            "replicas": self.wanted.replicas,
            "selector": {"matchLabels": {"app": NAME}},
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": {"app": NAME}},
                "spec": {"containers": [{"name": "c", "image": workload::image_of(1)}]},
            },
        }});
        write(stage, &stage.path("apps/v1", DEPLOYMENTS), &deployment).await;
    }
}

impl Scenario for Limited {
    async fn change(&mut self, stage: &mut Stage) {
        match stage.rng.below(4) {
            _ if self.hard == 0 => {
                self.allow_more(stage).await;
                self.deploy(stage).await;
            }
            0 => stage.delete_a_pod().await,
            1 | 2 => self.deploy(stage).await,
            _ => self.allow_more(stage).await,
        }
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let allowed = Wanted { replicas: self.wanted.replicas.min(self.hard), ..self.wanted };
        let mut differences: Vec<_> =
            workload::pod_differences(namespace, state, NAME, allowed).into_iter().collect();
        if let Some(deployment) = state.get(DEPLOYMENTS, namespace, NAME) {
            differences.extend(workload::status_difference(deployment, allowed));
            let (is_limited, says_so) = (allowed.replicas < self.wanted.replicas, "ReplicaFailure");
            if has_condition(deployment, says_so) != is_limited {
                differences.push(format!("{NAME} is limited: {is_limited}; {}", deployment["status"]));
            }
        }
        if let Some(quota) = state.get(RESOURCE_QUOTAS, namespace, NAME) {
            let used = text(quota, "/status/used/pods");
            if used != allowed.replicas.to_string() {
                differences
                    .push(format!("{used} pods count against the quota, and not {}", allowed.replicas));
            }
        }
        differences
    }
}
