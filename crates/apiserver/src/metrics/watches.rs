//! Metrics of events sent to watches.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coracle_base::metrics::Text;
use coracle_registry::Declaration;

use super::ServerMetrics;

/// Number of resources that are counted; custom ones come and go. Further ones are not counted.
const MAX_RESOURCES: usize = 2048;

#[derive(Default)]
pub(super) struct Watches {
    /// Counters by resource and version.
    resources: Mutex<HashMap<String, Arc<WatchedResource>>>,
}

/// The counters of one resource.
pub(crate) struct WatchedResource {
    group: String,
    version: String,
    resource: String,
    events: AtomicU64,
    bytes: AtomicU64,
}

impl WatchedResource {
    /// Counts an event that was sent to one watch.
    pub(crate) fn count_event(&self, bytes: usize, metrics: &ServerMetrics) {
        metrics.note_event(&self.group, &self.resource, &self.version, bytes);
        self.events.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts events of the initial state of a watch.
    pub(crate) fn count_initial(&self, events: u64, metrics: &ServerMetrics) {
        metrics.note_initial_events(&self.group, &self.resource, events);
    }

    /// Counts a watch that was ended because its client did not read.
    pub(crate) fn count_terminated(&self, metrics: &ServerMetrics) {
        metrics.note_terminated_watcher(&self.group, &self.resource);
    }

    /// Records how long a watch took to send its initial state.
    pub(crate) fn note_state_sent(&self, scope: &str, took: Duration, metrics: &ServerMetrics) {
        metrics.note_watch_list([&self.group, &self.resource, scope, &self.version], took);
    }

    fn labels(&self) -> [(&'static str, &str); 3] {
        [("group", &self.group), ("resource", &self.resource), ("version", &self.version)]
    }
}

impl Watches {
    pub(super) fn of(&self, declaration: &Declaration, version: &str) -> Arc<WatchedResource> {
        let mut resources = self.resources.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("{}/{version}", declaration.group_resource());
        let new = || {
            Arc::new(WatchedResource {
                group: declaration.group.to_string(),
                version: version.to_owned(),
                resource: declaration.plural.to_string(),
                events: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
            })
        };
        if resources.len() >= MAX_RESOURCES && !resources.contains_key(&name) {
            return new();
        }
        resources.entry(name).or_insert_with(new).clone()
    }

    pub(super) fn write(&self, text: &mut Text) {
        let mut all: Vec<Arc<WatchedResource>> =
            self.resources.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        all.sort_by(|a, b| a.labels().cmp(&b.labels()));
        text.family("apiserver_watch_events_total", "counter", "Events sent to watchers.");
        for resource in &all {
            let events = resource.events.load(Ordering::Relaxed);
            text.sample("apiserver_watch_events_total", &resource.labels(), events);
        }
        text.family("apiserver_watch_events_bytes_total", "counter", "Bytes of events sent to watchers.");
        for resource in &all {
            let bytes = resource.bytes.load(Ordering::Relaxed);
            text.sample("apiserver_watch_events_bytes_total", &resource.labels(), bytes);
        }
    }
}
