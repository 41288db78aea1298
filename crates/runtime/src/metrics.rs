//! What the queues of a manager have to do, for a page of metrics, under the names of client-go
//! (`util/workqueue/metrics.go`).

use std::fmt::Write;
use std::sync::Arc;

use crate::key::ObjectKey;
use crate::queue::Queue;

/// Tells of all queues of a manager. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WorkqueueMetrics {
    queues: Arc<[(&'static str, Queue<ObjectKey>)]>,
}

/// A family of samples, one for each queue.
type Family = (&'static str, &'static str, &'static str, fn(&Queue<ObjectKey>) -> f64);

const FAMILIES: &[Family] = &[
    ("workqueue_depth", "gauge", "Keys that wait for a worker.", |queue| queue.depth().waiting as f64),
    ("workqueue_adds_total", "counter", "Keys that began to wait.", |queue| queue.counts().added as f64),
    ("workqueue_retries_total", "counter", "Attempts that failed and are made again.", |queue| {
        queue.counts().retried as f64
    }),
    ("workqueue_queue_duration_seconds_sum", "counter", "Time for which keys waited.", |queue| {
        queue.counts().waited.as_secs_f64()
    }),
    ("workqueue_queue_duration_seconds_count", "counter", "Keys that have waited.", |queue| {
        queue.counts().taken as f64
    }),
    ("workqueue_work_duration_seconds_sum", "counter", "Time for which keys were worked on.", |queue| {
        queue.counts().worked.as_secs_f64()
    }),
    (
        "workqueue_longest_running_processor_seconds",
        "gauge",
        "Age of the work that lasts longest.",
        |queue| queue.counts().longest_running.as_secs_f64(),
    ),
    ("workqueue_oldest_waiting_seconds", "gauge", "Age of the key that waits longest.", |queue| {
        queue.counts().oldest.as_secs_f64()
    }),
];

impl WorkqueueMetrics {
    pub(crate) fn new(queues: Vec<(&'static str, Queue<ObjectKey>)>) -> Self {
        Self { queues: queues.into() }
    }

    /// All queues of several managers, which have different names.
    #[must_use]
    pub fn of_all(managers: impl IntoIterator<Item = Self>) -> Self {
        Self { queues: managers.into_iter().flat_map(|one| one.queues.to_vec()).collect() }
    }

    /// In Prometheus' text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (family, kind, help, value) in FAMILIES {
            // Writing to a string does not fail.
            let _ = write!(text, "# HELP {family} {help}\n# TYPE {family} {kind}\n");
            for (name, queue) in self.queues.iter() {
                let _ = writeln!(text, "{family}{{name=\"{name}\"}} {}", value(queue));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use coracle_base::Rng;

    use super::*;
    use crate::key::ClusterId;

    #[tokio::test]
    async fn every_queue_tells_its_depth() {
        let (one, other) = (Queue::new(Rng::seeded(1)), Queue::new(Rng::seeded(2)));
        one.add(ObjectKey::cluster_wide(ClusterId::default(), "n")).await;
        let managers = [("one", one), ("other", other)].map(|queue| WorkqueueMetrics::new(vec![queue]));
        let text = WorkqueueMetrics::of_all(managers).text();
        assert_eq!(text.matches("# HELP workqueue_depth").count(), 1);
        for line in [
            "# TYPE workqueue_depth gauge",
            "workqueue_depth{name=\"one\"} 1",
            "workqueue_depth{name=\"other\"} 0",
            "workqueue_adds_total{name=\"one\"} 1",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} in {text}");
        }
    }
}
