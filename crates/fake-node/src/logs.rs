//! Logs of containers on simulated nodes: the text of the rule `logs`, or one line that says that the node
//! is simulated.

use coracle_base::Timestamp;
use coracle_runtime::informer::timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::rules::RuleLookup;
use crate::view::{Node, Pod};

/// A log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// The time of the line: all lines are written when the container starts.
    pub at: Timestamp,
    /// The line, without its newline.
    pub text: String,
}

/// Why a container has no log, in the kubelet's words (`validateContainerLogStatus`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The node has not accepted the pod yet.
    #[error("container {container:?} in pod {pod:?} is not available")]
    Unavailable {
        /// The container.
        container: String,
        /// Its pod.
        pod: String,
    },
    /// The container was not restarted.
    #[error("previous terminated container {container:?} in pod {pod:?} not found")]
    NoPrevious {
        /// The container.
        container: String,
        /// Its pod.
        pod: String,
    },
    /// The container has not started.
    #[error("container {container:?} in pod {pod:?} is waiting to start: {reason}")]
    Waiting {
        /// The container.
        container: String,
        /// Its pod.
        pod: String,
        /// The reason why it waits.
        reason: String,
    },
}

/// True if a node is simulated.
pub fn is_simulated(node: &Value) -> bool {
    Node::deserialize(node).is_ok_and(|node| node.is_fake())
}

/// The log of a container on a simulated node; with `previous`, of its previous run.
///
/// # Errors
/// If the container has not run.
pub fn log(node: &Value, pod: &Value, container: &str, previous: bool) -> Result<Vec<LogLine>, LogError> {
    let at = started_at(pod, container, previous)?;
    let (node, pod) =
        (Node::deserialize(node).unwrap_or_default(), Pod::deserialize(pod).unwrap_or_default());
    let rules = RuleLookup::new(&pod, &node.metadata.annotations);
    let usual = || {
        let node = node.metadata.name();
        format!(
            "simulated node {node} runs no container; the annotation fake.coracle.dev/logs sets its log lines"
        )
    };
    let text = rules.text("logs", container).map_or_else(usual, str::to_owned);
    Ok(text.lines().map(|line| LogLine { at, text: line.to_owned() }).collect())
}

/// Start time of the run whose log is requested.
fn started_at(pod: &Value, container: &str, previous: bool) -> Result<Timestamp, LogError> {
    let names = || (container.to_owned(), pod["metadata"]["name"].as_str().unwrap_or_default().to_owned());
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let mut statuses = lists.iter().filter_map(|list| pod["status"][list].as_array()).flatten();
    let Some(status) = statuses.find(|status| status["name"] == container) else {
        let (container, pod) = names();
        return Err(LogError::Unavailable { container, pod });
    };
    let started = |state: &Value| state["startedAt"].as_str().map(timestamp);
    let last = started(&status["lastState"]["terminated"]);
    if previous {
        let (container, pod) = names();
        return last.ok_or(LogError::NoPrevious { container, pod });
    }
    let state = &status["state"];
    let current = started(&state["running"]).or_else(|| started(&state["terminated"]));
    current.or(last).ok_or_else(|| {
        let (container, pod) = names();
        let reason = match state["waiting"]["reason"].as_str().unwrap_or_default() {
            "ErrImagePull" => "image can't be pulled",
            "ImagePullBackOff" => "trying and failing to pull image",
            reason => reason,
        };
        LogError::Waiting { container, pod, reason: reason.to_owned() }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node() -> Value {
        json!({"metadata": {"name": "fake-0", "annotations": {"fake.coracle.dev/node": "true"}}})
    }

    fn pod(annotations: Value, status: Value) -> Value {
        let status = json!({"containerStatuses": [status]});
        json!({"metadata": {"name": "p", "annotations": annotations}, "spec": {"containers": [{"name": "c"}]}, "status": status})
    }

    fn running() -> Value {
        json!({"name": "c", "state": {"running": {"startedAt": "1970-01-01T00:00:10Z"}}})
    }

    fn texts(pod: &Value) -> Vec<String> {
        log(&node(), pod, "c", false).unwrap().into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn log_is_that_of_the_rule_or_says_that_the_node_is_simulated() {
        let plain = texts(&pod(json!({}), running()));
        assert!(
            plain.len() == 1 && plain[0].starts_with("simulated node fake-0 runs no container"),
            "{plain:?}"
        );
        let rules =
            json!({"fake.coracle.dev/logs": "all", "fake.coracle.dev/logs.container-c": "one\ntwo\n"});
        assert_eq!(texts(&pod(rules, running())), ["one", "two"]);
        let lines = log(&node(), &pod(json!({}), running()), "c", false).unwrap();
        assert_eq!(lines[0].at, Timestamp::from_millis(10_000));
    }

    #[test]
    fn container_that_has_not_run_has_no_log() {
        let error = |status: Value, container: &str, previous| {
            log(&node(), &pod(json!({}), status), container, previous).unwrap_err().to_string()
        };
        let waiting = |reason: &str| json!({"name": "c", "state": {"waiting": {"reason": reason}}});
        assert_eq!(
            error(waiting("ContainerCreating"), "c", false),
            "container \"c\" in pod \"p\" is waiting to start: ContainerCreating"
        );
        assert_eq!(
            error(waiting("ImagePullBackOff"), "c", false),
            "container \"c\" in pod \"p\" is waiting to start: trying and failing to pull image"
        );
        assert_eq!(error(running(), "c", true), "previous terminated container \"c\" in pod \"p\" not found");
        assert_eq!(error(running(), "d", false), "container \"d\" in pod \"p\" is not available");
    }

    #[test]
    fn restarted_container_has_the_log_of_its_last_run() {
        let status = json!({
            "name": "c",
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"startedAt": "1970-01-01T00:00:05Z", "exitCode": 1}},
        });
        for previous in [false, true] {
            let lines = log(&node(), &pod(json!({}), status.clone()), "c", previous).unwrap();
            assert_eq!(lines[0].at, Timestamp::from_millis(5000));
        }
    }
}
