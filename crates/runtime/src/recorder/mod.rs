//! Events: what a controller tells people about an object.
//!
//! Telling never waits and never fails: what cannot be written is dropped, because no decision may hang on
//! it. Repeated events become one with a count, many similar ones are combined, and an object about which
//! too much is told falls silent for a while, all as client-go's recorder does it.
//!
//! There are two forms, as upstream's components use both: [`Recorder`] writes those of the core group
//! (client-go's `tools/record`), [`EventsRecorder`] those of `events.k8s.io` (`tools/events`).

mod correlate;
mod events_recorder;
mod series;

use std::borrow::Cow;
use std::sync::Arc;

use coracle_base::{Clock, Timestamp};
use k8s_openapi::api::core::v1::Event;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use crate::informer::{ObjectMetadata, rfc3339};
use crate::key::{ClusterId, ObjectKey};
use crate::objects::{Objects, Written};
use correlate::{Correlated, Correlator};
use events_recorder::SeriesWriter;
pub use events_recorder::{EventsRecorder, Occurrence};
use series::EventKey;

/// Events that wait to be written. More are dropped, as client-go's broadcaster does
/// (`incomingQueueLength` in `tools/record/event.go` is smaller, and its watchers' queues larger).
const MAX_WAITING: usize = 1000;

/// Where events about objects without a namespace are.
const DEFAULT_NAMESPACE: &str = "default";

/// Whether something is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Something may need to be done.
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The object an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// Group and version.
    pub api_version: Cow<'static, str>,
    /// The kind.
    pub kind: Cow<'static, str>,
    /// Where it is; empty if in no namespace.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its identity.
    pub uid: Box<str>,
    /// The version that was known.
    pub resource_version: Box<str>,
}

impl Reference {
    /// The object that has this metadata.
    pub fn to(api_version: &'static str, kind: &'static str, metadata: &ObjectMetadata) -> Self {
        let plain = &metadata.plain;
        Self {
            api_version: Cow::Borrowed(api_version),
            kind: Cow::Borrowed(kind),
            namespace: plain.namespace.clone(),
            name: plain.name.clone(),
            uid: plain.uid.clone(),
            resource_version: plain.resource_version.clone(),
        }
    }
}

/// One thing to tell.
#[derive(Debug)]
enum Told {
    Event(Box<CoreEvent>),
    Occurrence(Box<(EventKey, String)>),
}

/// One thing to tell in the form of the core group.
#[derive(Clone, Debug)]
struct CoreEvent {
    cluster: ClusterId,
    component: Arc<str>,
    about: Reference,
    kind: EventType,
    reason: &'static str,
    message: String,
}

/// Where what is told waits to be written.
#[derive(Clone, Debug)]
struct Sender {
    told: mpsc::Sender<Told>,
    /// How many were told and neither written nor dropped.
    waiting: Arc<watch::Sender<usize>>,
}

impl Sender {
    fn send(&self, told: Told) {
        self.waiting.send_modify(|waiting| *waiting += 1);
        if self.told.try_send(told).is_err() {
            self.waiting.send_modify(|waiting| *waiting -= 1);
            tracing::debug!("too many events; one is dropped");
        }
    }
}

/// Tells people what a controller does. Clones are the same recorder.
#[derive(Clone, Debug)]
pub struct Recorder {
    component: Arc<str>,
    sender: Sender,
}

impl Recorder {
    /// Tells `message` about an object, under a short `reason` in camel case.
    pub fn event(
        &self,
        cluster: &ClusterId,
        about: Reference,
        kind: EventType,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let (cluster, component, message) = (cluster.clone(), Arc::clone(&self.component), message.into());
        let event = CoreEvent { cluster, component, about, kind, reason, message };
        self.sender.send(Told::Event(Box::new(event)));
    }
}

/// Writes what recorders tell.
pub(crate) struct Events {
    sender: Sender,
    told: mpsc::Receiver<Told>,
}

impl Events {
    pub(crate) fn new() -> Self {
        let (sender, told) = mpsc::channel(MAX_WAITING);
        Self { sender: Sender { told: sender, waiting: Arc::default() }, told }
    }

    /// A recorder under the name of a controller.
    pub(crate) fn recorder(&self, component: impl Into<Arc<str>>) -> Recorder {
        Recorder { component: component.into(), sender: self.sender.clone() }
    }

    /// A recorder under the name of a component that runs on a host.
    pub(crate) fn events_recorder(&self, controller: impl Into<Arc<str>>, host: &str) -> EventsRecorder {
        let reporter = events_recorder::reporter(controller.into(), host);
        EventsRecorder { reporter, sender: self.sender.clone() }
    }

    /// How many have been told and not been written yet.
    pub(crate) fn waiting(&self) -> watch::Receiver<usize> {
        self.sender.waiting.subscribe()
    }

    /// Writes for ever. Safe to drop; what was not written is lost.
    pub(crate) async fn write(mut self, client: Client, clock: Clock) {
        let mut correlator = Correlator::default();
        let events = Objects::of::<Event>(&client);
        let mut series = SeriesWriter::new(&client, clock.clone());
        loop {
            tokio::select! {
                // Both may be dropped: they only wait.
                biased;
                told = self.told.recv() => {
                    match told {
                        // It never ends, for one sender is here.
                        None => return,
                        Some(Told::Event(event)) => record(&events, &mut correlator, &event, clock.now()).await,
                        Some(Told::Occurrence(occurrence)) => {
                            let (key, note) = *occurrence;
                            series.write(key, note, &mut correlator).await;
                        }
                    }
                    self.sender.waiting.send_modify(|waiting| *waiting -= 1);
                }
                () = series.is_due() => series.write_due().await,
            }
        }
    }
}

async fn record(events: &Objects, correlator: &mut Correlator, told: &CoreEvent, now: Timestamp) {
    if let Some(correlated) = correlator.correlate(told, now)
        && let Err(error) = write(events, correlator, told, correlated).await
    {
        tracing::debug!(component = &*told.component, reason = told.reason, %error, "cannot write an event");
    }
}

/// Where events about an object are.
fn namespace_of(about: &Reference) -> &str {
    if about.namespace.is_empty() { DEFAULT_NAMESPACE } else { &about.namespace }
}

async fn write(
    events: &Objects,
    correlator: &mut Correlator,
    told: &CoreEvent,
    correlated: Correlated,
) -> kube::Result<()> {
    let namespace = namespace_of(&told.about);
    if let Some(name) = &correlated.known_as {
        let key = ObjectKey::namespaced(told.cluster.clone(), namespace, &**name);
        let patch = Patch::Strategic(json!({
            "count": correlated.count, "lastTimestamp": rfc3339(correlated.last), "message": correlated.message,
        }));
        match events.patch::<Written>(&key, &PatchParams::default(), &patch).await {
            // It has expired, or somebody deleted it.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            answer => return answer.map(drop),
        }
    }
    let name = correlator.name(&told.about.name, correlated.last);
    let beside = ObjectKey::namespaced(told.cluster.clone(), namespace, &*name);
    events.create::<Written>(&beside, &body(told, &correlated, namespace, &name)).await?;
    correlator.written(correlated, name);
    Ok(())
}

fn body(told: &CoreEvent, correlated: &Correlated, namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": told.about,
        "reason": told.reason,
        "message": correlated.message,
        "source": {"component": &*told.component},
        "firstTimestamp": rfc3339(correlated.first),
        "lastTimestamp": rfc3339(correlated.last),
        "count": correlated.count,
        "type": told.kind.as_str(),
        "reportingComponent": &*told.component,
        "reportingInstance": "",
    })
}
