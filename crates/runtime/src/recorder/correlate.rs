//! Event correlation: repeated events are counted, similar ones combined, and too many dropped.
//!
//! The limits are client-go's (`tools/record/events_cache.go`), so that users see as many events as with other
//! distributions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use coracle_base::Timestamp;

use super::{CoreEvent, EventType, Reference};
use crate::key::ClusterId;

/// Maximum number of cached events, and of rate limited objects. The oldest are evicted first, and then counted anew.
const MAX_CACHED: usize = 4096;

/// Number of different messages with the same reason after which further ones are combined, if all came within
/// [`SIMILAR_INTERVAL`].
const MAX_SIMILAR: usize = 10;
const SIMILAR_INTERVAL: Duration = Duration::from_secs(600);

/// Burst of events about one object, and the interval after which one more is allowed.
const MAX_BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);

/// Prefix of the message of combined events.
const COMBINED_PREFIX: &str = "(combined from similar events): ";

/// Key of the rate limit: a component and the object of its events.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Subject {
    cluster: ClusterId,
    component: Arc<str>,
    about: Reference,
}

/// Key of events that are counted as one; the message is empty for combined ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct EventIdentity {
    similar: Similar,
    message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Similar {
    subject: Subject,
    kind: EventType,
    reason: &'static str,
}

/// An event to create, or the update of an existing one.
#[derive(Debug)]
pub(super) struct Correlated {
    identity: EventIdentity,
    pub(super) message: String,
    pub(super) count: u32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// Name of the event to update; `None` if it must be created.
    pub(super) existing_name: Option<Box<str>>,
}

#[derive(Debug)]
struct TokenBucket {
    tokens: f64,
    at: Timestamp,
}

#[derive(Debug)]
struct SimilarMessages {
    messages: HashSet<String>,
    last: Timestamp,
}

#[derive(Debug)]
struct CachedEvent {
    count: u32,
    first: Timestamp,
    last: Timestamp,
    name: Box<str>,
}

#[derive(Debug, Default)]
pub(super) struct Correlator {
    buckets: HashMap<Subject, TokenBucket>,
    similar: HashMap<Similar, SimilarMessages>,
    cached: HashMap<EventIdentity, CachedEvent>,
    /// Number in the last generated name, so that names are unique.
    last_unique: u64,
}

impl Correlator {
    /// Counts an event and returns the write for it; `None` if the object's rate limit is exceeded.
    pub(super) fn correlate(&mut self, event: &CoreEvent, now: Timestamp) -> Option<Correlated> {
        // The version does not identify the object.
        let about = Reference { resource_version: Box::default(), ..event.about.clone() };
        let subject =
            Subject { cluster: event.cluster.clone(), component: Arc::clone(&event.component), about };
        if !self.take_token(&subject, now) {
            return None;
        }
        let similar = Similar { subject, kind: event.kind, reason: event.reason };
        let (identity, message) = if self.is_one_of_many(&similar, &event.message, now) {
            (EventIdentity { similar, message: String::new() }, format!("{COMBINED_PREFIX}{}", event.message))
        } else {
            (EventIdentity { similar, message: event.message.clone() }, event.message.clone())
        };
        let mut correlated =
            Correlated { identity, message, count: 1, first: now, last: now, existing_name: None };
        if let Some(cached) = self.cached.get_mut(&correlated.identity) {
            cached.count = cached.count.saturating_add(1);
            cached.last = now;
            (correlated.count, correlated.first) = (cached.count, cached.first);
            correlated.existing_name = Some(cached.name.clone());
        }
        Some(correlated)
    }

    /// Caches the name under which an event was created.
    pub(super) fn written(&mut self, correlated: Correlated, name: String) {
        let Correlated { identity, count, first, last, .. } = correlated;
        evict_oldest(&mut self.cached, |cached| cached.last);
        self.cached.insert(identity, CachedEvent { count, first, last, name: name.into() });
    }

    /// Generates a unique name for an event about an object.
    pub(super) fn name(&mut self, about: &str, now: Timestamp) -> String {
        format!("{about}.{:x}", self.unique(now))
    }

    fn unique(&mut self, now: Timestamp) -> u64 {
        let nanos = now.as_millis().saturating_mul(1_000_000);
        self.last_unique = nanos.max(self.last_unique.saturating_add(1));
        self.last_unique
    }

    fn take_token(&mut self, subject: &Subject, now: Timestamp) -> bool {
        if !self.buckets.contains_key(subject) {
            evict_oldest(&mut self.buckets, |bucket| bucket.at);
        }
        let bucket =
            self.buckets.entry(subject.clone()).or_insert(TokenBucket { tokens: MAX_BURST, at: now });
        let refilled = now.since(bucket.at).as_secs_f64() / REFILL.as_secs_f64();
        bucket.tokens = (bucket.tokens + refilled).min(MAX_BURST);
        bucket.at = now;
        let has_one = bucket.tokens >= 1.0;
        if has_one {
            bucket.tokens -= 1.0;
        }
        has_one
    }

    fn is_one_of_many(&mut self, similar: &Similar, message: &str, now: Timestamp) -> bool {
        if !self.similar.contains_key(similar) {
            evict_oldest(&mut self.similar, |similars| similars.last);
        }
        let new = || SimilarMessages { messages: HashSet::new(), last: now };
        let similars = self.similar.entry(similar.clone()).or_insert_with(new);
        if now.since(similars.last) > SIMILAR_INTERVAL {
            similars.messages.clear();
        }
        similars.last = now;
        if similars.messages.len() < MAX_SIMILAR {
            similars.messages.insert(message.to_owned());
        }
        similars.messages.len() >= MAX_SIMILAR
    }
}

/// Makes room for one more entry. Evicts a quarter at once, so that not every event has to search for the oldest.
fn evict_oldest<K: Clone + Eq + std::hash::Hash, T>(map: &mut HashMap<K, T>, at: impl Fn(&T) -> Timestamp) {
    if map.len() < MAX_CACHED {
        return;
    }
    let mut times: Vec<Timestamp> = map.values().map(&at).collect();
    let quarter = times.len() / 4;
    let (_, oldest_kept, _) = times.select_nth_unstable(quarter);
    let oldest_kept = *oldest_kept;
    let before = map.len();
    map.retain(|_, entry| at(entry) > oldest_kept);
    debug_assert!(map.len() < before, "at least the oldest entry is evicted");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(name: &str, message: &str) -> CoreEvent {
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
    fn repeated_event_increments_the_count() {
        let mut correlator = Correlator::default();
        let first = correlator.correlate(&event("r", "made"), at(1)).unwrap();
        assert_eq!((first.count, &first.existing_name), (1, &None));
        correlator.written(first, "r.1".to_owned());
        let second = correlator.correlate(&event("r", "made"), at(2)).unwrap();
        assert_eq!((second.count, second.first, second.last), (2, at(1), at(2)));
        assert_eq!(second.existing_name.as_deref(), Some("r.1"));
        assert_eq!(correlator.correlate(&event("other", "made"), at(2)).unwrap().count, 1);
    }

    #[test]
    fn similar_events_beyond_the_limit_are_combined() {
        let mut correlator = Correlator::default();
        for index in 1..MAX_SIMILAR {
            let message = format!("made {index}");
            let correlated = correlator.correlate(&event("r", &message), at(1)).unwrap();
            assert_eq!(correlated.message, message);
        }
        let combined = correlator.correlate(&event("r", "made more"), at(1)).unwrap();
        assert_eq!(combined.message, "(combined from similar events): made more");
        correlator.written(combined, "r.2".to_owned());
        assert_eq!(correlator.correlate(&event("r", "made yet more"), at(2)).unwrap().count, 2);
        let much_later = correlator.correlate(&event("r", "made"), at(1000)).unwrap();
        assert_eq!(much_later.message, "made");
    }

    #[test]
    fn events_beyond_the_rate_limit_are_dropped() {
        let mut correlator = Correlator::default();
        for _ in 0..25 {
            assert!(correlator.correlate(&event("r", "made"), at(1)).is_some());
        }
        assert!(correlator.correlate(&event("r", "made"), at(1)).is_none());
        assert!(correlator.correlate(&event("other", "made"), at(1)).is_some());
        assert!(correlator.correlate(&event("r", "made"), at(302)).is_some());
        assert!(correlator.correlate(&event("r", "made"), at(303)).is_none());
    }

    #[test]
    fn cache_is_bounded() {
        let mut correlator = Correlator::default();
        for index in 0..2 * MAX_CACHED {
            let event = event(&format!("r{index}"), "made");
            let correlated = correlator.correlate(&event, Timestamp::from_millis(index as u64)).unwrap();
            correlator.written(correlated, format!("e{index}"));
        }
        assert!(correlator.cached.len() <= MAX_CACHED && correlator.buckets.len() <= MAX_CACHED);
        assert_ne!(correlator.unique(at(0)), correlator.unique(at(0)));
    }
}
