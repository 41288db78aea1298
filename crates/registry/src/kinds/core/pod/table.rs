//! Table row of a pod.

use coracle_meta::table::human_duration;
use coracle_meta::time::Time;
use serde_json::Value;

use crate::kinds::core::pod_spec::container;
use crate::view;

/// Returns the cells of a pod's row; `now` in seconds since the epoch.
pub(super) fn cells(pod: &Value, now: i64) -> Vec<Value> {
    let summary = Summary::of(pod);
    let none = |text: &str| Value::from(if text.is_empty() { "<none>" } else { text });
    let address = view::items(pod, &["status", "podIPs"]).first();
    vec![
        view::name(pod).into(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.clone().into(),
        summary.restarts_text(now).into(),
        view::age(pod, now),
        none(address.map_or("", |address| view::text(address, &["ip"]))),
        none(view::text(pod, &["spec", "nodeName"])),
        none(view::text(pod, &["status", "nominatedNodeName"])),
        readiness_gates(pod).into(),
    ]
}

/// Aggregated state of a pod's containers.
#[derive(Default)]
struct Summary {
    ready: usize,
    total: usize,
    reason: String,
    restarts: i64,
    last_restart: Option<i64>,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let phase = view::text(pod, &["status", "phase"]);
        let mut summary = Self { reason: first_reason(pod, phase), ..Self::default() };
        let init = view::items(pod, &["spec", "initContainers"]);
        let restartable = init.iter().filter(|found| container::is_restartable(found)).count();
        summary.total = view::items(pod, &["spec", "containers"]).len() + restartable;
        let is_initializing = summary.add_init_containers(pod, init);
        if !is_initializing || has_condition(pod, "Initialized") {
            summary.keep_sidecars_only(pod, init);
            summary.add_containers(pod);
        }
        if view::at(pod, &["metadata", "deletionTimestamp"]).is_some() {
            if view::text(pod, &["status", "reason"]) == "NodeLost" {
                "Unknown".clone_into(&mut summary.reason);
            } else if !matches!(phase, "Succeeded" | "Failed") {
                "Terminating".clone_into(&mut summary.reason);
            }
        }
        summary
    }

    /// Adds the init containers. Returns true if initialization is not complete.
    fn add_init_containers(&mut self, pod: &Value, init: &[Value]) -> bool {
        for (index, status) in view::items(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
            self.add_restarts(status);
            let terminated = view::at(status, &["state", "terminated"]);
            if terminated.is_some_and(|ended| exit_code(ended) == 0) {
                continue;
            }
            if is_sidecar(status, init) && view::is_true(status, &["started"]) {
                self.ready += usize::from(view::is_true(status, &["ready"]));
                continue;
            }
            let waiting = view::text(status, &["state", "waiting", "reason"]);
            self.reason = match terminated {
                Some(ended) => format!("Init:{}", end_reason(ended)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{index}/{}", init.len()),
            };
            return true;
        }
        false
    }

    /// Once regular containers run, counts only the restarts of sidecars among the init containers.
    fn keep_sidecars_only(&mut self, pod: &Value, init: &[Value]) {
        (self.restarts, self.last_restart) = (0, None);
        // Statuses after the first one that still runs are not counted, as during initialization.
        for status in view::items(pod, &["status", "initContainerStatuses"]) {
            let sidecar = is_sidecar(status, init);
            if sidecar {
                self.add_restarts(status);
            }
            let ended = view::at(status, &["state", "terminated"]).is_some_and(|ended| exit_code(ended) == 0);
            let is_started = sidecar && view::is_true(status, &["started"]);
            if !ended && !is_started {
                break;
            }
        }
    }

    fn add_containers(&mut self, pod: &Value) {
        let (mut has_running, mut error_reason) = (false, String::new());
        for status in view::items(pod, &["status", "containerStatuses"]).iter().rev() {
            self.add_restarts(status);
            let waiting = view::text(status, &["state", "waiting", "reason"]);
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(ended) = view::at(status, &["state", "terminated"]) {
                self.reason = end_reason(ended);
                if exit_code(ended) != 0 {
                    error_reason.clone_from(&self.reason);
                }
            } else if view::is_true(status, &["ready"]) && view::at(status, &["state", "running"]).is_some() {
                has_running = true;
                self.ready += 1;
            }
        }
        // `Completed` is replaced if other containers run or failed.
        if self.reason == "Completed" {
            if has_running && has_condition(pod, "Ready") {
                "Running".clone_into(&mut self.reason);
            } else if !error_reason.is_empty() {
                self.reason = error_reason;
            } else if has_running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }

    fn add_restarts(&mut self, status: &Value) {
        self.restarts += view::integer(status, &["restartCount"]).unwrap_or(0);
        let finished = view::text(status, &["lastState", "terminated", "finishedAt"]);
        if let Ok(Time(finished)) = finished.parse() {
            self.last_restart = self.last_restart.max(Some(finished));
        }
    }

    fn restarts_text(&self, now: i64) -> String {
        match self.last_restart {
            Some(then) if self.restarts != 0 => {
                format!("{} ({} ago)", self.restarts, human_duration(now - then))
            }
            _ => self.restarts.to_string(),
        }
    }
}

/// The reason shown unless containers have a more specific one.
fn first_reason(pod: &Value, phase: &str) -> String {
    let is_gated = view::items(pod, &["status", "conditions"]).iter().any(|condition| {
        view::text(condition, &["type"]) == "PodScheduled"
            && view::text(condition, &["reason"]) == "SchedulingGated"
    });
    let reason = view::text(pod, &["status", "reason"]);
    let selected = match (is_gated, reason) {
        (true, _) => "SchedulingGated",
        (false, "") => phase,
        (false, reason) => reason,
    };
    selected.to_owned()
}

fn is_sidecar(status: &Value, init: &[Value]) -> bool {
    let name = view::text(status, &["name"]);
    init.iter().any(|found| view::text(found, &["name"]) == name && container::is_restartable(found))
}

fn exit_code(terminated: &Value) -> i64 {
    view::integer(terminated, &["exitCode"]).unwrap_or(0)
}

fn end_reason(terminated: &Value) -> String {
    let reason = view::text(terminated, &["reason"]);
    if !reason.is_empty() {
        return reason.to_owned();
    }
    match view::integer(terminated, &["signal"]).unwrap_or(0) {
        0 => format!("ExitCode:{}", exit_code(terminated)),
        signal => format!("Signal:{signal}"),
    }
}

fn has_condition(pod: &Value, kind: &str) -> bool {
    view::items(pod, &["status", "conditions"]).iter().any(|condition| {
        view::text(condition, &["type"]) == kind && view::text(condition, &["status"]) == "True"
    })
}

fn readiness_gates(pod: &Value) -> String {
    let gates = view::items(pod, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let is_open = |gate: &&Value| {
        let kind = view::text(gate, &["conditionType"]);
        let conditions = view::items(pod, &["status", "conditions"]);
        let first = conditions.iter().find(|condition| view::text(condition, &["type"]) == kind);
        first.is_some_and(|condition| view::text(condition, &["status"]) == "True")
    };
    format!("{}/{}", gates.iter().filter(is_open).count(), gates.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(pod: Value, expected: [&str; 3]) {
        let cells = cells(&pod, 1_000_000_000);
        assert_eq!([&cells[1], &cells[2], &cells[3]], expected, "{pod}");
    }

    #[test]
    fn running_pod_shows_its_restarts() {
        check(
            json!({
                "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
                "status": {"phase": "Running", "containerStatuses": [
                    {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}},
                     "lastState": {"terminated": {"finishedAt": "2001-09-09T01:41:40Z"}}},
                    {"name": "b", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "restartCount": 1}
                ]}
            }),
            ["1/2", "CrashLoopBackOff", "3 (5m ago)"],
        );
    }

    #[test]
    fn initializing_pod_shows_its_progress() {
        let spec = json!({"containers": [{}], "initContainers": [{"name": "a"}, {"name": "b"}]});
        let done = json!({"name": "a", "state": {"terminated": {"exitCode": 0}}});
        check(
            json!({"spec": spec, "status": {"phase": "Pending", "initContainerStatuses": [
                done, {"name": "b", "state": {"running": {}}}
            ]}}),
            ["0/1", "Init:1/2", "0"],
        );
        check(
            json!({"spec": spec, "status": {"phase": "Pending", "initContainerStatuses": [
                done, {"name": "b", "restartCount": 1, "state": {"terminated": {"exitCode": 3}}}
            ]}}),
            ["0/1", "Init:ExitCode:3", "1"],
        );
    }

    #[test]
    fn ended_or_deleted_pod_shows_its_reason() {
        let completed = json!({"name": "a", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
        let running = json!({"name": "b", "ready": true, "state": {"running": {}}});
        let spec = json!({"containers": [{}, {}]});
        check(
            json!({"spec": spec, "status": {"phase": "Succeeded", "containerStatuses": [completed]}}),
            ["0/2", "Completed", "0"],
        );
        check(
            json!({"spec": spec, "status": {"phase": "Running", "containerStatuses": [completed, running]}}),
            ["1/2", "NotReady", "0"],
        );
        check(
            json!({"metadata": {"deletionTimestamp": "2001-09-09T01:46:40Z"}, "spec": spec, "status": {"phase": "Running"}}),
            ["0/2", "Terminating", "0"],
        );
        check(
            json!({"spec": spec, "status": {"phase": "Failed", "reason": "Evicted"}}),
            ["0/2", "Evicted", "0"],
        );
    }
}
