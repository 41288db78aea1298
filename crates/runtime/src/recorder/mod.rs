//! Events: what a controller tells people about an object.
//!
//! Telling never waits and never fails: what cannot be written is dropped, because no decision may hang on
//! it. Repeated events become one with a count, many similar ones are combined, and an object about which
//! too much is told falls silent for a while, all as client-go's recorder does it.

mod correlate;

use std::borrow::Cow;
use std::sync::Arc;

use coracle_base::Clock;
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
#[derive(Clone, Debug)]
struct Told {
    cluster: ClusterId,
    component: Arc<str>,
    about: Reference,
    kind: EventType,
    reason: &'static str,
    message: String,
}

/// Tells people what a controller does. Clones are the same recorder.
#[derive(Clone, Debug)]
pub struct Recorder {
    component: Arc<str>,
    events: mpsc::Sender<Told>,
    /// How many were told and neither written nor dropped.
    waiting: Arc<watch::Sender<usize>>,
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
        self.waiting.send_modify(|waiting| *waiting += 1);
        let told = Told { cluster, component, about, kind, reason, message };
        if self.events.try_send(told).is_err() {
            self.waiting.send_modify(|waiting| *waiting -= 1);
            tracing::debug!(component = &*self.component, reason, "too many events; one is dropped");
        }
    }
}

/// Writes what recorders tell.
pub(crate) struct Events {
    first: Recorder,
    told: mpsc::Receiver<Told>,
}

impl Events {
    pub(crate) fn new() -> Self {
        let (events, told) = mpsc::channel(MAX_WAITING);
        let first = Recorder { component: "".into(), events, waiting: Arc::default() };
        Self { first, told }
    }

    /// A recorder under the name of a controller.
    pub(crate) fn recorder(&self, component: impl Into<Arc<str>>) -> Recorder {
        Recorder { component: component.into(), ..self.first.clone() }
    }

    /// How many have been told and not been written yet.
    pub(crate) fn waiting(&self) -> watch::Receiver<usize> {
        self.first.waiting.subscribe()
    }

    /// Writes for ever. Safe to drop; what was not written is lost.
    pub(crate) async fn write(mut self, client: Client, clock: Clock) {
        let mut correlator = Correlator::default();
        let events = Objects::of::<Event>(&client);
        while let Some(told) = self.told.recv().await {
            let now = clock.now();
            if let Some(correlated) = correlator.correlate(&told, now)
                && let Err(error) = write(&events, &mut correlator, &told, correlated).await
            {
                tracing::debug!(component = &*told.component, reason = told.reason, %error, "cannot write an event");
            }
            self.first.waiting.send_modify(|waiting| *waiting -= 1);
        }
    }
}

async fn write(
    events: &Objects,
    correlator: &mut Correlator,
    told: &Told,
    correlated: Correlated,
) -> kube::Result<()> {
    let namespace = if told.about.namespace.is_empty() { DEFAULT_NAMESPACE } else { &told.about.namespace };
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
    let name = format!("{}.{:x}", told.about.name, correlator.unique(correlated.last));
    let beside = ObjectKey::namespaced(told.cluster.clone(), namespace, &*name);
    events.create::<Written>(&beside, &body(told, &correlated, namespace, &name)).await?;
    correlator.written(correlated, name);
    Ok(())
}

fn body(told: &Told, correlated: &Correlated, namespace: &str, name: &str) -> Value {
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
