//! The state of a whole pod at a given time.

use std::time::Duration;

use coracle_base::Timestamp;

use crate::rules::{ContainerRules, PodRules, SIGKILL_EXIT_CODE, Termination, is_sidecar};
use crate::run::{Exit, Run, State};
use crate::view::{Container, Phase, Pod, RestartPolicy};

/// Reason and message of a pod that exceeded its deadline, as in the kubelet (`active_deadline.go`).
const DEADLINE_REASON: &str = "DeadlineExceeded";
const DEADLINE_MESSAGE: &str = "Pod was active on the node longer than the specified deadline";

/// The state of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodLifecycle {
    pub(crate) phase: Phase,
    pub(crate) reason: Box<str>,
    pub(crate) message: Box<str>,
    pub(crate) init_containers: Vec<Run>,
    pub(crate) containers: Vec<Run>,
    pub(crate) ephemeral_containers: Vec<Run>,
    /// True if the kubelet's part of its deletion is complete.
    pub(crate) is_gone: bool,
    /// The next time at which the state changes.
    pub(crate) next: Option<Timestamp>,
}

impl PodLifecycle {
    /// The state of `pod` at `now`, if its node accepted it at `accepted`.
    pub(crate) fn at(pod: &Pod, rules: &PodRules, accepted: Timestamp, now: Timestamp) -> Self {
        let ends = ends(pod, rules, accepted);
        let termination = termination(pod, rules);
        let ended = ends.as_ref().filter(|end| end.at <= now);
        let stopped = termination.filter(|termination| termination.at <= now);
        // The earlier of the two decides; the later one finds a pod that has ended.
        let mut lifecycle = match (ended, stopped) {
            (Some(end), stopped) if stopped.is_none_or(|stopped| end.at <= stopped.at) => {
                let mut lifecycle = Self::running(pod, rules, accepted, end.at);
                if !lifecycle.phase.is_terminal() {
                    lifecycle.stop(SIGKILL_EXIT_CODE, end.at);
                    let (reason, message) = (end.reason.clone(), end.message.clone());
                    lifecycle = Self { phase: end.phase, reason, message, ..lifecycle };
                }
                lifecycle
            }
            (_, Some(stopped)) => {
                // Deletion timestamps have whole seconds and may precede the acceptance.
                let at = stopped.at.max(accepted);
                let mut lifecycle = Self::running(pod, rules, accepted, at);
                lifecycle.stop(stopped.exit_code, at);
                lifecycle
            }
            (_, None) => Self::running(pod, rules, accepted, now),
        };
        lifecycle.is_gone =
            stopped.is_some() || vanishes(rules, accepted).is_some_and(|vanishes| vanishes <= now);
        let other_ends = [ends.map(|end| end.at), termination.map(|stop| stop.at), vanishes(rules, accepted)];
        let next = other_ends.into_iter().chain([lifecycle.next]).flatten().filter(|at| *at > now).min();
        // A pod that ended changes only by its deletion, and that is a change of the object.
        lifecycle.next = next;
        lifecycle
    }

    /// The state of a pod whose phase another client set to a final one: its containers stop at once.
    pub(crate) fn ended_by_others(pod: &Pod, rules: &PodRules, accepted: Timestamp, now: Timestamp) -> Self {
        let mut lifecycle = Self::running(pod, rules, accepted, now);
        lifecycle.stop(SIGKILL_EXIT_CODE, now);
        Self { phase: pod.status.phase, ..lifecycle }
    }

    /// The state without deletion, deadline and end by rule.
    fn running(pod: &Pod, rules: &PodRules, accepted: Timestamp, now: Timestamp) -> Self {
        let begin = rules.start_after.duration().map(|delay| accepted + delay);
        let (init_containers, begin) = initialized(pod, rules, begin, now);
        let containers: Vec<Run> = rules
            .containers
            .iter()
            .map(|rules| match begin {
                Some(begin) => Run::at(rules, pod.spec.restart_policy, begin, now),
                None => Run::waiting(None),
            })
            .collect();
        let mut lifecycle = Self {
            phase: phase(pod.spec.restart_policy, &init_containers, &containers),
            reason: Box::default(),
            message: Box::default(),
            init_containers,
            containers,
            ephemeral_containers: Vec::new(),
            is_gone: false,
            next: None,
        };
        lifecycle.ephemeral_containers = ephemeral(pod, rules, lifecycle.phase, now);
        if lifecycle.phase.is_terminal() {
            // Sidecars stop with the last of the other containers.
            let finished = lifecycle.finished().unwrap_or(now);
            lifecycle.init_containers =
                lifecycle.init_containers.into_iter().map(|run| run.stopped(0, finished)).collect();
        }
        if !rules.ready {
            lifecycle.containers.iter_mut().for_each(|run| run.ready = false);
        }
        lifecycle.next =
            lifecycle.all().chain(&lifecycle.ephemeral_containers).filter_map(|run| run.next).min();
        lifecycle
    }

    fn stop(&mut self, code: i32, now: Timestamp) {
        for runs in [&mut self.init_containers, &mut self.containers, &mut self.ephemeral_containers] {
            *runs = std::mem::take(runs).into_iter().map(|run| run.stopped(code, now)).collect();
        }
        let succeeded = self.containers.iter().all(|run| run.completed().is_some());
        self.phase = if succeeded { Phase::Succeeded } else { Phase::Failed };
        self.next = None;
    }

    /// The time at which the last container ended.
    fn finished(&self) -> Option<Timestamp> {
        let exit = |run: &Run| match run.state {
            State::Exited(Exit { finished, .. }) => Some(finished),
            _ => None,
        };
        self.all().filter_map(exit).max()
    }

    fn all(&self) -> impl Iterator<Item = &Run> {
        self.init_containers.iter().chain(&self.containers)
    }
}

/// The end of a pod by rule or by its deadline.
struct EndsAt {
    at: Timestamp,
    phase: Phase,
    reason: Box<str>,
    message: Box<str>,
}

fn ends(pod: &Pod, rules: &PodRules, accepted: Timestamp) -> Option<EndsAt> {
    let by_rule = rules.end.as_ref().map(|end| EndsAt {
        at: accepted + end.after,
        phase: end.phase,
        reason: end.reason.clone(),
        message: end.message.clone(),
    });
    let by_deadline = pod.spec.active_deadline_seconds.map(|seconds| EndsAt {
        at: accepted + Duration::from_secs(seconds),
        phase: Phase::Failed,
        reason: DEADLINE_REASON.into(),
        message: DEADLINE_MESSAGE.into(),
    });
    by_rule.into_iter().chain(by_deadline).min_by_key(|end| end.at)
}

fn vanishes(rules: &PodRules, accepted: Timestamp) -> Option<Timestamp> {
    rules.vanish_after.duration().map(|after| accepted + after)
}

/// The end of a pod that is being deleted.
#[derive(Clone, Copy)]
struct StopsAt {
    at: Timestamp,
    exit_code: i32,
}

fn termination(pod: &Pod, rules: &PodRules) -> Option<StopsAt> {
    let killed = pod.metadata.deletion_timestamp()?;
    let grace = u64::try_from(pod.metadata.deletion_grace_period_seconds.unwrap_or_default());
    let began = killed - Duration::from_secs(grace.unwrap_or_default());
    match rules.termination {
        Termination::After(after) if began + after < killed || after.is_zero() => {
            Some(StopsAt { at: began + after, exit_code: rules.terminate_exit_code })
        }
        Termination::After(_) | Termination::Grace => {
            Some(StopsAt { at: killed, exit_code: SIGKILL_EXIT_CODE })
        }
        Termination::Never => None,
    }
}

/// The ephemeral containers of a pod. They can be added at any time, so each starts when it is first seen;
/// afterwards the time is read from its status. They are never restarted, and have no readiness.
fn ephemeral(pod: &Pod, rules: &PodRules, phase: Phase, now: Timestamp) -> Vec<Run> {
    let containers = pod.spec.ephemeral_containers.iter().zip(&rules.ephemeral_containers);
    let run = |(container, rules): (&Container, &ContainerRules)| {
        let status =
            pod.status.ephemeral_container_statuses.iter().find(|status| status.name == container.name);
        match status.and_then(|status| status.state.started_at()) {
            None if phase != Phase::Running => Run::waiting(None),
            started => {
                let run = Run::at(rules, RestartPolicy::Never, started.unwrap_or(now), now);
                Run { ready: false, ..run }
            }
        }
    };
    containers.map(run).collect()
}

/// The states of the init containers, which run one after the other, and the time at which the app
/// containers may start.
fn initialized(
    pod: &Pod,
    rules: &PodRules,
    begin: Option<Timestamp>,
    now: Timestamp,
) -> (Vec<Run>, Option<Timestamp>) {
    let mut begin = begin;
    let mut runs = Vec::with_capacity(rules.init_containers.len());
    for (container, rules) in pod.spec.init_containers.iter().zip(&rules.init_containers) {
        let Some(starts) = begin else {
            runs.push(Run::waiting(None));
            continue;
        };
        let policy = if is_sidecar(container) {
            RestartPolicy::Always
        } else {
            // An init container that succeeded is not restarted, whatever the policy.
            init_policy(pod.spec.restart_policy)
        };
        let mut run = Run::at(rules, policy, starts, now);
        begin = match (is_sidecar(container), run.completed()) {
            (true, _) => Some(starts).filter(|starts| *starts <= now),
            (false, Some(exit)) => Some(exit.finished),
            (false, None) => None,
        };
        if !is_sidecar(container) {
            run.ready = run.completed().is_some();
        }
        runs.push(run);
    }
    // `begin` may be in the future; the app containers wait until then.
    (runs, begin)
}

fn init_policy(policy: RestartPolicy) -> RestartPolicy {
    if policy == RestartPolicy::Never { RestartPolicy::Never } else { RestartPolicy::OnFailure }
}

/// The phase that follows from the container states (`getPhase` in `kubelet_pods.go`).
fn phase(policy: RestartPolicy, init_containers: &[Run], containers: &[Run]) -> Phase {
    let failed = |run: &Run| matches!(run.state, State::Exited(exit) if exit.code != 0);
    if policy == RestartPolicy::Never && init_containers.iter().any(failed) {
        return Phase::Failed;
    }
    if !containers.is_empty() && containers.iter().all(Run::is_over) {
        return if containers.iter().any(failed) { Phase::Failed } else { Phase::Succeeded };
    }
    let has_not_begun = |run: &Run| run.state == State::Waiting && run.last.is_none();
    if containers.iter().any(has_not_begun) { Phase::Pending } else { Phase::Running }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::run::State::{BackingOff, Exited, Lost, Running, Waiting};
    use coracle_runtime::informer::Labels;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    /// The state of a pod with these annotations and this spec, accepted at 10 s.
    fn lifecycle(annotations: &Value, spec: &Value, deletion: Option<(&str, i64)>, now: u64) -> PodLifecycle {
        let annotations: serde_json::Map<_, _> = annotations
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| (format!("fake.coracle.dev/{key}"), value.clone()))
            .collect();
        let mut pod = json!({"metadata": {"annotations": annotations}, "spec": spec});
        if let Some((at, grace)) = deletion {
            pod["metadata"]["deletionTimestamp"] = at.into();
            pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        }
        if pod["spec"]["containers"].is_null() {
            pod["spec"]["containers"] = json!([{"name": "c"}]);
        }
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let rules = PodRules::of(&pod, &Labels::default()).unwrap();
        PodLifecycle::at(&pod, &rules, at(10_000), at(now))
    }

    fn states(lifecycle: &PodLifecycle) -> Vec<&'static str> {
        let name = |run: &Run| match run.state {
            Waiting => "waiting",
            BackingOff(_) => "backing off",
            Running { .. } => "running",
            Exited(Exit { code: 0, .. }) => "completed",
            Exited(_) => "failed",
            Lost => "lost",
        };
        lifecycle.all().map(name).collect()
    }

    #[test]
    fn pod_without_rules_runs_at_once_and_stays_running() {
        let lifecycle = lifecycle(&json!({}), &json!({}), None, 10_000);
        assert_eq!((lifecycle.phase, lifecycle.next), (Phase::Running, None));
        assert!(lifecycle.containers[0].ready);
    }

    #[test]
    fn init_containers_run_one_after_the_other() {
        let init = json!([{"name": "a"}, {"name": "s", "restartPolicy": "Always"}, {"name": "b"}]);
        let (rules, spec) =
            (json!({"init-after": "1s", "start-after": "1s"}), json!({"initContainers": init}));
        let check = |now, expected: &[&str], phase, next: Option<u64>| {
            let lifecycle = lifecycle(&rules, &spec, None, now);
            assert_eq!(
                (&*states(&lifecycle), lifecycle.phase, lifecycle.next),
                (expected, phase, next.map(at)),
                "{now}"
            );
        };
        check(10_000, &["waiting", "waiting", "waiting", "waiting"], Phase::Pending, Some(11_000));
        check(11_000, &["running", "waiting", "waiting", "waiting"], Phase::Pending, Some(12_000));
        check(12_000, &["completed", "running", "running", "waiting"], Phase::Pending, Some(13_000));
        check(13_000, &["completed", "running", "completed", "running"], Phase::Running, None);
    }

    #[test]
    fn failed_init_container_fails_a_pod_that_is_not_restarted() {
        let (rules, init) = (json!({"init-exit-code": "1"}), json!([{"name": "a"}]));
        let never =
            lifecycle(&rules, &json!({"initContainers": init, "restartPolicy": "Never"}), None, 10_000);
        assert_eq!((never.phase, &*states(&never)), (Phase::Failed, &["failed", "waiting"][..]));
        let always = lifecycle(&rules, &json!({"initContainers": init}), None, 10_002);
        assert_eq!((always.phase, &*states(&always)), (Phase::Pending, &["backing off", "waiting"][..]));
    }

    #[test]
    fn pod_completes_with_its_containers_and_stops_its_sidecars() {
        let spec = json!({
            "restartPolicy": "Never",
            "initContainers": [{"name": "s", "restartPolicy": "Always"}],
            "containers": [{"name": "c"}, {"name": "d"}],
        });
        let rules = json!({"finish-after": "1s", "finish-after.container-d": "2s", "exit-code": "0"});
        let half = lifecycle(&rules, &spec, None, 11_000);
        assert_eq!((half.phase, &*states(&half)), (Phase::Running, &["running", "completed", "running"][..]));
        let done = lifecycle(&rules, &spec, None, 12_000);
        assert_eq!((done.phase, &*states(&done)), (Phase::Succeeded, &["completed"; 3][..]));
        let failed =
            lifecycle(&json!({"finish-after": "0", "exit-code.container-d": "4"}), &spec, None, 12_000);
        assert_eq!(failed.phase, Phase::Failed);
    }

    #[test]
    fn pod_in_a_crash_loop_stays_running() {
        let looping = lifecycle(&json!({"finish-after": "0", "exit-code": "1"}), &json!({}), None, 10_002);
        assert_eq!((looping.phase, looping.next), (Phase::Running, Some(at(20_001))));
        assert_eq!((looping.containers[0].restarts, looping.containers[0].ready), (2, false));
    }

    #[test]
    fn pod_ends_by_rule_or_by_deadline() {
        let evicted = json!({"phase-after": "Failed=5s", "phase-reason": "Evicted"});
        assert_eq!(lifecycle(&evicted, &json!({}), None, 14_999).next, Some(at(15_000)));
        let evicted = lifecycle(&evicted, &json!({}), None, 60_000);
        assert_eq!((evicted.phase, &*evicted.reason, evicted.next), (Phase::Failed, "Evicted", None));
        let late = lifecycle(&json!({}), &json!({"activeDeadlineSeconds": 3}), None, 13_000);
        assert_eq!((late.phase, &*late.reason), (Phase::Failed, DEADLINE_REASON));
        let spec = json!({"activeDeadlineSeconds": 3, "restartPolicy": "Never"});
        let done = lifecycle(&json!({"finish-after": "1s"}), &spec, None, 20_000);
        assert_eq!(
            (done.phase, &*done.reason),
            (Phase::Succeeded, ""),
            "the pod completed before its deadline"
        );
    }

    #[test]
    fn deleted_pod_ends_by_rule_and_within_its_grace_period() {
        // Deleted at 20 s with a grace of 30 s.
        let deletion = Some(("1970-01-01T00:00:50Z", 30));
        let check = |rules: Value, now, gone, next: Option<u64>| {
            let lifecycle = lifecycle(&rules, &json!({}), deletion, now);
            assert_eq!((lifecycle.is_gone, lifecycle.next), (gone, next.map(at)), "{rules} at {now}");
            lifecycle
        };
        let at_once = check(json!({}), 20_000, true, None);
        assert_eq!((at_once.phase, &*states(&at_once)), (Phase::Failed, &["failed"][..]));
        check(json!({"terminate-after": "2s"}), 21_000, false, Some(22_000));
        check(json!({"terminate-after": "2s"}), 22_000, true, None);
        check(json!({"terminate-after": "1h"}), 49_999, false, Some(50_000));
        check(json!({"terminate-after": "grace"}), 50_000, true, None);
        check(json!({"terminate-after": "never"}), 500_000, false, None);
        let well = check(json!({"terminate-exit-code": "0"}), 20_000, true, None);
        assert_eq!(well.phase, Phase::Succeeded);
    }

    #[test]
    fn ephemeral_container_starts_when_it_is_first_seen_and_ends_by_its_command() {
        let spec =
            json!({"ephemeralContainers": [{"name": "shell"}, {"name": "once", "command": ["sleep", "5"]}]});
        let seen = lifecycle(&json!({}), &spec, None, 60_000);
        let states = |lifecycle: &PodLifecycle| -> Vec<State> {
            lifecycle.ephemeral_containers.iter().map(|run| run.state.clone()).collect()
        };
        assert_eq!(states(&seen), [Running { since: at(60_000) }, Running { since: at(60_000) }]);
        assert_eq!((seen.phase, seen.next), (Phase::Running, Some(at(65_000))));
        assert!(seen.ephemeral_containers.iter().all(|run| !run.ready));
        let waiting = lifecycle(&json!({"start-after": "never"}), &spec, None, 60_000);
        assert_eq!(states(&waiting), [Waiting, Waiting]);
    }

    #[test]
    fn pod_with_the_vanish_rule_is_gone_after_its_time() {
        let rules = json!({"vanish-after": "1m"});
        assert_eq!(lifecycle(&rules, &json!({}), None, 20_000).next, Some(at(70_000)));
        assert!(lifecycle(&rules, &json!({}), None, 70_000).is_gone);
    }
}
