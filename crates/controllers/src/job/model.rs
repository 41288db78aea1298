//! Jobs in a world where everything can fail: requests are refused, the controller crashes between any two of
//! them and forgets what it knew, pods end and are deleted at any time, and people change their minds.
//!
//! Whatever happens: each pod is counted once, counts do not go down, no index runs twice at a time, no pod
//! is held for ever, and a job that can end does.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use coracle_base::{Rng, Timestamp};
use serde_json::{Value, json};

use super::backoff::Backoff;
use super::facts::{Known, has_valid_index, index_of, is_failed, waits_for_the_end};
use super::failure_policy::judge;
use super::plan::{NewPod, PodChange, plan};
use super::track::{Outcome, Tracking, track};
use super::{FAILURE_COUNT, FINALIZER, IGNORED_FAILURE_COUNT, INDEX};
use crate::view::{Job, JobStatus, Phase, Pod};

/// How many worlds are tried, and how long each of them is.
const SEEDS: u64 = 400;
const STEPS: usize = 120;

/// After so many quiet rounds everything has to be over.
const ROUNDS: usize = 400;

/// Something went wrong on the way, and the reconcile ends.
struct Stopped;

struct World {
    rng: Rng,
    now: Timestamp,
    job: Job,
    version: u64,
    pods: Vec<Pod>,
    made: u64,
    /// What the controller remembers.
    backoff: Backoff,
    /// How often each pod has moved into a count.
    counted: HashMap<Box<str>, u32>,
    /// One request in so many fails; none if zero.
    failures: u64,
}

impl World {
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
            made: 0,
            backoff: Backoff::default(),
            counted: HashMap::new(),
            failures: 8,
        }
    }

    /// A request goes well, or is lost on the way there or back.
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
        self.made += 1;
        let name = format!("p{}", self.made);
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

    fn let_go(&mut self, uid: &str) {
        if let Some(pod) = self.pod(uid) {
            pod.metadata.finalizers = Box::default();
        }
        self.collect();
    }

    /// What is deleted, at its end and held by nobody is gone.
    fn collect(&mut self) {
        self.pods.retain(|pod| {
            !pod.metadata.is_terminating() || !pod.is_finished() || pod.metadata.has_finalizer(FINALIZER)
        });
    }

    /// No pod may be let go that is not known by its identity, or by its index, or does not count.
    fn check_let_go(&self, uid: &str) {
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
            _ if is_failed(job, pod) && judge(job, pod).counts() => {
                assert!(is_known || !matters, "{uid} failed and is lost");
            }
            _ => {}
        }
    }

    fn write(&mut self, status: &JobStatus, version: u64) -> Result<u64, Stopped> {
        if version != self.version {
            return Err(Stopped);
        }
        self.request(|world| {
            world.check_write(status);
            world.job.status = status.clone();
            world.version += 1;
            world.version
        })
    }

    /// A pod moves into a count once, when it is held no more, and counts grow by those that do.
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
            assert!(grown >= 0, "a count went down");
            if which == 1 || !self.job.is_indexed() {
                assert_eq!(usize::try_from(grown).unwrap(), left.len(), "a count grew by something else");
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

    /// What the controller does, up to where something fails.
    fn reconcile(&mut self) -> Result<(), Stopped> {
        let (job, version) = (self.job.clone(), self.version);
        if job.end().is_some() {
            return Ok(());
        }
        let pods: Vec<Arc<Pod>> = self.pods.iter().cloned().map(Arc::new).collect();
        let plan = plan(Known { job: &job, pods: &pods, backoff: self.backoff, now: self.now });
        let (outcome, changed) = self.change(&plan.change);
        if changed.is_err() && self.rng.one_in(2) {
            return Err(Stopped);
        }
        self.meanwhile();
        self.carry_out(&job, version, plan.facts.backoff, track(&plan, outcome))
    }

    fn change(&mut self, change: &PodChange) -> (Outcome, Result<(), Stopped>) {
        let mut outcome = Outcome::default();
        let mut all = Ok(());
        match change {
            PodChange::Nothing => {}
            PodChange::Create(new) => {
                for new in new {
                    match self.request(|world| world.create(*new)) {
                        Ok(()) => outcome.created += 1,
                        stopped => all = stopped,
                    }
                }
            }
            PodChange::End(pods) | PodChange::Remove(pods) => {
                for pod in pods {
                    let let_go = matches!(change, PodChange::Remove(_));
                    let deleted = self.request(|world| {
                        if let_go {
                            world.let_go(pod.metadata.uid());
                        }
                        world.delete(pod.metadata.uid());
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

    fn carry_out(
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
        for pod in tracking.let_go.clone() {
            let uid = pod.metadata.uid().to_owned();
            let done = self.request(|world| {
                world.check_let_go(&uid);
                world.let_go(&uid);
            });
            released.extend(done.is_ok().then_some(uid));
        }
        let all = released.len() == tracking.let_go.len();
        tracking.settle(released.iter().map(String::as_str));
        if all {
            tracking.finish(job);
        }
        if tracking.status != written {
            self.write(&tracking.status, version)?;
        }
        Ok(())
    }

    /// What happens to pods and to the job by other hands.
    fn meanwhile(&mut self) {
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
            // Its node is gone, and so is whoever held it but the job.
            self.pods.retain(|pod| pod.metadata.has_finalizer(FINALIZER));
        }
        self.collect();
    }

    fn check(&self) {
        let mut running = HashSet::new();
        for pod in &self.pods {
            let runs = pod.is_active() || waits_for_the_end(&self.job) && !pod.is_finished();
            if let Some(index) = index_of(pod).filter(|_| runs) {
                assert!(running.insert(index), "index {index} runs twice");
            }
        }
    }

    /// No more failures, and every pod does its work.
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

/// Moves a pod on, if it has not come to its end.
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
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        world.meanwhile();
        if world.reconcile().is_err() && world.rng.one_in(3) {
            // It starts again and remembers nothing.
            world.backoff = Backoff::default();
        }
        world.check();
    }
    let mut rounds = 0;
    while world.job.end().is_none() {
        world.quiet_round();
        rounds += 1;
        assert!(rounds < ROUNDS, "it does not end: {:?}", world.job.status);
    }
    let uncounted = &world.job.status.uncounted_terminated_pods;
    assert!(uncounted.succeeded.is_empty() && uncounted.failed.is_empty());
    let held: Vec<_> = world.pods.iter().filter(|pod| pod.metadata.has_finalizer(FINALIZER)).collect();
    assert!(held.is_empty(), "held for ever: {held:?}");
}

#[test]
fn jobs_bear_everything() {
    for seed in 0..SEEDS {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "seed {seed} fails");
    }
}
