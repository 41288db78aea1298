//! Events in the form of `events.k8s.io`, for those who tell what they do to an object and because of which
//! other: in upstream the scheduler, and what repairs addresses. Repeated ones become series.

use std::sync::Arc;

use coracle_base::{Clock, Timestamp};
use coracle_meta::time::MicroTime;
use k8s_openapi::api::events::v1::Event;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::series::{EventKey, Reporter, Series, SeriesCache, Writing};
use super::{Correlator, EventType, Reference, Sender, Told, namespace_of};
use crate::key::{ClusterId, ObjectKey};
use crate::objects::{Objects, Written};

/// Something that happened to an object.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// The object.
    pub regarding: Reference,
    /// Another one it has to do with.
    pub related: Option<Reference>,
    /// Whether it is as it should be.
    pub kind: EventType,
    /// Why, in one word in camel case.
    pub reason: &'static str,
    /// What was done, or failed, in one word in camel case.
    pub action: &'static str,
    /// What people are told.
    pub note: String,
}

/// Tells people what a component does, through `events.k8s.io`. Clones are the same recorder.
#[derive(Clone, Debug)]
pub struct EventsRecorder {
    pub(super) reporter: Reporter,
    pub(super) sender: Sender,
}

impl EventsRecorder {
    /// Tells of something that happened.
    pub fn event(&self, cluster: &ClusterId, occurrence: Occurrence) {
        let Occurrence { regarding, related, kind, reason, action, note } = occurrence;
        let (cluster, reporter) = (cluster.clone(), self.reporter.clone());
        let key = EventKey { cluster, reporter, kind, reason, action, regarding, related };
        self.sender.send(Told::Occurrence(Box::new((key, note))));
    }
}

/// Writes what [`EventsRecorder`]s tell.
pub(super) struct SeriesWriter {
    events: Objects,
    clock: Clock,
    cache: SeriesCache,
}

impl SeriesWriter {
    pub(super) fn new(client: &Client, clock: Clock) -> Self {
        Self { events: Objects::of::<Event>(client), clock, cache: SeriesCache::default() }
    }

    /// Returns when something is due. Safe to drop.
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
        let writings = self.cache.observe(key, note, || correlator.name(&about, now), now);
        self.write_all(writings).await;
    }

    async fn write_all(&self, writings: Vec<Writing>) {
        for writing in writings {
            if let Err(error) = write(&self.events, &writing).await {
                let EventKey { reporter, reason, .. } = &*writing.key;
                tracing::debug!(component = &*reporter.controller, reason, %error, "cannot write an event");
            }
        }
    }
}

async fn write(events: &Objects, writing: &Writing) -> kube::Result<()> {
    let namespace = namespace_of(&writing.key.regarding);
    let key = ObjectKey::namespaced(writing.key.cluster.clone(), namespace, &*writing.name);
    if let Some(series) = writing.series {
        let patch = Patch::Strategic(json!({"series": series_json(series)}));
        match events.patch::<Written>(&key, &PatchParams::default(), &patch).await {
            // It has expired, or somebody deleted it.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            answer => return answer.map(drop),
        }
    }
    events.create::<Written>(&key, &body(writing, namespace)).await.map(drop)
}

fn body(writing: &Writing, namespace: &str) -> Value {
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

/// As `default-scheduler-host`, the way client-go names who tells.
pub(super) fn reporter(controller: Arc<str>, host: &str) -> Reporter {
    let instance = format!("{controller}-{host}").into();
    Reporter { controller, instance }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_form_of_their_group() {
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
            Writing { key: Arc::new(key), name: "victim.1".into(), note: "gone".into(), at, series };
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
