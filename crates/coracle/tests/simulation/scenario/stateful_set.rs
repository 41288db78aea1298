//! A StatefulSet: scaled, updated, deleted and recreated.

use serde_json::json;

use super::workload::{self, DesiredPods, template, write};
use super::{Context, Scenario};
use crate::state::{STATEFUL_SETS, State, number};

const NAME: &str = "db";

#[derive(Default)]
pub(super) struct StatefulSet {
    desired: Option<DesiredPods>,
}

impl Scenario for StatefulSet {
    async fn change(&mut self, context: &mut Context) {
        let desired = match (self.desired, context.rng.below(7)) {
            (Some(_), 0) => {
                let path = format!("{}/{NAME}", context.path("apps/v1", STATEFUL_SETS));
                workload::delete(context, &path).await;
                self.desired = None;
                return;
            }
            (Some(_), 1) => return context.delete_a_pod().await,
            (Some(DesiredPods { replicas, version }), 2..5) => DesiredPods { replicas, version: version + 1 },
            (None, _) => DesiredPods { replicas: 1 + context.rng.below(3), version: 1 },
            (Some(DesiredPods { version, .. }), _) => DesiredPods { replicas: context.rng.below(4), version },
        };
        let set = json!({"metadata": {"name": NAME}, "spec": {
            "replicas": desired.replicas,
            "serviceName": NAME,
            "selector": {"matchLabels": {"app": NAME}},
            "template": template(context, NAME, desired.version),
        }});
        write(context, &context.path("apps/v1", STATEFUL_SETS), &set).await;
        self.desired = Some(desired);
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let desired = self.desired.unwrap_or_default();
        let mut differences: Vec<_> =
            workload::pod_differences(namespace, state, NAME, desired).into_iter().collect();
        if let Some(set) = state.get(STATEFUL_SETS, namespace, NAME) {
            let observed = number(set, "/status/observedGeneration") == number(set, "/metadata/generation");
            let same = set["status"]["currentRevision"] == set["status"]["updateRevision"];
            if !observed || !same || number(set, "/status/availableReplicas") != desired.replicas {
                differences.push(format!("{NAME} has status {}", set["status"]));
            }
        }
        if state.get(STATEFUL_SETS, namespace, NAME).is_some() != self.desired.is_some() {
            differences.push(format!("{NAME} should be there: {}", self.desired.is_some()));
        }
        differences
    }
}
