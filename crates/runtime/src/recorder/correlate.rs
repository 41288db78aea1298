//! Which events are news: repeated ones are counted, similar ones combined, too many are dropped.
//!
//! The numbers are client-go's (`tools/record/events_cache.go`), so that people see as many events here as
//! elsewhere.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::{CoreEvent, EventType, Reference};
use crate::key::ClusterId;

/// Events that are remembered, and objects whose share is counted. The oldest are forgotten first, and then
/// only counted anew.
const MAX_REMEMBERED: usize = 4096;

/// Messages under one reason before the next ones are combined, if all came in [`SIMILAR_WITHIN`].
const MAX_SIMILAR: usize = 10;
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);

/// Events about one object in a row, and how long it takes until there may be one more.
const MAX_BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);

/// What stands before the last message of many similar ones.
const COMBINED: &str = "(combined from similar events): ";

/// Who tells about what.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Subject {
    cluster: ClusterId,
    component: Arc<str>,
    about: Reference,
}

/// What is counted as one event; the message is empty for combined ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Same {
    similar: Similar,
    message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Similar {
    subject: Subject,
    kind: EventType,
    reason: &'static str,
}

/// What is to be written.
#[derive(Debug)]
pub(super) struct Correlated {
    same: Same,
    pub(super) message: String,
    pub(super) count: u32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// The name of the event that has to be counted up; none if there is none yet.
    pub(super) known_as: Option<Box<str>>,
}

#[derive(Debug)]
struct Share {
    tokens: f64,
    at: Timestamp,
}

#[derive(Debug)]
struct Similars {
    messages: HashSet<String>,
    last: Timestamp,
}

#[derive(Debug)]
struct Known {
    count: u32,
    first: Timestamp,
    last: Timestamp,
    name: Box<str>,
}

#[derive(Debug, Default)]
pub(super) struct Correlator {
    shares: HashMap<Subject, Share>,
    similar: HashMap<Similar, Similars>,
    known: HashMap<Same, Known>,
    /// The number in the name of the last event, so that no two are the same.
    last_unique: u64,
}

impl Correlator {
    /// What is to be written of an event; nothing if too much was told about its object.
    pub(super) fn correlate(&mut self, told: &CoreEvent, now: Timestamp) -> Option<Correlated> {
        // The version is no part of who it is about.
        let about = Reference { resource_version: Box::default(), ..told.about.clone() };
        let subject =
            Subject { cluster: told.cluster.clone(), component: Arc::clone(&told.component), about };
        if !self.take_share(&subject, now) {
            return None;
        }
        let similar = Similar { subject, kind: told.kind, reason: told.reason };
        let (same, message) = if self.is_one_of_many(&similar, &told.message, now) {
            (Same { similar, message: String::new() }, format!("{COMBINED}{}", told.message))
        } else {
            (Same { similar, message: told.message.clone() }, told.message.clone())
        };
        let mut correlated = Correlated { same, message, count: 1, first: now, last: now, known_as: None };
        if let Some(known) = self.known.get_mut(&correlated.same) {
            known.count = known.count.saturating_add(1);
            known.last = now;
            (correlated.count, correlated.first) = (known.count, known.first);
            correlated.known_as = Some(known.name.clone());
        }
        Some(correlated)
    }

    /// Notes under which name an event was written.
    pub(super) fn written(&mut self, correlated: Correlated, name: String) {
        let Correlated { same, count, first, last, .. } = correlated;
        forget_oldest(&mut self.known, |known| known.last);
        self.known.insert(same, Known { count, first, last, name: name.into() });
    }

    /// A name for an event about an object, that no other event has.
    pub(super) fn name(&mut self, about: &str, now: Timestamp) -> String {
        format!("{about}.{:x}", self.unique(now))
    }

    fn unique(&mut self, now: Timestamp) -> u64 {
        let nanos = now.as_millis().saturating_mul(1_000_000);
        self.last_unique = nanos.max(self.last_unique.saturating_add(1));
        self.last_unique
    }

    fn take_share(&mut self, subject: &Subject, now: Timestamp) -> bool {
        if !self.shares.contains_key(subject) {
            forget_oldest(&mut self.shares, |share| share.at);
        }
        let share = self.shares.entry(subject.clone()).or_insert(Share { tokens: MAX_BURST, at: now });
        let refilled = now.since(share.at).as_secs_f64() / REFILL.as_secs_f64();
        share.tokens = (share.tokens + refilled).min(MAX_BURST);
        share.at = now;
        let has_one = share.tokens >= 1.0;
        if has_one {
            share.tokens -= 1.0;
        }
        has_one
    }

    fn is_one_of_many(&mut self, similar: &Similar, message: &str, now: Timestamp) -> bool {
        if !self.similar.contains_key(similar) {
            forget_oldest(&mut self.similar, |similars| similars.last);
        }
        let new = || Similars { messages: HashSet::new(), last: now };
        let similars = self.similar.entry(similar.clone()).or_insert_with(new);
        if now.since(similars.last) > SIMILAR_WITHIN {
            similars.messages.clear();
        }
        similars.last = now;
        if similars.messages.len() < MAX_SIMILAR {
            similars.messages.insert(message.to_owned());
        }
        similars.messages.len() >= MAX_SIMILAR
    }
}

/// Makes room for one more. A quarter goes at once, so that not every event has to look for the oldest.
fn forget_oldest<K: Clone + Eq + std::hash::Hash, T>(map: &mut HashMap<K, T>, at: impl Fn(&T) -> Timestamp) {
    if map.len() < MAX_REMEMBERED {
        return;
    }
    let mut times: Vec<Timestamp> = map.values().map(&at).collect();
    let quarter = times.len() / 4;
    let (_, oldest_kept, _) = times.select_nth_unstable(quarter);
    let oldest_kept = *oldest_kept;
    let before = map.len();
    map.retain(|_, entry| at(entry) > oldest_kept);
    debug_assert!(map.len() < before, "the oldest itself is forgotten");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, message: &str) -> CoreEvent {
        let about = Reference {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            namespace: "n".into(),
            name: name.into(),
            uid: "u".into(),
            resource_version: "1".into(),
        };
        CoreEvent {
            cluster: ClusterId::default(),
            component: "replicaset-controller".into(),
            about,
            kind: EventType::Normal,
            reason: "SuccessfulCreate",
            message: message.to_owned(),
        }
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    #[test]
    fn the_same_again_is_counted() {
        let mut correlator = Correlator::default();
        let first = correlator.correlate(&told("r", "made"), at(1)).unwrap();
        assert_eq!((first.count, &first.known_as), (1, &None));
        correlator.written(first, "r.1".to_owned());
        let second = correlator.correlate(&told("r", "made"), at(2)).unwrap();
        assert_eq!((second.count, second.first, second.last), (2, at(1), at(2)));
        assert_eq!(second.known_as.as_deref(), Some("r.1"));
        assert_eq!(correlator.correlate(&told("other", "made"), at(2)).unwrap().count, 1);
    }

    #[test]
    fn many_similar_ones_are_combined() {
        let mut correlator = Correlator::default();
        for index in 1..MAX_SIMILAR {
            let message = format!("made {index}");
            let correlated = correlator.correlate(&told("r", &message), at(1)).unwrap();
            assert_eq!(correlated.message, message);
        }
        let combined = correlator.correlate(&told("r", "made more"), at(1)).unwrap();
        assert_eq!(combined.message, "(combined from similar events): made more");
        correlator.written(combined, "r.2".to_owned());
        assert_eq!(correlator.correlate(&told("r", "made yet more"), at(2)).unwrap().count, 2);
        let much_later = correlator.correlate(&told("r", "made"), at(1000)).unwrap();
        assert_eq!(much_later.message, "made");
    }

    #[test]
    fn too_much_about_one_object_is_dropped() {
        let mut correlator = Correlator::default();
        for _ in 0..25 {
            assert!(correlator.correlate(&told("r", "made"), at(1)).is_some());
        }
        assert!(correlator.correlate(&told("r", "made"), at(1)).is_none());
        assert!(correlator.correlate(&told("other", "made"), at(1)).is_some());
        assert!(correlator.correlate(&told("r", "made"), at(302)).is_some());
        assert!(correlator.correlate(&told("r", "made"), at(303)).is_none());
    }

    #[test]
    fn only_so_much_is_remembered() {
        let mut correlator = Correlator::default();
        for index in 0..2 * MAX_REMEMBERED {
            let told = told(&format!("r{index}"), "made");
            let correlated = correlator.correlate(&told, Timestamp::from_millis(index as u64)).unwrap();
            correlator.written(correlated, format!("e{index}"));
        }
        assert!(correlator.known.len() <= MAX_REMEMBERED && correlator.shares.len() <= MAX_REMEMBERED);
        assert_ne!(correlator.unique(at(0)), correlator.unique(at(0)));
    }
}
