//! The binding cycle: PreBind and Bind plugins.

use std::sync::Arc;
use std::time::Duration;

use coracle_base::Clock;
use futures_util::future::try_join_all;

use super::binding::PreBinding;
use super::cluster::Cluster;
use crate::cycle::{Point, Status};
use crate::framework::{BindError, Binding, PreBind};
use crate::metrics::SchedulerMetrics;
use crate::view::Pod;

/// Error of a binding cycle that was cancelled, in kube-scheduler's wording.
const PREEMPTED: &str = "preempted by DefaultPreemption";

/// The binding cycle of one pod.
pub(super) struct BindSteps {
    before: Vec<(&'static str, PreBind)>,
    bind: Option<(&'static str, Binding)>,
    profile: usize,
    costs: Costs,
}

/// Records the duration of each step.
#[derive(Clone)]
struct Costs {
    clock: Clock,
    metrics: Arc<SchedulerMetrics>,
    /// True if single plugins are measured.
    is_sampled: bool,
}

impl Costs {
    fn passed(&self, profile: usize, point: Point, began: Duration, is_done: bool) {
        let took = self.clock.uptime().saturating_sub(began);
        self.metrics.passed(profile, point, status(is_done), took);
    }

    fn plugin_called(&self, plugin: &str, point: Point, began: Duration, is_done: bool) {
        if self.is_sampled {
            let took = self.clock.uptime().saturating_sub(began);
            self.metrics.plugin_called(plugin, point, status(is_done), took);
        }
    }
}

fn status(is_done: bool) -> Status {
    if is_done { Status::Success } else { Status::Error }
}

impl BindSteps {
    /// Collects the PreBind and Bind steps for a pod.
    pub(super) fn new(cluster: &Cluster, pod: &Arc<Pod>, profile: usize, is_sampled: bool) -> Self {
        let (shared, state, node) = (&cluster.shared, &cluster.state, &*pod.node_name);
        let plugins = &shared.profiles[profile].plugins;
        let began = shared.clock.uptime();
        let before: Vec<_> = (plugins.iter())
            .filter_map(|enabled| Some((enabled.plugin.name(), enabled.plugin.pre_bind(state, pod, node)?)))
            .collect();
        let status = if before.is_empty() { Status::Skip } else { Status::Success };
        let took = shared.clock.uptime().saturating_sub(began);
        shared.metrics.passed(profile, Point::PreBindPreFlight, status, took);
        let bind = (plugins.iter())
            .find_map(|enabled| Some((enabled.plugin.name(), enabled.plugin.bind(state, pod, node)?)));
        let costs = Costs { clock: shared.clock.clone(), metrics: Arc::clone(&shared.metrics), is_sampled };
        Self { before, bind, profile, costs }
    }

    /// True if there are PreBind steps.
    pub(super) fn has_to_prepare(&self) -> bool {
        !self.before.is_empty()
    }

    /// Runs all steps. `guard` can cancel the PreBind steps.
    pub(super) async fn run(self, guard: Option<PreBinding>) -> Result<(), BindError> {
        let Self { before, bind, profile, costs } = self;
        let began = costs.clock.uptime();
        let prepared = prepare(before, guard.as_ref(), &costs).await;
        costs.passed(profile, Point::PreBind, began, prepared.is_ok());
        prepared?;
        if guard.is_some_and(|guard| !guard.finish()) {
            return Err(BindError::new(PREEMPTED));
        }
        let began = costs.clock.uptime();
        let bound = match bind {
            Some((name, bind)) => {
                let bound = bind.await;
                costs.plugin_called(name, Point::Bind, began, bound.is_ok());
                bound.map_err(|error| BindError(format!("running Bind plugin \"{name}\": {error}")))
            }
            None => Err(BindError::new("no Bind plugin is enabled for the pod")),
        };
        costs.passed(profile, Point::Bind, began, bound.is_ok());
        bound
    }
}

/// Runs the PreBind steps: adjacent parallel ones concurrently, the others one after the other.
async fn prepare(
    before: Vec<(&'static str, PreBind)>,
    guard: Option<&PreBinding>,
    costs: &Costs,
) -> Result<(), BindError> {
    for group in groups(before) {
        let names: Vec<_> = group.iter().map(|(name, _)| *name).collect();
        let steps = group.into_iter().map(|(name, step)| async move {
            let failed = |error| BindError(format!("running PreBind plugin \"{name}\": {error}"));
            let began = costs.clock.uptime();
            let done = step.work.await;
            costs.plugin_called(name, Point::PreBind, began, done.is_ok());
            done.map_err(failed)
        });
        let all = async { try_join_all(steps).await.map(drop) };
        let Some(guard) = guard else {
            all.await?;
            continue;
        };
        tokio::select! {
            // Both may be dropped: the next attempt repeats an incomplete step or finds it done.
            biased;
            () = guard.cancelled() => {
                let name = names.first().copied().unwrap_or_default();
                return Err(BindError(format!("running PreBind plugin \"{name}\": {PREEMPTED}")));
            }
            done = all => done?,
        }
    }
    Ok(())
}

fn groups(before: Vec<(&'static str, PreBind)>) -> Vec<Vec<(&'static str, PreBind)>> {
    let mut groups: Vec<Vec<(&'static str, PreBind)>> = Vec::new();
    for (name, step) in before {
        match groups
            .last_mut()
            .filter(|group| step.is_parallel && group.iter().all(|(_, one)| one.is_parallel))
        {
            Some(group) => group.push((name, step)),
            None => groups.push(vec![(name, step)]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn costs() -> Costs {
        let clock = coracle_base::ManualClock::starting_at(coracle_base::Timestamp::default()).clock();
        Costs { clock, metrics: crate::fixture::metrics(), is_sampled: true }
    }

    fn done() -> PreBind {
        PreBind::new(async { Ok(()) })
    }

    #[test]
    fn adjacent_parallel_steps_are_grouped() {
        let before =
            vec![("a", done().parallel()), ("b", done().parallel()), ("c", done()), ("d", done().parallel())];
        let names: Vec<Vec<_>> =
            groups(before).iter().map(|group| group.iter().map(|(name, _)| *name).collect()).collect();
        assert_eq!(names, [vec!["a", "b"], vec!["c"], vec!["d"]]);
    }

    #[tokio::test]
    async fn parallel_steps_run_concurrently_and_fail_together() {
        let (sender, receiver) = oneshot::channel();
        let first = PreBind::new(async move { receiver.await.map_err(|error| BindError(error.to_string())) });
        let second = PreBind::new(async move { sender.send(()).map_err(|()| BindError::new("gone")) });
        let before = vec![("a", first.parallel()), ("b", second.parallel())];
        assert!(prepare(before, None, &costs()).await.is_ok());
        let endless = PreBind::new(std::future::pending());
        let failing = PreBind::new(async { Err(BindError::new("no disk")) });
        let before = vec![("a", endless.parallel()), ("b", failing.parallel())];
        let error = prepare(before, None, &costs()).await.unwrap_err().to_string();
        assert_eq!(error, "running PreBind plugin \"b\": no disk");
    }

    #[tokio::test]
    async fn cancelled_step_returns_the_preemption_error() {
        let guard = PreBinding::default();
        assert!(guard.cancel());
        let endless = PreBind::new(std::future::pending());
        let error =
            prepare(vec![("VolumeBinding", endless)], Some(&guard), &costs()).await.unwrap_err().to_string();
        assert_eq!(error, "running PreBind plugin \"VolumeBinding\": preempted by DefaultPreemption");
    }
}
