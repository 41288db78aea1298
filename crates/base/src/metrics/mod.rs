//! What a component counts, for a page in the text form of Prometheus.
//!
//! A [`Metrics`] is handed to whoever counts; nothing is global, so that clusters in one process do not mix.
//! Each metric is declared once, when a component is made, and counting is then a few atomic additions.
//! Everything else is done when somebody asks for the page:
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

/// Counters of one name.
pub type Counters<const N: usize> = Family<Counter, N>;

/// Gauges of one name.
pub type Gauges<const N: usize> = Family<Gauge, N>;

/// Histograms of one name.
pub type Histograms<const N: usize> = Family<Histogram, N>;

/// Summaries of one name.
pub type Summaries<const N: usize> = Family<Summary, N>;

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// How often something was how large.
    Histogram,
    /// Quantiles of the last values.
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

/// Something that can be counted.
pub trait Metric: fmt::Debug + Send + Sync + 'static {
    /// What all series of one name have in common.
    type Shape: Clone + PartialEq + Send + Sync;

    /// What it is.
    const TYPE: Type;

    /// One that has counted nothing.
    fn new(shape: &Self::Shape) -> Self;

    /// Writes what was counted.
    fn tell(&self, name: &str, labels: &[(&str, &str)], text: &mut Text);
}

/// The samples of one name, being written.
#[derive(Debug)]
pub struct Samples<'a> {
    name: &'static str,
    text: &'a mut Text,
}

impl Samples<'_> {
    /// One series.
    pub fn add(&mut self, labels: &[(&str, &str)], series: &impl Metric) {
        series.tell(self.name, labels, self.text);
    }

    /// One series of which only the value is known.
    pub fn add_value(&mut self, labels: &[(&str, &str)], value: f64) {
        self.text.sample(self.name, labels, text::Number(value));
    }
}

/// All that has one name.
trait Told: Send + Sync {
    fn name(&self) -> &'static str;

    fn begin(&self, text: &mut Text);

    fn tell(&self, samples: &mut Samples<'_>);

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// What a component counts. Clones are the same.
#[derive(Clone, Default)]
pub struct Metrics {
    /// Each declared when a component is made, so there are as many as the program has.
    all: Arc<Mutex<Vec<Arc<dyn Told>>>>,
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

    /// Declares what is not counted but looked at when somebody asks. `tell` is not to hold what holds the
    /// server, for the server holds it.
    ///
    /// # Panics
    /// If the name is taken.
    pub fn collected(
        &self,
        name: &'static str,
        kind: Type,
        help: &'static str,
        tell: impl Fn(&mut Samples<'_>) + Send + Sync + 'static,
    ) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(all.iter().all(|known| known.name() != name), "{name} is declared twice");
        all.push(Arc::new(Collected { name, kind, help, tell }));
    }

    /// Declares a family. Several may declare the same one, and count together.
    ///
    /// # Panics
    /// If the name is taken by something else: a fault of the program, which shows when it starts.
    fn declare<M: Metric, const N: usize>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: [&'static str; N],
        shape: M::Shape,
    ) -> Family<M, N> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.iter().find(|known| known.name() == name) {
            let same = Family::known(known, labels, &shape);
            return same.unwrap_or_else(|| panic!("{name} is declared twice, and differently"));
        }
        let family = Family::new(name, help, labels, shape);
        all.push(family.told());
        family
    }

    /// All of it, in the text form of Prometheus, sorted by name. A name without samples is left out.
    pub fn text(&self) -> String {
        Self::text_of([self])
    }

    /// As [`Metrics::text`], for what several components count. Names that more than one has are told once, so
    /// their labels must differ.
    pub fn text_of<'a>(components: impl IntoIterator<Item = &'a Self>) -> String {
        let mut by_name: BTreeMap<&'static str, Vec<Arc<dyn Told>>> = BTreeMap::new();
        for component in components {
            for told in component.all.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                by_name.entry(told.name()).or_default().push(Arc::clone(told));
            }
        }
        let mut text = Text::default();
        for (name, alike) in by_name {
            let mut lines = Text::default();
            for told in &alike {
                told.tell(&mut Samples { name, text: &mut lines });
            }
            if let Some(first) = alike.first().filter(|_| !lines.is_empty()) {
                first.begin(&mut text);
                text.append(&lines.into_string());
            }
        }
        text.into_string()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_list().entries(all.iter().map(|told| told.name())).finish()
    }
}

/// What is looked at when somebody asks.
struct Collected<F> {
    name: &'static str,
    kind: Type,
    help: &'static str,
    tell: F,
}

impl<F: Fn(&mut Samples<'_>) + Send + Sync + 'static> Told for Collected<F> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn begin(&self, text: &mut Text) {
        text.family(self.name, self.kind.as_str(), self.help);
    }

    fn tell(&self, samples: &mut Samples<'_>) {
        (self.tell)(samples);
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

#[cfg(test)]
mod tests;
