//! Computes the allowed disruptions of PodDisruptionBudgets.
//!
//! The eviction API checks the status of the budget and notes the pod there as disrupted; this controller removes
//! that entry when the pod terminates, or fails to in time. See the eviction subresource in `apiserver`.

mod object;
mod plan;
mod scale;
mod stale;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use coracle_base::Clock;
use coracle_meta::selector::LabelSelector;
use coracle_runtime::{
    Action, Change, Controller, EventType, Informer, Manager, ObjectKey, Objects, ReadYourWrites, Reconcile,
    Recorder, Reference, Selection, StaleCache, Written,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{Patch, PatchParams};
use serde_json::{Map, Value, json};

use crate::view::{Pod, pods, rfc3339};
use crate::{Registration, Settings, api_error};
use object::{Budget, BudgetStatus};
use plan::{Expected, expected, fail_safe, needs_scale, plan};
use scale::{Owners, ScaleError};

pub(crate) const REGISTRATION: Registration = Registration { name: "disruption-controller", register };

/// Component of the events, which in Kubernetes is not the name of the controller.
const COMPONENT: &str = "controllermanager";

fn register(manager: &mut Manager, settings: &Settings) {
    let budgets: Informer<Budget> = manager.informer(Selection::of::<PodDisruptionBudget>());
    let pods = pods(manager);
    stale::register(manager, &pods, &settings.clock);
    let recorder = manager.recorder(COMPONENT);
    let reconcile = Budgets {
        objects: Objects::of::<PodDisruptionBudget>(manager.client()),
        owners: Owners::new(manager.client()),
        budgets: budgets.clone(),
        pods: pods.clone(),
        writes: ReadYourWrites::default(),
        recorder: recorder.clone(),
        clock: settings.clock.clone(),
    };
    let known = budgets.clone();
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("disruption")
        .watches(&budgets, |change| [change.key.clone()])
        .watches(&pods, move |change| budgets_of(change, &known, &recorder));
    manager.add(controller);
}

/// The budgets that select a pod, or did.
fn budgets_of(change: &Change<Pod>, budgets: &Informer<Budget>, recorder: &Recorder) -> Vec<ObjectKey> {
    let (cluster, namespace) = (change.key.cluster(), change.key.namespace());
    let beside = budgets.store().in_namespace(cluster, namespace);
    let of = |pod: &Arc<Pod>| -> Vec<&Arc<Budget>> {
        beside.iter().filter(|budget| budget.selects(&pod.metadata.labels)).collect()
    };
    let now = change.new.as_ref().map(of).unwrap_or_default();
    if let ([first, _, ..], Some(pod)) = (&now[..], &change.new) {
        let (name, chosen) = (pod.metadata.name(), first.metadata.name());
        let message = format!(
            "Pod {namespace:?}/{name:?} matches multiple PodDisruptionBudgets.  Chose {chosen:?} arbitrarily."
        );
        let about = Reference::to("v1", "Pod", &pod.metadata);
        recorder.event(cluster, about, EventType::Warning, "MultiplePodDisruptionBudgets", message);
    }
    let before = change.old.as_ref().map(of).unwrap_or_default();
    let mut keys: Vec<_> = now
        .into_iter()
        .chain(before)
        .map(|budget| ObjectKey::namespaced(cluster.clone(), namespace, budget.metadata.name()))
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("request to the server failed")]
    Request(#[from] kube::Error),
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
}

struct Budgets {
    objects: Objects,
    owners: Owners,
    budgets: Informer<Budget>,
    pods: Informer<Pod>,
    writes: ReadYourWrites,
    recorder: Recorder,
    clock: Clock,
}

impl Reconcile for Budgets {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Error> {
        self.writes.seen(key, &self.budgets).await?;
        let Some(budget) = self.budgets.store().get(key) else { return Ok(Action::AwaitChange) };
        let mut pods = self.pods.store().in_namespace(key.cluster(), key.namespace());
        pods.retain(|pod| budget.selects(&pod.metadata.labels));
        if pods.is_empty() {
            self.record_event(key, &budget, EventType::Normal, "NoPods", "No matching pods found".to_owned());
        }
        let now = self.clock.now();
        let (status, after) = match self.expected(key, &budget, &pods).await {
            Ok(expected) => {
                let plan = plan(&budget, &pods, expected, now);
                self.record_not_deleted(key, &budget, &pods, &plan.not_deleted);
                (plan.status, plan.after)
            }
            Err(error) => {
                let message = format!("Failed to calculate the number of expected pods: {error}");
                self.record_event(
                    key,
                    &budget,
                    EventType::Warning,
                    "CalculateExpectedPodCountFailed",
                    message,
                );
                (fail_safe(&budget, &error, now), None)
            }
        };
        if status != budget.status {
            self.write(key, &budget, &status).await?;
        }
        Ok(after.map_or(Action::AwaitChange, Action::RequeueAfter))
    }
}

impl Budgets {
    async fn expected(
        &self,
        key: &ObjectKey,
        budget: &Budget,
        pods: &[Arc<Pod>],
    ) -> Result<Expected, String> {
        let mut scale = 0;
        if needs_scale(budget) {
            let wanted =
                self.owners.wanted(key, pods).await.map_err(|error: ScaleError| error.to_string())?;
            if wanted.has_unmanaged {
                let selector = format_selector(budget.spec.selector.written.as_ref());
                self.record_event(key, budget, EventType::Warning, "UnmanagedPods", format!(
                    "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
                ));
            }
            scale = wanted.pods;
        }
        expected(budget, i32::try_from(pods.len()).unwrap_or(i32::MAX), scale)
    }

    async fn write(&self, key: &ObjectKey, budget: &Budget, status: &BudgetStatus) -> Result<(), Error> {
        let patch = Patch::Merge(status_patch(budget, status));
        let params = PatchParams::default();
        match self.objects.patch_subresource::<Written>(key, "status", &params, &patch).await {
            // An eviction was counted in the meantime; that change enqueues the key again.
            Err(error) if api_error::is_outdated(&error) => Ok(()),
            written => {
                self.writes.note(key, &written?.metadata.resource_version);
                Ok(())
            }
        }
    }

    fn record_event(
        &self,
        key: &ObjectKey,
        budget: &Budget,
        kind: EventType,
        reason: &'static str,
        message: String,
    ) {
        let about = Reference::to("policy/v1", "PodDisruptionBudget", &budget.metadata);
        self.recorder.event(key.cluster(), about, kind, reason, message);
    }

    fn record_not_deleted(
        &self,
        key: &ObjectKey,
        budget: &Budget,
        pods: &[Arc<Pod>],
        not_deleted: &[Box<str>],
    ) {
        for pod in pods.iter().filter(|pod| not_deleted.iter().any(|name| **name == *pod.metadata.name())) {
            // Kubernetes prints the namespace in place of the budget's name, too, and users may search for that text.
            let namespace = budget.metadata.namespace();
            let message =
                format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
            let about = Reference::to("v1", "Pod", &pod.metadata);
            self.recorder.event(key.cluster(), about, EventType::Warning, "NotDeleted", message);
        }
    }
}

/// Formats a selector as Go does.
fn format_selector(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels: String =
        selector.match_labels.iter().map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions: String = selector
        .match_expressions
        .iter()
        .map(|expression| {
            let (key, operator, values) =
                (&expression.key, &expression.operator, expression.values.join(" "));
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

/// A merge patch that sets the status, and fails if the budget has changed.
fn status_patch(budget: &Budget, status: &BudgetStatus) -> Value {
    let gone = budget.status.disrupted_pods.keys().filter(|name| !status.disrupted_pods.contains_key(*name));
    let mut disrupted: Map<String, Value> = gone.map(|name| (name.to_string(), Value::Null)).collect();
    disrupted.extend(status.disrupted_pods.iter().map(|(name, at)| (name.to_string(), rfc3339(at.0).into())));
    json!({
        "metadata": {"resourceVersion": budget.metadata.resource_version()},
        "status": {
            "observedGeneration": status.observed_generation,
            "disruptedPods": disrupted,
            "disruptionsAllowed": status.disruptions_allowed,
            "currentHealthy": status.current_healthy,
            "desiredHealthy": status.desired_healthy,
            "expectedPods": status.expected_pods,
            "conditions": status.conditions,
        },
    })
}
