//! A namespace that is deleted with its content, and created again.

use std::time::Duration;

use serde_json::{Value, json};

use super::workload::{self, Wanted, template, write};
use super::{Scenario, Stage};
use crate::state::{DEPLOYMENTS, NAMESPACES, State, name};

const NAME: &str = "short-lived";

/// The retry interval of operations that are not possible yet.
const PAUSE: Duration = Duration::from_secs(2);

/// The longest time between the creation of objects and the deletion of their namespace where both are
/// meant to race: as long as the namespace controller takes for an empty namespace, and some more.
const MAX_BRIEF_MS: u64 = 12;

#[derive(Default)]
pub(super) struct Going {
    is_going: bool,
    wanted: Wanted,
}

impl Going {
    async fn fill(&mut self, stage: &mut Stage) {
        self.wanted = Wanted { replicas: 1 + stage.rng.below(3), version: self.wanted.version + 1 };
        let deployment = json!({"metadata": {"name": NAME}, "spec": {
            "replicas": self.wanted.replicas,
            "selector": {"matchLabels": {"app": NAME}},
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template(stage, NAME, self.wanted.version),
        }});
        write(stage, &stage.path("apps/v1", DEPLOYMENTS), &deployment).await;
    }

    async fn delete(&mut self, stage: &mut Stage) {
        let path = format!("/api/v1/namespaces/{}", stage.namespace);
        stage.users.delete(&path, &Value::Null).await;
        (self.is_going, self.wanted) = (true, Wanted::default());
    }
}

impl Scenario for Going {
    async fn change(&mut self, stage: &mut Stage) {
        if self.is_going {
            // A name is free again once the namespace is gone.
            while stage.create_namespace().await.is_null() {
                tokio::time::sleep(PAUSE).await;
            }
            self.is_going = false;
        }
        if self.wanted.replicas > 0 && stage.rng.one_in(2) {
            self.delete(stage).await;
            return;
        }
        self.fill(stage).await;
        if stage.rng.one_in(2) {
            tokio::time::sleep(Duration::from_millis(stage.rng.below(MAX_BRIEF_MS))).await;
            self.delete(stage).await;
        }
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let mut differences: Vec<_> =
            workload::pod_differences(namespace, state, NAME, self.wanted).into_iter().collect();
        if self.is_going {
            let left = state.within(namespace).into_iter();
            differences
                .extend(left.map(|(resource, object)| format!("{resource} {} is there", name(object))));
        }
        if state.get(NAMESPACES, "", namespace).is_some() == self.is_going {
            differences.push(format!("the namespace should be gone: {}", self.is_going));
        }
        differences
    }
}
