//! Which events are repeated: the second time makes a series of the first event, and further times are only
//! counted until the series ends or has been going on for long.
//!
//! The numbers are client-go's (`tools/events/event_broadcaster.go`). Unlike there nothing ticks: each event has
//! a time at which it is looked at again, and who remembers none waits for nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::{EventType, Reference};
use crate::key::ClusterId;

/// An event that was not repeated for so long has ended; once more of it is a new event.
const FINISH: Duration = Duration::from_secs(6 * 60);

/// A series that goes on is written down anew after so long, or it would expire.
const REFRESH: Duration = Duration::from_secs(30 * 60);

/// Events that are remembered. One more, and the one that would be looked at next is taken to have ended.
const MAX_REMEMBERED: usize = 4096;

/// Who tells, as events name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reporter {
    pub(super) controller: Arc<str>,
    pub(super) instance: Arc<str>,
}

/// What is the same of events that are one: all but what is said, and when.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EventKey {
    pub(super) cluster: ClusterId,
    pub(super) reporter: Reporter,
    pub(super) kind: EventType,
    pub(super) reason: &'static str,
    pub(super) action: &'static str,
    /// With its version: what happens to an object that has changed is another event.
    pub(super) regarding: Reference,
    pub(super) related: Option<Reference>,
}

/// How often, and when last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) count: u32,
    pub(super) last: Timestamp,
}

/// What is to be written: a new event if there is no series, the series of a known one otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Writing {
    pub(super) key: Arc<EventKey>,
    pub(super) name: Arc<str>,
    pub(super) note: Arc<str>,
    pub(super) at: Timestamp,
    pub(super) series: Option<Series>,
}

#[derive(Debug)]
struct Known {
    writing: Writing,
    /// As of which count, and when, it was written last.
    written: (u32, Timestamp),
}

/// Events that were told not long ago.
#[derive(Debug, Default)]
pub(super) struct SeriesCache {
    known: HashMap<Arc<EventKey>, Known>,
    /// When to look at which again: each is here once.
    due: BTreeMap<(Timestamp, u64), Arc<EventKey>>,
    last_number: u64,
}

impl SeriesCache {
    /// Notes that something happened. What is to be written of it, under this name if it is new, and of others
    /// that are forgotten for it.
    pub(super) fn observe(
        &mut self,
        key: EventKey,
        note: String,
        name: impl FnOnce() -> String,
        now: Timestamp,
    ) -> Vec<Writing> {
        if let Some(known) = self.known.get_mut(&key) {
            return known.repeat(now).into_iter().collect();
        }
        let mut writings = self.make_room();
        let key = Arc::new(key);
        let (name, note) = (name().into(), note.into());
        let writing = Writing { key: Arc::clone(&key), name, note, at: now, series: None };
        self.known.insert(Arc::clone(&key), Known { writing: writing.clone(), written: (1, now) });
        self.look_again(key, now + FINISH);
        writings.push(writing);
        writings
    }

    /// When to ask for what is [`due`](Self::due).
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    /// What is to be written of series that have ended or go on for long.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<Writing> {
        let mut writings = Vec::new();
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let key = entry.remove();
            let Some(known) = self.known.get_mut(&key) else { continue };
            if known.ends() <= now {
                writings.extend(known.unwritten());
                self.known.remove(&key);
                continue;
            }
            if known.written.1 + REFRESH <= now {
                writings.push(known.write(now));
            }
            let again = known.ends().min(known.written.1 + REFRESH);
            self.look_again(key, again);
        }
        writings
    }

    fn look_again(&mut self, key: Arc<EventKey>, at: Timestamp) {
        self.last_number += 1;
        self.due.insert((at, self.last_number), key);
    }

    fn make_room(&mut self) -> Vec<Writing> {
        if self.known.len() < MAX_REMEMBERED {
            return Vec::new();
        }
        let next = self.due.pop_first().and_then(|(_, key)| self.known.remove(&key));
        next.and_then(|known| known.unwritten()).into_iter().collect()
    }
}

impl Known {
    fn repeat(&mut self, now: Timestamp) -> Option<Writing> {
        match &mut self.writing.series {
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

    fn write(&mut self, now: Timestamp) -> Writing {
        self.written = (self.writing.series.map_or(1, |series| series.count), now);
        self.writing.clone()
    }

    fn ends(&self) -> Timestamp {
        self.writing.series.map_or(self.writing.at, |series| series.last) + FINISH
    }

    /// What it has come to, if that was not written.
    fn unwritten(&self) -> Option<Writing> {
        let counted = self.writing.series.is_some_and(|series| series.count != self.written.0);
        counted.then(|| self.writing.clone())
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

    fn told(cache: &mut SeriesCache, key: EventKey, seconds: u64) -> Vec<(String, Option<u32>)> {
        let name = || format!("e{seconds}");
        summary(cache.observe(key, format!("note {seconds}"), name, at(seconds)))
    }

    fn summary(writings: Vec<Writing>) -> Vec<(String, Option<u32>)> {
        let summary = |one: Writing| (one.name.to_string(), one.series.map(|series| series.count));
        writings.into_iter().map(summary).collect()
    }

    #[test]
    fn the_second_time_begins_a_series_and_others_are_counted() {
        let mut cache = SeriesCache::default();
        assert_eq!(told(&mut cache, key("p", "1"), 1), [("e1".to_owned(), None)]);
        assert_eq!(told(&mut cache, key("p", "1"), 2), [("e1".to_owned(), Some(2))]);
        assert_eq!(told(&mut cache, key("p", "1"), 3), []);
        assert_eq!(told(&mut cache, key("p", "2"), 3), [("e3".to_owned(), None)], "it has changed meanwhile");
        assert_eq!(cache.deadline(), Some(at(361)));
        assert_eq!(summary(cache.due(at(361))), []);
        assert_eq!(cache.deadline(), Some(at(363)));
        assert_eq!(summary(cache.due(at(363))), [("e1".to_owned(), Some(3))], "it has ended");
        assert_eq!(cache.deadline(), None);
        assert_eq!(told(&mut cache, key("p", "1"), 364), [("e364".to_owned(), None)], "another one");
    }

    #[test]
    fn a_series_that_goes_on_is_written_now_and_then() {
        let mut cache = SeriesCache::default();
        let mut written = Vec::new();
        for minute in 0..=65 {
            written.extend(told(&mut cache, key("p", "1"), minute * 60));
            written.extend(summary(cache.due(at(minute * 60 + 1))));
        }
        let counts: Vec<_> = written.into_iter().map(|(_, count)| count).collect();
        assert_eq!(counts, [None, Some(2), Some(32), Some(62)]);
    }

    #[test]
    fn what_was_written_as_it_is_is_not_written_again() {
        let mut cache = SeriesCache::default();
        told(&mut cache, key("p", "1"), 1);
        told(&mut cache, key("p", "1"), 2);
        assert_eq!(summary(cache.due(at(1000))), []);
        assert!(cache.known.is_empty());
    }

    #[test]
    fn only_so_much_is_remembered() {
        let mut cache = SeriesCache::default();
        for _ in 0..3 {
            told(&mut cache, key("first", "1"), 0);
        }
        let mut written = Vec::new();
        for index in 0..MAX_REMEMBERED {
            written.extend(told(&mut cache, key(&format!("p{index}"), "1"), 1));
        }
        assert!(written.contains(&("e0".to_owned(), Some(3))), "what was counted is not lost");
        assert_eq!((cache.known.len(), cache.due.len()), (MAX_REMEMBERED, MAX_REMEMBERED));
    }
}
