//! A namespace that is deleted with its content, and created again.

use std::time::Duration;

use serde_json::{Value, json};

use super::workload::{self, DesiredPods, template, write};
use super::{Context, Scenario};
use crate::state::{DEPLOYMENTS, NAMESPACES, State, name};

const NAME: &str = "short-lived";

/// The retry interval of operations that are not possible yet.
const PAUSE: Duration = Duration::from_secs(2);

/// The longest time between the creation of objects and the deletion of their namespace where both are
/// meant to race: as long as the namespace controller takes for an empty namespace, and some more.
const MAX_BRIEF_MS: u64 = 12;

#[derive(Default)]
pub(super) struct DeletedNamespace {
    is_terminating: bool,
    desired: DesiredPods,
}

impl DeletedNamespace {
    async fn fill(&mut self, context: &mut Context) {
        self.desired = DesiredPods { replicas: 1 + context.rng.below(3), version: self.desired.version + 1 };
        let deployment = json!({"metadata": {"name": NAME}, "spec": {
            "replicas": self.desired.replicas,
            "selector": {"matchLabels": {"app": NAME}},
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template(context, NAME, self.desired.version),
        }});
        write(context, &context.path("apps/v1", DEPLOYMENTS), &deployment).await;
    }

    async fn delete(&mut self, context: &mut Context) {
        let path = format!("/api/v1/namespaces/{}", context.namespace);
        context.users.delete(&path, &Value::Null).await;
        (self.is_terminating, self.desired) = (true, DesiredPods::default());
    }
}

impl Scenario for DeletedNamespace {
    async fn change(&mut self, context: &mut Context) {
        if self.is_terminating {
            // A name is free again once the namespace is gone.
            while context.create_namespace().await.is_null() {
                tokio::time::sleep(PAUSE).await;
            }
            self.is_terminating = false;
        }
        if self.desired.replicas > 0 && context.rng.one_in(2) {
            self.delete(context).await;
            return;
        }
        self.fill(context).await;
        if context.rng.one_in(2) {
            tokio::time::sleep(Duration::from_millis(context.rng.below(MAX_BRIEF_MS))).await;
            self.delete(context).await;
        }
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let mut differences: Vec<_> =
            workload::pod_differences(namespace, state, NAME, self.desired).into_iter().collect();
        if self.is_terminating {
            let left = state.within(namespace).into_iter();
            differences
                .extend(left.map(|(resource, object)| format!("{resource} {} is there", name(object))));
        }
        if state.get(NAMESPACES, "", namespace).is_some() == self.is_terminating {
            differences.push(format!("the namespace should be deleted: {}", self.is_terminating));
        }
        differences
    }
}
