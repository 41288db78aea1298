//! Work queue metrics, under client-go's names (`util/workqueue/metrics.go`).

use std::sync::{Arc, Mutex, PoisonError};

use coracle_base::Metrics;
use coracle_base::metrics::{Samples, Type};

use crate::key::ObjectKey;
use crate::queue::Queue;

type NamedQueue = (&'static str, Queue<ObjectKey>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Workqueues {
    queues: Arc<Mutex<Vec<NamedQueue>>>,
}

/// Adds the sample of one queue.
type Collect = fn(&Queue<ObjectKey>, &[(&str, &str)], &mut Samples<'_>);

/// A metric family with one sample per queue: name, type, help text and collector.
type Family = (&'static str, Type, &'static str, Collect);

const FAMILIES: &[Family] = &[
    ("workqueue_depth", Type::Gauge, "Number of keys waiting for a worker.", |queue, labels, samples| {
        samples.add_value(labels, queue.depth().waiting as f64);
    }),
    ("workqueue_adds_total", Type::Counter, "Keys added to the queue.", |queue, labels, samples| {
        samples.add_value(labels, queue.counts().added as f64);
    }),
    (
        "workqueue_retries_total",
        Type::Counter,
        "Failures, each of which is retried.",
        |queue, labels, samples| samples.add_value(labels, queue.counts().retried as f64),
    ),
    (
        "workqueue_queue_duration_seconds",
        Type::Histogram,
        "Time that keys waited for a worker.",
        |queue, labels, samples| samples.add(labels, queue.waited()),
    ),
    (
        "workqueue_work_duration_seconds",
        Type::Histogram,
        "Time that workers processed keys.",
        |queue, labels, samples| samples.add(labels, queue.worked()),
    ),
    (
        "workqueue_unfinished_work_seconds",
        Type::Gauge,
        "Sum of the ages of all keys in processing.",
        |queue, labels, samples| samples.add_value(labels, queue.counts().unfinished.as_secs_f64()),
    ),
    (
        "workqueue_longest_running_processor_seconds",
        Type::Gauge,
        "Age of the key that has been processing longest.",
        |queue, labels, samples| samples.add_value(labels, queue.counts().longest_running.as_secs_f64()),
    ),
    (
        "workqueue_oldest_waiting_seconds",
        Type::Gauge,
        "Age of the key that has waited longest.",
        |queue, labels, samples| samples.add_value(labels, queue.counts().oldest.as_secs_f64()),
    ),
];

impl Workqueues {
    /// Registers the families; queues are added later with [`add`](Self::add).
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let queues = Self::default();
        for (name, kind, help, collect) in FAMILIES {
            let queues = queues.clone();
            metrics.collected(name, *kind, help, move |samples| queues.collect(*collect, samples));
        }
        queues
    }

    pub(crate) fn add(&self, name: &'static str, queue: Queue<ObjectKey>) {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).push((name, queue));
    }

    fn collect(&self, collect: Collect, samples: &mut Samples<'_>) {
        for (name, queue) in self.queues.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            collect(queue, &[("name", name)], samples);
        }
    }
}

#[cfg(test)]
mod tests {
    use coracle_base::Rng;

    use super::*;
    use crate::key::ClusterId;

    #[tokio::test(start_paused = true)]
    async fn every_queue_has_its_own_samples() {
        let metrics = Metrics::default();
        let queues = Workqueues::new(&metrics);
        let (one, other) = (Queue::new(Rng::seeded(1)), Queue::new(Rng::seeded(2)));
        queues.add("one", one.clone());
        queues.add("other", other);
        one.add(ObjectKey::cluster_wide(ClusterId::default(), "n")).await;
        one.add(ObjectKey::cluster_wide(ClusterId::default(), "m")).await;
        one.take().await.unwrap().finish(crate::queue::Outcome::Done);
        let text = metrics.text();
        assert_eq!(text.matches("# HELP workqueue_depth").count(), 1);
        for line in [
            "# TYPE workqueue_depth gauge",
            "workqueue_depth{name=\"one\"} 1",
            "workqueue_depth{name=\"other\"} 0",
            "workqueue_adds_total{name=\"one\"} 2",
            "# TYPE workqueue_queue_duration_seconds histogram",
            "workqueue_queue_duration_seconds_bucket{name=\"one\",le=\"1e-08\"} 1",
            "workqueue_work_duration_seconds_count{name=\"one\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
