//! Since when what stands behind a service is out of date.
//!
//! Written beside the endpoints, it tells whoever measures how long it takes until everybody knows of a
//! change. As in upstream (`TriggerTimeTracker` in k8s.io/endpointslice) it is the earliest time among what
//! changed since the service was looked at last; several changes of one pod in between count as the last.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use coracle_base::Timestamp;
use coracle_runtime::ObjectKey;

use crate::view::{Pod, Service};

/// The annotation it is written to.
pub(crate) const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// What was seen of each service.
#[derive(Debug, Default)]
pub(crate) struct TriggerTimes {
    seen: Mutex<HashMap<ObjectKey, Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    service: Timestamp,
    pods: BTreeMap<Box<str>, Timestamp>,
}

impl TriggerTimes {
    /// Notes what is there now. The time to write, should something be written.
    pub(crate) fn observe(&self, key: &ObjectKey, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let now = Seen { service: service.metadata.creation_timestamp, pods: pod_times(pods) };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.get_mut(key) {
            None => {
                let created = now.service;
                seen.insert(key.clone(), now);
                Some(created)
            }
            Some(before) => {
                let earliest = first_change(before, &now);
                *before = now;
                earliest
            }
        }
    }

    /// Forgets a service that is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

fn pod_times(pods: &[Arc<Pod>]) -> BTreeMap<Box<str>, Timestamp> {
    let time = |pod: &Arc<Pod>| {
        let at = pod.condition("Ready")?.last_transition_time?;
        Some((pod.metadata.name().into(), at))
    };
    pods.iter().filter_map(time).collect()
}

fn first_change(before: &Seen, now: &Seen) -> Option<Timestamp> {
    let service = (now.service > before.service).then_some(now.service);
    let later = now.pods.iter().filter(|(name, at)| before.pods.get(*name).is_none_or(|known| *at > known));
    later.map(|(_, at)| *at).chain(service).min()
}

#[cfg(test)]
mod tests {
    use coracle_runtime::ClusterId;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, ready_s: u64) -> Arc<Pod> {
        let at = format!("1970-01-01T00:00:{ready_s:02}Z");
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": at});
        let pod = json!({"metadata": {"name": name}, "status": {"conditions": [ready]}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn the_earliest_of_what_changed_counts() {
        let (times, key) = (TriggerTimes::default(), ObjectKey::namespaced(ClusterId::default(), "n", "s"));
        let service: Service =
            serde_json::from_value(json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:02Z"}}))
                .unwrap();
        let at = |seconds: u64| Some(Timestamp::from_millis(seconds * 1000));
        assert_eq!(times.observe(&key, &service, &[pod("a", 9)]), at(2), "a service that is new");
        assert_eq!(times.observe(&key, &service, &[pod("a", 9)]), None, "nothing changed");
        let pods = [pod("a", 30), pod("b", 20), pod("c", 25)];
        assert_eq!(times.observe(&key, &service, &pods), at(20));
        assert_eq!(times.observe(&key, &service, &pods[1..]), None, "what goes leaves no time");
        times.forget(&key);
        assert_eq!(times.observe(&key, &service, &pods), at(2));
    }
}
