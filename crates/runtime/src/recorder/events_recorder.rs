//! Events of `events.k8s.io`, for components that report an action on an object and a related object: in Kubernetes
//! the scheduler and the controllers that repair IP addresses. Repeated events become a series.

use std::sync::Arc;

use coracle_base::{Clock, Timestamp};
use coracle_meta::time::MicroTime;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::series::{EventKey, EventWrite, Reporter, Series, SeriesCache};
use super::{Correlator, EventType, QueuedEvent, Reference, Sender, namespace_of};
use crate::key::{ClusterId, ObjectKey};
use crate::objects::{Objects, Written};

/// An event to record.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// The object that the event is about.
    pub regarding: Reference,
    /// A related object.
    pub related: Option<Reference>,
    /// Type of the event.
    pub kind: EventType,
    /// Reason, one word in CamelCase.
    pub reason: &'static str,
    /// Action that was taken or that failed, one word in CamelCase.
    pub action: &'static str,
    /// Message for people.
    pub note: String,
}

/// Records events of `events.k8s.io`. Clones are the same recorder.
#[derive(Clone, Debug)]
pub struct EventsRecorder {
    pub(super) reporter: Reporter,
    pub(super) sender: Sender,
}

impl EventsRecorder {
    /// Records an event.
    pub fn event(&self, cluster: &ClusterId, occurrence: Occurrence) {
        let Occurrence { regarding, related, kind, reason, action, note } = occurrence;
        let (cluster, reporter) = (cluster.clone(), self.reporter.clone());
        let key = EventKey { cluster, reporter, kind, reason, action, regarding, related };
        self.sender.send(QueuedEvent::Occurrence(Box::new((key, note))));
    }
}

/// Writes the events of [`EventsRecorder`]s.
pub(super) struct SeriesWriter {
    events: Objects,
    clock: Clock,
    cache: SeriesCache,
}

impl SeriesWriter {
    pub(super) fn new(client: &Client, clock: Clock) -> Self {
        Self { events: Objects::of::<Event>(client), clock, cache: SeriesCache::default() }
    }

    /// Returns when a series is due. Safe to drop.
    pub(super) async fn is_due(&self) {
        match self.cache.deadline() {
            Some(deadline) => self.clock.sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }

    pub(super) async fn write_due(&mut self) {
        let due = self.cache.due(self.clock.now());
        self.write_all(due).await;
    }

    pub(super) async fn write(&mut self, key: EventKey, note: String, correlator: &mut Correlator) {
        let now = self.clock.now();
        let about = key.regarding.name.clone();
        let writes = self.cache.observe(key, note, || correlator.name(&about, now), now);
        self.write_all(writes).await;
    }

    async fn write_all(&self, writes: Vec<EventWrite>) {
        for writing in writes {
            if let Err(error) = write(&self.events, &writing).await {
                let EventKey { reporter, reason, .. } = &*writing.key;
                tracing::debug!(component = &*reporter.controller, reason, %error, "cannot write an event");
            }
        }
    }
}

async fn write(events: &Objects, writing: &EventWrite) -> kube::Result<()> {
    let namespace = namespace_of(&writing.key.regarding);
    let key = ObjectKey::namespaced(writing.key.cluster.clone(), namespace, &*writing.name);
    if let Some(series) = writing.series {
        let patch = Patch::Strategic(json!({"series": series_json(series)}));
        match events.patch::<Written>(&key, &PatchParams::default(), &patch).await {
            // It has expired, or has been deleted.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            answer => return answer.map(drop),
        }
    }
    events.create::<Written>(&key, &body(writing, namespace)).await.map(drop)
}

fn body(writing: &EventWrite, namespace: &str) -> Value {
    let EventKey { reporter, kind, reason, action, regarding, related, .. } = &*writing.key;
    let mut body = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": &*writing.name, "namespace": namespace},
        "eventTime": micro_time(writing.at),
        "reportingController": &*reporter.controller,
        "reportingInstance": &*reporter.instance,
        "action": action,
        "reason": reason,
        "regarding": regarding,
        "note": &*writing.note,
        "type": kind.as_str(),
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": null,
        "deprecatedLastTimestamp": null,
    });
    if let Some(related) = related {
        body["related"] = json!(related);
    }
    if let Some(series) = writing.series {
        body["series"] = series_json(series);
    }
    body
}

fn series_json(series: Series) -> Value {
    json!({"count": series.count, "lastObservedTime": micro_time(series.last)})
}

fn micro_time(at: Timestamp) -> String {
    MicroTime(i64::try_from(at.as_millis()).unwrap_or(i64::MAX).saturating_mul(1000)).to_string()
}

/// Names the instance like `default-scheduler-host`, as client-go does.
pub(super) fn reporter(controller: Arc<str>, host: &str) -> Reporter {
    let instance = format!("{controller}-{host}").into();
    Reporter { controller, instance }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_body_matches_events_k8s_io() {
        let pod = |name: &str| Reference {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: "n".into(),
            name: name.into(),
            uid: "u".into(),
            resource_version: "7".into(),
        };
        let key = EventKey {
            cluster: ClusterId::default(),
            reporter: reporter("default-scheduler".into(), "host"),
            kind: EventType::Normal,
            reason: "Preempted",
            action: "Preempting",
            regarding: pod("victim"),
            related: Some(pod("preemptor")),
        };
        let at = Timestamp::from_millis(1_767_323_045_678);
        let series = Some(Series { count: 2, last: at });
        let writing =
            EventWrite { key: Arc::new(key), name: "victim.1".into(), note: "gone".into(), at, series };
        let reference = |name: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "namespace": "n", "name": name,
            "uid": "u", "resourceVersion": "7"})
        };
        assert_eq!(
            body(&writing, "n"),
            json!({
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": "victim.1", "namespace": "n"},
                "eventTime": "2026-01-02T03:04:05.678000Z",
                "series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:05.678000Z"},
                "reportingController": "default-scheduler",
                "reportingInstance": "default-scheduler-host",
                "action": "Preempting",
                "reason": "Preempted",
                "regarding": reference("victim"),
                "related": reference("preemptor"),
                "note": "gone",
                "type": "Normal",
                "deprecatedSource": {},
                "deprecatedFirstTimestamp": null,
                "deprecatedLastTimestamp": null,
            })
        );
    }
}
