//! Autoscalers: every quarter of a minute each looks at what is measured, and gives its target the size that
//! this calls for.
//!
//! What is measured is [`fetch`]ed; what each metric calls for is a [`proposal`]; what becomes of it is a matter of
//! [`limits`]; and all of it makes a [`plan`]. Only what was proposed and done lately is remembered, as in
//! upstream, and lost with the process.

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

use crate::refusal::is_conflict;
use crate::view::{self, Pod};
use crate::{Registration, Settings};
use fetch::{Fetcher, said};
use limits::History;
use metric::{Fault, Outcome};
use metrics::{Blame, Report, Scaled, ScalerMetrics};
use object::{Autoscaler, Said, Scale, Status};
use plan::{Need, Plan};
use proposal::{Situation, Tolerances};

/// How often an autoscaler looks (`--horizontal-pod-autoscaler-sync-period`).
const PERIOD: Duration = Duration::from_secs(15);

/// How many look at a time (`--concurrent-horizontal-pod-autoscaler-syncs`).
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
        remembered: Mutex::default(),
        writes: ReadYourWrites::default(),
        metrics: ScalerMetrics::new(manager.metrics(), &scalers),
        client,
    };
    let controller = Controller::new(REGISTRATION.name, reconcile)
        .queue_name("horizontalpodautoscaler")
        .watches(&scalers, rewritten);
    manager.add(controller.workers(WORKERS));
}

/// Autoscalers that say something else than before. What is said of them is our own doing.
fn rewritten(change: &Change<Autoscaler>) -> Option<ObjectKey> {
    let same = |old: &Autoscaler, new: &Autoscaler| old.spec == new.spec;
    let unchanged = change.old.as_ref().zip(change.new.as_ref()).is_some_and(|(old, new)| same(old, new));
    (!unchanged).then(|| change.key.clone())
}

/// What is remembered of an autoscaler.
#[derive(Clone, Debug, Default)]
struct Memory {
    history: History,
    /// Which pods it scales, if that is known.
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
    /// One for each autoscaler there is.
    remembered: Mutex<HashMap<ObjectKey, Memory>>,
    /// What was written to the autoscalers.
    writes: ReadYourWrites,
    metrics: ScalerMetrics,
}

/// Why an autoscaler did not get to the end.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    StaleCache(#[from] StaleCache),
    #[error("cannot write the status")]
    Status(#[from] kube::Error),
}

/// Why the size of something is not known.
struct Unscalable {
    reason: &'static str,
    message: String,
    status: Status,
}

/// What is scaled.
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
            self.remembered().remove(key);
            return Ok(Action::AwaitChange);
        };
        let began = self.clock.uptime();
        let report = match self.target(key, &scaler).await {
            Ok(target) => self.scale(key, &scaler, &target).await,
            Err(unscalable) => {
                self.warn(key, &scaler, unscalable.reason, unscalable.message);
                let written = self.write(key, &scaler, unscalable.status).await;
                written.map(|()| Report::idle(Blame::for_target(&scaler)))
            }
        };
        let told = *report.as_ref().unwrap_or(&Report::idle(Blame::Internal));
        self.metrics.looked(told, self.clock.uptime().saturating_sub(began));
        report?;
        // Whatever came of it: what it looks at changes without a word.
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
            let told = format!("the HPA controller was unable to get the target's current scale: {message}");
            let said = Said::able_to_scale(false, "FailedGetScale", told);
            let status = plan::unable(scaler, said, self.clock.now());
            Unscalable { reason: "FailedGetScale", message, status }
        })
    }

    async fn read_scale(&self, path: &ResourcePath, target: &ObjectKey) -> Result<Scale, String> {
        let path =
            format!("{}/{}/scale", path.collection(target.cluster(), target.namespace()), target.name());
        let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
        let answer = self.client.request(request).await;
        answer.map_err(|error| said(&error, "get"))
    }

    async fn scale(&self, key: &ObjectKey, scaler: &Autoscaler, target: &Target) -> kube::Result<Report> {
        let (current, now) = (target.scale.spec.replicas, self.clock.now());
        self.remember(key, |memory| {
            // Nothing is taken away from a target because of what was before anyone looked.
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
                    return written.map(|()| Report::idle(Blame::Internal));
                }
            },
        };
        self.carry_out(key, scaler, target, plan).await
    }

    /// Which pods are scaled, if that is clear.
    fn selector(
        &self,
        key: &ObjectKey,
        scaler: &Autoscaler,
        scale: &Scale,
        now: Timestamp,
    ) -> Result<Selector, Unscalable> {
        let text = &scale.status.selector;
        let refused = |reason: &'static str, message: String, told: Option<&str>| {
            let condition = if reason == "SelectorRequired" { "InvalidSelector" } else { reason };
            let said = Said::scaling_active(false, condition, told.unwrap_or(&message));
            let status = plan::unselected(scaler, scale.spec.replicas, said, now);
            Unscalable { reason, message, status }
        };
        if text.is_empty() {
            let told = "the HPA target's scale is missing a selector";
            return Err(refused("SelectorRequired", "selector is required".to_owned(), Some(told)));
        }
        let selector: Selector = text.parse().map_err(|error| {
            let message =
                format!("couldn't convert selector into a corresponding internal selector object: {error}");
            refused("InvalidSelector", message, None)
        })?;
        let rivals = self.rivals(key, &selector);
        if !rivals.is_empty() {
            let message =
                format!("pods by selector {text} are controlled by multiple HPAs: [{}]", rivals.join(" "));
            return Err(refused("AmbiguousSelector", message, None));
        }
        Ok(selector)
    }

    /// All autoscalers that scale the pods of this one, it among them; none if it is alone.
    fn rivals(&self, key: &ObjectKey, selector: &Selector) -> Vec<String> {
        self.remember(key, |memory| memory.selector = Some(selector.clone()));
        let others: Vec<(ObjectKey, Selector)> = {
            let remembered = self.remembered();
            let beside = remembered.iter().filter(|(other, _)| {
                other.cluster() == key.cluster() && other.namespace() == key.namespace() && *other != key
            });
            beside.filter_map(|(other, memory)| Some((other.clone(), memory.selector.clone()?))).collect()
        };
        if others.is_empty() {
            return Vec::new();
        }
        let pods = self.selected(key, selector);
        let is_rival = |other: &Selector| pods.iter().any(|pod| other.matches(&pod.metadata.labels));
        let mut rivals: Vec<String> =
            others.iter().filter(|(_, other)| is_rival(other)).map(|(other, _)| place(other)).collect();
        if !rivals.is_empty() {
            rivals.push(place(key));
            rivals.sort_unstable();
        }
        rivals
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
            let outcome = match metric.question() {
                Ok(question) => match self.fetcher.measure(question, key, selector).await {
                    Ok(measured) => {
                        let pods = self.selected(key, selector);
                        question.answer(measured, &self.situation(scaler, &target.scale, &pods))
                    }
                    Err(message) => Err(question.fault(message)),
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
        let history = self.remembered().get(key).map(|memory| memory.history.clone()).unwrap_or_default();
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

    async fn carry_out(
        &self,
        key: &ObjectKey,
        scaler: &Autoscaler,
        target: &Target,
        mut plan: Plan,
    ) -> kube::Result<Report> {
        let blame = if plan.failure.is_some() { Blame::Internal } else { Blame::Nobody };
        let mut report = Report::idle(blame);
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
                    self.tell(key, scaler, EventType::Normal, "SuccessfulRescale", message);
                }
                // The target changed after its size was computed, so the reconcile is retried with the new state.
                Err(error) if is_conflict(&error) => return Err(error),
                Err(error) => {
                    report.blame = Blame::Internal;
                    let why = said(&error, "patch");
                    plan.not_rescaled(&why, scaler.status.desired_replicas, now);
                    let message = format!("New size: {replicas}; reason: {reason}; error: {why}");
                    self.warn(key, scaler, "FailedRescale", message);
                }
            }
        }
        self.write(key, scaler, plan.status).await?;
        Ok(report)
    }

    /// Says what is to be said, if that is news.
    async fn write(&self, key: &ObjectKey, scaler: &Autoscaler, status: Status) -> kube::Result<()> {
        if status == scaler.status {
            return Ok(());
        }
        let patch = Patch::Merge(json!({"status": status}));
        match self.objects.patch_subresource::<Written>(key, "status", &PatchParams::default(), &patch).await
        {
            // It is gone.
            Err(kube::Error::Api(refused)) if refused.code == 404 => Ok(()),
            Err(error) => {
                self.warn(key, scaler, "FailedUpdateStatus", said(&error, "patch"));
                Err(error)
            }
            Ok(written) => {
                self.writes.note(key, &written.metadata.resource_version);
                Ok(())
            }
        }
    }

    fn warn(&self, key: &ObjectKey, scaler: &Autoscaler, reason: &'static str, message: String) {
        self.tell(key, scaler, EventType::Warning, reason, message);
    }

    fn tell(
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
        note(self.remembered().entry(key.clone()).or_default());
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<ObjectKey, Memory>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(key: &ObjectKey) -> String {
    format!("{}/{}", key.namespace(), key.name())
}
