//! A deployment behind a service: rolled out, scaled, deleted, orphaned and recreated.

use serde_json::json;

use super::workload::{self, PATIENCE, Wanted, template, write};
use super::{Scenario, Stage, service};
use crate::state::{DEPLOYMENTS, State, number};

const NAME: &str = "web";

#[derive(Default)]
pub(super) struct Rollout {
    has_service: bool,
    wanted: Option<Wanted>,
}

impl Rollout {
    async fn deploy(&mut self, stage: &mut Stage) {
        let Some(Wanted { replicas, version }) = self.wanted else { return };
        let (surge, unavailable) = stage.one_of(&[(1, 0), (1, 1), (0, 1), (2, 0), (2, 2)]);
        let deployment = json!({"metadata": {"name": NAME}, "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": NAME}},
            "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
            "template": template(stage, NAME, version),
        }});
        write(stage, &stage.path("apps/v1", DEPLOYMENTS), &deployment).await;
    }

    /// Waits until the deployment has adopted orphaned ReplicaSets: only then they are deleted with it.
    async fn await_adoption(stage: &Stage) {
        let place = format!("{}/{NAME}", stage.path("apps/v1", DEPLOYMENTS));
        while number(&stage.users.get(&place).await, "/status/observedGeneration") == 0 {
            tokio::time::sleep(PATIENCE).await;
        }
    }
}

impl Scenario for Rollout {
    async fn change(&mut self, stage: &mut Stage) {
        if !self.has_service {
            service::create(stage, NAME).await;
            self.has_service = true;
        }
        let path = stage.path("apps/v1", DEPLOYMENTS);
        match (self.wanted, stage.rng.below(8)) {
            (Some(_), 0) => {
                Self::await_adoption(stage).await;
                workload::delete(stage, &format!("{path}/{NAME}")).await;
                self.wanted = None;
            }
            (Some(_), 1) => {
                // Its ReplicaSets stay, and the next deployment adopts them.
                let orphan = json!({"propagationPolicy": "Orphan"});
                stage.users.delete(&format!("{path}/{NAME}"), &orphan).await;
                self.deploy(stage).await;
            }
            (Some(_), 2) => stage.delete_a_pod().await,
            (Some(Wanted { replicas, version }), 3..6) => {
                self.wanted = Some(Wanted { replicas, version: version + 1 });
                self.deploy(stage).await;
            }
            (wanted, _) => {
                let (least, version) = wanted.map_or((1, 1), |wanted| (0, wanted.version));
                self.wanted = Some(Wanted { replicas: stage.between((least, 4)), version });
                self.deploy(stage).await;
            }
        }
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let wanted = self.wanted.unwrap_or_default();
        let mut differences: Vec<_> =
            workload::pod_differences(namespace, state, NAME, wanted).into_iter().collect();
        if self.has_service {
            differences.extend(service::differences(namespace, state, NAME));
        }
        let deployment = state.get(DEPLOYMENTS, namespace, NAME);
        match (deployment, self.wanted) {
            (None, None) => {}
            (Some(deployment), Some(wanted)) => {
                differences.extend(workload::status_difference(deployment, wanted))
            }
            (found, _) => differences.push(format!("{NAME} is there: {}", found.is_some())),
        }
        differences
    }
}
