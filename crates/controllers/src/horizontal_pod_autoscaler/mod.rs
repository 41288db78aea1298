//! HorizontalPodAutoscaler: every 15 seconds each autoscaler reads its metrics and scales its target.
//!
//! [`fetch`] reads the metrics, [`proposal`] computes a size from each, [`limits`] restricts it, and [`plan`]
//! combines the result. Recent proposals and changes are kept in memory only, as in Kubernetes, and lost when the
//! process ends.

mod discover;
mod fetch;
mod limits;
mod metric;
mod metrics;
mod object;
mod plan;
mod pods;
mod proposal;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_base::{Clock, Timestamp};
use coracle_meta::selector::labels::Selector;
use coracle_runtime::{
    Action, Change, Controller, EventType, Informer, Manager, ObjectKey, Objects, ReadYourWrites, Reconcile,
    Recorder, Reference, ResourcePath, Selection, StaleCache, Written,
};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::api_error::is_conflict;
use crate::view::{self, Pod};
use crate::{Registration, Settings};
use fetch::{Fetcher, error_message};
use limits::History;
use metric::{Fault, Outcome};
use metrics::{ErrorCause, Report, Scaled, ScalerMetrics};
use object::{Autoscaler, NewCondition, Scale, Status};
use plan::{Need, Plan};
use proposal::{Situation, Tolerances};

/// Interval between reconciles (`--horizontal-pod-autoscaler-sync-period`).
const PERIOD: Duration = Duration::from_secs(15);

/// Concurrent reconciles (`--concurrent-horizontal-pod-autoscaler-syncs`).
const WORKERS: usize = 5;

pub(crate) const REGISTRATION: Registration =
    Registration { name: "horizontal-pod-autoscaler-controller", register };

fn register(manager: &mut Manager, settings: &Settings) {
    let scalers: Informer<Autoscaler> = manager.informer(Selection::of::<HorizontalPodAutoscaler>());
    let client = manager.client().clone();
    let reconcile = Autoscaling {
        objects: Objects::of::<HorizontalPodAutoscaler>(&client),
        fetcher: Fetcher::new(&client),
        recorder: manager.recorder("horizontal-pod-autoscaler"),
        clock: settings.clock.clone(),
        scalers: scalers.clone(),
        pods: view::pods(manager),
        memory: Mutex::default(),
        writes: ReadYourWrites::default(),
        metrics: ScalerMetrics::new(manager.metrics(), &scalers),
        client,
    };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("horizontalpodautoscaler")
        .watches(&scalers, spec_changed);
    manager.add(controller.workers(WORKERS));
}

/// Autoscalers whose spec has changed. Their status is written by this controller.
fn spec_changed(change: &Change<Autoscaler>) -> Option<ObjectKey> {
    let same = |old: &Autoscaler, new: &Autoscaler| old.spec == new.spec;
    let unchanged = change.old.as_ref().zip(change.new.as_ref()).is_some_and(|(old, new)| same(old, new));
    (!unchanged).then(|| change.key.clone())
}

/// State kept in memory for an autoscaler.
#[derive(Clone, Debug, Default)]
struct Memory {
    history: History,
    /// Selector of the scaled pods, if known.
    selector: Option<Selector>,
}

struct Autoscaling {
    client: Client,
    objects: Objects,
    fetcher: Fetcher,
    recorder: Recorder,
    clock: Clock,
    scalers: Informer<Autoscaler>,
    pods: Informer<Pod>,
    /// By autoscaler.
    memory: Mutex<HashMap<ObjectKey, Memory>>,
    /// Writes to autoscalers.
    writes: ReadYourWrites,
    metrics: ScalerMetrics,
}

/// Error of a reconcile.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
    #[error("cannot write the status")]
    Status(#[from] kube::Error),
}

/// Why the scale of a target is unknown.
struct Unscalable {
    reason: &'static str,
    message: String,
    status: Status,
}

/// The object to scale.
struct Target {
    objects: Objects,
    key: ObjectKey,
    scale: Scale,
}

impl Reconcile for Autoscaling {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Action, Error> {
        self.writes.seen(key, &self.scalers).await?;
        let Some(scaler) = self.scalers.store().get(key) else {
            self.memory().remove(key);
            return Ok(Action::AwaitChange);
        };
        let began = self.clock.uptime();
        let report = match self.target(key, &scaler).await {
            Ok(target) => self.scale(key, &scaler, &target).await,
            Err(unscalable) => {
                self.warn(key, &scaler, unscalable.reason, unscalable.message);
                let written = self.write(key, &scaler, unscalable.status).await;
                written.map(|()| Report::idle(ErrorCause::for_target(&scaler)))
            }
        };
        let recorded = *report.as_ref().unwrap_or(&Report::idle(ErrorCause::Internal));
        self.metrics.reconciled(recorded, self.clock.uptime().saturating_sub(began));
        report?;
        // In any case, because metrics change without watch events.
        Ok(Action::RequeueAfter(PERIOD))
    }
}

impl Autoscaling {
    async fn target(&self, key: &ObjectKey, scaler: &Autoscaler) -> Result<Target, Unscalable> {
        let reference = &scaler.spec.scale_target_ref;
        let found = async {
            let path = self.fetcher.resource(key.cluster(), reference).await?;
            let objects = Objects::at(&self.client, path.clone());
            let target = ObjectKey::namespaced(key.cluster().clone(), key.namespace(), &*reference.name);
            let scale = self.read_scale(&path, &target).await?;
            Ok(Target { objects, key: target, scale })
        };
        found.await.map_err(|message: String| {
            let message_in_status =
                format!("the HPA controller was unable to get the target's current scale: {message}");
            let condition = NewCondition::able_to_scale(false, "FailedGetScale", message_in_status);
            let status = plan::unable(scaler, condition, self.clock.now());
            Unscalable { reason: "FailedGetScale", message, status }
        })
    }

    async fn read_scale(&self, path: &ResourcePath, target: &ObjectKey) -> Result<Scale, String> {
        let path =
            format!("{}/{}/scale", path.collection(target.cluster(), target.namespace()), target.name());
        let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
        let answer = self.client.request(request).await;
        answer.map_err(|error| error_message(&error, "get"))
    }

    async fn scale(&self, key: &ObjectKey, scaler: &Autoscaler, target: &Target) -> kube::Result<Report> {
        let (current, now) = (target.scale.spec.replicas, self.clock.now());
        self.remember(key, |memory| {
            // The current size counts as the first proposal, so that a restart does not scale the target down at
            // once.
            if memory.history.is_empty() {
                memory.history.note_proposal(current, now);
            }
        });
        let plan = match plan::need(scaler, current) {
            Need::Disabled => plan::by_size(scaler, current, None, now),
            Need::Nothing { replicas, reason } => {
                plan::by_size(scaler, current, Some((replicas, reason)), now)
            }
            Need::Metrics => match self.selector(key, scaler, &target.scale, now) {
                Ok(selector) => self.by_metrics(key, scaler, target, &selector).await,
                Err(unselected) => {
                    self.warn(key, scaler, unselected.reason, unselected.message.clone());
                    self.warn(key, scaler, "FailedComputeMetricsReplicas", unselected.message);
                    let written = self.write(key, scaler, unselected.status).await;
                    return written.map(|()| Report::idle(ErrorCause::Internal));
                }
            },
        };
        self.apply(key, scaler, target, plan).await
    }

    /// Selector of the scaled pods, if it is valid and unambiguous.
    fn selector(
        &self,
        key: &ObjectKey,
        scaler: &Autoscaler,
        scale: &Scale,
        now: Timestamp,
    ) -> Result<Selector, Unscalable> {
        let text = &scale.status.selector;
        let refused = |reason: &'static str, message: String, message_in_status: Option<&str>| {
            let condition = if reason == "SelectorRequired" { "InvalidSelector" } else { reason };
            let new_condition =
                NewCondition::scaling_active(false, condition, message_in_status.unwrap_or(&message));
            let status = plan::unselected(scaler, scale.spec.replicas, new_condition, now);
            Unscalable { reason, message, status }
        };
        if text.is_empty() {
            let message_in_status = "the HPA target's scale is missing a selector";
            return Err(refused(
                "SelectorRequired",
                "selector is required".to_owned(),
                Some(message_in_status),
            ));
        }
        let selector: Selector = text.parse().map_err(|error| {
            let message =
                format!("couldn't convert selector into a corresponding internal selector object: {error}");
            refused("InvalidSelector", message, None)
        })?;
        let ambiguous_with = self.ambiguous_with(key, &selector);
        if !ambiguous_with.is_empty() {
            let message = format!(
                "pods by selector {text} are controlled by multiple HPAs: [{}]",
                ambiguous_with.join(" ")
            );
            return Err(refused("AmbiguousSelector", message, None));
        }
        Ok(selector)
    }

    /// All autoscalers that select pods of this one, including itself; empty if there are no others.
    fn ambiguous_with(&self, key: &ObjectKey, selector: &Selector) -> Vec<String> {
        self.remember(key, |memory| memory.selector = Some(selector.clone()));
        let others: Vec<(ObjectKey, Selector)> = {
            let memory = self.memory();
            let beside = memory.iter().filter(|(other, _)| {
                other.cluster() == key.cluster() && other.namespace() == key.namespace() && *other != key
            });
            beside.filter_map(|(other, memory)| Some((other.clone(), memory.selector.clone()?))).collect()
        };
        if others.is_empty() {
            return Vec::new();
        }
        let pods = self.selected(key, selector);
        let selects_same_pods = |other: &Selector| pods.iter().any(|pod| other.matches(&pod.metadata.labels));
        let mut ambiguous_with: Vec<String> = others
            .iter()
            .filter(|(_, other)| selects_same_pods(other))
            .map(|(other, _)| namespaced_name(other))
            .collect();
        if !ambiguous_with.is_empty() {
            ambiguous_with.push(namespaced_name(key));
            ambiguous_with.sort_unstable();
        }
        ambiguous_with
    }

    fn selected(&self, key: &ObjectKey, selector: &Selector) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.store().in_namespace(key.cluster(), key.namespace());
        pods.retain(|pod| selector.matches(&pod.metadata.labels));
        pods
    }

    async fn by_metrics(
        &self,
        key: &ObjectKey,
        scaler: &Autoscaler,
        target: &Target,
        selector: &Selector,
    ) -> Plan {
        let mut outcomes: Vec<Result<Outcome, Fault>> = Vec::with_capacity(scaler.spec.metrics.len());
        for metric in &scaler.spec.metrics {
            let began = self.clock.uptime();
            let outcome = match metric.query() {
                Ok(query) => match self.fetcher.measure(query, key, selector).await {
                    Ok(measured) => {
                        let pods = self.selected(key, selector);
                        query.propose(measured, &self.situation(scaler, &target.scale, &pods))
                    }
                    Err(message) => Err(query.fault(message)),
                },
                Err(fault) => Err(fault),
            };
            if let Err(fault) = &outcome {
                self.warn(key, scaler, fault.reason, fault.message.clone());
            }
            let took = self.clock.uptime().saturating_sub(began);
            self.metrics.computed(scaler, &metric.r#type, &outcome, took);
            outcomes.push(outcome);
        }
        let (current, now) = (target.scale.spec.replicas, self.clock.now());
        let history = self.memory().get(key).map(|memory| memory.history.clone()).unwrap_or_default();
        plan::by_metrics(scaler, current, &outcomes, &history, now)
    }

    fn situation<'a>(
        &self,
        scaler: &Autoscaler,
        scale: &Scale,
        pods: &'a [Arc<Pod>],
    ) -> Situation<'a, Arc<Pod>> {
        Situation {
            pods,
            spec_replicas: scale.spec.replicas,
            status_replicas: scale.status.replicas,
            tolerances: Tolerances::of(scaler.spec.behavior.as_deref()),
            now: self.clock.now(),
        }
    }

    async fn apply(
        &self,
        key: &ObjectKey,
        scaler: &Autoscaler,
        target: &Target,
        mut plan: Plan,
    ) -> kube::Result<Report> {
        let cause = if plan.failure.is_some() { ErrorCause::Internal } else { ErrorCause::None };
        let mut report = Report::idle(cause);
        let (current, now) = (target.scale.spec.replicas, self.clock.now());
        if let Some(proposed) = plan.proposed {
            self.remember(key, |memory| memory.history.note_proposal(proposed, now));
        } else if let Some(failure) = &plan.failure {
            self.warn(key, scaler, "FailedComputeMetricsReplicas", failure.clone());
        }
        if let Some((replicas, reason)) = plan.rescale.clone() {
            // The size was computed from this version of the target.
            let version = &target.scale.metadata.resource_version;
            let patch = Patch::Merge(
                json!({"metadata": {"resourceVersion": version}, "spec": {"replicas": replicas}}),
            );
            let params = PatchParams::default();
            match target.objects.patch_subresource::<Written>(&target.key, "scale", &params, &patch).await {
                Ok(_) => {
                    report.scaled = Scaled::between(current, replicas);
                    self.remember(key, |memory| memory.history.note_change(current, replicas, now));
                    plan.rescaled(replicas, now);
                    let message = format!("New size: {replicas}; reason: {reason}");
                    self.record_event(key, scaler, EventType::Normal, "SuccessfulRescale", message);
                }
                // The target changed after its size was computed, so the reconcile is retried with the new state.
                Err(error) if is_conflict(&error) => return Err(error),
                Err(error) => {
                    report.cause = ErrorCause::Internal;
                    let why = error_message(&error, "patch");
                    plan.not_rescaled(&why, scaler.status.desired_replicas, now);
                    let message = format!("New size: {replicas}; reason: {reason}; error: {why}");
                    self.warn(key, scaler, "FailedRescale", message);
                }
            }
        }
        self.write(key, scaler, plan.status).await?;
        Ok(report)
    }

    /// Writes the status if it has changed.
    async fn write(&self, key: &ObjectKey, scaler: &Autoscaler, status: Status) -> kube::Result<()> {
        if status == scaler.status {
            return Ok(());
        }
        let patch = Patch::Merge(json!({"status": status}));
        match self.objects.patch_subresource::<Written>(key, "status", &PatchParams::default(), &patch).await
        {
            // It has been deleted.
            Err(kube::Error::Api(refused)) if refused.code == 404 => Ok(()),
            Err(error) => {
                self.warn(key, scaler, "FailedUpdateStatus", error_message(&error, "patch"));
                Err(error)
            }
            Ok(written) => {
                self.writes.note(key, &written.metadata.resource_version);
                Ok(())
            }
        }
    }

    fn warn(&self, key: &ObjectKey, scaler: &Autoscaler, reason: &'static str, message: String) {
        self.record_event(key, scaler, EventType::Warning, reason, message);
    }

    fn record_event(
        &self,
        key: &ObjectKey,
        scaler: &Autoscaler,
        kind: EventType,
        reason: &'static str,
        message: String,
    ) {
        let about = Reference::to("autoscaling/v2", "HorizontalPodAutoscaler", &scaler.metadata);
        self.recorder.event(key.cluster(), about, kind, reason, message);
    }

    fn remember(&self, key: &ObjectKey, note: impl FnOnce(&mut Memory)) {
        note(self.memory().entry(key.clone()).or_default());
    }

    fn memory(&self) -> MutexGuard<'_, HashMap<ObjectKey, Memory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn namespaced_name(key: &ObjectKey) -> String {
    format!("{}/{}", key.namespace(), key.name())
}
