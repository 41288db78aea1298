//! Metrics of volumes and claims, under Kubernetes' names (`pkg/controller/volume/persistentvolume/metrics`).
//!
//! The numbers of objects are those of the default cluster only, because namespaces and classes repeat across
//! clusters.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_base::metrics::{Buckets, Counter, Counters, Histograms, Type};
use coracle_base::{Clock, Metrics};
use coracle_runtime::informer::{Store, View};
use coracle_runtime::{ClusterId, Informer, ObjectKey};

use super::annotations::{class_of_claim, phase};
use crate::view::{PersistentVolume, PersistentVolumeClaim};

/// Kubernetes' buckets for the duration of operations, in seconds.
const DURATIONS: [f64; 13] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];

/// Label of volumes of unknown plugins.
pub(super) const UNKNOWN_PLUGIN: &str = "N/A";

/// An operation for a claim or on a volume.
#[derive(Debug)]
struct Operation {
    plugin: Box<str>,
    name: &'static str,
    began: Duration,
}

pub(super) struct VolumeMetrics {
    clock: Clock,
    errors: [Counters<2>; 2],
    took: Histograms<2>,
    assigned: Arc<Counter>,
    not_assigned: Arc<Counter>,
    /// At most one per claim and volume; removed with it.
    operations: Mutex<HashMap<ObjectKey, Operation>>,
}

impl VolumeMetrics {
    pub(super) fn new(metrics: &Metrics, clock: Clock) -> Self {
        let labels = ["plugin_name", "operation_name"];
        // The older name is deprecated.
        let errors = ["volume_operation_errors_total", "volume_operation_total_errors"];
        Self {
            clock,
            errors: errors.map(|name| metrics.counters(name, "Failed volume operations.", labels)),
            took: metrics.histograms(
                "volume_operation_total_seconds",
                "Duration of volume operations, from the first attempt on.",
                Buckets::new(&DURATIONS),
                labels,
            ),
            assigned: metrics.counter(
                "retroactive_storageclass_total",
                "Claims to which a default class was assigned, or should have been.",
            ),
            not_assigned: metrics.counter(
                "retroactive_storageclass_errors_total",
                "Failures to assign a default class to a claim.",
            ),
            operations: Mutex::default(),
        }
    }

    /// Starts an operation, unless one is running.
    pub(super) fn began(&self, key: &ObjectKey, plugin: &str, name: &'static str) {
        let began = self.clock.uptime();
        let operation = || Operation { plugin: plugin.into(), name, began };
        self.operations().entry(key.clone()).or_insert_with(operation);
    }

    /// Records a failed attempt.
    pub(super) fn failed(&self, key: &ObjectKey) {
        if let Some(Operation { plugin, name, .. }) = self.operations().get(key) {
            for errors in &self.errors {
                errors.with([plugin, name]).inc();
            }
        }
    }

    /// Ends the operation, if one is running.
    pub(super) fn done(&self, key: &ObjectKey) {
        if let Some(Operation { plugin, name, began }) = self.operations().remove(key) {
            self.took.with([&plugin, name]).observe_duration(self.clock.uptime().saturating_sub(began));
        }
    }

    /// Drops the operation without recording it.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.operations().remove(key);
    }

    /// Records the assignment of a default class.
    pub(super) fn assigned_class(&self, is_success: bool) {
        self.assigned.inc();
        if !is_success {
            self.not_assigned.inc();
        }
    }

    fn operations(&self) -> MutexGuard<'_, HashMap<ObjectKey, Operation>> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Declares the numbers of volumes and claims.
pub(super) fn declare_counts(
    metrics: &Metrics,
    volumes: &Informer<PersistentVolume>,
    claims: &Informer<PersistentVolumeClaim>,
) {
    count(
        metrics,
        "pv_collector_total_pv_count",
        "Number of volumes.",
        ["plugin_name", "volume_mode"],
        volumes.store(),
        |volume| Some([plugin(volume).into(), volume.spec.volume_mode.as_deref().unwrap_or_default().into()]),
    );
    let is_bound = |volume: &PersistentVolume| &*volume.status.phase == phase::BOUND;
    let class = |volume: &PersistentVolume| [volume.spec.storage_class_name.clone()];
    let by_class = |name, help, wanted: bool| {
        count(metrics, name, help, ["storage_class"], volumes.store(), move |volume| {
            (is_bound(volume) == wanted).then(|| class(volume))
        });
    };
    by_class("pv_collector_bound_pv_count", "Number of bound volumes.", true);
    by_class("pv_collector_unbound_pv_count", "Number of unbound volumes.", false);
    let by_namespace = |name, help, wanted: bool| {
        let labels = ["namespace", "storage_class", "volume_attributes_class"];
        count(metrics, name, help, labels, claims.store(), move |claim| {
            let attributes = claim.spec.volume_attributes_class_name.clone().unwrap_or_default();
            let labels = || [claim.metadata.namespace().into(), class_of_claim(claim).into(), attributes];
            ((&*claim.status.phase == phase::BOUND) == wanted).then(labels)
        });
    };
    by_namespace("pv_collector_bound_pvc_count", "Number of bound claims.", true);
    by_namespace("pv_collector_unbound_pvc_count", "Number of unbound claims.", false);
}

/// Counts objects by labels; objects without labels are not counted.
fn count<V: View, const N: usize>(
    metrics: &Metrics,
    name: &'static str,
    help: &'static str,
    labels: [&'static str; N],
    store: &Store<V>,
    labels_of: impl Fn(&V) -> Option<[Box<str>; N]> + Send + Sync + 'static,
) {
    let store = store.clone();
    metrics.collected(name, Type::Gauge, help, move |samples| {
        let mut counts: BTreeMap<[Box<str>; N], usize> = BTreeMap::new();
        for values in store.in_cluster(&ClusterId::default()).iter().filter_map(|view| labels_of(view)) {
            *counts.entry(values).or_default() += 1;
        }
        for (values, count) in &counts {
            let labels: Vec<_> = labels.into_iter().zip(values.iter().map(|value| &**value)).collect();
            samples.add_value(&labels, *count as f64);
        }
    });
}

/// Plugin of a volume, among those left in kube-controller-manager.
fn plugin(volume: &PersistentVolume) -> &'static str {
    if volume.spec.host_path.is_some() {
        "kubernetes.io/host-path"
    } else if volume.spec.nfs.is_some() {
        "kubernetes.io/nfs"
    } else {
        UNKNOWN_PLUGIN
    }
}

#[cfg(test)]
mod tests {
    use coracle_base::{ManualClock, Timestamp};

    use super::*;

    #[test]
    fn operation_is_measured_until_done() {
        let (metrics, time) = (Metrics::default(), ManualClock::starting_at(Timestamp::from_millis(1000)));
        let counted = VolumeMetrics::new(&metrics, time.clock());
        let key = |name: &str| ObjectKey::namespaced(ClusterId::default(), "n", name);
        counted.began(&key("a"), "p", "provision");
        time.advance(Duration::from_secs(2));
        counted.failed(&key("a"));
        counted.began(&key("a"), "p", "provision");
        time.advance(Duration::from_secs(1));
        counted.done(&key("a"));
        counted.done(&key("a"));
        counted.began(&key("b"), "p", "provision");
        counted.forget(&key("b"));
        counted.failed(&key("b"));
        let text = metrics.text();
        let labels = r#"plugin_name="p",operation_name="provision""#;
        for line in [
            format!("volume_operation_errors_total{{{labels}}} 1"),
            format!("volume_operation_total_errors{{{labels}}} 1"),
            format!("volume_operation_total_seconds_bucket{{{labels},le=\"2.5\"}} 0"),
            format!("volume_operation_total_seconds_sum{{{labels}}} 3"),
            format!("volume_operation_total_seconds_count{{{labels}}} 1"),
        ] {
            assert!(text.lines().any(|event| event == line), "{line} in {text}");
        }
    }
}
