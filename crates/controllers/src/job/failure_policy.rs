//! Evaluates the pod failure policy of a job.

use crate::view::{Condition, ContainerStatus, ExitCodes, Job, Pod, PodFailureRule};

/// Consequence of a pod failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It counts; the default if no rule matches.
    Count,
    /// It does not count.
    Ignore,
    /// It counts, and its index is not retried.
    FailIndex,
    /// It counts, and the job fails.
    FailJob {
        /// Message of the condition.
        message: String,
    },
}

impl Failure {
    /// True if it counts towards the backoff limit.
    pub(super) fn counts(&self) -> bool {
        *self != Self::Ignore
    }
}

/// Applies the first matching rule.
pub(super) fn failure_action(job: &Job, pod: &Pod) -> Failure {
    match first_rule(job, pod) {
        Some((_, "Ignore", _)) => Failure::Ignore,
        Some((_, "FailIndex", _)) => Failure::FailIndex,
        Some((index, "FailJob", what)) => {
            Failure::FailJob { message: format!("{what} matching FailJob rule at index {index}") }
        }
        _ => Failure::Count,
    }
}

/// Action of the first matching rule, if there is one.
pub(super) fn rule_about(job: &Job, pod: &Pod) -> Option<&'static str> {
    first_rule(job, pod).map(|(_, action, _)| action)
}

/// Known actions. Rules with actions of later versions are ignored.
const ACTIONS: [&str; 4] = ["Ignore", "Count", "FailIndex", "FailJob"];

/// Index, action and description of the first matching rule.
fn first_rule(job: &Job, pod: &Pod) -> Option<(usize, &'static str, String)> {
    let rules = job.spec.pod_failure_policy.iter().flat_map(|policy| policy.rules.iter());
    rules.enumerate().find_map(|(index, rule)| {
        let action = ACTIONS.iter().find(|action| ***action == *rule.action)?;
        Some((index, *action, matched(rule, pod)?))
    })
}

/// Description of what a rule matched, for the condition's message.
fn matched(rule: &PodFailureRule, pod: &Pod) -> Option<String> {
    let (namespace, name) = (pod.metadata.namespace(), pod.metadata.name());
    if let Some(codes) = &rule.on_exit_codes {
        let status = &pod.status;
        let mut statuses = status.container_statuses.iter().chain(&status.init_container_statuses);
        let (container, code) =
            statuses.find_map(|status| Some((&status.name, exit_code(status, codes)?)))?;
        Some(format!("Container {container} for pod {namespace}/{name} failed with exit code {code}"))
    } else {
        let condition = pod.status.conditions.iter().find(|condition| is_wanted(condition, rule))?;
        Some(format!("Pod {namespace}/{name} has condition {}", condition.r#type))
    }
}

/// Exit code of a failed container, if the rule matches it.
fn exit_code(status: &ContainerStatus, codes: &ExitCodes) -> Option<i32> {
    let code = status.state.terminated.as_ref()?.exit_code;
    let is_meant = codes.container_name.as_ref().is_none_or(|name| *name == status.name);
    let is_listed = codes.values.contains(&code);
    let fits = match &*codes.operator {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    };
    (is_meant && code != 0 && fits).then_some(code)
}

fn is_wanted(condition: &Condition, rule: &PodFailureRule) -> bool {
    let mut patterns = rule.on_pod_conditions.iter();
    patterns.any(|pattern| pattern.r#type == condition.r#type && pattern.status == condition.status)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(rules: Value) -> Job {
        serde_json::from_value(json!({"spec": {"podFailurePolicy": {"rules": rules}}})).unwrap()
    }

    fn pod(codes: &[(&str, i32)], init_code: Option<i32>, conditions: Value) -> Pod {
        let status =
            |name: &str, code: i32| json!({"name": name, "state": {"terminated": {"exitCode": code}}});
        let containers: Vec<_> = codes.iter().map(|(name, code)| status(name, *code)).collect();
        let running = json!({"name": "busy", "state": {"running": {}}});
        let init: Vec<_> = init_code.map(|code| status("init", code)).into_iter().chain([running]).collect();
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n"},
            "status": {"phase": "Failed", "containerStatuses": containers, "initContainerStatuses": init,
                "conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn first_matching_rule_applies() {
        let codes = |action: &str, operator: &str, values: &[i32]| json!({"action": action, "onExitCodes": {"operator": operator, "values": values}});
        let rules = json!([
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            codes("FailIndex", "In", &[3]),
            {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [5]}},
            codes("FailJob", "NotIn", &[1, 2, 4, 5]),
            codes("Count", "In", &[1]),
        ]);
        let job = job(rules);
        let judged = |codes: &[(&str, i32)], init| failure_action(&job, &pod(codes, init, json!([])));
        let failed = |text: &str| Failure::FailJob { message: text.to_owned() };
        assert_eq!(judged(&[("main", 1)], None), Failure::Count);
        assert_eq!(judged(&[("main", 2)], None), Failure::Count, "no rule");
        assert_eq!(judged(&[("main", 3)], None), Failure::FailIndex);
        assert_eq!(judged(&[("other", 5)], None), Failure::Count, "another container");
        assert_eq!(judged(&[("main", 0)], None), Failure::Count, "exit code 0 is not a failure");
        assert_eq!(
            judged(&[("other", 0), ("main", 5)], None),
            failed("Container main for pod n/p failed with exit code 5 matching FailJob rule at index 2")
        );
        assert_eq!(
            judged(&[], Some(7)),
            failed("Container init for pod n/p failed with exit code 7 matching FailJob rule at index 3")
        );
        let disrupted =
            json!([{"type": "Ready", "status": "False"}, {"type": "DisruptionTarget", "status": "True"}]);
        assert_eq!(failure_action(&job, &pod(&[("main", 5)], None, disrupted)), Failure::Ignore);
        assert!(!Failure::Ignore.counts() && Failure::FailIndex.counts());
        let named = |code| rule_about(&job, &pod(&[("main", code)], None, json!([])));
        assert_eq!([1, 2, 3, 5].map(named), [Some("Count"), None, Some("FailIndex"), Some("FailJob")]);
    }

    #[test]
    fn pod_condition_rule_fails_the_job() {
        let pattern = json!([{"type": "ConfigIssue", "status": "True"}]);
        let job = job(json!([{"action": "FailJob", "onPodConditions": pattern}]));
        let condition = json!([{"type": "ConfigIssue", "status": "True"}]);
        let message = "Pod n/p has condition ConfigIssue matching FailJob rule at index 0".to_owned();
        assert_eq!(failure_action(&job, &pod(&[], None, condition)), Failure::FailJob { message });
        assert_eq!(failure_action(&Job::default(), &pod(&[("c", 1)], None, json!([]))), Failure::Count);
    }
}
