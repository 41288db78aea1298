//! A scenario: users create objects in one namespace and change them.

mod addresses;
mod autoscaler;
mod cron_job;
mod daemon_set;
mod deleted_namespace;
mod evictions;
mod jobs;
mod resource_quota;
mod rollout;
mod service;
mod stateful_set;
mod volume_claims;
mod workload;

use std::time::Duration;

use coracle_base::Rng;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use serde_json::{Value, json};

use crate::control_plane::ControlPlane;
use crate::history::History;
use crate::state::{State, controller, is_terminating, name, uid};
use crate::users::Users;

/// Minimum and maximum number of changes in one scenario.
const CHANGES: (u64, u64) = (2, 3);

/// The longest pauses between two changes, usually and sometimes: the latter is long enough to reach the
/// desired state.
const SHORT_PAUSE_MS: u64 = 5_000;
const LONG_PAUSE_MS: u64 = 60_000;

/// The prefix of the namespaces of all scenarios.
pub(crate) const NAMESPACE_PREFIX: &str = "scenario-";

/// A namespace with its users.
pub(crate) struct Context {
    pub(crate) namespace: String,
    pub(crate) users: Users,
    pub(crate) history: History,
    pub(crate) rng: Rng,
}

/// The objects of a scenario with their desired state.
trait Scenario {
    /// Changes the desired state.
    async fn change(&mut self, context: &mut Context);

    /// Ends activities that would never end.
    async fn finish(&mut self, _context: &mut Context) {}

    /// Differences between the desired and the actual state.
    fn differences(&self, namespace: &str, state: &State) -> Vec<String>;
}

/// Object-safe variant of [`Scenario`].
trait AnyScenario {
    fn change<'a>(&'a mut self, context: &'a mut Context) -> LocalBoxFuture<'a, ()>;
    fn finish<'a>(&'a mut self, context: &'a mut Context) -> LocalBoxFuture<'a, ()>;
    fn differences(&self, namespace: &str, state: &State) -> Vec<String>;
}

impl<P: Scenario> AnyScenario for P {
    fn change<'a>(&'a mut self, context: &'a mut Context) -> LocalBoxFuture<'a, ()> {
        Scenario::change(self, context).boxed_local()
    }

    fn finish<'a>(&'a mut self, context: &'a mut Context) -> LocalBoxFuture<'a, ()> {
        Scenario::finish(self, context).boxed_local()
    }

    fn differences(&self, namespace: &str, state: &State) -> Vec<String> {
        Scenario::differences(self, namespace, state)
    }
}

pub(crate) struct ScenarioRun {
    context: Context,
    scenario: Box<dyn AnyScenario>,
}

impl ScenarioRun {
    pub(crate) fn new(control_plane: &ControlPlane, number: u64, mut rng: Rng) -> Self {
        let scenario: Box<dyn AnyScenario> = match rng.below(13) {
            0 => Box::new(cron_job::CronJob::default()),
            1 => Box::new(daemon_set::DaemonSet::default()),
            2 => Box::new(evictions::Evictions::default()),
            3 => Box::new(deleted_namespace::DeletedNamespace::default()),
            4 | 5 => Box::new(jobs::Jobs::default()),
            6 => Box::new(resource_quota::ResourceQuota::default()),
            7 => Box::new(stateful_set::StatefulSet::default()),
            8 => Box::new(autoscaler::Autoscaler::default()),
            9 => Box::new(volume_claims::VolumeClaims::default()),
            10 => Box::new(addresses::Addresses::default()),
            _ => Box::new(rollout::Rollout::default()),
        };
        let (users, history) = (control_plane.users.clone(), control_plane.history.clone());
        Self {
            context: Context { namespace: format!("{NAMESPACE_PREFIX}{number}"), users, history, rng },
            scenario,
        }
    }

    /// Runs the scenario.
    pub(crate) async fn run(mut self) -> Self {
        let Self { context, scenario } = &mut self;
        context.create_namespace().await;
        for _ in 0..context.between(CHANGES) {
            scenario.change(context).await;
            let longest = if context.rng.one_in(4) { LONG_PAUSE_MS } else { SHORT_PAUSE_MS };
            tokio::time::sleep(Duration::from_millis(context.rng.below(longest))).await;
        }
        scenario.finish(context).await;
        self
    }

    /// Differences between the desired and the actual state.
    pub(crate) fn differences(&self, state: &State) -> Vec<String> {
        let namespace = &self.context.namespace;
        let mut differences = self.scenario.differences(namespace, state);
        differences.extend(orphans(namespace, state));
        differences.extend(addresses::address_differences(namespace, state));
        differences.into_iter().map(|what| format!("{namespace}: {what}")).collect()
    }
}

/// Objects whose controller is gone, or that are still terminating.
fn orphans(namespace: &str, state: &State) -> Vec<String> {
    let all = state.within(namespace);
    let is_there = |owner: &str| all.iter().any(|(_, object)| uid(object) == owner);
    let is_left = |object: &Value| controller(object).is_some_and(|(_, owner)| !is_there(owner));
    let left = all.iter().filter(|(_, object)| is_left(object) || is_terminating(object));
    left.map(|(resource, object)| format!("{resource} {} is left over", name(object))).collect()
}

impl Context {
    async fn create_namespace(&self) -> Value {
        let namespace = json!({"metadata": {"name": self.namespace}});
        self.users.create("/api/v1/namespaces", &namespace).await
    }

    /// The path of a resource in the namespace.
    fn path(&self, version: &str, plural: &str) -> String {
        let base = if version.contains('/') { "apis" } else { "api" };
        format!("/{base}/{version}/namespaces/{}/{plural}", self.namespace)
    }

    fn between(&mut self, (least, most): (u64, u64)) -> u64 {
        least + self.rng.below(most - least + 1)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.rng.below(all.len() as u64)).unwrap()]
    }

    /// Deletes any of the pods.
    async fn delete_a_pod(&mut self) {
        let pods = self.history.with_state(|state| {
            let pods = state.list(crate::state::PODS, &self.namespace);
            pods.map(|pod| (name(pod).to_owned(), uid(pod).to_owned())).collect::<Vec<_>>()
        });
        if pods.is_empty() {
            return;
        }
        let index = usize::try_from(self.rng.below(pods.len() as u64)).unwrap();
        let (name, uid) = &pods[index];
        self.history.record_deleted(uid);
        let path = format!("{}/{name}", self.path("v1", "pods"));
        self.users.delete(&path, &json!({"preconditions": {"uid": uid}})).await;
    }
}
