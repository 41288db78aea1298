//! The status of a pod, with the reasons, messages and order of a kubelet (`generateAPIPodStatus`,
//! `status/generate.go`).

use coracle_base::Timestamp;
use coracle_meta::time::Time;
use serde_json::{Map, Value, json};

use crate::container_status::{container_status, is_same};
use crate::lifecycle::PodLifecycle;
use crate::rules::is_sidecar;
use crate::run::{Run, State};
use crate::view::{Condition, Container, ContainerStatus, Phase, Pod};

/// Addresses and acceptance time of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodPlacement {
    pub(crate) host_ip: String,
    pub(crate) pod_ip: String,
    /// The time at which its node accepted it.
    pub(crate) accepted: Timestamp,
}

/// Waiting reason and message of containers that have not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting<'a> {
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// The status patch of a pod; none if the reported status is up to date.
pub(crate) fn patch(
    pod: &Pod,
    lifecycle: &PodLifecycle,
    waiting: &Waiting<'_>,
    placement: &PodPlacement,
    now: Timestamp,
) -> Option<Value> {
    let conditions = conditions(pod, lifecycle);
    if is_reported(pod, lifecycle, waiting, &conditions) {
        return None;
    }
    let mut status = Map::new();
    let mut set = |name: &str, value: Value| status.insert(name.to_owned(), value);
    set("observedGeneration", pod.metadata.generation.into());
    set("phase", lifecycle.phase.as_str().into());
    if !lifecycle.reason.is_empty() {
        set("reason", (*lifecycle.reason).into());
    }
    if !lifecycle.message.is_empty() {
        set("message", (*lifecycle.message).into());
    }
    let rendered = conditions.iter().map(|condition| rendered(condition, pod, now)).collect();
    set("conditions", Value::Array(rendered));
    set("hostIP", (*placement.host_ip).into());
    set("hostIPs", json!([{"ip": placement.host_ip}]));
    set("podIP", (*placement.pod_ip).into());
    set("podIPs", json!([{"ip": placement.pod_ip}]));
    set("startTime", time(placement.accepted));
    let uid = pod.metadata.uid();
    let statuses = |containers: &[Container], runs: &[Run]| {
        let pairs = containers.iter().zip(runs);
        pairs.map(|(container, run)| container_status(uid, container, run, waiting, pod)).collect()
    };
    if !lifecycle.init_containers.is_empty() {
        let statuses = statuses(&pod.spec.init_containers, &lifecycle.init_containers);
        set("initContainerStatuses", Value::Array(statuses));
    }
    set("containerStatuses", Value::Array(statuses(&pod.spec.containers, &lifecycle.containers)));
    if !lifecycle.ephemeral_containers.is_empty() {
        let statuses = statuses(&pod.spec.ephemeral_containers, &lifecycle.ephemeral_containers);
        set("ephemeralContainerStatuses", Value::Array(statuses));
    }
    // With the UID, the API server rejects the patch if another pod has taken the name.
    Some(json!({"metadata": {"uid": uid}, "status": status}))
}

/// A condition to report.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DesiredCondition {
    r#type: &'static str,
    status: bool,
    reason: &'static str,
    message: String,
}

impl DesiredCondition {
    fn yes(r#type: &'static str) -> Self {
        Self { r#type, status: true, reason: "", message: String::new() }
    }

    fn no(r#type: &'static str, reason: &'static str, message: String) -> Self {
        Self { r#type, status: false, reason, message }
    }

    fn status(&self) -> &'static str {
        if self.status { "True" } else { "False" }
    }
}

fn conditions(pod: &Pod, lifecycle: &PodLifecycle) -> [DesiredCondition; 5] {
    let containers_ready = containers_ready(pod, lifecycle);
    let sandbox = if lifecycle.phase.is_terminal() {
        DesiredCondition::no("PodReadyToStartContainers", "", String::new())
    } else {
        DesiredCondition::yes("PodReadyToStartContainers")
    };
    [
        sandbox,
        initialized(pod, lifecycle),
        ready(pod, &containers_ready),
        containers_ready,
        DesiredCondition::yes("PodScheduled"),
    ]
}

fn initialized(pod: &Pod, lifecycle: &PodLifecycle) -> DesiredCondition {
    const TYPE: &str = "Initialized";
    if lifecycle.phase == Phase::Succeeded {
        return DesiredCondition { reason: "PodCompleted", ..DesiredCondition::yes(TYPE) };
    }
    let has_run = |run: &Run| !matches!(run.state, State::Waiting | State::Lost) || run.last.is_some();
    if lifecycle.containers.iter().any(has_run) {
        return DesiredCondition::yes(TYPE);
    }
    let lacking = names(&pod.spec.init_containers, &lifecycle.init_containers, |container, run| {
        if is_sidecar(container) { !matches!(run.state, State::Running { .. }) } else { !run.ready }
    });
    if lacking.is_empty() {
        return DesiredCondition::yes(TYPE);
    }
    let message = format!("containers with incomplete status: [{}]", lacking.join(" "));
    DesiredCondition::no(TYPE, "ContainersNotInitialized", message)
}

fn containers_ready(pod: &Pod, lifecycle: &PodLifecycle) -> DesiredCondition {
    const TYPE: &str = "ContainersReady";
    match lifecycle.phase {
        Phase::Succeeded => return DesiredCondition::no(TYPE, "PodCompleted", String::new()),
        Phase::Failed => return DesiredCondition::no(TYPE, "PodFailed", String::new()),
        Phase::Pending | Phase::Running => {}
    }
    let mut unready = names(&pod.spec.init_containers, &lifecycle.init_containers, |container, run| {
        is_sidecar(container) && !run.ready
    });
    unready.extend(names(&pod.spec.containers, &lifecycle.containers, |_, run| !run.ready));
    if unready.is_empty() {
        return DesiredCondition::yes(TYPE);
    }
    let message = format!("containers with unready status: [{}]", unready.join(" "));
    DesiredCondition::no(TYPE, "ContainersNotReady", message)
}

fn ready(pod: &Pod, containers_ready: &DesiredCondition) -> DesiredCondition {
    const TYPE: &str = "Ready";
    if !containers_ready.status {
        return DesiredCondition { r#type: TYPE, ..containers_ready.clone() };
    }
    let mut missing = Vec::new();
    for gate in &pod.spec.readiness_gates {
        let kind = &gate.condition_type;
        match find(&pod.status.conditions, kind) {
            None => missing
                .push(format!("corresponding condition of pod readiness gate {kind:?} does not exist.")),
            Some(condition) if &*condition.status != "True" => missing.push(format!(
                "the status of pod readiness gate {kind:?} is not \"True\", but {}",
                condition.status
            )),
            Some(_) => {}
        }
    }
    if missing.is_empty() {
        return DesiredCondition::yes(TYPE);
    }
    DesiredCondition::no(TYPE, "ReadinessGatesNotReady", missing.join(", "))
}

fn names<'a>(
    containers: &'a [Container],
    runs: &[Run],
    which: impl Fn(&Container, &Run) -> bool,
) -> Vec<&'a str> {
    let pairs = containers.iter().zip(runs);
    pairs.filter(|(container, run)| which(container, run)).map(|(container, _)| &*container.name).collect()
}

fn find<'a>(conditions: &'a [Condition], r#type: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| *condition.r#type == *r#type)
}

fn rendered(desired: &DesiredCondition, pod: &Pod, now: Timestamp) -> Value {
    let reported = find(&pod.status.conditions, desired.r#type);
    let unchanged = reported.filter(|reported| &*reported.status == desired.status());
    let since = unchanged.and_then(|reported| reported.last_transition_time).unwrap_or(now);
    let mut rendered = json!({
        "type": desired.r#type,
        "status": desired.status(),
        "observedGeneration": pod.metadata.generation,
        "lastProbeTime": null,
        "lastTransitionTime": time(since),
    });
    let texts = [
        ("reason", desired.reason, reported.map(|reported| &reported.reason)),
        ("message", &desired.message, reported.map(|reported| &reported.message)),
    ];
    for (name, text, before) in texts {
        if !text.is_empty() {
            rendered[name] = text.into();
        } else if before.is_some_and(|before| !before.is_empty()) {
            // Conditions are merged, so fields that are no longer set have to be removed.
            rendered[name] = Value::Null;
        }
    }
    rendered
}

/// True if the reported status is up to date. Times are not compared.
fn is_reported(
    pod: &Pod,
    lifecycle: &PodLifecycle,
    waiting: &Waiting<'_>,
    conditions: &[DesiredCondition],
) -> bool {
    let status = &pod.status;
    let is_condition_reported = |desired: &DesiredCondition| {
        let reported = find(&status.conditions, desired.r#type);
        reported.is_some_and(|reported| {
            (&*reported.status, &*reported.reason, &*reported.message)
                == (desired.status(), desired.reason, &*desired.message)
        })
    };
    let same = |reported: &[ContainerStatus], runs: &[Run]| {
        reported.len() == runs.len()
            && reported.iter().zip(runs).all(|(reported, run)| is_same(reported, run, waiting))
    };
    status.phase == lifecycle.phase
        && status.start_time.is_some()
        && status.observed_generation == pod.metadata.generation
        && conditions.iter().all(is_condition_reported)
        && same(&status.init_container_statuses, &lifecycle.init_containers)
        && same(&status.container_statuses, &lifecycle.containers)
        && same(&status.ephemeral_container_statuses, &lifecycle.ephemeral_containers)
}

/// A timestamp in the format of the API.
pub(crate) fn time(at: Timestamp) -> Value {
    Time(i64::try_from(at.as_millis() / 1000).unwrap_or(i64::MAX)).to_string().into()
}

#[cfg(test)]
mod tests {
    use coracle_runtime::informer::Labels;

    use super::*;
    use crate::rules::PodRules;

    const CREATING: Waiting<'static> = Waiting { reason: "ContainerCreating", message: "" };

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    fn placement() -> PodPlacement {
        PodPlacement { host_ip: "10.192.0.1".into(), pod_ip: "10.128.0.1".into(), accepted: at(10) }
    }

    fn pod(annotations: &Value, spec: &Value, status: &Value) -> Pod {
        let metadata = json!({
            "name": "p", "namespace": "n", "uid": "u", "generation": 1, "annotations": annotations,
        });
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    }

    fn desired(pod: &Pod, now: u64) -> Option<Value> {
        let rules = PodRules::of(pod, &Labels::default()).unwrap();
        let lifecycle = PodLifecycle::at(pod, &rules, at(10), at(now));
        patch(pod, &lifecycle, &CREATING, &placement(), at(now)).map(|mut patch| patch["status"].take())
    }

    fn one_container() -> Value {
        json!({"containers": [{"name": "c", "image": "registry:5000/a/nginx:1.27",
            "resources": {"requests": {"cpu": "100m"}},
            "volumeMounts": [{"name": "t", "mountPath": "/var/run/x", "readOnly": true}]}]})
    }

    #[test]
    fn running_pod_is_reported_as_by_a_kubelet() {
        let status = desired(&pod(&json!({}), &one_container(), &json!({})), 12).unwrap();
        assert_eq!(status["phase"], "Running");
        assert_eq!(status["startTime"], "1970-01-01T00:00:10Z");
        assert_eq!((&status["podIP"], &status["hostIP"]), (&json!("10.128.0.1"), &json!("10.192.0.1")));
        let types: Vec<_> = status["conditions"].as_array().unwrap().iter().map(|c| &c["type"]).collect();
        let expected =
            ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];
        assert_eq!(types, expected);
        assert!(status["conditions"].as_array().unwrap().iter().all(|c| c["status"] == "True"));
        let container = &status["containerStatuses"][0];
        assert_eq!(container["state"], json!({"running": {"startedAt": "1970-01-01T00:00:10Z"}}));
        assert!(container["imageID"].as_str().unwrap().starts_with("registry:5000/a/nginx@sha256:"));
        assert_eq!(container["resources"], json!({"requests": {"cpu": "100m"}}));
        assert_eq!(
            container["volumeMounts"],
            json!([{"name": "t", "mountPath": "/var/run/x", "readOnly": true, "recursiveReadOnly": "Disabled"}])
        );
    }

    #[test]
    fn unchanged_status_is_not_written_again() {
        let first = pod(&json!({}), &one_container(), &json!({}));
        let status = desired(&first, 12).unwrap();
        assert_eq!(desired(&pod(&json!({}), &one_container(), &status), 500), None);
        let mut spoilt = status;
        spoilt["containerStatuses"][0]["ready"] = false.into();
        assert!(desired(&pod(&json!({}), &one_container(), &spoilt), 500).is_some());
    }

    #[test]
    fn unready_container_is_named_and_conditions_keep_their_time() {
        let unready = json!({"fake.coracle.dev/ready": "false"});
        let status = desired(&pod(&unready, &one_container(), &json!({})), 12).unwrap();
        let ready = &status["conditions"][2];
        assert_eq!(ready["reason"], "ContainersNotReady");
        assert_eq!(ready["message"], "containers with unready status: [c]");
        let again = desired(&pod(&json!({}), &one_container(), &status), 40).unwrap();
        assert_eq!(
            again["conditions"][1]["lastTransitionTime"], "1970-01-01T00:00:12Z",
            "the condition was true before"
        );
        assert_eq!(again["conditions"][2]["lastTransitionTime"], "1970-01-01T00:00:40Z");
    }

    #[test]
    fn readiness_gate_prevents_readiness() {
        let mut spec = one_container();
        spec["readinessGates"] = json!([{"conditionType": "example.org/gate"}]);
        let status = desired(&pod(&json!({}), &spec, &json!({})), 12).unwrap();
        assert_eq!(status["conditions"][2]["reason"], "ReadinessGatesNotReady");
        assert_eq!(
            status["conditions"][2]["message"],
            "corresponding condition of pod readiness gate \"example.org/gate\" does not exist."
        );
        assert_eq!(status["conditions"][3]["status"], "True");
    }

    #[test]
    fn ended_pod_reports_exit_code_and_reason() {
        let mut spec = one_container();
        spec["restartPolicy"] = "Never".into();
        let rules = json!({"fake.coracle.dev/finish-after": "1s", "fake.coracle.dev/exit-code": "3"});
        let status = desired(&pod(&rules, &spec, &json!({})), 12).unwrap();
        assert_eq!(
            (&status["phase"], &status["conditions"][2]["reason"]),
            (&json!("Failed"), &json!("PodFailed"))
        );
        let ended = &status["containerStatuses"][0]["state"]["terminated"];
        assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(3), &json!("Error")));
        assert_eq!(ended["finishedAt"], "1970-01-01T00:00:11Z");
    }

    #[test]
    fn crash_loop_reports_its_backoff() {
        let rules = json!({"fake.coracle.dev/finish-after": "0", "fake.coracle.dev/exit-code": "1"});
        let status = desired(&pod(&rules, &one_container(), &json!({})), 11).unwrap();
        let container = &status["containerStatuses"][0];
        assert_eq!(container["state"]["waiting"]["reason"], "CrashLoopBackOff");
        assert_eq!(
            container["state"]["waiting"]["message"],
            "back-off 10s restarting failed container=c pod=p_n(u)"
        );
        assert_eq!(container["lastState"]["terminated"]["exitCode"], 1);
    }
}
