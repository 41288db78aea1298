//! Metrics of a component, exposed in the text format of Prometheus.
//!
//! Each component gets a [`Metrics`] registry; nothing is global, so that clusters in one process
//! do not mix. A metric is declared once, when its component is created; counting is then a few
//! atomic additions. Formatting happens when the metrics are scraped:
//!
//! ```
//! use coracle_base::metrics::{Buckets, Metrics};
//!
//! let metrics = Metrics::default();
//! let syncs = metrics.counters("syncs_total", "Syncs, by how they ended.", ["result"]);
//! let took = metrics.histogram("sync_duration_seconds", "How long syncs took.", Buckets::default());
//! syncs.with(["success"]).inc();
//! took.observe(0.2);
//! assert!(metrics.text().contains("syncs_total{result=\"success\"} 1\n"));
//! ```

mod family;
mod histogram;
mod number;
mod summary;
mod text;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

pub use family::{Family, MAX_SERIES};
pub use histogram::{Buckets, Histogram};
pub use number::{Counter, Gauge};
pub use summary::Summary;
pub use text::Text;

/// Counters of one metric name.
pub type Counters<const N: usize> = Family<Counter, N>;

/// Gauges of one metric name.
pub type Gauges<const N: usize> = Family<Gauge, N>;

/// Histograms of one metric name.
pub type Histograms<const N: usize> = Family<Histogram, N>;

/// Summaries of one metric name.
pub type Summaries<const N: usize> = Family<Summary, N>;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A value that only increases.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// Observations counted in buckets.
    Histogram,
    /// Quantiles of the most recent observations.
    Summary,
}

impl Type {
    fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// A type of metric that a [`Family`] can hold.
pub trait Metric: fmt::Debug + Send + Sync + 'static {
    /// Configuration shared by all series of a family, such as the buckets of a histogram.
    type Shape: Clone + PartialEq + Send + Sync;

    /// The type in the exposition format.
    const TYPE: Type;

    /// Creates a metric without observations.
    fn new(shape: &Self::Shape) -> Self;

    /// Writes the samples of this metric.
    fn write(&self, name: &str, labels: &[(&str, &str)], text: &mut Text);
}

/// Writes the samples of one metric name.
#[derive(Debug)]
pub struct Samples<'a> {
    name: &'static str,
    text: &'a mut Text,
}

impl Samples<'_> {
    /// Adds a series.
    pub fn add(&mut self, labels: &[(&str, &str)], series: &impl Metric) {
        series.write(self.name, labels, self.text);
    }

    /// Adds a sample of a series that has no [`Metric`].
    pub fn add_value(&mut self, labels: &[(&str, &str)], value: f64) {
        self.text.sample(self.name, labels, text::Number(value));
    }
}

/// A registered metric name, written when metrics are scraped.
trait Collector: Send + Sync {
    fn name(&self) -> &'static str;

    fn write_header(&self, text: &mut Text);

    fn collect(&self, samples: &mut Samples<'_>);

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// A registry of metrics. Clones share the registry.
#[derive(Clone, Default)]
pub struct Metrics {
    /// Bounded: each entry is declared in code when a component is created.
    all: Arc<Mutex<Vec<Arc<dyn Collector>>>>,
}

impl Metrics {
    /// Declares a counter.
    pub fn counter(&self, name: &'static str, help: &'static str) -> Arc<Counter> {
        self.counters(name, help, []).with([])
    }

    /// Declares counters with these labels.
    pub fn counters<const N: usize>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
    ) -> Counters<N> {
        self.declare(name, help, labels, ())
    }

    /// Declares a gauge.
    pub fn gauge(&self, name: &'static str, help: &'static str) -> Arc<Gauge> {
        self.gauges(name, help, []).with([])
    }

    /// Declares gauges with these labels.
    pub fn gauges<const N: usize>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
    ) -> Gauges<N> {
        self.declare(name, help, labels, ())
    }

    /// Declares a histogram.
    pub fn histogram(&self, name: &'static str, help: &'static str, buckets: Buckets) -> Arc<Histogram> {
        self.histograms(name, help, buckets, []).with([])
    }

    /// Declares histograms with these labels.
    pub fn histograms<const N: usize>(
        &self,
        name: &'static str,
        help: &'static str,
        buckets: Buckets,
        labels: [&'static str; N],
    ) -> Histograms<N> {
        self.declare(name, help, labels, buckets)
    }

    /// Declares summaries with these labels.
    pub fn summaries<const N: usize>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
    ) -> Summaries<N> {
        self.declare(name, help, labels, ())
    }

    /// Declares a metric whose samples `collect` computes at each scrape. `collect` must not hold a
    /// reference to the server: the server owns the registry, so that would be a cycle.
    ///
    /// # Panics
    /// If the name is already declared.
    pub fn collected(
        &self,
        name: &'static str,
        kind: Type,
        help: &'static str,
        collect: impl Fn(&mut Samples<'_>) + Send + Sync + 'static,
    ) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(all.iter().all(|collector| collector.name() != name), "{name} is declared twice");
        all.push(Arc::new(Collected { name, kind, help, collect }));
    }

    /// Declares a family. A repeated declaration with the same labels and shape returns the same
    /// family, so that several components count together.
    ///
    /// # Panics
    /// If the name is declared with another type, labels or shape: a programming error, found at
    /// start.
    fn declare<M: Metric, const N: usize>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
        shape: M::Shape,
    ) -> Family<M, N> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(existing) = all.iter().find(|collector| collector.name() == name) {
            let same = Family::downcast(existing, labels, &shape);
            return same.unwrap_or_else(|| panic!("{name} is declared twice, and differently"));
        }
        let family = Family::new(name, help, labels, shape);
        all.push(family.collector());
        family
    }

    /// Returns all metrics in the text format of Prometheus, sorted by name. Omits names without
    /// samples.
    pub fn text(&self) -> String {
        Self::text_of([self])
    }

    /// Like [`Metrics::text`], for the registries of several components. A name in several
    /// registries gets one header, so their labels must differ.
    pub fn text_of<'a>(components: impl IntoIterator<Item = &'a Self>) -> String {
        let mut by_name: BTreeMap<&'static str, Vec<Arc<dyn Collector>>> = BTreeMap::new();
        for component in components {
            for collector in component.all.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                by_name.entry(collector.name()).or_default().push(Arc::clone(collector));
            }
        }
        let mut text = Text::default();
        for (name, collectors) in by_name {
            let mut lines = Text::default();
            for collector in &collectors {
                collector.collect(&mut Samples { name, text: &mut lines });
            }
            if let Some(first) = collectors.first().filter(|_| !lines.is_empty()) {
                first.write_header(&mut text);
                text.append(&lines.into_string());
            }
        }
        text.into_string()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_list().entries(all.iter().map(|collector| collector.name())).finish()
    }
}

/// A metric whose samples are computed at each scrape.
struct Collected<F> {
    name: &'static str,
    kind: Type,
    help: &'static str,
    collect: F,
}

impl<F: Fn(&mut Samples<'_>) + Send + Sync + 'static> Collector for Collected<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn write_header(&self, text: &mut Text) {
        text.family(self.name, self.kind.as_str(), self.help);
    }

    fn collect(&self, samples: &mut Samples<'_>) {
        (self.collect)(samples);
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

#[cfg(test)]
mod tests;
