//! Parsing of the rule annotations of a pod.
//!
//! A rule is looked up under `KEY.container-NAME`, then `KEY.index-N` (the completion index of a Job's pod,
//! or the ordinal of a StatefulSet's), then `KEY`: in the annotations of the pod first, then in those of
//! its node.

use std::time::Duration;

use coracle_meta::time::parse_go_wait;
use coracle_runtime::informer::Labels;

use crate::PREFIX;
use crate::command;
use crate::duration::{self, Delay};
use crate::view::{Container, Phase, Pod, RestartPolicy};

/// Default run time of containers that are not restarted after success: long enough to be observed.
const RUN_TO_COMPLETION: Duration = Duration::from_secs(1);

/// Exit code of a container that is terminated by SIGTERM.
pub(crate) const SIGTERM_EXIT_CODE: i32 = 143;

/// Exit code of a container that is killed.
pub(crate) const SIGKILL_EXIT_CODE: i32 = 137;

/// An invalid rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotation {PREFIX}{key}: {value:?} is not {expected}")]
pub(crate) struct RuleError {
    key: String,
    value: String,
    expected: &'static str,
}

/// The rules of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerRules {
    /// Run time.
    pub(crate) finish_after: Delay,
    /// Exit code of the first run, the second, and so on; the last one applies to all further runs. Never
    /// empty.
    pub(crate) exit_codes: Box<[i32]>,
    /// Time from start to readiness.
    pub(crate) ready_after: Delay,
    /// Time from readiness to unreadiness, and the duration of the latter.
    pub(crate) unready_after: Delay,
    pub(crate) unready_for: Delay,
}

/// The end of a whole pod by rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) after: Duration,
    pub(crate) phase: Phase,
    pub(crate) reason: Box<str>,
    pub(crate) message: Box<str>,
}

/// The time containers take to stop when their pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Termination {
    After(Duration),
    /// They are killed at the end of the grace period.
    Grace,
    Never,
}

/// The rules of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodRules {
    /// Time until the first container starts.
    pub(crate) start_after: Delay,
    /// Waiting reason until then.
    pub(crate) waiting_reason: Option<Box<str>>,
    pub(crate) waiting_message: Box<str>,
    pub(crate) end: Option<End>,
    pub(crate) vanish_after: Delay,
    pub(crate) termination: Termination,
    /// Exit code of containers that stop within the grace period.
    pub(crate) terminate_exit_code: i32,
    /// False if the pod never becomes ready.
    pub(crate) ready: bool,
    pub(crate) init_containers: Box<[ContainerRules]>,
    pub(crate) containers: Box<[ContainerRules]>,
    pub(crate) ephemeral_containers: Box<[ContainerRules]>,
}

impl ContainerRules {
    /// A container without rules, defined by its command.
    fn of(outcome: command::CommandOutcome) -> Self {
        Self {
            finish_after: outcome.run,
            exit_codes: [outcome.exit_code].into(),
            ready_after: Delay::AT_ONCE,
            unready_after: Delay::Never,
            unready_for: Delay::Never,
        }
    }
}

impl PodRules {
    /// The rules of a pod on a node with these annotations.
    pub(crate) fn of(pod: &Pod, node: &Labels) -> Result<Self, RuleError> {
        let found = RuleLookup::new(pod, node);
        // The policy of a Job's pods, of `kubectl run --restart=Never` and of chart tests, which are
        // expected to complete.
        let runs_on = pod.spec.restart_policy == RestartPolicy::Always;
        let run = if runs_on { Delay::Never } else { Delay::After(RUN_TO_COMPLETION) };
        let app = |container: &Container| {
            let run = if is_pause(&container.image) { Delay::Never } else { run };
            let outcome =
                command::outcome(container).unwrap_or(command::CommandOutcome { run, exit_code: 0 });
            found.container(container, ["finish-after", "exit-code"], outcome)
        };
        let init = |container: &Container| {
            if is_sidecar(container) {
                found.container(container, ["sidecar-finish-after", "sidecar-exit-code"], ENDLESS)
            } else {
                let outcome = command::outcome(container).unwrap_or(AT_ONCE);
                found.container(container, ["init-after", "init-exit-code"], outcome)
            }
        };
        let ephemeral =
            |container: &Container| ContainerRules::of(command::outcome(container).unwrap_or(ENDLESS));
        let missing = found.missing_image(pod);
        let start = if missing.is_some() { Delay::Never } else { Delay::AT_ONCE };
        let reason = found.text("waiting-reason", "").or(missing.map(|_| "ImagePullBackOff"));
        let back_off = || missing.map(|image| format!("Back-off pulling image \"{image}\""));
        let message = found.text("waiting-message", "").map(str::to_owned).or_else(back_off);
        Ok(Self {
            start_after: found.delay("start-after", "", start)?,
            waiting_reason: reason.map(Into::into),
            waiting_message: message.unwrap_or_default().into(),
            end: found.end()?,
            vanish_after: found.delay("vanish-after", "", Delay::Never)?,
            termination: found.termination()?,
            terminate_exit_code: found.terminate_exit_code()?,
            ready: found.text("ready", "") != Some("false"),
            init_containers: pod.spec.init_containers.iter().map(init).collect::<Result<_, _>>()?,
            containers: pod.spec.containers.iter().map(app).collect::<Result<_, _>>()?,
            ephemeral_containers: pod.spec.ephemeral_containers.iter().map(ephemeral).collect(),
        })
    }
}

/// Defaults of containers whose command implies nothing.
const ENDLESS: command::CommandOutcome = command::CommandOutcome { run: Delay::Never, exit_code: 0 };
const AT_ONCE: command::CommandOutcome = command::CommandOutcome { run: Delay::AT_ONCE, exit_code: 0 };

/// True for the pause image, which runs until it is stopped.
fn is_pause(image: &str) -> bool {
    let name = image.rsplit('/').next().unwrap_or_default();
    name == "pause" || name.starts_with("pause:") || name.starts_with("pause@")
}

/// True if an init container keeps running beside the other containers.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy == Some(RestartPolicy::Always)
}

/// The annotations in which rules are looked up.
pub(crate) struct RuleLookup<'a> {
    pod: &'a Labels,
    node: &'a Labels,
    index: Option<&'a str>,
    /// False if there are no rules at all, as in most pods; then nothing is looked up.
    any: bool,
}

impl<'a> RuleLookup<'a> {
    pub(crate) fn new(pod: &'a Pod, node: &'a Labels) -> Self {
        let Pod { metadata, .. } = pod;
        let index = metadata.annotations.get("batch.kubernetes.io/job-completion-index");
        let index = index.or_else(|| metadata.labels.get("apps.kubernetes.io/pod-index"));
        let has = |labels: &Labels| labels.iter().any(|(key, _)| key.starts_with(PREFIX));
        let any = has(&metadata.annotations) || has(node);
        Self { pod: &metadata.annotations, node, index, any }
    }

    pub(crate) fn text(&self, key: &str, container: &str) -> Option<&'a str> {
        if !self.any {
            return None;
        }
        let within = |labels: &'a Labels| {
            let of_container =
                (!container.is_empty()).then(|| format!("{PREFIX}{key}.container-{container}"));
            let of_index = self.index.map(|index| format!("{PREFIX}{key}.index-{index}"));
            let keys = [of_container, of_index, Some(format!("{PREFIX}{key}"))];
            keys.into_iter().flatten().find_map(|key| labels.get(&key))
        };
        within(self.pod).or_else(|| within(self.node))
    }

    fn read<T>(
        &self,
        key: &str,
        container: &str,
        expected: &'static str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, RuleError> {
        let Some(value) = self.text(key, container) else { return Ok(None) };
        let wrong = || RuleError { key: key.to_owned(), value: value.to_owned(), expected };
        read(value).map(Some).ok_or_else(wrong)
    }

    fn delay(&self, key: &str, container: &str, otherwise: Delay) -> Result<Delay, RuleError> {
        let read = self.read(key, container, "a duration such as 2s, or never", duration::delay)?;
        Ok(read.unwrap_or(otherwise))
    }

    fn container(
        &self,
        container: &Container,
        [run, exit_code]: [&str; 2],
        otherwise: command::CommandOutcome,
    ) -> Result<ContainerRules, RuleError> {
        let name = &*container.name;
        let exit_codes = self.read(exit_code, name, "a list of exit codes such as 1,1,0", exit_codes)?;
        Ok(ContainerRules {
            finish_after: self.delay(run, name, otherwise.run)?,
            exit_codes: exit_codes.unwrap_or_else(|| [otherwise.exit_code].into()),
            ready_after: self.delay("ready-after", name, Delay::AT_ONCE)?,
            unready_after: self.delay("unready-after", name, Delay::Never)?,
            unready_for: self.delay("unready-for", name, Delay::Never)?,
        })
    }

    /// The first image of the pod that cannot be pulled.
    fn missing_image(&self, pod: &'a Pod) -> Option<&'a str> {
        let missing = self.text("missing-images", "")?;
        let is_missing = |image: &str| {
            missing.split(',').map(str::trim).any(|name| match name.strip_suffix('*') {
                Some(beginning) => image.starts_with(beginning),
                None => image == name,
            })
        };
        let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
        containers.map(|container| &*container.image).find(|image| is_missing(image))
    }

    fn end(&self) -> Result<Option<End>, RuleError> {
        let expected = "Succeeded or Failed with a duration, such as Failed=2s";
        let Some((phase, after)) = self.read("phase-after", "", expected, phase_after)? else {
            return Ok(None);
        };
        let text = |key| self.text(key, "").unwrap_or_default().into();
        Ok(Some(End { after, phase, reason: text("phase-reason"), message: text("phase-message") }))
    }

    fn termination(&self) -> Result<Termination, RuleError> {
        let expected = "a duration such as 2s, grace or never";
        let read = self.read("terminate-after", "", expected, termination)?;
        Ok(read.unwrap_or(Termination::After(Duration::ZERO)))
    }

    fn terminate_exit_code(&self) -> Result<i32, RuleError> {
        let read = self.read("terminate-exit-code", "", "an exit code", |text| text.parse().ok())?;
        Ok(read.unwrap_or(SIGTERM_EXIT_CODE))
    }
}

/// Parses the final phase of a pod and the time after which it is reached: `Failed=2s`.
pub(crate) fn phase_after(text: &str) -> Option<(Phase, Duration)> {
    let (phase, after) = text.split_once('=')?;
    let phase = match phase {
        "Succeeded" => Phase::Succeeded,
        "Failed" => Phase::Failed,
        _ => return None,
    };
    Some((phase, parse_go_wait(after)?))
}

pub(crate) fn termination(text: &str) -> Option<Termination> {
    match text {
        "grace" => Some(Termination::Grace),
        "never" => Some(Termination::Never),
        _ => parse_go_wait(text).map(Termination::After),
    }
}

pub(crate) fn exit_codes(text: &str) -> Option<Box<[i32]>> {
    text.split(',').map(|code| code.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules(metadata: Value, node: Value) -> Result<PodRules, RuleError> {
        let spec = json!({"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]});
        let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        PodRules::of(&pod, &serde_json::from_value(node).unwrap())
    }

    #[test]
    fn pod_without_rules_keeps_running_only_with_restart_policy_always() {
        let plain = rules(json!({}), json!({})).unwrap();
        assert_eq!(plain.containers[0].finish_after, Delay::Never);
        assert_eq!((plain.start_after, plain.containers[0].ready_after), (Delay::AT_ONCE, Delay::AT_ONCE));
        assert_eq!(plain.init_containers[0].finish_after, Delay::AT_ONCE);
        for policy in ["Never", "OnFailure"] {
            let containers = json!([{"name": "a"}, {"name": "p", "image": "pause:3.10"}]);
            let pod = json!({"spec": {"restartPolicy": policy, "containers": containers}});
            let rules = PodRules::of(&serde_json::from_value(pod).unwrap(), &Labels::default()).unwrap();
            assert_eq!(rules.containers[0].finish_after, Delay::After(RUN_TO_COMPLETION), "{policy}");
            assert_eq!(rules.containers[1].finish_after, Delay::Never, "{policy}");
        }
        for (image, is_one) in [("r.example/pause:3.10", true), ("pause", true), ("pauses:1", false)] {
            assert_eq!(is_pause(image), is_one, "{image}");
        }
    }

    #[test]
    fn most_specific_rule_applies() {
        let annotations = json!({
            "batch.kubernetes.io/job-completion-index": "3",
            "fake.coracle.dev/exit-code": "1,0",
            "fake.coracle.dev/exit-code.index-3": "42",
            "fake.coracle.dev/exit-code.container-b": "7",
            "fake.coracle.dev/terminate-after": "grace",
            "fake.coracle.dev/phase-after": "Failed=1m",
            "fake.coracle.dev/phase-reason": "Evicted",
        });
        let node = json!({"fake.coracle.dev/start-after": "2s", "fake.coracle.dev/exit-code": "9"});
        let found = rules(json!({"annotations": annotations}), node).unwrap();
        assert_eq!(*found.containers[0].exit_codes, [42]);
        assert_eq!(*found.containers[1].exit_codes, [7]);
        assert_eq!(found.start_after, Delay::After(Duration::from_secs(2)));
        assert_eq!(found.termination, Termination::Grace);
        let end = found.end.unwrap();
        assert_eq!((end.phase, end.after, &*end.reason), (Phase::Failed, Duration::from_secs(60), "Evicted"));
    }

    #[test]
    fn command_and_image_apply_without_a_rule() {
        let container = json!({"name": "a", "image": "shop:404", "command": ["sh", "-c", "sleep 3; exit 2"]});
        let with = |annotations: Value| {
            let metadata = json!({"annotations": annotations});
            let pod = json!({"metadata": metadata, "spec": {"containers": [container]}});
            PodRules::of(&serde_json::from_value(pod).unwrap(), &Labels::default()).unwrap()
        };
        let plain = with(json!({}));
        assert_eq!(plain.containers[0].finish_after, Delay::After(Duration::from_secs(3)));
        assert_eq!((&*plain.containers[0].exit_codes, plain.start_after), (&[2][..], Delay::AT_ONCE));
        let ruled = with(json!({"fake.coracle.dev/exit-code": "0", "fake.coracle.dev/missing-images": "x"}));
        assert_eq!((&*ruled.containers[0].exit_codes, ruled.start_after), (&[0][..], Delay::AT_ONCE));
        for images in ["shop:404", "a, shop:*"] {
            let waiting = with(json!({"fake.coracle.dev/missing-images": images}));
            assert_eq!(waiting.start_after, Delay::Never, "{images}");
            assert_eq!(waiting.waiting_reason.as_deref(), Some("ImagePullBackOff"));
            assert_eq!(&*waiting.waiting_message, "Back-off pulling image \"shop:404\"");
        }
    }

    #[test]
    fn invalid_rule_is_named_in_the_error() {
        let wrong = |key: &str, value: &str| {
            let key = format!("fake.coracle.dev/{key}");
            rules(json!({"annotations": {key: value}}), json!({})).unwrap_err().to_string()
        };
        assert_eq!(
            wrong("start-after", "soon"),
            r#"annotation fake.coracle.dev/start-after: "soon" is not a duration such as 2s, or never"#
        );
        for (key, value) in [("exit-code", "1,x"), ("phase-after", "Done=1s"), ("terminate-after", "x")] {
            wrong(key, value);
        }
    }
}
