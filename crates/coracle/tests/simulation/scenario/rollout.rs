//! A deployment behind a service: rolled out, scaled, deleted, orphaned and recreated.

use serde_json::json;

use super::workload::{self, DesiredPods, PATIENCE, template, write};
use super::{Context, Scenario, service};
use crate::state::{DEPLOYMENTS, State, number};

const NAME: &str = "web";

#[derive(Default)]
pub(super) struct Rollout {
    has_service: bool,
    desired: Option<DesiredPods>,
}

impl Rollout {
    async fn deploy(&mut self, context: &mut Context) {
        let Some(DesiredPods { replicas, version }) = self.desired else { return };
        let (surge, unavailable) = context.one_of(&[(1, 0), (1, 1), (0, 1), (2, 0), (2, 2)]);
        let deployment = json!({"metadata": {"name": NAME}, "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": NAME}},
            "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
            "template": template(context, NAME, version),
        }});
        write(context, &context.path("apps/v1", DEPLOYMENTS), &deployment).await;
    }

    /// Waits until the deployment has adopted orphaned ReplicaSets: only then they are deleted with it.
    async fn await_adoption(context: &Context) {
        let place = format!("{}/{NAME}", context.path("apps/v1", DEPLOYMENTS));
        while number(&context.users.get(&place).await, "/status/observedGeneration") == 0 {
            tokio::time::sleep(PATIENCE).await;
        }
    }
}

impl Scenario for Rollout {
    async fn change(&mut self, context: &mut Context) {
        if !self.has_service {
            service::create(context, NAME).await;
            self.has_service = true;
        }
        let path = context.path("apps/v1", DEPLOYMENTS);
        match (self.desired, context.rng.below(8)) {
            (Some(_), 0) => {
                Self::await_adoption(context).await;
                workload::delete(context, &format!("{path}/{NAME}")).await;
                self.desired = None;
            }
            (Some(_), 1) => {
                // Its ReplicaSets stay, and the next deployment adopts them.
                let orphan = json!({"propagationPolicy": "Orphan"});
                context.users.delete(&format!("{path}/{NAME}"), &orphan).await;
                self.deploy(context).await;
            }
            (Some(_), 2) => context.delete_a_pod().await,
            (Some(DesiredPods { replicas, version }), 3..6) => {
                self.desired = Some(DesiredPods { replicas, version: version + 1 });
                self.deploy(context).await;
            }
            (desired, _) => {
                let (least, version) = desired.map_or((1, 1), |desired| (0, desired.version));
                self.desired = Some(DesiredPods { replicas: context.between((least, 4)), version });
                self.deploy(context).await;
            }
        }
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let desired = self.desired.unwrap_or_default();
        let mut differences: Vec<_> =
            workload::pod_differences(namespace, state, NAME, desired).into_iter().collect();
        if self.has_service {
            differences.extend(service::differences(namespace, state, NAME));
        }
        let deployment = state.get(DEPLOYMENTS, namespace, NAME);
        match (deployment, self.desired) {
            (None, None) => {}
            (Some(deployment), Some(desired)) => {
                differences.extend(workload::status_difference(deployment, desired))
            }
            (found, _) => differences.push(format!("{NAME} is there: {}", found.is_some())),
        }
        differences
    }
}
