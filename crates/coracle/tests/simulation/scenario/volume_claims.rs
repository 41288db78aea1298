//! A StatefulSet with volume claims.

use serde_json::{Value, json};

use super::workload::{self, DesiredPods, template, write};
use super::{Context, Scenario};
use crate::state::{CLAIMS, STATEFUL_SETS, State, VOLUMES, format_claims, name, text, uid};

const NAME: &str = "disk";

#[derive(Default)]
pub(super) struct VolumeClaims {
    desired: Option<DesiredPods>,
}

impl Scenario for VolumeClaims {
    async fn change(&mut self, context: &mut Context) {
        let path = context.path("apps/v1", STATEFUL_SETS);
        match (self.desired, context.rng.below(6)) {
            (Some(_), 0) => {
                workload::delete(context, &format!("{path}/{NAME}")).await;
                self.desired = None;
            }
            (Some(_), 1 | 2) => context.delete_a_pod().await,
            _ => {
                let least = u64::from(self.desired.is_none());
                let desired = DesiredPods { replicas: context.between((least, 3)), version: 1 };
                // Claims are deleted with the set and with its superfluous pods.
                let policy = json!({"whenDeleted": "Delete", "whenScaled": "Delete"});
                let request = json!({"requests": {"storage": "1Gi"}});
                let claim = json!({"metadata": {"name": "data"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": request}});
                let mut template = template(context, NAME, desired.version);
                template["spec"]["containers"][0]["volumeMounts"] =
                    json!([{"name": "data", "mountPath": "/data"}]);
                let set = json!({"metadata": {"name": NAME}, "spec": {
                    "replicas": desired.replicas,
                    "serviceName": NAME,
                    "podManagementPolicy": "Parallel",
                    "selector": {"matchLabels": {"app": NAME}},
                    "persistentVolumeClaimRetentionPolicy": policy,
                    "template": template,
                    "volumeClaimTemplates": [claim],
                }});
                write(context, &path, &set).await;
                self.desired = Some(desired);
            }
        }
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        let desired = self.desired.unwrap_or_default();
        let mut differences: Vec<_> =
            workload::pod_differences(namespace, state, NAME, desired).into_iter().collect();
        let claims: Vec<_> = state.list(CLAIMS, namespace).collect();
        let of_here = |volume: &&Value| text(volume, "/spec/claimRef/namespace") == namespace;
        let volumes: Vec<_> = state.list(VOLUMES, "").filter(of_here).collect();
        let is_bound = |claim: &&&Value| {
            let mine = |volume: &&Value| {
                name(volume) == text(claim, "/spec/volumeName")
                    && text(volume, "/spec/claimRef/uid") == uid(claim)
                    && text(volume, "/status/phase") == "Bound"
            };
            text(claim, "/status/phase") == "Bound" && volumes.iter().copied().any(|volume| mine(&volume))
        };
        let is_there = |ordinal: u64| {
            claims.iter().any(|claim| name(claim) == format!("data-{NAME}-{ordinal}") && is_bound(&claim))
        };
        // A claim is deleted with a superfluous pod; if the pod was deleted otherwise before its set
        // updated the claim's owner, the claim stays, as in Kubernetes.
        let may_stay = self.desired.is_some();
        let kept = claims.len() as u64 == desired.replicas || may_stay;
        if !(0..desired.replicas).all(is_there)
            || !kept
            || volumes.len() != claims.iter().filter(is_bound).count()
        {
            let actual = format_claims(&claims, &volumes);
            differences.push(format!("{} claims expected, found {actual}", desired.replicas));
        }
        differences
    }
}
