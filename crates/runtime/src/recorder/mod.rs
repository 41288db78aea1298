//! Event recorders: what a controller reports to people about an object.
//!
//! Recording never blocks and never fails: events that cannot be written are dropped, because no decision may depend
//! on them. As in client-go's recorder, repeated events become one event with a count, similar events are combined,
//! and events about the same object are rate limited.
//!
//! There are two APIs, as Kubernetes' components use both: [`Recorder`] writes events of the core group (client-go's
//! `tools/record`), [`EventsRecorder`] events of `events.k8s.io` (`tools/events`).

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

/// Maximum number of events waiting to be written. More are dropped, as by client-go's broadcaster
/// (`incomingQueueLength` in `tools/record/event.go` is smaller, and the queues of its watchers are larger).
const MAX_WAITING: usize = 1000;

/// Namespace of events about cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

/// Type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Information: everything works as intended.
    Normal,
    /// A problem that may need attention.
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

/// Reference to the object of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    /// Group and version of the object.
    pub api_version: Cow<'static, str>,
    /// Kind of the object.
    pub kind: Cow<'static, str>,
    /// Namespace of the object; empty for cluster-scoped objects.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub namespace: Box<str>,
    /// Name of the object.
    pub name: Box<str>,
    /// Uid of the object.
    pub uid: Box<str>,
    /// Resource version of the cached object.
    pub resource_version: Box<str>,
}

impl Reference {
    /// Refers to the object with this metadata.
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

/// An event in the queue of the writer.
#[derive(Debug)]
enum QueuedEvent {
    Event(Box<CoreEvent>),
    Occurrence(Box<(EventKey, String)>),
}

/// An event of the core group.
#[derive(Clone, Debug)]
struct CoreEvent {
    cluster: ClusterId,
    component: Arc<str>,
    about: Reference,
    kind: EventType,
    reason: &'static str,
    message: String,
}

/// Sends events to the writer's queue.
#[derive(Clone, Debug)]
struct Sender {
    queue: mpsc::Sender<QueuedEvent>,
    /// Number of events that are neither written nor dropped yet.
    waiting: Arc<watch::Sender<usize>>,
}

impl Sender {
    fn send(&self, event: QueuedEvent) {
        self.waiting.send_modify(|waiting| *waiting += 1);
        if self.queue.try_send(event).is_err() {
            self.waiting.send_modify(|waiting| *waiting -= 1);
            tracing::debug!("event queue is full, dropping an event");
        }
    }
}

/// Records events of the core group. Clones are the same recorder.
#[derive(Clone, Debug)]
pub struct Recorder {
    component: Arc<str>,
    sender: Sender,
}

impl Recorder {
    /// Records an event with `message` about an object. The `reason` is a short word in CamelCase.
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
        self.sender.send(QueuedEvent::Event(Box::new(event)));
    }
}

/// Writes the events of all recorders.
pub(crate) struct Events {
    sender: Sender,
    queue: mpsc::Receiver<QueuedEvent>,
}

impl Events {
    pub(crate) fn new() -> Self {
        let (sender, queue) = mpsc::channel(MAX_WAITING);
        Self { sender: Sender { queue: sender, waiting: Arc::default() }, queue }
    }

    /// Returns a core-group recorder for a controller.
    pub(crate) fn recorder(&self, component: impl Into<Arc<str>>) -> Recorder {
        Recorder { component: component.into(), sender: self.sender.clone() }
    }

    /// Returns an `events.k8s.io` recorder for a component that runs on a host.
    pub(crate) fn events_recorder(&self, controller: impl Into<Arc<str>>, host: &str) -> EventsRecorder {
        let reporter = events_recorder::reporter(controller.into(), host);
        EventsRecorder { reporter, sender: self.sender.clone() }
    }

    /// Number of events that are not written yet.
    pub(crate) fn waiting(&self) -> watch::Receiver<usize> {
        self.sender.waiting.subscribe()
    }

    /// Writes events forever. Safe to drop; events still in the queue are lost.
    pub(crate) async fn write(mut self, client: Client, clock: Clock) {
        let mut correlator = Correlator::default();
        let events = Objects::of::<Event>(&client);
        let mut series = SeriesWriter::new(&client, clock.clone());
        loop {
            tokio::select! {
                // Both branches are safe to drop: they only wait.
                biased;
                event = self.queue.recv() => {
                    match event {
                        // Never happens, because `self` holds a sender.
                        None => return,
                        Some(QueuedEvent::Event(event)) => record(&events, &mut correlator, &event, clock.now()).await,
                        Some(QueuedEvent::Occurrence(occurrence)) => {
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

async fn record(events: &Objects, correlator: &mut Correlator, event: &CoreEvent, now: Timestamp) {
    if let Some(correlated) = correlator.correlate(event, now)
        && let Err(error) = write(events, correlator, event, correlated).await
    {
        tracing::debug!(component = &*event.component, reason = event.reason, %error, "cannot write an event");
    }
}

/// Namespace for events about an object.
fn namespace_of(about: &Reference) -> &str {
    if about.namespace.is_empty() { DEFAULT_NAMESPACE } else { &about.namespace }
}

async fn write(
    events: &Objects,
    correlator: &mut Correlator,
    event: &CoreEvent,
    correlated: Correlated,
) -> kube::Result<()> {
    let namespace = namespace_of(&event.about);
    if let Some(name) = &correlated.existing_name {
        let key = ObjectKey::namespaced(event.cluster.clone(), namespace, &**name);
        let patch = Patch::Strategic(json!({
            "count": correlated.count, "lastTimestamp": rfc3339(correlated.last), "message": correlated.message,
        }));
        match events.patch::<Written>(&key, &PatchParams::default(), &patch).await {
            // It has expired, or has been deleted.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            answer => return answer.map(drop),
        }
    }
    let name = correlator.name(&event.about.name, correlated.last);
    let beside = ObjectKey::namespaced(event.cluster.clone(), namespace, &*name);
    events.create::<Written>(&beside, &body(event, &correlated, namespace, &name)).await?;
    correlator.written(correlated, name);
    Ok(())
}

fn body(event: &CoreEvent, correlated: &Correlated, namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": event.about,
        "reason": event.reason,
        "message": correlated.message,
        "source": {"component": &*event.component},
        "firstTimestamp": rfc3339(correlated.first),
        "lastTimestamp": rfc3339(correlated.last),
        "count": correlated.count,
        "type": event.kind.as_str(),
        "reportingComponent": &*event.component,
        "reportingInstance": "",
    })
}
