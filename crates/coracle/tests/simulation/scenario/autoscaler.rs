//! A deployment that is scaled by its load, which changes.

use serde_json::json;

use super::workload::{self, DesiredPods, template, write};
use super::{Context, Scenario};
use crate::resource_metrics::LOAD;
use crate::state::{DEPLOYMENTS, State, number};

const NAME: &str = "busy";

/// Minimum and maximum number of pods.
const LIMITS: (u64, u64) = (1, 6);

/// The CPU request of a pod in thousandths of a CPU, and the target utilization in percent.
const REQUEST: u64 = 100;
const TARGET: u64 = 50;

/// The tolerance of the utilization, in thousandths: the autoscaler's default.
const TOLERANCE: u64 = 100;

#[derive(Default)]
pub(super) struct Autoscaler {
    is_there: bool,
    /// The total load of all pods.
    load: u64,
}

impl Autoscaler {
    async fn scale_automatically(&self, context: &Context) {
        let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": TARGET}});
        // A new pod counts only after it has been measured for a while, though it takes its share of the
        // load at once. Without stabilization the autoscaler would scale down in between, and up again.
        let soon = json!({"stabilizationWindowSeconds": 60});
        let scaler = json!({"metadata": {"name": NAME}, "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "minReplicas": LIMITS.0,
            "maxReplicas": LIMITS.1,
            "metrics": [{"type": "Resource", "resource": cpu}],
            "behavior": {"scaleDown": soon},
        }});
        write(context, &context.path("autoscaling/v2", "horizontalpodautoscalers"), &scaler).await;
    }

    /// True if the autoscaler keeps this number of pods.
    fn is_enough(&self, replicas: u64) -> bool {
        let fits = self.load.div_ceil(TARGET * REQUEST / 100).clamp(LIMITS.0, LIMITS.1);
        let thousandths = self.load * 1000 / (replicas.max(1) * TARGET * REQUEST / 100);
        let within = (LIMITS.0..=LIMITS.1).contains(&replicas);
        replicas == fits || within && thousandths.abs_diff(1000) <= TOLERANCE
    }
}

impl Scenario for Autoscaler {
    async fn change(&mut self, context: &mut Context) {
        if self.is_there && context.rng.one_in(4) {
            return context.delete_a_pod().await;
        }
        self.load = 1 + context.rng.below(400);
        let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
        let mut spec = json!({"selector": {"matchLabels": {"app": NAME}}, "strategy": strategy});
        if !self.is_there {
            spec["template"] = template(context, NAME, 1);
            spec["template"]["spec"]["containers"][0]["resources"] =
                json!({"requests": {"cpu": format!("{REQUEST}m")}});
        }
        let metadata = json!({"name": NAME, "annotations": {LOAD: self.load.to_string()}});
        let deployment = json!({"metadata": metadata, "spec": spec});
        write(context, &context.path("apps/v1", DEPLOYMENTS), &deployment).await;
        if !self.is_there {
            self.scale_automatically(context).await;
            self.is_there = true;
        }
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let Some(deployment) = state.get(DEPLOYMENTS, namespace, NAME) else { return Vec::new() };
        let replicas = number(deployment, "/spec/replicas");
        let desired = DesiredPods { replicas, version: 1 };
        let mut differences: Vec<_> =
            workload::pod_differences(namespace, state, NAME, desired).into_iter().collect();
        if !self.is_enough(replicas) {
            differences.push(format!("{NAME} has {replicas} pods for {}m", self.load));
        }
        differences
    }
}
