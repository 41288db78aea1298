//! Groups the pods of an autoscaler, and sums their requests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use coracle_base::Timestamp;
use coracle_meta::quantity::Quantity;

use crate::view::{Container, Phase, Pod};

/// How long after its start CPU usage of a pod may be due to initialization
/// (`--horizontal-pod-autoscaler-cpu-initialization-period`).
const CPU_INITIALIZATION: Duration = Duration::from_secs(300);

/// How long after its start an unready pod is assumed never to have been ready
/// (`--horizontal-pod-autoscaler-initial-readiness-delay`).
const INITIAL_READINESS: Duration = Duration::from_secs(30);

/// A measured value of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// In thousandths.
    pub(super) value: i64,
    pub(super) at: Timestamp,
    /// Measuring period.
    pub(super) window: Duration,
}

/// Measured values by pod name.
pub(super) type Samples = BTreeMap<String, Sample>;

/// Pods by their relevance for a metric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Groups<'a> {
    /// Number of ready pods with a sample.
    pub(super) ready: usize,
    /// Pods that are not working yet.
    pub(super) unready: BTreeSet<&'a str>,
    /// Working pods without a sample.
    pub(super) missing: BTreeSet<&'a str>,
    /// Pods that are terminating or failed.
    pub(super) ignored: BTreeSet<&'a str>,
}

impl<'a> Groups<'a> {
    /// Readiness matters for CPU only, because initialization uses CPU.
    pub(super) fn of(pods: &'a [impl AsRef<Pod>], samples: &Samples, is_cpu: bool, now: Timestamp) -> Self {
        let mut groups = Self::default();
        for pod in pods.iter().map(AsRef::as_ref) {
            let name = pod.metadata.name();
            let ended = pod.metadata.is_terminating() || pod.status.phase == Phase::Failed;
            let group = match samples.get(name) {
                _ if ended => &mut groups.ignored,
                _ if pod.status.phase == Phase::Pending => &mut groups.unready,
                None => &mut groups.missing,
                Some(sample) if is_cpu && is_unready(pod, sample, now) => &mut groups.unready,
                Some(_) => {
                    groups.ready += 1;
                    continue;
                }
            };
            group.insert(name);
        }
        groups
    }
}

fn is_unready(pod: &Pod, sample: &Sample, now: Timestamp) -> bool {
    let (Some(condition), Some(started)) = (pod.condition("Ready"), pod.status.start_time) else {
        return true;
    };
    let is_false = &*condition.status == "False";
    let since = condition.last_transition_time.unwrap_or_default();
    if started + CPU_INITIALIZATION > now {
        // A sample from before it became ready does not count.
        is_false || sample.at < since + sample.window
    } else {
        is_false && started + INITIAL_READINESS > since
    }
}

/// Number of running and ready pods.
pub(super) fn ready(pods: &[impl AsRef<Pod>]) -> usize {
    let works = |pod: &Pod| pod.status.phase == Phase::Running && pod.is_ready();
    pods.iter().filter(|pod| works(pod.as_ref())).count()
}

/// Resource requests of each pod in thousandths: of one container if given, otherwise of the whole pod.
pub(super) fn requests(
    pods: &[impl AsRef<Pod>],
    container: &str,
    resource: &str,
) -> Result<BTreeMap<String, i64>, String> {
    let each = pods.iter().map(AsRef::as_ref).map(|pod| {
        let requested = request(pod, container, resource)?;
        Ok((pod.metadata.name().to_owned(), requested))
    });
    each.collect()
}

fn request(pod: &Pod, container: &str, resource: &str) -> Result<i64, String> {
    let name = pod.metadata.name();
    let whole = &pod.spec.resources.requests;
    if container.is_empty() && !whole.is_empty() {
        let missing = || format!("missing pod-level request for {resource} in Pod {name}");
        return whole.get(resource).and_then(milli).ok_or_else(missing);
    }
    let sidecars = pod.spec.init_containers.iter().filter(|init| &*init.restart_policy == "Always");
    let mut all = pod.spec.containers.iter().chain(sidecars);
    let of = |container: &Container| {
        let missing =
            || format!("missing request for {resource} in container {} of Pod {name}", container.name);
        container.resources.requests.get(resource).and_then(milli).ok_or_else(missing)
    };
    if container.is_empty() {
        return all.try_fold(0_i64, |sum, container| Ok(sum.saturating_add(of(container)?)));
    }
    let found = all.find(|known| *known.name == *container);
    of(found.ok_or_else(|| format!("container {container} not found in Pod {name}"))?)
}

fn milli(text: &str) -> Option<i64> {
    text.parse::<Quantity>().ok().map(|quantity| quantity.milli_value())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn pod(name: &str, phase: &str, ready: Option<(&str, u64)>) -> Arc<Pod> {
        let conditions: Vec<Value> = ready
            .into_iter()
            .map(|(status, at_s)| {
                let since = crate::view::rfc3339(at(at_s));
                json!({"type": "Ready", "status": status, "lastTransitionTime": since})
            })
            .collect();
        let status = json!({"phase": phase, "startTime": "1970-01-01T00:00:10Z", "conditions": conditions});
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap())
    }

    fn samples(names: &[&str], at_s: u64) -> Samples {
        let sample = Sample { value: 1, at: at(at_s), window: Duration::from_secs(30) };
        names.iter().map(|name| ((*name).to_owned(), sample)).collect()
    }

    #[test]
    fn pods_are_grouped_by_phase_and_readiness() {
        let pods = [
            pod("ready", "Running", Some(("True", 20))),
            pod("pending", "Pending", None),
            pod("failed", "Failed", None),
            pod("unmeasured", "Running", Some(("True", 20))),
            pod("never-ready", "Running", Some(("False", 20))),
        ];
        let groups = Groups::of(&pods, &samples(&["ready", "never-ready"], 1000), true, at(1000));
        assert_eq!(groups.ready, 1);
        assert_eq!(groups.unready, BTreeSet::from(["never-ready", "pending"]));
        assert_eq!(groups.missing, BTreeSet::from(["unmeasured"]));
        assert_eq!(groups.ignored, BTreeSet::from(["failed"]));
        let of_memory = Groups::of(&pods, &samples(&["ready", "never-ready"], 1000), false, at(1000));
        assert_eq!(of_memory.ready, 2, "readiness does not matter for memory");
    }

    #[test]
    fn cpu_of_starting_pod_counts_after_a_full_window() {
        let pods = [pod("p", "Running", Some(("True", 20)))];
        let ready = |measured_s| Groups::of(&pods, &samples(&["p"], measured_s), true, at(60)).ready;
        assert_eq!((ready(49), ready(50)), (0, 1));
        let was_ready = [pod("p", "Running", Some(("False", 500)))];
        assert_eq!(
            Groups::of(&was_ready, &samples(&["p"], 999), true, at(1000)).ready,
            1,
            "it was ready before"
        );
    }

    #[test]
    fn requests_come_from_containers_or_the_pod() {
        let pod = |spec: Value| -> [Arc<Pod>; 1] {
            [Arc::new(serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap())]
        };
        let asks = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let spec = json!({
            "containers": [{"name": "a", "resources": asks("100m")}, {"name": "b", "resources": asks("1")}],
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always", "resources": asks("10m")}],
        });
        let of = |spec: &Value, container| requests(&pod(spec.clone()), container, "cpu").map(|all| all["p"]);
        assert_eq!(of(&spec, ""), Ok(1110));
        assert_eq!(of(&spec, "b"), Ok(1000));
        assert_eq!(of(&spec, "x"), Err("container x not found in Pod p".to_owned()));
        let none = json!({"containers": [{"name": "a"}]});
        assert_eq!(of(&none, ""), Err("missing request for cpu in container a of Pod p".to_owned()));
        let whole = json!({"resources": asks("3"), "containers": [{"name": "a"}]});
        assert_eq!(of(&whole, ""), Ok(3000));
    }
}
