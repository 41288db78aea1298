//! A StatefulSet: scaled, updated, deleted and recreated.

use serde_json::json;

use super::workload::{self, Wanted, template, write};
use super::{Scenario, Stage};
use crate::state::{STATEFUL_SETS, State, number};

const NAME: &str = "db";

#[derive(Default)]
pub(super) struct Ordered {
    wanted: Option<Wanted>,
}

impl Scenario for Ordered {
    async fn change(&mut self, stage: &mut Stage) {
        let wanted = match (self.wanted, stage.rng.below(7)) {
            (Some(_), 0) => {
                let path = format!("{}/{NAME}", stage.path("apps/v1", STATEFUL_SETS));
                workload::delete(stage, &path).await;
                self.wanted = None;
                return;
            }
            (Some(_), 1) => return stage.delete_a_pod().await,
            (Some(Wanted { replicas, version }), 2..5) => Wanted { replicas, version: version + 1 },
            (None, _) => Wanted { replicas: 1 + stage.rng.below(3), version: 1 },
            (Some(Wanted { version, .. }), _) => Wanted { replicas: stage.rng.below(4), version },
        };
        let set = json!({"metadata": {"name": NAME}, "spec": {
            "replicas": wanted.replicas,
            "serviceName": NAME,
            "selector": {"matchLabels": {"app": NAME}},
            "template": template(stage, NAME, wanted.version),
        }});
        write(stage, &stage.path("apps/v1", STATEFUL_SETS), &set).await;
        self.wanted = Some(wanted);
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let wanted = self.wanted.unwrap_or_default();
        let mut differences: Vec<_> =
            workload::pod_differences(namespace, state, NAME, wanted).into_iter().collect();
        if let Some(set) = state.get(STATEFUL_SETS, namespace, NAME) {
            let observed = number(set, "/status/observedGeneration") == number(set, "/metadata/generation");
            let same = set["status"]["currentRevision"] == set["status"]["updateRevision"];
            if !observed || !same || number(set, "/status/availableReplicas") != wanted.replicas {
                differences.push(format!("{NAME} says {}", set["status"]));
            }
        }
        if state.get(STATEFUL_SETS, namespace, NAME).is_some() != self.wanted.is_some() {
            differences.push(format!("{NAME} should be there: {}", self.wanted.is_some()));
        }
        differences
    }
}
