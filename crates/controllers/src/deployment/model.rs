//! Random rollouts against a model of replica sets and their pods.
//!
//! Despite changes by users in between, no step of a rollout creates more pods than the surge allows, none removes more
//! available pods than may be unavailable, old and new pods never run together with Recreate, and the rollout ends.

use std::sync::Arc;

use coracle_base::{Rng, Timestamp};
use coracle_runtime::informer::Labels;
use serde_json::{Value, json};

use super::annotations::{REVISION, revision};
use super::limits::{is_rolling, max_replicas, min_available};
use super::plan::{Plan, plan};
use super::scaling;
use super::sets::{POD_TEMPLATE_HASH, Sets};
use crate::view::{Deployment, IntOrString, PodTemplate, ReplicaSet, StrategyType, condition};

/// Number of random rollouts.
const SEEDS: u64 = 1000;

/// Steps of a rollout before users stop changing it.
const STEPS: u64 = 150;

/// Rounds in which it must then end; a rollout of so few pods needs fewer.
const ROUNDS: usize = 200;

/// A set, and whether each of its pods is ready. The set's status may be outdated.
struct SimulatedSet {
    known: ReplicaSet,
    pods: Vec<bool>,
}

struct Model {
    rng: Rng,
    deployment: Deployment,
    sets: Vec<SimulatedSet>,
    now_s: u64,
}

fn template(number: u64) -> PodTemplate {
    let value = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"version": number}});
    serde_json::from_value(value).unwrap()
}

impl Model {
    fn new(seed: u64) -> Self {
        let spec = json!({"progressDeadlineSeconds": 600, "revisionHistoryLimit": 2});
        let metadata = json!({"name": "d", "uid": "d", "generation": 1});
        let deployment = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        let mut model = Self { rng: Rng::seeded(seed), deployment, sets: Vec::new(), now_s: 1000 };
        model.change_template();
        model.change_size();
        model.change_strategy();
        model
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now_s * 1000)
    }

    fn below(&mut self, bound: u64) -> i32 {
        i32::try_from(self.rng.below(bound)).unwrap()
    }

    fn pick(&mut self, len: usize) -> Option<usize> {
        (len > 0).then(|| usize::try_from(self.rng.below(len as u64)).unwrap())
    }

    fn change_template(&mut self) {
        self.deployment.spec.template = template(self.rng.below(4));
    }

    fn change_size(&mut self) {
        self.deployment.spec.replicas = Some(self.below(12));
    }

    fn change_strategy(&mut self) {
        let strategy = &mut self.deployment.spec.strategy;
        strategy.r#type =
            if self.rng.one_in(5) { StrategyType::Recreate } else { StrategyType::RollingUpdate };
        let mut amount = || {
            let amount = i32::try_from(self.rng.below(5)).unwrap();
            Some(if self.rng.one_in(2) {
                IntOrString::Int(amount)
            } else {
                IntOrString::String(format!("{}%", amount * 25).into())
            })
        };
        (strategy.rolling_update.max_surge, strategy.rolling_update.max_unavailable) = (amount(), amount());
    }

    /// A random change by a user.
    fn user_change(&mut self) {
        match self.rng.below(8) {
            0..=2 => self.change_template(),
            3..=5 => self.change_size(),
            6 => self.change_strategy(),
            _ => self.deployment.spec.paused = !self.deployment.spec.paused,
        }
        self.deployment.metadata.generation += 1;
    }

    /// A node makes a pod ready, or fails it.
    fn change_pod(&mut self) {
        let Some(index) = self.pick(self.sets.len()) else { return };
        let Some(pod) = self.pick(self.sets[index].pods.len()) else { return };
        let fails = self.rng.one_in(6);
        self.sets[index].pods[pod] = !fails;
    }

    /// The replica set controller.
    fn replicate(&mut self, index: usize) {
        let set = &mut self.sets[index];
        let wanted = usize::try_from(set.known.replicas()).unwrap();
        // Unready pods are deleted first.
        set.pods.sort_by_key(|ready| !*ready);
        set.pods.resize(wanted, false);
        self.report(index);
    }

    fn report(&mut self, index: usize) {
        let set = &mut self.sets[index];
        let count = |count: usize| i32::try_from(count).unwrap();
        let status = &mut set.known.status;
        status.replicas = count(set.pods.len());
        status.ready_replicas = count(set.pods.iter().filter(|ready| **ready).count());
        status.available_replicas = status.ready_replicas;
        status.terminating_replicas = Some(0);
        status.observed_generation = set.known.metadata.generation;
    }

    fn known(&self) -> Sets {
        let sets = self.sets.iter().map(|set| Arc::new(set.known.clone())).collect();
        Sets::of(&self.deployment, sets)
    }

    fn old_pods_run(&self, sets: &Sets) -> bool {
        let new = sets.new.as_ref().map(|new| new.metadata.uid().to_owned());
        let is_old = |set: &SimulatedSet| Some(set.known.metadata.uid()) != new.as_deref();
        self.sets.iter().any(|set| is_old(set) && !set.pods.is_empty())
    }

    /// One reconcile of the deployment. True if it changed anything.
    fn deploy(&mut self) -> bool {
        self.now_s += 1;
        let sets = self.known();
        let plan = plan(&self.deployment, &sets, || self.old_pods_run(&sets), self.now());
        self.check(&sets, &plan);
        let acted = plan.create.is_some() || !plan.updates.is_empty() || !plan.delete.is_empty();
        let status_changed = plan.status != self.deployment.status || plan.revision.is_some();
        self.apply(plan);
        acted || status_changed
    }

    fn check(&self, sets: &Sets, plan: &Plan) {
        let size = |set: &SimulatedSet| {
            let update =
                plan.updates.iter().find(|update| update.set.metadata.uid() == set.known.metadata.uid());
            update.and_then(|update| update.replicas).unwrap_or_else(|| set.known.replicas())
        };
        let created = plan.create.as_ref().map_or(0, |create| create.replicas);
        let total: i32 = self.sets.iter().map(size).sum::<i32>() + created;
        if total > sets.wanted() {
            assert!(total <= max_replicas(&self.deployment), "too many: {plan:?}");
        }
        assert!(self.sets.iter().all(|set| size(set) >= 0));
        let is_rollout = !self.deployment.spec.paused && !scaling::is_scaled(&self.deployment, sets);
        if !is_rollout {
            return;
        }
        if is_rolling(&self.deployment) {
            // By the reported status: the replica set deletes unready pods first.
            let known = |set: &SimulatedSet| set.known.status.available_replicas.min(set.known.replicas());
            let before: i32 = self.sets.iter().map(known).sum();
            let after: i32 = self.sets.iter().map(|set| known(set).min(size(set))).sum();
            // A new set that is larger than the deployment is scaled down unconditionally.
            let cut = sets.new.as_ref().is_some_and(|new| new.replicas() > self.deployment.replicas());
            assert!(cut || after >= before.min(min_available(&self.deployment)), "too few: {plan:?}");
        } else if created > 0 {
            assert!(!self.old_pods_run(sets), "beside old ones: {plan:?}");
        }
    }

    fn apply(&mut self, plan: Plan) {
        if let Some(create) = plan.create {
            assert!(self.sets.iter().all(|set| *set.known.metadata.uid() != *create.name), "created twice");
            let mut known = ReplicaSet::default();
            (known.metadata.plain.name, known.metadata.plain.uid) =
                (create.name.as_str().into(), create.name.as_str().into());
            known.metadata.creation_timestamp = self.now();
            known.metadata.generation = 1;
            known.metadata.annotations = create.annotations.into_iter().collect();
            known.spec.replicas = Some(create.replicas);
            known.spec.template = self.deployment.spec.template.clone();
            known.spec.template.labels = known
                .spec
                .template
                .labels
                .iter()
                .chain([(POD_TEMPLATE_HASH, create.hash.as_str())])
                .collect();
            self.sets.push(SimulatedSet { known, pods: Vec::new() });
        }
        for update in plan.updates {
            let uid = update.set.metadata.uid();
            let set = self.sets.iter_mut().find(|set| set.known.metadata.uid() == uid).unwrap();
            let known = &mut set.known;
            let changes = update.annotations.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            known.metadata.annotations = known.metadata.annotations.iter().chain(changes).collect();
            known.metadata.generation += i64::from(update.replicas.is_some());
            known.spec.replicas = update.replicas.or(known.spec.replicas);
        }
        for gone in plan.delete {
            let index = self.sets.iter().position(|set| set.known.metadata.uid() == gone.metadata.uid());
            let gone = self.sets.remove(index.unwrap());
            assert!(gone.pods.is_empty(), "it had pods");
        }
        if let Some(revision) = plan.revision {
            self.deployment.metadata.annotations = Labels::from_iter([(REVISION, revision)]);
        }
        self.deployment.status = plan.status;
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0 => self.user_change(),
            1..=6 => self.change_pod(),
            7..=11 => {
                if let Some(index) = self.pick(self.sets.len()) {
                    self.replicate(index);
                }
            }
            12 => {
                if let Some(index) = self.pick(self.sets.len()) {
                    self.report(index);
                }
            }
            _ => drop(self.deploy()),
        }
    }

    /// Runs without failures until nothing is left to do.
    fn settle(&mut self) {
        self.deployment.spec.paused = false;
        self.deployment.metadata.generation += 1;
        for _ in 0..ROUNDS {
            for index in 0..self.sets.len() {
                self.replicate(index);
                self.sets[index].pods.fill(true);
                self.report(index);
            }
            if !self.deploy() {
                return;
            }
        }
        panic!("it goes on for ever");
    }

    fn check_end(&self) {
        let sets = self.known();
        let new = sets.new.as_ref().unwrap();
        assert_eq!(new.replicas(), self.deployment.replicas());
        assert!(sets.old.iter().all(|set| set.replicas() == 0));
        assert!(sets.old.len() <= 2, "history is too long");
        let newest = revision(&new.metadata).unwrap();
        assert!(sets.max_old_revision() < newest);
        assert_eq!(self.deployment.metadata.annotations.get(REVISION), Some(newest.to_string().as_str()));
        let status = &self.deployment.status;
        assert_eq!(status.observed_generation, self.deployment.metadata.generation);
        assert_eq!(status.available_replicas, self.deployment.replicas());
        let progressing = condition(&status.conditions, "Progressing").unwrap();
        assert_eq!((&*progressing.status, &*progressing.reason), ("True", "NewReplicaSetAvailable"));
        assert_eq!(&*condition(&status.conditions, "Available").unwrap().status, "True");
    }
}

fn run(seed: u64) {
    let mut model = Model::new(seed);
    for _ in 0..STEPS {
        model.step();
    }
    model.settle();
    model.check_end();
}

#[test]
fn random_rollouts_respect_limits_and_end() {
    for seed in 0..SEEDS {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "with the seed {seed}");
    }
}

#[test]
fn model_templates_match_the_wire_format() {
    let sent: PodTemplate = serde_json::from_value::<Value>(template(1).to_value()).unwrap().into();
    assert_eq!(sent, template(1));
}
