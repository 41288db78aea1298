//! Backoff after failures of a job's pods.

use std::time::Duration;

use coracle_base::Timestamp;

use crate::view::{ContainerStatus, Pod};

/// Delay after the first failure, doubled by each further one, and the longest: Kubernetes'
/// `DefaultJobPodFailureBackOff` and `MaxJobPodFailureBackOff`.
const FIRST_WAIT: Duration = Duration::from_secs(10);
const LAST_WAIT: Duration = Duration::from_secs(600);

/// Recent failures of a job, kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    /// Number of pods that have failed since the last success.
    failures: u32,
    last_failure: Option<Timestamp>,
}

impl Backoff {
    /// Updates the state with pods that have finished.
    pub(super) fn after(self, succeeded: &[&Pod], failed: &[&Pod]) -> Self {
        let last_success = succeeded.iter().map(|pod| finished_at(pod)).max();
        let since = failed.iter().map(|pod| finished_at(pod)).filter(|at| Some(*at) > last_success);
        let known = if last_success.is_some() { Self::default() } else { self };
        let (mut failures, mut last) = (known.failures, None);
        for at in since {
            failures = failures.saturating_add(1);
            last = last.max(Some(at));
        }
        Self { failures, last_failure: last.or(known.last_failure) }
    }

    /// Remaining delay.
    pub(super) fn remaining(&self, now: Timestamp) -> Duration {
        self.last_failure.map_or(Duration::ZERO, |last| remaining(self.failures, last, now))
    }
}

/// Remaining delay before replacing a failed pod, the last of `failures`.
pub(super) fn remaining_after(failed: &Pod, failures: u32, now: Timestamp) -> Duration {
    remaining(failures, finished_at(failed), now)
}

fn remaining(failures: u32, last_failure: Timestamp, now: Timestamp) -> Duration {
    let Some(doublings) = failures.checked_sub(1) else { return Duration::ZERO };
    let wait = FIRST_WAIT.saturating_mul(2u32.saturating_pow(doublings)).min(LAST_WAIT);
    (last_failure + wait).since(now)
}

/// When a pod finished: when its last container terminated, when it became unready, when it was deleted, or at the
/// earliest when it was created.
pub(super) fn finished_at(pod: &Pod) -> Timestamp {
    let of_containers = last_container(pod);
    let not_ready = || {
        let ready = pod.condition("Ready").filter(|ready| &*ready.status == "False");
        ready.and_then(|ready| ready.last_transition_time)
    };
    let deleted = || {
        let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
        let grace = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
        pod.metadata.deletion_timestamp().map(|at| at - grace)
    };
    of_containers.or_else(not_ready).or_else(deleted).unwrap_or(pod.metadata.creation_timestamp)
}

/// When the last container terminated; `None` if one is running, or none is known.
fn last_container(pod: &Pod) -> Option<Timestamp> {
    let is_sidecar = |status: &&ContainerStatus| {
        let mut containers = pod.spec.init_containers.iter();
        containers.any(|container| container.name == status.name && &*container.restart_policy == "Always")
    };
    let sidecars = pod.status.init_container_statuses.iter().filter(is_sidecar);
    let mut last = None;
    for status in pod.status.container_statuses.iter().chain(sidecars) {
        last = last.max(Some(status.state.terminated.as_ref()?.finished_at?));
    }
    last
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::view::rfc3339;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn pod(finished: &[u64]) -> Pod {
        let status = |seconds: &u64| json!({"name": "c", "state": {"terminated": {"finishedAt": rfc3339(at(*seconds))}}});
        let statuses: Vec<_> = finished.iter().map(status).collect();
        serde_json::from_value(json!({"status": {"containerStatuses": statuses}})).unwrap()
    }

    fn seconds(backoff: Backoff, now: u64) -> u64 {
        backoff.remaining(at(now)).as_secs()
    }

    #[test]
    fn delay_doubles_up_to_the_limit() {
        let none = Backoff::default();
        assert_eq!(seconds(none, 0), 0);
        let once = none.after(&[], &[&pod(&[100])]);
        assert_eq!(
            [seconds(once, 100), seconds(once, 103), seconds(once, 110), seconds(once, 500)],
            [10, 7, 0, 0]
        );
        let thrice = once.after(&[], &[&pod(&[105]), &pod(&[101])]);
        assert_eq!(seconds(thrice, 105), 40);
        let often = (0..100).fold(none, |backoff, _| backoff.after(&[], &[&pod(&[100])]));
        assert_eq!(seconds(often, 100), 600);
    }

    #[test]
    fn success_resets_the_backoff() {
        let failed = Backoff::default().after(&[], &[&pod(&[100]), &pod(&[101])]);
        assert_eq!(failed.after(&[&pod(&[90])], &[]), Backoff::default());
        let after = failed.after(&[&pod(&[110])], &[&pod(&[109]), &pod(&[110]), &pod(&[112])]);
        assert_eq!(seconds(after, 112), 10, "only one failure is later");
        assert_eq!(failed.after(&[], &[]), failed);
    }

    #[test]
    fn finish_time_uses_the_best_source() {
        let finished = |pod: Value| finished_at(&serde_json::from_value(pod).unwrap());
        assert_eq!(finished_at(&pod(&[5, 9, 7])), at(9));
        let (created, terminated) = (rfc3339(at(1)), json!({"terminated": {"finishedAt": rfc3339(at(9))}}));
        let metadata = json!({"creationTimestamp": created});
        assert_eq!(finished(json!({"metadata": metadata})), at(1));
        let deleted = json!({
            "creationTimestamp": created, "deletionTimestamp": rfc3339(at(60)), "deletionGracePeriodSeconds": 30,
        });
        let running = json!({"name": "d", "state": {"running": {}}});
        let statuses = json!([{"name": "c", "state": terminated}, running]);
        let status = json!({"containerStatuses": statuses});
        assert_eq!(finished(json!({"metadata": deleted, "status": status})), at(30), "one still runs");
        let conditions = json!([{"type": "Ready", "status": "False", "lastTransitionTime": rfc3339(at(4))}]);
        let status = json!({"conditions": conditions});
        assert_eq!(finished(json!({"metadata": deleted, "status": status})), at(4));
        let sidecar = json!({"name": "s", "state": {"terminated": {"finishedAt": rfc3339(at(20))}}});
        let spec = json!({"initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]});
        let status = json!({
            "containerStatuses": [{"name": "c", "state": terminated}],
            "initContainerStatuses": [{"name": "i", "state": {}}, sidecar],
        });
        assert_eq!(finished(json!({"spec": spec, "status": status})), at(20));
    }
}
