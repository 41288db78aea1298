//! Series of repeated events: the first repetition turns an event into a series, and further ones are only counted
//! until the series ends or is refreshed.
//!
//! The intervals are client-go's (`tools/events/event_broadcaster.go`). Unlike there, no timer ticks: each event has
//! a deadline, and an empty cache waits for nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::{EventType, Reference};
use crate::key::ClusterId;

/// An event that is not repeated for this long has ended; the next one is a new event.
const FINISH: Duration = Duration::from_secs(6 * 60);

/// An ongoing series is updated after this long, because it would expire otherwise.
const REFRESH: Duration = Duration::from_secs(30 * 60);

/// Maximum number of cached events. Beyond that, the event with the earliest deadline is ended.
const MAX_CACHED: usize = 4096;

/// The reporting controller and instance of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reporter {
    pub(super) controller: Arc<str>,
    pub(super) instance: Arc<str>,
}

/// Key of events that form a series: everything except note and time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EventKey {
    pub(super) cluster: ClusterId,
    pub(super) reporter: Reporter,
    pub(super) kind: EventType,
    pub(super) reason: &'static str,
    pub(super) action: &'static str,
    /// With its resource version: an event about a modified object is a new event.
    pub(super) regarding: Reference,
    pub(super) related: Option<Reference>,
}

/// Count and last time of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) count: u32,
    pub(super) last: Timestamp,
}

/// A write: creates an event if `series` is `None`, otherwise updates the series of an existing one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EventWrite {
    pub(super) key: Arc<EventKey>,
    pub(super) name: Arc<str>,
    pub(super) note: Arc<str>,
    pub(super) at: Timestamp,
    pub(super) series: Option<Series>,
}

#[derive(Debug)]
struct CachedSeries {
    write: EventWrite,
    /// Count and time of the last write.
    written: (u32, Timestamp),
}

/// Cache of recent events.
#[derive(Debug, Default)]
pub(super) struct SeriesCache {
    cached: HashMap<Arc<EventKey>, CachedSeries>,
    /// Deadlines; each key is here once.
    due: BTreeMap<(Timestamp, u64), Arc<EventKey>>,
    last_number: u64,
}

impl SeriesCache {
    /// Counts an event. Returns the writes for it, under `name` if it is new, and for evicted events.
    pub(super) fn observe(
        &mut self,
        key: EventKey,
        note: String,
        name: impl FnOnce() -> String,
        now: Timestamp,
    ) -> Vec<EventWrite> {
        if let Some(cached) = self.cached.get_mut(&key) {
            return cached.repeat(now).into_iter().collect();
        }
        let mut writes = self.make_room();
        let key = Arc::new(key);
        let (name, note) = (name().into(), note.into());
        let write = EventWrite { key: Arc::clone(&key), name, note, at: now, series: None };
        self.cached.insert(Arc::clone(&key), CachedSeries { write: write.clone(), written: (1, now) });
        self.schedule(key, now + FINISH);
        writes.push(write);
        writes
    }

    /// When to call [`due`](Self::due).
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns the writes for series that have ended or must be refreshed.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<EventWrite> {
        let mut writes = Vec::new();
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            let Some(cached) = self.cached.get_mut(&key) else { continue };
            if cached.ends() <= now {
                writes.extend(cached.unwritten());
                self.cached.remove(&key);
                continue;
            }
            if cached.written.1 + REFRESH <= now {
                writes.push(cached.write(now));
            }
            let again = cached.ends().min(cached.written.1 + REFRESH);
            self.schedule(key, again);
        }
        writes
    }

    fn schedule(&mut self, key: Arc<EventKey>, at: Timestamp) {
        self.last_number += 1;
        self.due.insert((at, self.last_number), key);
    }

    fn make_room(&mut self) -> Vec<EventWrite> {
        if self.cached.len() < MAX_CACHED {
            return Vec::new();
        }
        let next = self.due.pop_first().and_then(|(_, key)| self.cached.remove(&key));
        next.and_then(|cached| cached.unwritten()).into_iter().collect()
    }
}

impl CachedSeries {
    fn repeat(&mut self, now: Timestamp) -> Option<EventWrite> {
        match &mut self.write.series {
            Some(series) => {
                series.count = series.count.saturating_add(1);
                series.last = now;
                None
            }
            none => {
                *none = Some(Series { count: 2, last: now });
                Some(self.write(now))
            }
        }
    }

    fn write(&mut self, now: Timestamp) -> EventWrite {
        self.written = (self.write.series.map_or(1, |series| series.count), now);
        self.write.clone()
    }

    fn ends(&self) -> Timestamp {
        self.write.series.map_or(self.write.at, |series| series.last) + FINISH
    }

    /// The final write of the series, if its count has changed since the last one.
    fn unwritten(&self) -> Option<EventWrite> {
        let counted = self.write.series.is_some_and(|series| series.count != self.written.0);
        counted.then(|| self.write.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, version: &str) -> EventKey {
        let regarding = Reference {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: "n".into(),
            name: name.into(),
            uid: "u".into(),
            resource_version: version.into(),
        };
        EventKey {
            cluster: ClusterId::default(),
            reporter: Reporter { controller: "c".into(), instance: "c-host".into() },
            kind: EventType::Warning,
            reason: "FailedScheduling",
            action: "Scheduling",
            regarding,
            related: None,
        }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn observe(cache: &mut SeriesCache, key: EventKey, seconds: u64) -> Vec<(String, Option<u32>)> {
        let name = || format!("e{seconds}");
        summary(cache.observe(key, format!("note {seconds}"), name, at(seconds)))
    }

    fn summary(writes: Vec<EventWrite>) -> Vec<(String, Option<u32>)> {
        let summary = |one: EventWrite| (one.name.to_string(), one.series.map(|series| series.count));
        writes.into_iter().map(summary).collect()
    }

    #[test]
    fn second_event_begins_a_series_and_later_ones_are_counted() {
        let mut cache = SeriesCache::default();
        assert_eq!(observe(&mut cache, key("p", "1"), 1), [("e1".to_owned(), None)]);
        assert_eq!(observe(&mut cache, key("p", "1"), 2), [("e1".to_owned(), Some(2))]);
        assert_eq!(observe(&mut cache, key("p", "1"), 3), []);
        assert_eq!(
            observe(&mut cache, key("p", "2"), 3),
            [("e3".to_owned(), None)],
            "the object has changed"
        );
        assert_eq!(cache.deadline(), Some(at(361)));
        assert_eq!(summary(cache.due(at(361))), []);
        assert_eq!(cache.deadline(), Some(at(363)));
        assert_eq!(summary(cache.due(at(363))), [("e1".to_owned(), Some(3))], "the series has ended");
        assert_eq!(cache.deadline(), None);
        assert_eq!(observe(&mut cache, key("p", "1"), 364), [("e364".to_owned(), None)], "a new event");
    }

    #[test]
    fn ongoing_series_is_refreshed() {
        let mut cache = SeriesCache::default();
        let mut written = Vec::new();
        for minute in 0..=65 {
            written.extend(observe(&mut cache, key("p", "1"), minute * 60));
            written.extend(summary(cache.due(at(minute * 60 + 1))));
        }
        let counts: Vec<_> = written.into_iter().map(|(_, count)| count).collect();
        assert_eq!(counts, [None, Some(2), Some(32), Some(62)]);
    }

    #[test]
    fn ended_series_without_new_events_is_not_written_again() {
        let mut cache = SeriesCache::default();
        observe(&mut cache, key("p", "1"), 1);
        observe(&mut cache, key("p", "1"), 2);
        assert_eq!(summary(cache.due(at(1000))), []);
        assert!(cache.cached.is_empty());
    }

    #[test]
    fn cache_is_bounded() {
        let mut cache = SeriesCache::default();
        for _ in 0..3 {
            observe(&mut cache, key("first", "1"), 0);
        }
        let mut written = Vec::new();
        for index in 0..MAX_CACHED {
            written.extend(observe(&mut cache, key(&format!("p{index}"), "1"), 1));
        }
        assert!(written.contains(&("e0".to_owned(), Some(3))), "the count of an evicted series is written");
        assert_eq!((cache.cached.len(), cache.due.len()), (MAX_CACHED, MAX_CACHED));
    }
}
