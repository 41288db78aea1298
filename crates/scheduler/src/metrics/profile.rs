//! Metrics of one profile, with cached series for everything that changes with every pod.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coracle_base::metrics::{Counter, Gauge, Histogram};

use super::AttemptResult;
use super::families::Families;
use crate::cycle::{Point, Status, Trace};
use crate::framework::{PluginSet, Profile};

/// A series that is created at its first use.
type Lazy<M> = OnceLock<Arc<M>>;

/// Cached series of one plugin.
#[derive(Debug, Default)]
struct PluginMetrics {
    name: &'static str,
    evaluations: [Lazy<Counter>; Point::ALL.len()],
    unschedulable: Lazy<Gauge>,
}

#[derive(Debug)]
pub(super) struct ProfileMetrics {
    name: Box<str>,
    plugins: Vec<PluginMetrics>,
    points: [[Lazy<Histogram>; Status::ALL.len()]; Point::ALL.len()],
    attempts: [Lazy<Counter>; AttemptResult::ALL.len()],
    attempt_durations: [Lazy<Histogram>; AttemptResult::ALL.len()],
}

impl ProfileMetrics {
    pub(super) fn new(profile: &Profile) -> Self {
        let plugins = profile.plugins.iter();
        let named =
            plugins.map(|enabled| PluginMetrics { name: enabled.plugin.name(), ..PluginMetrics::default() });
        Self {
            name: profile.scheduler_name.clone(),
            plugins: named.collect(),
            points: Default::default(),
            attempts: Default::default(),
            attempt_durations: Default::default(),
        }
    }

    pub(super) fn attempted(&self, families: &Families, result: AttemptResult, took: Duration) {
        let (index, labels) = (result as usize, [&*self.name, result.as_str()]);
        self.attempts[index].get_or_init(|| families.attempts.with(labels)).inc();
        let durations = self.attempt_durations[index].get_or_init(|| families.attempt_duration.with(labels));
        durations.observe_duration(took);
    }

    pub(super) fn passed(&self, families: &Families, point: Point, status: Status, took: Duration) {
        let series = self.points[point as usize][status as usize]
            .get_or_init(|| families.point_duration.with([point.as_str(), &*self.name, status.as_str()]));
        series.observe_duration(took);
    }

    pub(super) fn traced(&self, families: &Families, trace: &Trace) {
        for (point, status, took) in &trace.points {
            self.passed(families, *point, *status, *took);
        }
        for (point, index, times) in &trace.evaluations {
            let plugin = &self.plugins[*index];
            let series = plugin.evaluations[*point as usize]
                .get_or_init(|| families.evaluations.with([point.as_str(), plugin.name, &*self.name]));
            series.add((*times).into());
        }
        for (point, index, status, took) in &trace.plugins {
            let labels = [point.as_str(), self.plugins[*index].name, status.as_str()];
            families.plugin_duration.with(labels).observe_duration(*took);
        }
    }

    pub(super) fn unschedulable(&self, families: &Families, plugins: PluginSet, more: f64) {
        for (index, plugin) in self.plugins.iter().enumerate() {
            if plugins.contains(index) {
                let labels = [plugin.name, &*self.name];
                plugin.unschedulable.get_or_init(|| families.unschedulable_pods.with(labels)).add(more);
            }
        }
    }
}
