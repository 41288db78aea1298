//! Random jobs in a model where everything can fail: requests are rejected, the controller crashes between any two of
//! them and loses its memory, pods finish and are deleted at any time, and users change the job.
//!
//! In all cases each pod is counted once, counts never decrease, no index runs twice at a time, no finalizer stays
//! forever, and a job that can finish does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use coracle_base::{Rng, Timestamp};
use serde_json::{Value, json};

use super::backoff::Backoff;
use super::facts::{Observed, has_valid_index, index_of, is_failed, replaces_only_finished};
use super::failure_policy::failure_action;
use super::plan::{NewPod, PodChange, plan};
use super::track::{Outcome, Tracking, track};
use super::{FAILURE_COUNT, FINALIZER, IGNORED_FAILURE_COUNT, INDEX};
use crate::view::{Job, JobStatus, Phase, Pod};

/// Number of models, and of steps of each.
const SEEDS: u64 = 400;
const STEPS: usize = 120;

/// Rounds without failures in which everything must finish.
const ROUNDS: usize = 400;

/// A request failed, and the reconcile ends.
struct Stopped;

struct Model {
    rng: Rng,
    now: Timestamp,
    job: Job,
    version: u64,
    pods: Vec<Pod>,
    created: u64,
    /// The controller's memory.
    backoff: Backoff,
    /// How often each pod was counted.
    counted: HashMap<Box<str>, u32>,
    /// One in this many requests fails; none if zero.
    failures: u64,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::seeded(seed);
        let completions = 1 + rng.below(6);
        let mut spec = json!({
            "parallelism": 1 + rng.below(4), "completions": completions, "backoffLimit": 1000,
            "completionMode": if rng.one_in(2) { "Indexed" } else { "NonIndexed" },
            "podReplacementPolicy": if rng.one_in(2) { "Failed" } else { "TerminatingOrFailed" },
        });
        if spec["completionMode"] == "Indexed" && rng.one_in(2) {
            spec["backoffLimitPerIndex"] = rng.below(3).into();
        }
        if rng.one_in(4) {
            let rule = |action: &str, code: i32| json!({"action": action, "onExitCodes": {"operator": "In", "values": [code]}});
            spec["podReplacementPolicy"] = "Failed".into();
            spec["podFailurePolicy"] = json!({"rules": [rule("Ignore", 1), rule("FailJob", 3)]});
        }
        let metadata = json!({"name": "j", "namespace": "n", "uid": "job"});
        let job = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        Self {
            rng,
            now: Timestamp::from_millis(1_000_000_000),
            job,
            version: 1,
            pods: Vec::new(),
            created: 0,
            backoff: Backoff::default(),
            counted: HashMap::new(),
            failures: 8,
        }
    }

    /// A request succeeds, or is lost on the way there or back.
    fn request<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> Result<T, Stopped> {
        if self.failures > 0 && self.rng.one_in(self.failures) {
            if self.rng.one_in(2) {
                act(self);
            }
            return Err(Stopped);
        }
        Ok(act(self))
    }

    fn pod(&mut self, uid: &str) -> Option<&mut Pod> {
        self.pods.iter_mut().find(|pod| pod.metadata.uid() == uid)
    }

    fn create(&mut self, new: NewPod) {
        self.created += 1;
        let name = format!("p{}", self.created);
        let mut annotations = serde_json::Map::new();
        if let Some(index) = new.index {
            annotations.insert(INDEX.into(), index.to_string().into());
        }
        if let Some((counted, ignored)) = new.failures {
            annotations.insert(FAILURE_COUNT.into(), counted.to_string().into());
            annotations.insert(IGNORED_FAILURE_COUNT.into(), ignored.to_string().into());
        }
        let metadata = json!({
            "name": name, "namespace": "n", "uid": name, "finalizers": [FINALIZER], "annotations": annotations,
        });
        let pod = json!({"metadata": metadata, "status": {"phase": "Pending"}});
        self.pods.push(serde_json::from_value(pod).unwrap());
    }

    fn delete(&mut self, uid: &str) {
        let now = crate::view::rfc3339(self.now);
        if let Some(pod) = self.pod(uid) {
            pod.metadata.plain.deletion_timestamp.get_or_insert(now.into());
        }
        self.collect();
    }

    fn remove_finalizer(&mut self, uid: &str) {
        if let Some(pod) = self.pod(uid) {
            pod.metadata.finalizers = Box::default();
        }
        self.collect();
    }

    /// Removes pods that are deleted, finished and without finalizer.
    fn collect(&mut self) {
        self.pods.retain(|pod| {
            !pod.metadata.is_terminating() || !pod.is_finished() || pod.metadata.has_finalizer(FINALIZER)
        });
    }

    /// Checks that a pod whose finalizer is removed is in the status by uid, or by index, or does not count.
    fn check_finalizer_removal(&self, uid: &str) {
        let Some(pod) = self.pods.iter().find(|pod| pod.metadata.uid() == uid) else { return };
        let (job, status) = (&self.job, &self.job.status);
        let uncounted = &status.uncounted_terminated_pods;
        let is_known = |uids: &[Box<str>]| uids.iter().any(|known| **known == *uid);
        let is_known = is_known(&uncounted.succeeded) || is_known(&uncounted.failed);
        let has_index = job.is_indexed()
            && index_of(pod).is_some_and(|index| {
                super::indexes::Indexes::parse(&status.completed_indexes, i32::MAX).contains(index)
            });
        let matters = !job.is_indexed() || has_valid_index(job, pod);
        match pod.status.phase {
            Phase::Succeeded => assert!(is_known || has_index || !matters, "{uid} succeeded and is lost"),
            _ if is_failed(job, pod) && failure_action(job, pod).counts() => {
                assert!(is_known || !matters, "{uid} failed and is lost");
            }
            _ => {}
        }
    }

    fn write(&mut self, status: &JobStatus, version: u64) -> Result<u64, Stopped> {
        if version != self.version {
            return Err(Stopped);
        }
        self.request(|model| {
            model.check_write(status);
            model.job.status = status.clone();
            model.version += 1;
            model.version
        })
    }

    /// Checks that a pod is counted once, without its finalizer, and that counts grow only by such pods.
    fn check_write(&mut self, new: &JobStatus) {
        let old = self.job.status.clone();
        let lists = |status: &JobStatus| {
            let uncounted = &status.uncounted_terminated_pods;
            [uncounted.succeeded.clone(), uncounted.failed.clone()]
        };
        let counts = |status: &JobStatus| [status.succeeded, status.failed];
        for (which, (before, after)) in lists(&old).into_iter().zip(lists(new)).enumerate() {
            let left: Vec<_> = before.iter().filter(|uid| !after.contains(uid)).cloned().collect();
            let grown = counts(new)[which] - counts(&old)[which];
            assert!(grown >= 0, "a count decreased");
            if which == 1 || !self.job.is_indexed() {
                assert_eq!(usize::try_from(grown).unwrap(), left.len(), "a count grew by other pods");
            }
            for uid in left {
                let is_held = self.pod(&uid).is_some_and(|pod| pod.metadata.has_finalizer(FINALIZER));
                assert!(!is_held, "{uid} is counted and still held");
                *self.counted.entry(uid).or_default() += 1;
            }
            for uid in &after {
                assert!(!self.counted.contains_key(uid), "{uid} is known again after it was counted");
                assert_eq!(after.iter().filter(|other| *other == uid).count(), 1, "{uid} is there twice");
            }
        }
        assert!(self.counted.values().all(|times| *times == 1));
    }

    /// A reconcile of the controller, up to the first failure.
    fn reconcile(&mut self) -> Result<(), Stopped> {
        let (job, version) = (self.job.clone(), self.version);
        if job.end().is_some() {
            return Ok(());
        }
        let pods: Vec<Arc<Pod>> = self.pods.iter().cloned().map(Arc::new).collect();
        let plan = plan(Observed { job: &job, pods: &pods, backoff: self.backoff, now: self.now });
        let (outcome, changed) = self.change(&plan.change);
        if changed.is_err() && self.rng.one_in(2) {
            return Err(Stopped);
        }
        self.external_changes();
        self.apply(&job, version, plan.facts.backoff, track(&plan, outcome))
    }

    fn change(&mut self, change: &PodChange) -> (Outcome, Result<(), Stopped>) {
        let mut outcome = Outcome::default();
        let mut all = Ok(());
        match change {
            PodChange::Nothing => {}
            PodChange::Create(new) => {
                for new in new {
                    match self.request(|model| model.create(*new)) {
                        Ok(()) => outcome.created += 1,
                        stopped => all = stopped,
                    }
                }
            }
            PodChange::End(pods) | PodChange::Remove(pods) => {
                for pod in pods {
                    let remove_finalizer = matches!(change, PodChange::Remove(_));
                    let deleted = self.request(|model| {
                        if remove_finalizer {
                            model.remove_finalizer(pod.metadata.uid());
                        }
                        model.delete(pod.metadata.uid());
                    });
                    match deleted {
                        Ok(()) => outcome.deleted += 1,
                        stopped => all = stopped,
                    }
                }
            }
        }
        (outcome, all)
    }

    fn apply(
        &mut self,
        job: &Job,
        mut version: u64,
        backoff: Backoff,
        mut tracking: Tracking,
    ) -> Result<(), Stopped> {
        if tracking.status != job.status {
            version = self.write(&tracking.status, version)?;
        }
        self.backoff = backoff;
        let written = tracking.status.clone();
        let mut released = Vec::new();
        for pod in tracking.remove_finalizer.clone() {
            let uid = pod.metadata.uid().to_owned();
            let done = self.request(|model| {
                model.check_finalizer_removal(&uid);
                model.remove_finalizer(&uid);
            });
            released.extend(done.is_ok().then_some(uid));
        }
        let all = released.len() == tracking.remove_finalizer.len();
        tracking.released(released.iter().map(String::as_str));
        if all {
            tracking.finish(job);
        }
        if tracking.status != written {
            self.write(&tracking.status, version)?;
        }
        Ok(())
    }

    /// Changes of pods and of the job by others.
    fn external_changes(&mut self) {
        if self.failures == 0 {
            return;
        }
        let now = self.now;
        self.now = now + Duration::from_secs(self.rng.below(20));
        for number in 0..self.pods.len() {
            if !self.rng.one_in(4) {
                continue;
            }
            let (phase, code) = match self.rng.below(8) {
                0..=2 => (Phase::Running, 0),
                3..=4 => (Phase::Succeeded, 0),
                _ => (Phase::Failed, 1 + i32::try_from(self.rng.below(2)).unwrap()),
            };
            end(&mut self.pods[number], phase, code, now);
        }
        if self.rng.one_in(6) && !self.pods.is_empty() {
            let chosen = usize::try_from(self.rng.below(self.pods.len() as u64)).unwrap();
            let uid = self.pods[chosen].metadata.uid().to_owned();
            self.delete(&uid);
        }
        if self.rng.one_in(15) {
            self.job.spec.suspend = !self.job.spec.suspend;
            self.version += 1;
        }
        if self.rng.one_in(15) {
            // Its node is gone, and all pods without the tracking finalizer with it.
            self.pods.retain(|pod| pod.metadata.has_finalizer(FINALIZER));
        }
        self.collect();
    }

    fn check(&self) {
        let mut running = HashSet::new();
        for pod in &self.pods {
            let runs = pod.is_active() || replaces_only_finished(&self.job) && !pod.is_finished();
            if let Some(index) = index_of(pod).filter(|_| runs) {
                assert!(running.insert(index), "index {index} runs twice");
            }
        }
    }

    /// A round without failures, in which every pod succeeds.
    fn quiet_round(&mut self) {
        self.failures = 0;
        if self.job.spec.suspend && self.job.end().is_none() {
            self.job.spec.suspend = false;
            self.version += 1;
        }
        self.now = self.now + Duration::from_secs(700);
        let now = self.now;
        for pod in &mut self.pods {
            end(pod, Phase::Succeeded, 0, now);
        }
        self.collect();
        assert!(self.reconcile().is_ok());
        self.check();
    }
}

/// Finishes a pod, if it is not finished.
fn end(pod: &mut Pod, phase: Phase, code: i32, now: Timestamp) {
    if pod.is_finished() {
        return;
    }
    pod.status.phase = phase;
    if pod.is_finished() {
        let terminated: Value = json!({"exitCode": code, "finishedAt": crate::view::rfc3339(now)});
        let status = json!([{"name": "c", "state": {"terminated": terminated}}]);
        pod.status.container_statuses = serde_json::from_value(status).unwrap();
    }
}

fn run(seed: u64) {
    let mut model = Model::new(seed);
    for _ in 0..STEPS {
        model.external_changes();
        if model.reconcile().is_err() && model.rng.one_in(3) {
            // The controller restarts with empty memory.
            model.backoff = Backoff::default();
        }
        model.check();
    }
    let mut rounds = 0;
    while model.job.end().is_none() {
        model.quiet_round();
        rounds += 1;
        assert!(rounds < ROUNDS, "it does not end: {:?}", model.job.status);
    }
    let uncounted = &model.job.status.uncounted_terminated_pods;
    assert!(uncounted.succeeded.is_empty() && uncounted.failed.is_empty());
    let held: Vec<_> = model.pods.iter().filter(|pod| pod.metadata.has_finalizer(FINALIZER)).collect();
    assert!(held.is_empty(), "held for ever: {held:?}");
}

#[test]
fn random_failures_keep_the_invariants() {
    for seed in 0..SEEDS {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "seed {seed} fails");
    }
}
