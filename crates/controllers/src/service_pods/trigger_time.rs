//! Time of the oldest change that the endpoints of a service do not reflect yet.
//!
//! Written to an annotation of the endpoints, it allows measuring how long a change takes to reach all nodes. As in
//! Kubernetes (`TriggerTimeTracker` in k8s.io/endpointslice) it is the earliest time among the changes since the last
//! sync of the service; of several changes of one pod only the last counts.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use coracle_base::Timestamp;
use coracle_runtime::ObjectKey;

use crate::view::{Pod, Service};

/// Name of the annotation.
pub(crate) const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// Last observed times of each service.
#[derive(Debug, Default)]
pub(crate) struct TriggerTimes {
    observed: Mutex<HashMap<ObjectKey, ObservedTimes>>,
}

#[derive(Debug, Default)]
struct ObservedTimes {
    service: Timestamp,
    pods: BTreeMap<Box<str>, Timestamp>,
}

impl TriggerTimes {
    /// Records the current times. Returns the trigger time for endpoints written now.
    pub(crate) fn observe(&self, key: &ObjectKey, service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
        let now = ObservedTimes { service: service.metadata.creation_timestamp, pods: pod_times(pods) };
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        match observed.get_mut(key) {
            None => {
                let created = now.service;
                observed.insert(key.clone(), now);
                Some(created)
            }
            Some(before) => {
                let earliest = first_change(before, &now);
                *before = now;
                earliest
            }
        }
    }

    /// Removes a deleted service.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

fn pod_times(pods: &[Arc<Pod>]) -> BTreeMap<Box<str>, Timestamp> {
    let time = |pod: &Arc<Pod>| {
        let at = pod.condition("Ready")?.last_transition_time?;
        Some((pod.metadata.name().into(), at))
    };
    pods.iter().filter_map(time).collect()
}

fn first_change(before: &ObservedTimes, now: &ObservedTimes) -> Option<Timestamp> {
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
    fn earliest_change_is_the_trigger_time() {
        let (times, key) = (TriggerTimes::default(), ObjectKey::namespaced(ClusterId::default(), "n", "s"));
        let service: Service =
            serde_json::from_value(json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:02Z"}}))
                .unwrap();
        let at = |seconds: u64| Some(Timestamp::from_millis(seconds * 1000));
        assert_eq!(times.observe(&key, &service, &[pod("a", 9)]), at(2), "a new service");
        assert_eq!(times.observe(&key, &service, &[pod("a", 9)]), None, "nothing changed");
        let pods = [pod("a", 30), pod("b", 20), pod("c", 25)];
        assert_eq!(times.observe(&key, &service, &pods), at(20));
        assert_eq!(times.observe(&key, &service, &pods[1..]), None, "deleted pods have no time");
        times.forget(&key);
        assert_eq!(times.observe(&key, &service, &pods), at(2));
    }
}
